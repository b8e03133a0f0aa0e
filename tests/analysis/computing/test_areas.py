"""A disease map: a table, pairs of neighbours and GeoJSON to a report with exceedance probabilities."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
import yaml

import gpmcflow as gp
from gpmcflow.analysis.data import data_of_table
from gpmcflow.analysis.models import build_model
from gpmcflow.analysis.page.areas import area_maps
from gpmcflow.analysis.page.results import Analysis, read_analysis
from gpmcflow.analysis.reading import prepare
from gpmcflow.errors import GpmcflowError, InputErrors
from gpmcflow.pipeline.config import check_config
from gpmcflow.pipeline.new import new
from gpmcflow.pipeline.run import check

from ..reading import section_of

SIDE = 6
NAMES = [f"d{x}{y}" for x in range(SIDE) for y in range(SIDE)] + ["isle"]
UNSEEN = "d33"


def square(x, y):
    return [[x, y], [x + 1, y], [x + 1, y + 1], [x, y + 1], [x, y]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A lattice of areas and an island, high in one corner; one area has no row."""
    folder, rng = tmp_path_factory.mktemp("map"), np.random.default_rng(4)
    places = [(x, y) for x in range(SIDE) for y in range(SIDE)] + [(9, 9)]
    features = [
        {"type": "Feature", "properties": {"code": name, "area": 1},
         "geometry": {"type": "Polygon", "coordinates": [square(*place)]}}
        for name, place in zip(NAMES, places, strict=True)
    ]  # fmt: skip
    collection = {"type": "FeatureCollection", "features": features}
    (folder / "districts.geojson").write_text(json.dumps(collection))
    pairs = [
        (f"d{x}{y}", f"d{u}{v}")
        for x, y in places[:-1]
        for u, v in ((x + 1, y), (x, y + 1))
        if (u, v) in places
    ]
    pd.DataFrame(pairs, columns=["area", "neighbour"]).to_csv(folder / "edges.csv", index=False)
    expected = rng.uniform(80.0, 160.0, len(NAMES)).round(2)
    risk = np.array([2.0 if x + y < 3 else 0.8 for x, y in places])
    deaths = rng.poisson(expected * risk)
    table = pd.DataFrame({"district": NAMES, "deaths": deaths, "expected": expected})
    table[table["district"] != UNSEEN].to_csv(folder / "cases.csv", index=False)
    return folder


DATA = {
    "csv": "cases.csv", "target": "deaths", "outcome": "counts", "exposure": "expected",
    "groups": ["district"], "graphs": {"edges": "edges.csv"}, "map": "districts.geojson",
}  # fmt: skip
MODELS = {"areas": {"covariance": "areal(district, graph=edges)", "likelihood": "poisson"}}


def read(folder, data, models):
    """Settings and data of an analysis, as its first step has them."""
    config = {"data": data, "models": models, "seed": 3, "quick": True}
    settings = check_config(config, folder=folder, path="mine.yaml")["analyses"]["mine"]
    return settings, data_of_table(prepare("mine", settings, folder, 3, "data"))


@pytest.fixture(scope="module")
def run(folder, analysis):
    return analysis(folder, {"data": DATA, "models": MODELS, "seed": 3, "quick": True})


@pytest.fixture(scope="module")
def alone(folder, analysis):
    """The same without the map."""
    data = {key: value for key, value in DATA.items() if key != "map"}
    return analysis(folder, {"data": data, "models": MODELS, "seed": 3, "quick": True}, "alone")


def test_areas_are_ranked_by_the_probability_that_they_are_above_the_mean(run):
    table = pd.read_csv(run.folder / "areas.csv").set_index("area")
    assert set(table.index) == set(NAMES)
    high = [f"d{x}{y}" for x in range(3) for y in range(3 - x)]
    assert (table.loc[high, "above"] > 0.95).all()
    assert (table.loc[["d55", "d54", "d45"], "above"] < 0.05).all()
    assert (table["relative_low"] < table["relative"]).all()
    assert table["above"].is_monotonic_decreasing
    assert table.loc[UNSEEN, "rows"] == 0
    width = table["relative_high"] / table["relative_low"]
    assert width[UNSEEN] > width.drop([UNSEEN, "isle"]).max()
    learnt = run.data.whole().learning
    seen = table.loc[np.array(NAMES)[np.array(NAMES) != UNSEEN]]
    exposure = pd.read_csv(run.folder.parents[1] / "cases.csv").set_index("district")["expected"]
    mean = float((seen["mean"] * exposure).sum() / exposure.sum())
    np.testing.assert_allclose(mean, learnt.outcome.sum() / learnt.unit.sum(), rtol=0.03)


