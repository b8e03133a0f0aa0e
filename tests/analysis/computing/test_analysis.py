"""Whole analyses, from files to the report, and predictions of a finished one."""

from __future__ import annotations

import json

import arviz_stats
import numpy as np
import pandas as pd
import pytest

from gpmcflow.analysis.models import build_model
from gpmcflow.analysis.page import answers
from gpmcflow.analysis.report import can_do
from gpmcflow.approximations.integrated import integrate
from gpmcflow.covariances.text import parse_covariance
from gpmcflow.errors import StorageError
from gpmcflow.pipeline import predict
from gpmcflow.pipeline.predict import predict_file, results_folder
from gpmcflow.storage import load_results, write_results
from tests.arviz_reads import arviz_reads

SAMPLING = {"chains": 2, "draws": 30, "warmup": 5}
EVIDENCE = {"temperatures": 3, "particles": 8}
QUICK = {"quick": True}
CASES = {  # two by Monte Carlo, the others by their fits
    "counts": (
        {"target": "count", "exposure": "hours", "coordinates": ["east", "north"], "new": "new.csv"},
        {"map": {"covariance": "matern32()"}},
        {},
    ),
    "binomial": (
        {"target": "sick", "trials": "tested", "new": "new.csv"},
        {"smooth": {"covariance": "matern32()"}},
        QUICK,
    ),
    "real": (
        {"target": "yield", "new": "new.csv"},
        {"smooth": {"covariance": "matern32()"}},
        QUICK,
    ),
    "many": (
        {"target": "yield", "new": "new.csv"},
        {"relevance": {"covariance": "squared_exponential(ard=True)"}},
        {"share": True, "title": "How much does it yield?", **QUICK},
    ),
    "nothing held out": (
        {"target": "ill", "test_fraction": 0.0, "new": "new.csv"},
        {"age": {"covariance": "matern32(age)"}},
        QUICK,
    ),
    "averaged": (
        {"target": "ill", "new": "new.csv"},
        {"age": {"covariance": "squared_exponential(age)"}, "plain": {"covariance": "linear()"}},
        {"sampling": {"chains": 2, "draws": 100, "warmup": 5}},
    ),
    "quick": (
        {"target": "count", "exposure": "hours", "new": "new.csv"},
        {"smooth": {"covariance": "matern32()"}, "plain": {"covariance": "linear()"}},
        QUICK,
    ),
}  # fmt: skip
KIND = {"nothing held out": "binary", "averaged": "binary", "quick": "counts"}
EXTRA = {"counts": {"map", "points", "reach"}, "real": {"curve"}, "binomial": {"curve"},
         "nothing held out": {"predictions_loo", "together"},
         "averaged": {"predictions_loo", "evidence", "together"},
         "many": {"interactions", "pairs", "together"},
         "quick": {"interactions", "pairs", "together"}}  # fmt: skip


@pytest.fixture(scope="module", params=CASES)
def done(request, tmp_path_factory, table, analysis):
    """A finished analysis: its case, the folder of its files, and what was run."""
    case = request.param
    data, models, more = CASES[case]
    kind = KIND.get(case, case)
    folder = tmp_path_factory.mktemp(kind)
    rows = table(kind, 26).astype(object)
    rows.loc[5, data["target"]] = ""  # no outcome
    rows.to_csv(folder / "file.csv", index=False)
    new = table(kind, 9, seed=8).drop(columns=data["target"]).astype(object)
    if "ward" in new:
        new.loc[2, "ward"] = "east"  # not seen before
    new.to_csv(folder / "new.csv", index=False)
    config = {"data": {"csv": "file.csv", **data}, "models": models, "sampling": SAMPLING,
              "evidence": EVIDENCE, "seed": 3, **more}  # fmt: skip
    return case, folder, analysis(folder, config)


