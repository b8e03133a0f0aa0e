"""New rows of areas that neither the data nor the pairs know: islands, in predictions, effects and costs."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from gpmcflow.approximations import predictive
from gpmcflow.data.codes import GroupCode
from gpmcflow.pipeline.predict import predict_file
from gpmcflow.pipeline.run import check

SD, NOISE = 0.8, 0.3  # in units of the standardised outcome
DATA = {
    "csv": "file.csv", "target": "level", "outcome": "real", "groups": ["area"],
    "graphs": {"edges": "edges.csv"}, "test_fraction": 0.2, "new": "more.csv",
}  # fmt: skip
TERM = f"areal(area, graph=edges, signal_sd={SD})"
LIKELIHOOD = {"gaussian": {"noise_sd": NOISE}}
MODELS = {
    "few functions": {"covariance": TERM, "likelihood": LIKELIHOOD},
    "dense": {"covariance": TERM, "likelihood": LIKELIHOOD, "structure": "dense"},
}
KNOWN = ["a0", "a7", "isle", "unseen"]


def written(folder, new: list[str]) -> None:
    """A row of twelve areas, six rows each but for one without, an island, and new rows."""
    rng, names = np.random.default_rng(5), [f"a{k}" for k in range(11)]
    pairs = [*itertools.pairwise(names), (names[-1], "unseen")]
    pd.DataFrame(pairs, columns=["one", "other"]).to_csv(folder / "edges.csv", index=False)
    area = np.repeat([*names, "isle"], 6)
    level = np.repeat(np.append(np.linspace(-2.0, 2.0, 11), 1.0), 6) + rng.normal(size=len(area))
    table = pd.DataFrame({"area": area, "dose": rng.uniform(size=len(area)), "level": level})
    table.loc[5, "area"] = ""  # an area that is not told is one of its own
    table.to_csv(folder / "file.csv", index=False)
    pd.DataFrame({"area": new, "dose": 0.5}).to_csv(folder / "more.csv", index=False)


@pytest.fixture(scope="module", autouse=True)
def many_draws():
    """Quantiles of 40,000 responses: those of 4,000 of a place differ by up to 0.2 standard deviations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predictive, "N_SIMULATED", 40_000)
        yield


@pytest.fixture(scope="module", params=MODELS)
def pair(request, tmp_path_factory, analysis):
    """The analysis with an unknown area among the new rows, and without it."""
    runs = []
    for new in ([*KNOWN, "Atlantis", "Atlantis"], KNOWN):
        folder = tmp_path_factory.mktemp("areas")
        written(folder, new)
        config = {"data": DATA, "models": {"m": MODELS[request.param]}, "seed": 2, "quick": True}
        runs.append(analysis(folder, config))
    return runs


def predictions(run) -> pd.DataFrame:
    return pd.read_csv(run.folder / "predictions_new.csv")


def test_known_areas_are_predicted_as_without_the_unknown_one(pair):
    beside, alone = map(predictions, pair)
    np.testing.assert_allclose(beside.loc[:3, "mean"], alone["mean"], rtol=1e-12)
    scale = pair[0].data.target.scale  # spreads and quantiles are of simulated responses
    drawn = ["sd", "q025", "q50", "q975"]
    np.testing.assert_allclose(beside.loc[:3, drawn], alone[drawn], atol=0.1 * scale)


def test_the_unknown_area_has_the_spread_of_an_island_by_the_prior(pair):
    """Whatever the share of neighbours is, an island has f ~ N(0, s^2), independent of all others."""
    run = pair[0]
    found, target = predictions(run), run.data.target
    sd = target.scale * np.hypot(SD, NOISE)
    unknown = found.loc[4:]
    np.testing.assert_allclose(unknown["mean"], target.shift, atol=1e-9)
    np.testing.assert_allclose(unknown["sd"], sd, rtol=0.05)
    np.testing.assert_allclose(unknown["q975"], target.shift + 1.96 * sd, atol=0.12 * sd)
    width = found["q975"] - found["q025"]
    assert (width[4:] > width[:4].max()).all()
    assert unknown["note"].tolist() == ['area "Atlantis" was not seen: treated as a new one'] * 2
    assert "predicted from what resembles it" in found.loc[3, "note"]


def test_the_command_predicts_it_in_the_same_way(pair, monkeypatch):
    run = pair[0]
    project = run.folder.parents[1]
    monkeypatch.chdir(project)
    predict_file("mine", "more.csv", project / "predictions.csv")
    own, page = pd.read_csv(project / "predictions.csv"), predictions(run)
    np.testing.assert_allclose(own[["mean", "sd"]], page[["mean", "sd"]], rtol=1e-9)


@pytest.mark.parametrize("table", ["areas", "effects", "predictions_test", "coefficients"])
def test_what_is_not_of_new_rows_stays_as_it_is(pair, table):
    with_unknown, without = (run.folder / f"{table}.csv" for run in pair)
    assert with_unknown.read_bytes() == without.read_bytes()


def test_the_forecast_takes_it(pair, monkeypatch):
    project = pair[0].folder.parents[1]
    monkeypatch.chdir(project)
    told = check(project / "mine.yaml", 1)
    assert "no problems" in told[0]


def test_unknown_names_have_codes_that_no_area_has(pair):
    code = pair[0].data.encoding.code("area")
    assert isinstance(code, GroupCode)
    new = pair[0].data.new.X["area"].to_numpy()
    assert (new[:4] >= 0).all()
    assert new[4] == new[5] < 0
