"""An analysis from Python: the files of the commands, and what is read from them."""

from __future__ import annotations

import os

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


def test_a_file_gives_the_files_of_the_commands(plots, tmp_path, monkeypatch):
    for name in ("shell", "python"):
        (tmp_path / name).mkdir()
        plots.to_csv(tmp_path / name / "plots.csv", index=False)
    monkeypatch.chdir(tmp_path / "shell")
    new("plots.csv", "harvest")
    assert run("plots.yaml", quick=True) == 0
    made = gp.analyse(tmp_path / "python" / "plots.csv", "harvest")
    monkeypatch.chdir(tmp_path)
    trees = [sorted(os.path.relpath(path, name) for path in (tmp_path / name / "results").rglob("*.nc"))
             for name in (tmp_path / "shell", tmp_path / "python")]  # fmt: skip
    assert trees[0] == trees[1]
    assert len(trees[0]) > 4
    for path in ["plots.yaml", *trees[0]]:
        first, second = ((tmp_path / name / path).read_bytes() for name in ("shell", "python"))
        assert first == second, path
    assert made.folder == tmp_path / "python" / "results" / "plots"


def test_what_cannot_be_analysed_is_refused(plots, tmp_path):
    with pytest.raises(InputErrors, match="yield"):
        gp.analyse(plots, "yield", folder=tmp_path)
    with pytest.raises(InputErrors, match="agee"):
        gp.analyse(plots, "harvest", models={"a": "matern32(agee)"}, folder=tmp_path)
    assert not (tmp_path / "results").exists()
