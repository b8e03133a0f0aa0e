from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path

import pooch
import pytest


@pytest.fixture(autouse=True)
def isolated(monkeypatch, tmp_path):
    """No test downloads anything or meets a developer's cache."""

    def no_network(url, *args, **kwargs):
        raise AssertionError(f"a test tried to download {url}")

    monkeypatch.setattr(pooch, "retrieve", no_network)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)


@pytest.fixture
def data_folder() -> Path:
    """The folder of real data files; tests that need it are skipped without it."""
    folder = os.environ.get("GPMCFLOW_DATA")
    if not folder:
        pytest.skip("GPMCFLOW_DATA does not name the folder of real data sets")
    return Path(folder)


@pytest.fixture
def fails():
    """A context that demands an error of one kind, whose single line holds all the texts."""

    @contextmanager
    def check(kind: type[Exception], *texts: str):
        with pytest.raises(kind) as caught:
            yield
        message = str(caught.value)
        assert len(message.splitlines()) == 1
        for text in texts:
            assert text in message

    return check
