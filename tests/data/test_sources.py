from __future__ import annotations

import hashlib
from pathlib import Path

import pooch
import pytest

from gpmcflow.data.sources import SourceFile, fetch
from gpmcflow.errors import InputError, StorageError

CONTENT = b"1,2,3\n"
URL = "https://example.org/f.data"
FILE = SourceFile("folder/f.data", hashlib.sha256(CONTENT).hexdigest(), URL)
LOST = SourceFile("folder/g.npz", "0" * 64)


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    monkeypatch.delenv("GPMCFLOW_DATA", raising=False)


@pytest.fixture
def downloads(monkeypatch):
    """Let `pooch.retrieve` write the right file; return the list of its calls."""
    calls = []

    def retrieve(url, known_hash, fname, path):
        calls.append((url, known_hash))
        Path(path).mkdir(parents=True, exist_ok=True)
        (Path(path) / fname).write_bytes(CONTENT)
        return str(Path(path) / fname)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    return calls


def put(folder: Path, content: bytes = CONTENT, name: str = FILE.path) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_data_dir_comes_before_environment_before_download(tmp_path, monkeypatch, downloads):
    given, environment = tmp_path / "given", tmp_path / "environment"
    in_given, in_environment = put(given), put(environment)
    monkeypatch.setenv("GPMCFLOW_DATA", str(environment))

    assert fetch([FILE], data_dir=given) == ([in_given], (FILE,))
    in_given.unlink()
    assert fetch([FILE], data_dir=given)[0] == [in_environment]
    assert downloads == []
    in_environment.unlink()
    cached = tmp_path / "cache" / "gpmcflow" / "folder" / "f.data"
    assert fetch([FILE], data_dir=str(given))[0] == [cached]
    assert downloads == [(URL, f"sha256:{FILE.sha256}")]


def test_wrong_checksum_fails_and_is_not_hidden_by_a_later_folder(tmp_path, monkeypatch, fails):
    given, environment = tmp_path / "given", tmp_path / "environment"
    damaged = put(given, b"1,2\n")
    put(environment)
    monkeypatch.setenv("GPMCFLOW_DATA", str(environment))
    found = hashlib.sha256(b"1,2\n").hexdigest()
    with fails(StorageError, str(damaged), found, FILE.sha256, "replace it", URL):
        fetch([FILE], data_dir=given)


def test_failed_download_says_where_to_put_the_file(tmp_path, monkeypatch, fails):
    def retrieve(*args, **kwargs):
        raise ConnectionError("name resolution\nfailed")

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    by_hand = str(tmp_path / "cache" / "gpmcflow" / "folder" / "f.data")
    with fails(StorageError, URL, "download failed", by_hand, FILE.sha256, "$GPMCFLOW_DATA"):
        fetch([FILE])


def test_download_with_another_checksum_fails(tmp_path, monkeypatch, fails):
    changed = tmp_path / "changed.data"
    changed.write_bytes(b"<html>\n")
    real = pooch.core.retrieve
    monkeypatch.setattr(
        pooch,
        "retrieve",
        lambda url, **rest: real(url, downloader=lambda u, out, p: _copy(changed, out), **rest),
    )
    with fails(StorageError, URL, "upstream has changed", FILE.sha256, "put the file"):
        fetch([FILE])
    assert not (tmp_path / "cache" / "gpmcflow" / "folder" / "f.data").exists()


def _copy(path: Path, out) -> None:
    Path(out).write_bytes(path.read_bytes())


def test_file_put_into_the_cache_by_hand_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr(pooch, "retrieve", pooch.core.retrieve)  # must find it, not download
    cached = put(tmp_path / "cache" / "gpmcflow")
    assert fetch([FILE])[0] == [cached]


def test_file_without_an_address(tmp_path, fails):
    with fails(StorageError, "folder/g.npz", "no download", LOST.sha256):
        fetch([LOST])
    cached = put(tmp_path / "cache" / "gpmcflow", b"x", LOST.path)
    own = SourceFile(LOST.path, hashlib.sha256(b"x").hexdigest())
    assert fetch([own])[0] == [cached]
    with fails(StorageError, str(cached), "restore the original"):
        fetch([LOST])


def test_fallback_only_where_a_file_is_lost(tmp_path, downloads):
    paths, used = fetch([LOST], fallback=[FILE])
    assert used == (FILE,)
    assert paths[0].read_bytes() == CONTENT
    _, used = fetch([FILE], fallback=[LOST])
    assert used == (FILE,)


def test_folder_that_does_not_exist_fails(tmp_path, monkeypatch, fails):
    with fails(InputError, "data_dir", "nowhere", "existing"):
        fetch([FILE], data_dir=tmp_path / "nowhere")
    monkeypatch.setenv("GPMCFLOW_DATA", str(tmp_path / "typo"))
    with fails(InputError, "GPMCFLOW_DATA", "typo"):
        fetch([FILE])


def test_data_sets_without_files_need_no_folder(monkeypatch):
    monkeypatch.setenv("GPMCFLOW_DATA", "/does/not/exist")
    assert fetch([]) == ([], ())


def test_unreadable_file_fails(tmp_path, monkeypatch, fails):
    path = put(tmp_path / "given")

    def refuse(self, *args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with fails(StorageError, str(path), "Permission denied"):
        fetch([FILE], data_dir=tmp_path / "given")