def test_report_and_tables_are_written(done):
    case, _, run = done
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    info = json.loads((run.folder / "info.json").read_text(encoding="utf-8"))
    data = run.data
    tables = {path.stem for path in run.folder.glob("*.csv")}
    expected = {"rows", "columns", "new_rows", "models", "relevance", "effects", "rug",
                "hyperparameters", "checks", "predictions_new"}  # fmt: skip
    expected |= EXTRA.get(case, set())
    if run.settings["models"][info["shown"]]["covariance"] == "linear()":  # which has slopes
        expected |= {"coefficients"}
    if case != "nothing held out":
        expected |= {"predictions_test"}
    assert tables == expected
    assert info["target"]["kind"] == data.target.kind
    assert info["n_learning"] == len(data.learning.row)
    assert info["n_test"] == (0 if data.held_out is None else len(data.held_out.row))
    quick = run.settings["quick"]
    seconds = 1.0 if quick else 15.0 if case == "averaged" else 7.0
    final = 0.0 if case == "nothing held out" else 32.0 if quick else 48.0
    assert info["seconds"] == len(run.settings["models"]) * seconds + final
    rows = data.whole().learning
    assert info["n_used"] == len(rows.row) == 25
    unit = 1.0 if rows.unit is None else rows.unit
    base = rows.outcome.sum() / np.sum(np.ones(len(rows.row)) * unit)
    assert info["base"] == pytest.approx(base)
    assert info["score_by"] == "leave-one-out"
    assert info["quick"] == quick
    models = pd.read_csv(run.folder / "models.csv")
    own = models[models["role"] == "model"]
    best = own.loc[own["elpd_loo"].idxmax()]  # differences are to the shown model
    near = best["loo_difference"] <= best["loo_difference_se"]
    assert near or best["loo_bad_share"] > 0.05 or best["name"] in info["choice"]["without"]
    assert info["shown"] == info["choice"]["name"]
    assert set(own["likelihood"]) == {data.target.own.likelihoods[0]}
    assert own["chains"].isna().all() == quick
    title, link, answer = next(iter(answers({"analyses": {"mine": None}}, run.folder.parents[1])))
    assert link == "mine/report.html"
    assert data.target.name in answer
    assert title


def test_uses_of_rows_add_up_to_the_file(done):
    _, _, run = done
    rows = pd.read_csv(run.folder / "rows.csv")
    assert list(rows["row"]) == list(range(2, 28))
    info = json.loads((run.folder / "info.json").read_text(encoding="utf-8"))
    assert sum(info["uses"].values()) == info["n_rows"] == 26
    assert info["uses"]["no outcome"] == 1
    assert rows.loc[rows["row"] == 7, "use"].item() == "no outcome"
    used = [*run.data.learning.row, *([] if run.data.held_out is None else run.data.held_out.row)]
    assert sorted(used) == sorted(rows.loc[rows["use"].isin(["learning", "held out"]), "row"])


def test_each_new_row_has_a_prediction(done):
    _, _, run = done
    table = pd.read_csv(run.folder / "predictions_new.csv", keep_default_na=False)
    assert list(table["row"]) == list(range(2, 11))
    assert np.isfinite(table[["mean", "sd", "q025", "q975"]].to_numpy(float)).all()
    if "ward" in table:
        assert 'ward "east" was not seen' in table["note"][2]
    if "id" in table:
        assert list(table.columns[:2]) == ["row", "id"]
        assert table["id"][0] == "P000"


def test_the_answer_is_of_a_fit_to_all_rows_and_the_scores_of_the_learning_rows(done):
    """Effects, maps and predictions of new rows know the held-out rows; what scores them does not."""
    case, _, run = done
    info = json.loads((run.folder / "info.json").read_text(encoding="utf-8"))
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    final, shown = run.folder / "final.nc", info["shown"]
    kind = "fit" if info["quick"] else "summary"
    own = load_results(run.folder / shown / f"{kind}.nc")
    new = pd.read_csv(run.folder / "predictions_new.csv")
    if case == "nothing held out":
        assert not final.exists()
        np.testing.assert_allclose(new["mean"], own["new/response_mean"])
        assert "from a fit to all" not in page
        return
    assert not {"new", "grid", "effects", "map"} & set(own.children)
    tree = load_results(final)
    assert "held_out" not in tree.children
    np.testing.assert_allclose(new["mean"], tree["new/response_mean"], equal_nan=True)
    test = pd.read_csv(run.folder / "predictions_test.csv")
    np.testing.assert_allclose(test["mean"], own["held_out/response_mean"], equal_nan=True)
    learning = info["n_learning"]
    assert f"come from a fit to all 25 rows, scores from a fit to {learning} of them." in page
    data, whole = run.data, run.data.whole()
    again = build_model(run.settings, shown, whole, "mine")
    assert again.n_cases == 25
    if info["quick"]:
        start = own["settings/theta"].values
        np.testing.assert_array_equal(tree["settings/theta"], integrate(again, start=start).theta)
    assert sorted([*data.learning.row, *data.held_out.row]) == list(whole.learning.row)


