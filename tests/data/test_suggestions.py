from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import yaml

from gpmcflow.analysis.data import data_of, data_tree
from gpmcflow.analysis.models import build_model
from gpmcflow.data.columns import term_names
from gpmcflow.data.large_models import REACH, functions, half_range
from gpmcflow.data.own_table import prepare_table
from gpmcflow.data.suggestions import suggest
from gpmcflow.errors import InputErrors
from gpmcflow.jobs.stated_models import covariance_of

N = 60
RNG = np.random.default_rng(5)
PATIENTS = [
    f"P-{i:03d},2023-{1 + i * 7 % 12:02d}-{1 + i % 28:02d},St. Anna,{40 + i % 31},"
    f"{'' if i % 9 == 4 else 80 + i % 50},{('medicine', 'surgery', 'other')[i % 3]},"
    f"{'' if i == 7 else ('no', 'yes')[i * i % 7 % 2]}"
    for i in range(N)
]


def write(folder, header, rows, name="own.csv"):
    path = folder / name
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def config(suggestion):
    """Return the config that a suggestion writes, read back and tried."""
    loaded = yaml.safe_load(suggestion.text("own"))
    prepared = prepare_table(loaded["data"], suggestion.path.parent)
    for model in loaded["models"].values():
        covariance_of({**loaded, **model}, "own")
    assert loaded["seed"] == 1
    return loaded, prepared


@pytest.fixture
def patients(tmp_path):
    header = "patient_id,admitted,hospital,age,creatinine,ward,readmitted"
    return write(tmp_path, header, PATIENTS, "patients.csv")


@pytest.mark.parametrize(("n", "season"), [(40, True), (30, False)])
def test_dates_of_three_years_are_offered_a_season(tmp_path, n, season):
    days = [f"{2019 + k // 12}-{k % 12 + 1:02d}-01" for k in range(n)]
    rows = [f"{day},{10 * np.cos(np.pi * k / 6) + k % 5:.3f}" for k, day in enumerate(days)]
    loaded, _ = config(suggest(write(tmp_path, "day of,y", rows), "y"))
    stated = "squared_exponential('day of', name='trend') + periodic('day of', period=365.25)"
    assert (loaded["models"].get("seasons") == {"covariance": stated}) is season
    assert (loaded["data"].get("test_by") == "day of") is season
    assert {"smooth", "rough", "plain"} <= set(loaded["models"])


def test_a_summary_names_sixty_columns_and_counts_the_rest(tmp_path):
    names = [f"x{k}" for k in range(63)]
    rows = [",".join(f"{x:.3f}" for x in row) for row in np.random.default_rng(2).random((90, 64))]
    found = suggest(write(tmp_path, ",".join([*names, "y"]), rows), "y")
    (numbers,) = (part for part in found.summary().split("\n  numbers")[1:])
    assert " ".join(numbers.split()).startswith(", ".join([*names[:60], "and 3 more"]))
    assert "x62" in found.text("own")


def test_summary(patients):
    assert suggest(patients, "readmitted").summary() == (
        "patients.csv: 60 rows, 7 columns\n"
        "  outcome      readmitted (yes 17, no 42, 1 empty: these rows are not used)\n"
        "  numbers      age, creatinine (7 missing: median, plus an indicator)\n"
        "  categories   ward (3 levels)\n"
        "  dates        admitted\n"
        "  dropped      patient_id (different in every row), hospital (always the same)"
    )


def test_comments_say_what_was_found_and_what_is_done_and_the_file_works(patients):
    suggestion = suggest(patients, "readmitted")
    text = suggestion.text("patients")
    for line in (
        "#   gpmcflow check patients.yaml",
        '  # creatinine: whole number, 7 cells missing -> middle value, and a column "creatinine missing"',
        "  # patient_id: 60 different texts -> dropped: different in every row, shown beside the predictions",
        "  # ward: 3 categories -> one column each",
        "  # readmitted: yes 17, no 42, 1 empty: these rows are not used",
        '  positive: "yes"   # counts as 1, all else as 0',
        "  # test_by: admitted     # hold out the last rows, not random ones",
    ):
        assert line in text.splitlines()
    loaded, prepared = config(suggestion)
    assert loaded["likelihood"] == suggestion.likelihood == "probit"
    assert loaded["data"]["positive"] == prepared.target.positive == "yes"
    assert list(loaded["models"]) == ["relevance", "smooth", "plain", "curves"]
    assert loaded["models"]["curves"]["structure"] == "basis"
    assert loaded["models"]["relevance"] == {"covariance": "squared_exponential(ard=True)"}
    assert yaml.safe_load(suggestion.text("own", csv="../data/a: b.csv"))["data"]["csv"] == (
        "../data/a: b.csv"
    )


