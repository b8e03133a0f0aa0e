"""The files of a finished analysis, written into a folder of the test."""

from __future__ import annotations

import pandas as pd
import pytest

from gpmcflow.analysis.page import build_page

from .made_up import MADE
from .made_up_evidence import BRIDGE, COLUMNS
from .reading import edit


@pytest.fixture
def finished(tmp_path):
    """A function: write the files of ``patients``, ``birds`` or ``machine``; folder and info."""

    def write(name: str, **changes):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        info, tables = MADE[name]()
        models = tables["models"]
        of_shown = models.loc[models["name"] == changes.get("shown", info["shown"]), "elpd_loo"]
        models["loo_difference"] = models["elpd_loo"] - of_shown.iloc[0]
        for table, frame in tables.items():
            frame.to_csv(folder / f"{table}.csv", index=False)
        return folder, {**info, **changes}

    return write


@pytest.fixture
def compared(finished):
    """A function: the page of patients whose models have these rows of evidence.csv."""

    def page(*rows, ladder=None, change=None) -> str:
        folder, info = finished("patients")
        if change is not None:
            edit(folder, *change)
        rows = [row if len(row) == len(COLUMNS) else (*row, *BRIDGE) for row in rows]
        pd.DataFrame(rows, columns=COLUMNS).to_csv(folder / "evidence.csv", index=False)
        if ladder is not None:
            ladder.to_csv(folder / "ladder.csv", index=False)
        return build_page(folder, info)

    return page
