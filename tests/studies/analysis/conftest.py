"""The files of a finished analysis, written into a folder of the test."""

from __future__ import annotations

import pytest

from .made_up import MADE


@pytest.fixture
def finished(tmp_path):
    """A function: write the files of ``patients``, ``birds`` or ``machine``; folder and info."""

    def write(name: str, **changes):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        info, tables = MADE[name]()
        for table, frame in tables.items():
            frame.to_csv(folder / f"{table}.csv", index=False)
        return folder, {**info, **changes}

    return write