def test_a_forecast_starts_at_the_last_row(analysis, tmp_path):
    """Held out by time, the last rows make the score; the forecast has learnt from them."""
    month = np.arange(60)
    level = np.where(month < 48, 10.0, 30.0)  # what only the held-out rows know
    rng = np.random.default_rng(2)
    rows = pd.DataFrame({"month": month, "sales": (level + rng.normal(0, 1, 60)).round(2)})
    rows.to_csv(tmp_path / "file.csv", index=False)
    pd.DataFrame({"month": [59.5, 60.0, 65.0]}).to_csv(tmp_path / "new.csv", index=False)
    data = {"csv": "file.csv", "target": "sales", "test_by": "month", "new": "new.csv"}
    models = {"rough": {"covariance": "matern12()"}}
    run = analysis(tmp_path, {"data": data, "models": models, "quick": True})
    new = pd.read_csv(run.folder / "predictions_new.csv")
    assert new["mean"].iloc[1] == pytest.approx(30.0, abs=2.0)
    test = pd.read_csv(run.folder / "predictions_test.csv")
    assert test["mean"].iloc[-1] < 20.0
    assert "above 0 to 59 seen in learning" in new["note"].iloc[2]


def test_ids_are_left_out_of_a_page_to_share(done):
    case, _, run = done
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    if case == "many":
        assert "P000" not in page
        assert "How much does it yield?" in page
    elif case == "averaged":
        assert "P000" in page


def test_files_of_draws_hold_the_log_likelihood_of_each_row(done):
    for k, path in enumerate(done[2].folder.glob("*/posterior.nc")):
        tree = load_results(path)
        by_case = tree["log_likelihood/y"]
        assert by_case.dims == ("chain", "draw", "case")
        assert by_case.sizes["case"] == tree["observed_data/y"].size
        found = arviz_stats.loo(tree)
        assert found.n_data_points == by_case.sizes["case"]
        assert np.isfinite(found.elpd)
        if "latent" in tree["posterior"]:
            sums = tree["sample_stats/sum_log_likelihood"].sel(draw=by_case["draw"])
            np.testing.assert_allclose(by_case.sum("case"), sums, rtol=1e-8)
        if k == 0:
            names = set(tree["posterior"].data_vars) - {"theta", "latent", "weight"}
            arviz_reads(tree, var_names=sorted(names)[:2])


def test_models_are_compared_by_the_evidence_that_was_made(done):
    """In file, tables and page alike; the quick fit's is the same number, averaged by other means."""
    case, _, run = done
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    models = pd.read_csv(run.folder / "models.csv").set_index("name")
    for name in run.settings["models"]:
        kind = "evidence" if case == "averaged" else "fit"
        group = load_results(run.folder / name / f"{kind}.nc")["evidence"].to_dataset()
        group = group.sel(estimator="bridge") if case == "averaged" else group
        assert models.loc[name, "log_evidence"] == pytest.approx(float(group["log_evidence"]))
    if case == "averaged":
        table = pd.read_csv(run.folder / "evidence.csv").set_index("model")
        assert set(table.index) == set(run.settings["models"])
        for name in table.index:
            quick = load_results(run.folder / name / "fit.nc")["evidence"].to_dataset()
            error = np.hypot(table.loc[name, "standard_error"], float(quick["standard_error"]))
            apart = table.loc[name, "log_evidence"] - float(quick["log_evidence"])
            assert abs(apart) < 4.0 * error + 0.1
        assert "hyperpriors" in page
    assert "best settings" not in page


def test_the_report_again_is_the_same_to_the_byte(done):
    _, _, run = done
    before = {path: path.read_bytes() for path in run.folder.iterdir() if path.is_file()}
    stale = run.folder / "curve.csv"
    if stale not in before:
        stale.write_text("of an earlier run")
    run.report()
    after = {path: path.read_bytes() for path in run.folder.iterdir() if path.is_file()}
    assert after == before


def test_predictions_of_a_file_are_those_of_the_report(done, monkeypatch):
    _, folder, run = done
    monkeypatch.chdir(folder)
    told = predict_file("mine", "new.csv", "mine.csv")
    mine = pd.read_csv("mine.csv", keep_default_na=False)
    report = pd.read_csv(run.folder / "predictions_new.csv", keep_default_na=False)
    assert list(mine.columns) == list(report.columns)
    numbers = [name for name in mine if mine[name].dtype.kind == "f"]
    np.testing.assert_allclose(mine[numbers], report[numbers], rtol=1e-6)
    others = [name for name in mine if name not in numbers]
    pd.testing.assert_frame_equal(mine[others], report[others])
    assert told[0] == "9 rows read, 9 predicted"
    assert told[-1].endswith("9 rows, none left out")
    told_columns = told[-1].partition(": ")[2].partition(", and the ")[0].split(", ")
    assert told_columns == list(mine.columns)[: len(told_columns)]
    assert told_columns[-1] == "note"
    assert any("not seen before" in line for line in told) == ("ward" in mine)
    first = next(line for line in told if line.startswith("  first row: "))
    if run.data.target.kind == "binary":
        assert f"probability {mine['mean'][0]:.0%} (" in first
    else:
        assert f"{run.data.target.name} {mine['mean'][0]:.3g} (" in first


