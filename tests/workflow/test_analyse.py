"""An analysis from Python: the files of the commands, and what is read from them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gpmcflow as gp
from gpmcflow.errors import InputErrors, StorageError
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


@pytest.mark.parametrize("areas", [False, True])
def test_a_file_gives_the_files_of_the_commands_byte_for_byte(areas, plots, tmp_path, monkeypatch):
    """Config, draws, tables and pages, but for the seconds that jobs took, and notes on how they ran."""
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
    assert run("plots.yaml", quick=True) == 0
    monkeypatch.chdir(tmp_path)
    stated = {key: Path("python", path) for key, path in stated.items()}
    made = gp.analyse(Path("python", "plots.csv"), "harvest", **stated)
    assert made.folder == tmp_path / "python" / "results" / "plots"
    shell, python = (
        {
            path.relative_to(folder): without_times(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
            and not path.name.startswith(".")
            and path.suffix != ".log"
            and path.suffixes != [".nc", ".json"]
            and ".snakemake" not in path.parts
        }
        for folder in (tmp_path / "shell", tmp_path / "python")
    )
    assert shell.keys() == python.keys()
    kinds = {path.suffix for path in shell}
    assert kinds == {".csv", ".yaml", ".nc", ".json", ".html"}
    assert ("areas.csv" in {path.name for path in shell}) == areas
    assert not [path for path in shell if shell[path] != python[path]]


def test_what_cannot_be_analysed_is_refused(plots, tmp_path):
    with pytest.raises(InputErrors, match="yield"):
        gp.analyse(plots, "yield", folder=tmp_path)
    with pytest.raises(InputErrors, match="agee"):
        gp.analyse(plots, "harvest", models={"a": "matern32(agee)"}, folder=tmp_path)
    assert not (tmp_path / "results").exists()