@pytest.mark.parametrize("names", [("easting", "northing"), ("Lon", "Lat"), ("x_coord", "y_coord")])
def test_map_of_counts_with_effort(tmp_path, names):
    rows = [f"{RNG.random():.3f},{RNG.random():.3f},{1 + i % 4}.5,{i % 6}" for i in range(N)]
    suggestion = suggest(write(tmp_path, f"{','.join(names)},hours,count", rows), "count")
    loaded, prepared = config(suggestion)
    assert loaded["data"]["coordinates"] == list(names)
    assert (loaded["data"]["exposure"], loaded["likelihood"]) == ("hours", "negative_binomial")
    assert list(loaded["models"]) == ["map", "round", "trend"]
    assert prepared.target.kind == "counts"
    assert "  place        " + ", ".join(names) in suggestion.summary()
    assert "  exposure     hours" in suggestion.summary()


def test_map_among_other_columns_names_its_places(tmp_path):
    rows = [f"{RNG.random():.3f},{RNG.random():.3f},{i % 7},{i}.5" for i in range(N)]
    path = write(tmp_path, "x coord,y coord,depth,y", rows)
    models = config(suggest(path, "y"))[0]["models"]
    assert models["map"]["covariance"] == (
        "matern32('x coord', 'y coord') + linear() + constant(signal_sd=2.0)"
    )


def test_places_have_a_surface_beside_the_curves_of_other_columns(tmp_path):
    """A place is no sum of a curve of its longitude and one of its latitude."""
    rows = [
        f"{-121 - RNG.random():.3f},{38 + RNG.random():.3f},{i % 7},{'ab'[i % 2]},{i}.5"
        for i in range(N)
    ]
    suggestion = suggest(write(tmp_path, "longitude,latitude,depth,kind,y", rows), "y")
    models = config(suggestion)[0]["models"]
    assert models["curves"] == {
        "covariance": "matern32(longitude, latitude) + squared_exponential(depth, length_scale=reach, "
        "name='depth') + linear()"
    }
    text = suggestion.text("own")
    assert "# a surface over the places, a curve for each other column" in text
    assert "  reach: {distribution: norm" in text
    flat = [",".join(row.split(",")[:2] + row.split(",")[3:]) for row in rows]
    suggestion = suggest(write(tmp_path, "longitude,latitude,kind,y", flat), "y")
    assert list(config(suggestion)[0]["models"]) == ["relevance", "smooth", "map", "plain"]
    assert "No functions were left" not in suggestion.text("own")


def test_exposure_only_for_counts_and_only_if_positive(tmp_path):
    real = write(tmp_path, "a,hours,y", [f"{i % 7},{1 + i % 4},{i}.5" for i in range(N)])
    assert suggest(real, "y").settings.exposure is None
    price = write(tmp_path, "a,hours,price", [f"{i % 7},{1 + i % 4},{5 * i}" for i in range(N)])
    assert suggest(price, "price").settings.exposure is None
    year = write(tmp_path, "a,years,y", [f"{i % 7},{1950 + i % 40},{i % 6}" for i in range(N)])
    assert suggest(year, "y").settings.exposure is None
    zero = write(tmp_path, "a,hours,y", [f"{i % 7},{i % 4},{i % 6}" for i in range(N)])
    assert suggest(zero, "y").settings.exposure is None


def test_trials_where_the_outcome_never_exceeds_them(tmp_path):
    rows = [f"{i % 7},{6 + i % 3},{i % 6}" for i in range(N)]
    loaded, prepared = config(suggest(write(tmp_path, "dose,n_tested,ill", rows), "ill"))
    assert (loaded["data"]["trials"], loaded["likelihood"]) == ("n_tested", "binomial")
    assert prepared.target.kind == "binomial"
    suggestion = suggest(write(tmp_path, "dose,total,ill", [*rows, "1,2,3"]), "ill")
    assert (suggestion.settings.trials, suggestion.target.kind) == (None, "counts")


@pytest.mark.parametrize(("mark", "decimal"), [(";", ","), ("\t", "."), (";", "."), (",", ".")])
def test_separator_and_decimal_mark_are_found(tmp_path, mark, decimal):
    rows = [f"{i % 7}{decimal}5{mark}{i}{decimal}25{mark}{i % 3}" for i in range(N)]
    whole = write(tmp_path, f"a{mark}b", [f"{i}{mark}{i % 3}" for i in range(N)])
    assert suggest(whole, "b").settings.decimal == "."
    suggestion = suggest(write(tmp_path, f"a{mark}b{mark}c", rows), "b")
    loaded, prepared = config(suggestion)
    assert (prepared.encoding.separator, prepared.encoding.decimal) == (mark, decimal)
    assert prepared.target.kind == "real"
    assert set(prepared.train.outcome % 1) == {0.25}
    assert ("decimal" in loaded["data"]) == (decimal == ",")