def test_predictions_are_refused_unless_all_is_of_one_run(done, monkeypatch):
    """After a run that was stopped: its data, settings or fits beside the report of the one before."""
    case, folder, run = done
    if case not in ("real", "quick"):
        pytest.skip("of draws and of a quick fit, one each")
    monkeypatch.chdir(folder)
    info = json.loads((run.folder / "info.json").read_text())
    used = "final.nc" if info["quick"] else "final_posterior.nc"
    files = {path: run.folder / path for path in ("data.nc", used)}
    for path, file in files.items():
        sidecar = file.with_name(f"{file.name}.json")
        kept = {each: each.read_bytes() for each in (file, sidecar)}
        tree = load_results(file)
        tree.attrs = {**tree.attrs, "seed": 99}
        write_results(tree, file, sidecar={})
        with pytest.raises(
            StorageError, match=f"mine: {path} is not what the report was made of.*run"
        ):
            predict_file("mine", "new.csv", "not.csv")
        for each, content in kept.items():
            each.write_bytes(content)
    config = run.folder / "config.yaml"
    stated = config.read_text()
    config.write_text(f"{stated}# other\n")
    command = f"gpmcflow run mine.yaml{' --quick' * info['quick']}$"
    with pytest.raises(StorageError, match=f"config.yaml is not what .*; run {command}"):
        predict_file("mine", "new.csv", "not.csv")
    config.write_text(stated)
    fit = files[used]
    kept = fit.with_name(f"{fit.name}.json").read_bytes()
    for code, fits in (("of today", True), ("of yesterday", False)):
        write_results(load_results(fit), fit, sidecar={"code": code})
        monkeypatch.setattr(predict, "code_digest", lambda *_: "of today")
        if fits:
            predict_file("mine", "new.csv", "mine.csv")
            continue
        with pytest.raises(StorageError, match=f"made by other code.*{command}"):
            predict_file("mine", "new.csv", "not.csv")
    fit.with_name(f"{fit.name}.json").write_bytes(kept)
    assert not (folder / "not.csv").exists()


def test_results_are_named_in_three_ways(done, monkeypatch):
    _, folder, run = done
    monkeypatch.chdir(folder)
    for name in ("mine", "mine.yaml", "results/mine", str(run.folder), str(folder / "mine.yaml")):
        assert results_folder(name).resolve() == run.folder.resolve()
    with pytest.raises(StorageError, match=r"no finished analysis 'other'.*allowed: mine; run"):
        results_folder("other")


def test_tables_of_an_earlier_run_go(tmp_path, table, analysis):
    table("real", 24).to_csv(tmp_path / "file.csv", index=False)
    table("real", 5).to_csv(tmp_path / "new.csv", index=False)
    data = {"csv": "file.csv", "target": "yield", "new": "new.csv"}
    config = {"data": data, "models": {"a": {"covariance": "linear()"}}, "quick": True}
    run = analysis(tmp_path, config)
    optional = ("predictions_new", "predictions_test", "curve")
    assert all((run.folder / f"{name}.csv").is_file() for name in optional)
    changed = table("real", 24).assign(other=np.arange(24) % 7)
    changed.to_csv(tmp_path / "file.csv", index=False)
    config["data"] = {"csv": "file.csv", "target": "yield", "test_fraction": 0.0}
    analysis(tmp_path, config)
    assert not any((run.folder / f"{name}.csv").is_file() for name in optional)


