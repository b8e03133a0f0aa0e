"""An analysis from Python: the files of the commands, and what is read from them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gpmcflow as gp
from gpmcflow.errors import InputErrors, StorageError
from gpmcflow.pipeline.analyse import _with_models
from gpmcflow.pipeline.new import new
from gpmcflow.pipeline.predict import predict_file
from gpmcflow.pipeline.run import run

MODELS = {"lines": "linear() + constant()", "curve": 'matern32("rain")'}


@pytest.fixture(scope="module")
def plots() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"rain": rng.normal(80.0, 10.0, 60), "soil": rng.choice(["clay", "sand"], 60)}
    )
    return table.assign(harvest=0.1 * table.rain + rng.normal(0.0, 0.5, 60))


@pytest.fixture(scope="module")
def analysis(plots, tmp_path_factory):
    return gp.analyse(plots, "harvest", models=MODELS, folder=tmp_path_factory.mktemp("frame"))


def test_tables_draws_and_report_are_those_of_the_folder(analysis):
    assert set(MODELS) < set(analysis.models.index)
    assert analysis.relevance.chance["rain"] < 0.01
    assert set(analysis.effects.column) == {"rain", "soil"}
    assert len(analysis.predictions) == 12
    assert set(analysis.draws) == set(MODELS)
    assert "settings" in analysis.draws["curve"].children
    assert "harvest" in analysis.report()._repr_html_()
    assert analysis._repr_html_().startswith("<iframe srcdoc=")


def test_predictions_have_the_index_of_the_frame_and_are_those_of_the_command(
    analysis, plots, tmp_path, monkeypatch
):
    new = plots.drop(columns="harvest").head(3).set_axis(["a", "b", "c"])
    own = analysis.predict(new)
    assert list(own.index) == ["a", "b", "c"]
    monkeypatch.chdir(tmp_path)
    new.to_csv("new.csv", index=False)
    predict_file(str(analysis.folder), "new.csv", "out.csv")
    np.testing.assert_array_equal(own["mean"], pd.read_csv("out.csv")["mean"])
    pd.testing.assert_frame_equal(analysis.predict("new.csv"), own.reset_index(drop=True))


def test_a_folder_is_opened_by_path_and_goes_on_from_what_is_there(analysis, plots):
    again = gp.open_analysis(analysis.folder)
    pd.testing.assert_frame_equal(again.models, analysis.models)
    folder = analysis.folder.parents[1]
    kept = (analysis.folder / "final.nc").stat().st_mtime_ns
    gp.analyse(plots, "harvest", models=MODELS, folder=folder)
    assert (analysis.folder / "final.nc").stat().st_mtime_ns == kept
    with pytest.raises(StorageError, match="is there with other content; give another folder="):
        gp.analyse(plots, "harvest", models={"other": "linear()"}, folder=folder)


def without_times(path: Path) -> bytes:
    """The bytes of a result, without the seconds that its jobs took and when they ended."""
    content = path.read_bytes()
    if path.name == "info.json":
        return re.sub(rb'\n "seconds": [^\n]*', b"", content)
    if path.name == "models.csv":
        return pd.read_csv(path).drop(columns="seconds").to_csv().encode()
    if path.name == "report.html":
        page = re.sub(r" Its jobs took( ?\d+\s(s|min))+\.", "", content.decode())
        return re.sub(r'<td class="num opt">[^<]*\s(s|min)</td></tr>', "", page).encode()
    return content


FEW = {"lines": "linear() + constant()"}


@pytest.mark.parametrize("case", ["quick", "areas", "whole"])
def test_a_file_gives_the_files_of_the_commands_byte_for_byte(case, plots, tmp_path, monkeypatch):
    """Config, draws, tables and pages, but for the seconds that jobs took, and notes on how they ran."""
    areas, whole = case == "areas", case == "whole"
    plots = plots.head(20) if whole else plots
    fields = [f"field {k}" for k in range(12)]
    table = plots.assign(field=np.repeat(fields, 5)) if areas else plots
    for name in ("shell", "python"):
        (tmp_path / name).mkdir()
        table.to_csv(tmp_path / name / "plots.csv", index=False)
        pairs = pd.DataFrame({"one": fields[1:], "other": fields[:-1]})
        pairs.to_csv(tmp_path / name / "pairs.csv", index=False)
    stated = {"neighbours": "pairs.csv"} if areas else {}
    monkeypatch.chdir(tmp_path / "shell")
    new("plots.csv", "harvest", **stated)
    if whole:  # an answer by draws takes its time: one model of few rows
        config = Path("plots.yaml")
        config.write_text(_with_models(config.read_text(), FEW))
    assert run("plots.yaml", quick=not whole) == 0
    monkeypatch.chdir(tmp_path)
    stated = {key: Path("python", path) for key, path in stated.items()}
    models = FEW if whole else None
    made = gp.analyse(
        Path("python", "plots.csv"), "harvest", models=models, quick=not whole, **stated
    )
    assert made.folder == tmp_path / "python" / "results" / "plots"
    shell, python = (
        {
            path.relative_to(folder): without_times(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
            and not any(part.startswith(".") for part in path.relative_to(folder).parts)
            and path.suffix not in (".log", ".tsv")
            and path.suffixes != [".nc", ".json"]
        }
        for folder in (tmp_path / "shell", tmp_path / "python")
    )
    assert shell.keys() == python.keys()
    kinds = {path.suffix for path in shell}
    assert kinds == {".csv", ".yaml", ".nc", ".json", ".html"}
    names = {path.name for path in shell}
    assert ("areas.csv" in names) == areas
    assert ("posterior.nc" in names) == whole
    assert not [path for path in shell if shell[path] != python[path]]


def test_an_offset_is_a_log_exposure_and_weights_are_rows_in_reports_and_predictions(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.uniform(20, 80, 40), "n": rng.integers(1, 3, 40)})
    hours = rng.choice([1.0, 2.0, 8.0], 40)
    table["seen"] = rng.poisson(hours * np.exp(table["age"] / 80))
    new, made = pd.DataFrame({"age": [30.0, 60.0]}), {}
    for name, of_new in (("log_hours", np.log([1.0, 4.0])), ("hours", [1.0, 4.0])):
        own = table.assign(**{name: np.log(hours) if name == "log_hours" else hours})
        stated = {"offset": name} if name == "log_hours" else {}
        folder = tmp_path / name
        analysis = gp.analyse(own, "seen", models=FEW, weights="n", folder=folder, **stated)
        made[name] = analysis, analysis.predict(new.assign(**{name: of_new}))
    (logs, by_logs), (plain, by_hours) = made.values()
    pd.testing.assert_frame_equal(
        logs.models.drop(columns="seconds"), plain.models.drop(columns="seconds")
    )
    np.testing.assert_allclose(by_logs["mean"], by_hours["mean"])
    page = logs.report().path.read_text()
    assert "with log hours as offset, with n as weights" in page
    assert "where log hours is 0" in page
    assert len(pd.read_csv(logs.folder / "rows.csv")) == 40


def test_what_cannot_be_analysed_is_refused(plots, tmp_path):
    with pytest.raises(InputErrors, match="yield"):
        gp.analyse(plots, "yield", folder=tmp_path)
    with pytest.raises(InputErrors, match="agee"):
        gp.analyse(plots, "harvest", models={"a": "matern32(agee)"}, folder=tmp_path)
    assert not (tmp_path / "results").exists()