def test_pairs_alone_make_a_table_of_areas(run, alone):
    table, with_map = (
        pd.read_csv(each.folder / "areas.csv").set_index("area").sort_index()
        for each in (alone, run)
    )
    assert list(table) == list(with_map)
    assert table.index.equals(with_map.index)
    np.testing.assert_array_equal(table["rows"], with_map["rows"])
    np.testing.assert_allclose(table["relative"], with_map["relative"], rtol=0.1)
    assert not (alone.folder / "outlines.csv").exists()


@pytest.mark.parametrize("name", ["run", "alone"])
def test_the_report_links_the_table_of_areas_and_says_what_is_in_it(name, request):
    page = (request.getfixturevalue(name).folder / "report.html").read_text(encoding="utf-8")
    (said,) = re.findall(r"<p>(<a href=\"areas.csv\">.*?)</p>", page)
    columns = re.findall("<code>(.*?)</code>", said)
    assert columns == ["mean", "relative", "_low", "_high", "above"]
    assert "a row for each of the 37 areas" in said
    listed = re.findall(r'<th scope="row">(\w+)</th>', page[page.index(said) :])[:10]
    table = pd.read_csv(request.getfixturevalue(name).folder / "areas.csv")["area"].tolist()
    assert listed == [*table[:5], *table[-5:]]


def test_a_shown_model_without_a_term_of_areas_has_no_table_of_them(tmp_path, analysis):
    """All areas have one response there, above which none lies but by rounding."""
    rng = np.random.default_rng(5)
    rows = pd.DataFrame({"smokers": rng.normal(size=60), "district": np.resize(list("abcd"), 60)})
    rows["deaths"] = rng.poisson(np.exp(1.0 + 0.8 * rows["smokers"]))
    rows.to_csv(tmp_path / "file.csv", index=False)
    pd.DataFrame({"area": list("abc"), "neighbour": list("bcd")}).to_csv(
        tmp_path / "edges.csv", index=False
    )
    data = {**DATA, "csv": "file.csv"}
    del data["exposure"], data["map"]
    models = {"plain": {"covariance": "linear(smokers)", "likelihood": "poisson"}}
    own = analysis(tmp_path, {"data": data, "models": models, "seed": 3, "quick": True})
    assert not (own.folder / "areas.csv").exists()
    page = (own.folder / "report.html").read_text(encoding="utf-8")
    assert "P(above)" not in page
    assert "overall mean" not in section_of(page, "answer")


def test_coefficients_have_names_of_levels(run):
    table = pd.read_csv(run.folder / "coefficients.csv").set_index("name")
    areas = pd.read_csv(run.folder / "areas.csv").set_index("area")
    effects = table.loc[[f"district[{name}]" for name in NAMES], "mean"].to_numpy()
    levels = np.log(areas["mean"][NAMES].to_numpy()) - table.loc["intercept", "mean"]
    np.testing.assert_allclose(effects, levels, atol=0.15)
    assert {"intercept", "sd(areal(district))"} < set(table.index)
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert "Effects of 37 levels, the 20 farthest from 0" in page


def test_slopes_are_per_unit_of_their_columns(tmp_path, analysis):
    rng = np.random.default_rng(8)
    rows = pd.DataFrame({"dose": rng.uniform(0.0, 40.0, 60), "ward": rng.choice(list("abcd"), 60)})
    shift = rows["ward"].map({"a": -3.0, "b": 0.0, "c": 0.0, "d": 3.0})
    rows["gain"] = 50.0 + 0.5 * rows["dose"] + shift + rng.standard_normal(60)
    rows.to_csv(tmp_path / "file.csv", index=False)
    data = {"csv": "file.csv", "target": "gain", "outcome": "real", "groups": ["ward"]}
    models = {"plain": {"covariance": "linear(dose) + group(ward)"}}
    run = analysis(tmp_path, {"data": data, "models": models, "seed": 3, "quick": True})
    table = pd.read_csv(run.folder / "coefficients.csv").set_index("name")
    assert table.loc["dose", "mean"] == pytest.approx(0.5, abs=0.03)
    assert table.loc["ward[d]", "mean"] - table.loc["ward[a]", "mean"] == pytest.approx(
        6.0, abs=1.0
    )
    middle = table.loc["intercept", "mean"] + table.filter(like="ward[", axis=0)["mean"].mean()
    assert middle == pytest.approx(rows["gain"].mean(), abs=1.0)
    shares = table[table["kind"] == "share"]["mean"]
    assert shares.sum() == pytest.approx(1.0)
    assert shares["share(linear(dose))"] == pytest.approx(33.3 / (33.3 + 4.5 + 1.0), abs=0.1)