def test_one_input_gets_curves_and_many_rows_basis_functions(tmp_path):
    rows = [f"{i % 7}.5,{i % 11}.25" for i in range(2001)]
    suggestion = suggest(write(tmp_path, "dose,y", rows), "y")
    models = config(suggestion)[0]["models"]
    assert list(models) == ["curves", "plain"]
    assert {model["structure"] for model in models.values()} == {"basis"}
    assert "a dense covariance takes hours above 2000" in suggestion.text("own")
    few = suggest(write(tmp_path, "dose,y", rows[:2000]), "y")
    assert list(config(few)[0]["models"]) == ["smooth", "rough", "plain"]
    assert "structure" not in few.text("own")


@pytest.mark.parametrize(("n_classes", "many"), [(2, False), (3, False), (5, True)])
def test_many_classes_have_basis_functions_from_fewer_rows_on(tmp_path, n_classes, many):
    """600 rows have 600 latent numbers of two classes, and 2,400 of five."""
    rng = np.random.default_rng(5)
    rows = [
        f"{a:.3f},{b:.3f},{'pqrst'[k % n_classes]}"
        for k, (a, b) in enumerate(rng.normal(size=(600, 2)))
    ]
    path = tmp_path / "own.csv"
    path.write_text("a,b,kind\n" + "\n".join(rows) + "\n", encoding="utf-8")
    suggestion = suggest(path, "kind")
    assert set(suggestion.models) == (
        {"surface", "curves", "plain"} if many else {"relevance", "smooth", "plain", "curves"}
    )
    text = suggestion.text("own")
    assert (
        "600 rows x 4 functions of 5 classes: a dense covariance takes hours above" in text
    ) == many
    stated = yaml.safe_load(text)["models"]
    assert {own.get("structure") for own in stated.values()} == (
        {"basis"} if many else {None, "basis"}
    )