@pytest.mark.parametrize(
    ("covariance", "words"),
    [
        ("squared_exponential(ard=True)", "smooth curves, own weight for each column"),
        ("matern32()", "curves that may bend sharply, all columns alike"),
        ("matern32(age, bmi) + linear()", "curves that may bend sharply and straight lines"),
        ("matern32() + linear()",
         "curves that may bend sharply, all columns alike, and straight lines"),
        ("squared_exponential(age) + squared_exponential(bmi)", "smooth curves"),
        ("squared_exponential(age, ard=True)", "smooth curves"),
        ("squared_exponential(age) + linear(bmi, ard=True)", "smooth curves and straight lines"),
        ("linear(bmi) + periodic(age, period=7.0) + squared_exponential(age)",
         "straight lines, repeating curves, and smooth curves"),
        ("linear() + constant()", "straight lines"),
        ("linear(age) + group(bmi, day)", "straight lines and a level of its own for each group"),
        ("constant()", "one level"),
        ("matern32(age) * periodic(day, period=7.0)",
         "curves that may bend sharply and repeating curves"),
    ],
)  # fmt: skip
def test_what_a_model_can_do_in_words(covariance, words):
    assert can_do(parse_covariance(covariance), ["age", "bmi", "day"]) == words


def test_one_column_is_alike_to_no_other():
    assert can_do(parse_covariance("squared_exponential()"), ["age"]) == "smooth curves"


def test_a_model_that_first_fits_rule_out_is_compared_by_them(analysis, tmp_path):
    """Straight lines in place of a curve: no draws, and differences are those of two fits."""
    x = np.linspace(0.0, 1.0, 50)
    noise = np.random.default_rng(0).normal(0.0, 0.1, 50)
    pd.DataFrame({"x": x, "y": np.sin(9.0 * x) + noise}).to_csv(tmp_path / "x.csv", index=False)
    models = {"plain": {"covariance": "linear()"}, "curve": {"covariance": "matern52()"}}
    config = {"data": {"csv": "x.csv", "target": "y", "test_fraction": 0.0}, "models": models}
    sampling = {"chains": 2, "draws": 100, "warmup": 5}
    run = analysis(tmp_path, config | {"sampling": sampling})
    table = pd.read_csv(run.folder / "models.csv").set_index("name")
    info = json.loads((run.folder / "info.json").read_text())
    fits = {name: load_results(run.folder / name / "fit.nc") for name in models}
    left_out = {name: fit["leave_one_out/log_density"].values for name, fit in fits.items()}
    assert info["choice"] == {
        "name": "curve", "by": "first fits", "among": [], "without": [], "ruled_out": ["plain"],
    }  # fmt: skip
    assert list(table["ruled_out"].dropna()) == [True, False]
    assert table["draws"].isna()["plain"]
    behind = (left_out["plain"] - left_out["curve"]).sum()
    assert behind < -10.0
    assert table.loc["plain", "loo_difference"] == pytest.approx(behind)
    assert table.loc["curve", "loo_difference"] == 0.0
    assert table.loc["curve", "elpd_loo"] != pytest.approx(left_out["curve"].sum(), abs=1e-6)
    alone = float(fits["plain"]["evidence/log_evidence"])
    assert table.loc["plain", "log_evidence"] == pytest.approx(
        alone
    )  # averaged, as that of `curve`
    assert list(pd.read_csv(run.folder / "evidence.csv")["model"]) == ["curve"]
    assert set(pd.read_csv(run.folder / "hyperparameters.csv")["model"]) == {"curve"}
    assert set(pd.read_csv(run.folder / "checks.csv")["model"]) == {"plain", "curve"}
    page = (run.folder / "report.html").read_text()
    assert "No draws were made of" in page
    assert "The evidence favours it over <i>plain</i>" in page  # of first fits

    every = analysis(tmp_path, config | {"sampling": sampling | {"every_model": True}}, "every")
    table = pd.read_csv(every.folder / "models.csv").set_index("name")
    assert list(table["ruled_out"].dropna()) == [False, False]
    assert set(pd.read_csv(every.folder / "evidence.csv")["model"]) == {"plain", "curve"}


def test_evidences_at_the_maximum_stand_beside_no_averaged_ones(analysis, at_maximum, tmp_path):
    x = np.linspace(0.0, 1.0, 50)
    pd.DataFrame({"x": x, "y": np.sin(9.0 * x) + np.cos(90.0 * x) / 9.0}).to_csv(
        tmp_path / "x.csv", index=False
    )
    models = {"plain": {"covariance": "linear()"}, "curve": {"covariance": "matern52()"}}
    config = {"data": {"csv": "x.csv", "target": "y", "test_fraction": 0.0}, "models": models}
    with at_maximum():
        run = analysis(tmp_path, config | {"sampling": {"chains": 2, "draws": 100, "warmup": 5}})
    table = pd.read_csv(run.folder / "models.csv").set_index("name")
    assert table.loc["plain", "ruled_out"]
    assert np.isnan(table.loc["plain", "log_evidence"])
    assert np.isfinite(table.loc["curve", "log_evidence"])