def test_the_sd_of_a_curve_named_after_its_column_is_in_units_of_the_outcome(tmp_path, analysis):
    rng = np.random.default_rng(8)
    rows = pd.DataFrame({"dose": rng.uniform(0.0, 4000.0, 60), "age": rng.uniform(20.0, 80.0, 60)})
    rows["gain"] = 9.0 * np.sin(rows["dose"] / 600.0) + 0.1 * rows["age"] + rng.standard_normal(60)
    rows.to_csv(tmp_path / "file.csv", index=False)
    data = {"csv": "file.csv", "target": "gain", "outcome": "real"}
    models = {"curve": {"covariance": "squared_exponential(dose, name='dose') + linear(age)"}}
    run = analysis(tmp_path, {"data": data, "models": models, "seed": 3, "quick": True})
    table = pd.read_csv(run.folder / "coefficients.csv").set_index("name")
    assert 4.0 < table.loc["sd(dose)", "mean"] < 16.0


def test_the_answer_opens_with_the_areas(run):
    """It counts those above and below the mean, and then names columns."""
    areas = pd.read_csv(run.folder / "areas.csv")
    above, below = (areas["above"] > 0.95).sum(), (areas["above"] < 0.05).sum()
    assert min(above, below) > 0
    answer = section_of((run.folder / "report.html").read_text(encoding="utf-8"), "answer")
    assert answer.startswith(
        f"The answer Of 37 areas, {above} lie above the overall mean and {below} below it, each with more "
        "than 95 % probability. The highest is d00, with "
    )
    assert "times the mean (95 % interval" in answer
    assert "column" not in answer
    assert "number of deaths per expected one" in (run.folder / "report.html").read_text()


def test_the_report_draws_two_maps(run):
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert "of each area relative to the overall mean, other columns" in page
    assert "probability that it lies above it" in page
    assert "1 area without rows" in page
    outlines = pd.read_csv(run.folder / "outlines.csv")
    assert outlines["area"].nunique() == len(NAMES)


def test_areas_that_the_map_does_not_have_are_not_counted_in_its_caption(run):
    info = json.loads((run.folder / "info.json").read_text())
    analysis = read_analysis(run.folder, info)
    ghost = analysis["areas"].iloc[[0]].assign(area="ghost", rows=0, above=1.0)
    beside = {**analysis.tables, "areas": pd.concat([analysis["areas"], ghost])}
    assert area_maps(Analysis(info, beside)) == area_maps(analysis)


def test_probabilities_are_those_of_the_model_in_python(run, folder):
    """The same model of the file, in Python: P(relative risk > 1) from joint draws of all areas."""
    table = pd.read_csv(folder / "cases.csv")
    pairs = pd.read_csv(folder / "edges.csv")
    level = np.log(table["deaths"].sum() / table["expected"].sum())
    likelihood = gp.Poisson(exposure=table["expected"].to_numpy())
    mean = gp.Hyperprior("norm", {"loc": level, "scale": 1.0})
    areal = gp.Areal(pairs, columns="district")
    model = gp.GPModel(table[["district"]], table["deaths"], areal, likelihood, mean)
    fit = gp.approximate(model, integrated=True)
    draws = gp.draws_at(fit, pd.DataFrame({"district": NAMES}), kind="latent", n_draws=4000, seed=1)
    risk = np.exp(next(iter(draws.data_vars.values())).values.reshape(-1, len(NAMES)))
    weights = table.set_index("district")["expected"].reindex(NAMES).fillna(0.0).to_numpy()
    above = (risk > (risk @ (weights / weights.sum()))[:, None]).mean(0)
    found = pd.read_csv(run.folder / "areas.csv").set_index("area")["above"][NAMES].to_numpy()
    np.testing.assert_allclose(found, above, atol=0.08)


def test_shared_borders_are_the_pairs_of_the_file(folder, run):
    known = run.data.encoding.known
    pairs = {frozenset(pair) for pair in known.graphs["edges"]}
    assert {frozenset(pair) for pair in known.graphs["map"]} == pairs
    model = build_model(run.settings, "areas", run.data, "mine")
    places = {area: place for place, area in enumerate(run.data.encoding.code("district").levels)}
    own = {frozenset(map(int, pair)) for pair in model.covariance.leaves()[0].graph}
    assert own == {frozenset(places[area] for area in pair) for pair in pairs}


def test_a_held_out_area_is_predicted_from_its_neighbours(run):
    test = pd.read_csv(run.folder / "predictions_test.csv")
    assert len(test) == 7
    exposure = run.data.held_out.unit
    corner = run.data.held_out.X["district"].to_numpy()
    names = [run.data.encoding.code("district").levels[int(code)] for code in corner]
    rates = dict(zip(names, test["mean"] / exposure, strict=True))
    high = [
        rate for name, rate in rates.items() if name[0] == "d" and int(name[1]) + int(name[2]) < 2
    ]
    low = [
        rate for name, rate in rates.items() if name[0] == "d" and int(name[1]) + int(name[2]) > 6
    ]
    assert low
    assert all(rate < 1.2 for rate in low)
    assert all(rate > 1.2 for rate in high)