def test_models_of_many_rows_have_as_many_functions_as_fit(tmp_path):
    """Curves of the columns that leave functions, a surface of two, slopes of the others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2400, 13))
    X[:, 2] = rng.integers(0, 2, 2400)
    X[:, 3] = rng.standard_t(1, 2400)  # a few values far away
    rows = [",".join(f"{v:.4f}" for v in row) + f",{k % 5}.5" for k, row in enumerate(X)]
    names = [f"a {k}" for k in range(13)]
    path = write(tmp_path, ",".join([*names, "y"]), rows)
    suggestion = suggest(path, "y")
    loaded, _ = config_of_many(suggestion)
    curves = loaded["models"]["curves"]["covariance"]
    assert "squared_exponential('a 0', length_scale=reach, name='a_0')" in curves
    assert "'a 2'" not in curves
    assert "a 3" in suggestion.large.straight
    assert "a 2" not in suggestion.large.straight
    assert "No functions were left for a 3" in suggestion.text("own")
    path = write(tmp_path, "u,v,w", [",".join(row.split(",")[:2]) + ",1.5" for row in rows[:2100]])
    path.write_text(path.read_text().replace("1.5\n", "2.5\n", 300), encoding="utf-8")
    loaded, models = config_of_many(suggest(path, "w"))
    assert list(loaded["models"]) == ["surface", "curves", "plain"]
    assert 150 < models["surface"].n_latents <= 402


def config_of_many(suggestion):
    """The config of a file of many rows, and its models, each built."""
    loaded = yaml.safe_load(suggestion.text("own"))
    prepared = prepare_table(loaded["data"], suggestion.path.parent)
    settings = {"likelihood": None, "priors": {}, **loaded}
    data = data_of(data_tree(prepared))
    models = {name: build_model(settings, name, data, "own") for name in loaded["models"]}
    for name, model in models.items():
        sizes = [block.size for block in model.basis.eigen]
        assert sum(sizes) <= 400
        if name == "curves":
            terms = term_names(list(suggestion.columns))
            named = {terms[name]: own for name, own in suggestion.columns.items()}
            halves = [half_range(named[block.term]) for block in model.basis.eigen]
            asked = np.array([functions(half, *REACH, 1) for half in halves])
            rest = asked - sizes  # ends of columns may be held out
            assert np.all(rest > -3)
            assert np.all(rest < 3 + 0.25 * asked)
    return loaded, models


def test_names_that_yaml_would_misread(tmp_path):
    rows = [f"{i % 7}.5,{i % 5},{i}.25" for i in range(N)]
    loaded, _ = config(suggest(write(tmp_path, '"a: [b]",no,"off"', rows), "off"))
    assert loaded["data"]["target"] == "off"


def test_names_that_differ_in_marks_alone_and_marks_that_yaml_refuses(tmp_path):
    """Of terms with factors by column, of groups of categories, and characters from a wrong encoding."""
    rng = np.random.default_rng(1)
    rows = [",".join(f"{v:.4f}" for v in row) for row in rng.normal(size=(2100, 6))]
    path = write(tmp_path, "a b,a-b,\x01linear\x1b,t\x80u,v\u2028w,y", rows)
    loaded, models = config_of_many(suggest(path, "y"))
    assert len({block.term for block in models["curves"].basis.eigen}) == 5
    assert "t\x80u" in loaded["models"]["curves"]["covariance"].encode().decode("unicode_escape")
    with_target = suggest(path, "t\x80u").text("own")
    assert yaml.safe_load(with_target)["data"]["target"] == "t\x80u"
    rows = [f"{'abc'[i % 3]},{'def'[i % 3 - i % 2]},{i % 7}.5,{i % 11}.25" for i in range(N)]
    loaded = yaml.safe_load(suggest(write(tmp_path, "g g,g-g,x,y", rows), "y").text("own"))
    data = data_of(data_tree(prepare_table(loaded["data"], tmp_path)))
    model = build_model({"likelihood": None, "priors": {}, **loaded}, "relevance", data, "own")
    assert {"g_g.length_scale", "g_g_.length_scale"} <= set(model.names)


def test_many_categories_are_told_how_to_become_groups(tmp_path):
    """A plot of 6 names: the line of groups says what to write, and it works as written."""
    plots = [f"plot {k % 6}" for k in range(60)]
    rows = {"plot": plots, "dose": np.arange(60.0) % 7, "gain": np.arange(60.0) % 11}
    pd.DataFrame(rows).to_csv(tmp_path / "file.csv", index=False)
    text = suggest(tmp_path / "file.csv", "gain").text("file")
    line = next(line for line in text.splitlines() if "groups:" in line)
    assert ": write plot here, and + group(plot) in a covariance" in line
    few = pd.DataFrame({**rows, "plot": [f"plot {k % 3}" for k in range(60)]})
    few.to_csv(tmp_path / "few.csv", index=False)
    text = suggest(tmp_path / "few.csv", "gain").text("few")
    assert "names of subjects and the like, for group(..)" in text


def test_whole_numbers_that_may_be_names_are_pointed_out(tmp_path):
    rows = [f"{i % 7},{i % 5},{i}.25" for i in range(N)]
    text = suggest(write(tmp_path, "nr,age,y", rows), "y").text("own")
    assert "if it is a name and not an amount: categorical: [nr]" in text
    assert "categorical: [age]" not in text


def test_bad_cells_are_told_and_refused_later(tmp_path):
    rows = [f"{i}.5,{i % 2}" for i in range(N)]
    suggestion = suggest(write(tmp_path, "a,y", [*rows[:5], "<7,1", *rows[5:]]), "y")
    line = 'row 7, column a: "<7" is not a number'
    assert line in suggestion.problems[0]
    assert line in suggestion.summary()
    assert f"  # CORRECT: {line}" in suggestion.text("own")


def test_what_cannot_be_suggested(tmp_path, patients, fails):
    with fails(InputErrors, 'no column "readmited" in patients.csv; did you mean "readmitted"?'):
        suggest(patients, "readmited")
    with fails(InputErrors, "60 classes", "choose another target"):
        suggest(patients, "patient_id")
    assert config(suggest(patients, "ward", positive="other"))[1].target.negative == "not other"
    with fails(InputErrors, "no column to learn from"):
        suggest(write(tmp_path, "a,y", [f"5,{i}" for i in range(N)]), "y")
    with fails(InputErrors, "none.csv: no such file"):
        suggest(tmp_path / "none.csv", "y")


def test_thousands_do_not_make_a_decimal_comma(tmp_path):
    rows = [f'"{1 + i % 9},{100 + i}",{i % 7},{i}.5' for i in range(N)]
    suggestion = suggest(write(tmp_path, "price,a,y", rows), "y")
    assert suggestion.settings.decimal == "."
    prepared = config(suggestion)[1]
    assert prepared.encoding.code("price").low == 1100.0
    assert 'as "1,100"' in suggestion.text("own")
