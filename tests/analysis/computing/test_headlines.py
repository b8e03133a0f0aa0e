"""What the first sentences say of files whose truth is known: noise, an effect, no effect of place."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from gpmcflow.analysis.page.columns import columns_answer
from gpmcflow.analysis.page.results import read_analysis
from gpmcflow.analysis.page.standing import NONE, changes

from ..reading import section_of

MODELS = {
    "relevance": {"covariance": "squared_exponential(ard=True)"},
    "smooth": {"covariance": "matern32()"},
    "plain": {"covariance": "linear() + constant(signal_sd=2.0)"},
}
NAMES = ["a", "b", "c", "d"]


def made(kind: str, seed: int, share: float) -> pd.DataFrame:
    """A file of four columns, the first of which makes this share of the variance of the outcome."""
    rng = np.random.default_rng([seed, kind == "binary"])
    frame = pd.DataFrame(rng.normal(size=(60, 4)).round(3), columns=NAMES)
    latent = np.sqrt(share) * frame["a"] + np.sqrt(1.0 - share) * rng.normal(size=60)
    frame["y"] = latent.round(3) if kind == "real" else np.where(latent > 0.0, "yes", "no")
    return frame


def listed(analysis, folder, frame: pd.DataFrame) -> tuple[set[str], str]:
    """Columns that a quick report lists as mattering, surely or perhaps, and its answer."""
    frame.to_csv(folder / "file.csv", index=False)
    config = {"data": {"csv": "file.csv", "target": "y"}, "models": MODELS, "quick": True}
    run = analysis(folder, {**config, "evidence": {"temperatures": 3, "particles": 8}})
    info = json.loads((run.folder / "info.json").read_text(encoding="utf-8"))
    read = read_analysis(run.folder, info)
    names = {change.column for change in changes(read) if change.state != NONE}
    return names, str(columns_answer(read))


@pytest.mark.parametrize("kind", ["real", "binary"])
def test_noise_lists_no_column_and_an_effect_its_own(analysis, tmp_path, kind):
    """Of 100 files of noise 2 list a column (real; binary 1 of 60); with an effect 60 of 60 (23 of 26)."""
    wrong = right = 0
    for seed in range(4):
        for share in (0.0, 0.5):
            folder = tmp_path / f"{seed}-{share}"
            folder.mkdir()
            names, answer = listed(analysis, folder, made(kind, seed, share))
            wrong += bool(names) * (share == 0.0)
            right += ("a" in names) * (share > 0.0)
            assert bool(names) == ("matter" in answer)
    assert wrong <= 1
    assert right >= {"real": 4, "binary": 2}[kind]


def test_a_place_without_effect_is_not_said_to_differ(analysis, tmp_path):
    """yield = 5 z^2 + 10: the map at the mean of z lies 5 below the mean of the outcome, everywhere."""
    rng = np.random.default_rng(8)
    x, y, z = rng.uniform(0.0, 10.0, 100), rng.uniform(0.0, 10.0, 100), rng.normal(size=100)
    frame = pd.DataFrame(
        {"x": x, "y": y, "z": z, "yield": 5.0 * z**2 + 10.0 + rng.normal(size=100)}
    )
    frame.round(3).to_csv(tmp_path / "file.csv", index=False)
    models = {
        "relevance": {"covariance": "squared_exponential(ard=True)"},
        "map": {"covariance": "matern32(x, y) + linear() + constant(signal_sd=2.0)"},
    }
    data = {"csv": "file.csv", "target": "yield", "coordinates": ["x", "y"]}
    run = analysis(tmp_path, {"data": data, "models": models, "quick": True})
    answer = section_of((run.folder / "report.html").read_text(encoding="utf-8"), "answer")
    assert answer.startswith("The answer z (lowest near")
    assert "clearly matters for yield" in answer
    assert "Location shows no sign of an effect." in answer
    assert "differs from place to place" not in answer