def test_a_first_look_writes_the_models(folder, monkeypatch):
    monkeypatch.chdir(folder)
    files = {"area_map": "districts.geojson", "neighbours": "edges.csv"}
    lines = new("cases.csv", "deaths", **files, force=True)
    assert "areas        37 areas, 60 pairs of neighbours; 1 island: isle" in map(str.strip, lines)
    told = "names of groups, for a term group(district); 37 areas, 60 pairs of neighbours; 1 island: isle"
    assert told in (folder / "cases.yaml").read_text()
    config = yaml.safe_load((folder / "cases.yaml").read_text())
    assert config["data"]["groups"] == ["district"]
    assert config["data"]["graphs"] == {"edges": "edges.csv"}
    assert config["data"]["map"] == "districts.geojson"
    texts = {name: model["covariance"] for name, model in config["models"].items()}
    assert texts["areas"] == "areal(district, graph=edges) + constant(signal_sd=2.0)"
    assert texts["apart"] == "group(district) + constant(signal_sd=2.0)"
    new("cases.csv", "deaths", area_map="districts.geojson", force=True)
    assert "areal(district, graph=map)" in (folder / "cases.yaml").read_text()
    with pytest.raises(InputErrors, match="no such file"):
        new("cases.csv", "deaths", area_map="none.geojson", force=True)


def test_a_misspelt_neighbour_is_told_by_new_check_and_the_page(folder, monkeypatch):
    monkeypatch.chdir(folder)
    edges = (folder / "edges.csv").read_text()
    (folder / "typo.csv").write_text(edges.replace("d00,d01", "d00,d0l"))
    told = 'typo.csv: no row or outline on the map for "d0l"'
    lines = new(
        "cases.csv", "deaths", area_map="districts.geojson", neighbours="typo.csv", force=True
    )
    assert told in " ".join(" ".join(lines).split())
    assert told in (folder / "cases.yaml").read_text()
    data = {**DATA, "graphs": {"edges": "typo.csv"}}
    (folder / "typo.yaml").write_text(
        yaml.safe_dump({"data": data, "models": MODELS, "seed": 3, "quick": True})
    )
    assert any(told in line for line in check(folder / "typo.yaml", 1))
    settings = check_config(
        yaml.safe_load((folder / "typo.yaml").read_text()), folder=folder, path="typo.yaml"
    )
    columns = prepare("typo", settings["analyses"]["typo"], folder, 3, "data").columns
    assert told in columns.set_index("column").loc["district", "done"]


def test_a_correlation_of_a_file(folder):
    names = [name for name in NAMES if name != UNSEEN]
    R = 0.3 * np.ones((36, 36)) + 0.7 * np.eye(36)
    pd.DataFrame(R, names, names).to_csv(folder / "tree.csv", index=False)
    data = {**DATA, "correlations": {"tree": "tree.csv"}}
    models = {"tree": {"covariance": "group(district, correlation=tree)", "likelihood": "poisson"}}
    settings, own = read(folder, data, models)
    leaf = build_model(settings, "tree", own, "mine").covariance.leaves()[0]
    order = own.encoding.code("district").levels
    at = [int(name) for name in leaf.correlation.names]
    np.testing.assert_allclose(leaf.correlation.matrix, R)
    assert [order[place] for place in at] == names


WRONG = {
    "tree": ({"correlations": {"tree": "bad.csv"}}, "least eigenvalue is -0.5"),
    "missing": ({"correlations": {"tree": "short.csv"}}, "has no row of 'd02' and 33 more"),
    "misspelt": (
        {"correlations": {"tree": "typo.csv"}},
        "no row of 'isle' (did you mean 'Isle'?),",
    ),
    "groups": ({"groups": []}, "write groups: [the column with them] under data"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused(name, folder):
    more, message = WRONG[name]
    names = [name for name in NAMES if name != UNSEEN]
    bad = pd.DataFrame(np.eye(36), names, names)
    bad.iloc[0, 1] = bad.iloc[1, 0] = 1.5
    bad.to_csv(folder / "bad.csv", index=False)
    pd.DataFrame(np.eye(2), names[:2], names[:2]).to_csv(folder / "short.csv", index=False)
    other = [*names[:-1], "Isle"]
    pd.DataFrame(np.eye(36), other, other).to_csv(folder / "typo.csv", index=False)
    with pytest.raises(GpmcflowError) as error:
        read(folder, {**DATA, **more}, MODELS)
    assert any(message in line for line in getattr(error.value, "problems", [str(error.value)]))
