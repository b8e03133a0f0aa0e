"""Compiled loops on disk: which sources decide, processes and installations that share them, faults."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from gpmcflow.covariances.level_products import add_sums
from gpmcflow.numerics import code_cache

PACKAGE = code_cache.PACKAGE
# A loop that inlines a function of another room, and one that takes a constant of another room.
PROGRAM = """
import numpy as np
from gpmcflow.covariances.dense_factor import weighted_gram
from gpmcflow.likelihoods import binary
from gpmcflow.numerics.lapack import ROUTINES
slope, gram = np.empty((1, 1)), np.zeros((2, 2))
binary._probit_slopes(np.ones((1, 1)), np.ones(1), slope)
weighted_gram(ROUTINES, np.array([[2.0, 1.0], [0.0, 3.0]]), np.ones(2), 1.0, gram)
print(slope[0, 0], gram[0, 0])
"""
EDITS = {
    "numerics/exponentials.py": ("return 0.0 if x < -708.0 else ", "return 2.0 * "),
    "numerics/lapack.py": ('ord(letter) for letter in "LU', 'ord(letter) for letter in "UU'),
}
density, tail = norm.pdf(1.0), norm.sf(1.0)
BEFORE = (density / (1.0 - tail), 5.0)  # phi / Phi, and the first entry of L'L
AFTER = (2.0 * density / (1.0 - 2.0 * tail), 4.0)  # by twice the exponential, and of U U'


def edit(installation: Path) -> Path:
    for name, (old, new) in EDITS.items():
        path = installation / "gpmcflow" / name
        assert path.read_text().count(old) == 1
        path.write_text(path.read_text().replace(old, new))
    return installation


def results(cache: Path, *installations: Path) -> list:
    """What the program prints, in processes that start at the same time."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(cache)},
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        for folder in installations
    ]
    outputs = [process.communicate()[0] for process in processes]
    return [pytest.approx(tuple(map(float, text.split())), rel=1e-12) for text in outputs]


def test_an_edit_of_what_is_inlined_is_seen_and_versions_share_a_folder(tmp_path):
    installations = [tmp_path / name for name in ("one", "two")]
    for folder in installations:
        ignored = shutil.ignore_patterns(
            "__pycache__", "replications", "analysis", "data", "evidence"
        )
        shutil.copytree(PACKAGE, folder / "gpmcflow", ignore=ignored)
    one, two = installations
    cache = tmp_path / "cache"
    assert results(cache, one, one, edit(two)) == [BEFORE, BEFORE, AFTER]
    written = sorted(cache.rglob("*"))
    assert len([path for path in written if path.suffix == ".nbc"]) == 2 * 3
    assert results(cache, edit(one), two) == [AFTER, AFTER]
    assert sorted(cache.rglob("*")) == written  # the edited one has the sources of the other one


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(code_cache, "code_folder", lambda: tmp_path)
    return tmp_path


def hits() -> int:
    """Call a loop in a form that only its files know; return how often one was loaded."""
    loop, out = code_cache.compiled(add_sums.py_func), np.zeros((2, 1))
    loop(np.array([1, 0, 1]), np.array([[1.0], [2.0], [4.0]]), np.ones(3), out)
    assert out.tolist() == [[2.0], [5.0]]
    return sum(loop.stats.cache_hits.values())


def test_what_cannot_be_read_or_written_is_compiled_again(folder, monkeypatch):
    assert (hits(), hits()) == (0, 1)
    (file,) = folder.iterdir()  # no temporary file stays
    for damage in (b"", file.read_bytes()[:1000]):
        file.write_bytes(damage)
        assert (hits(), hits()) == (0, 1)
    monkeypatch.setattr(code_cache, "code_folder", lambda: folder / "gone")
    assert (hits(), hits()) == (0, 0)
    monkeypatch.setattr(code_cache, "code_folder", lambda: None)
    assert hits() == 0
    file.unlink()
    monkeypatch.setattr(code_cache, "code_folder", lambda: folder)
    monkeypatch.setattr(code_cache, "SOURCES", "of before an edit")
    assert (hits(), list(folder.iterdir())) == (0, [])


def test_a_function_from_elsewhere_leaves_no_file(folder):
    @code_cache.compiled
    def double(x):
        return 2.0 * x

    assert (double(3.0), list(folder.iterdir())) == (6.0, [])


def test_the_folder_is_the_first_that_can_be_written_and_few_old_ones_stay(tmp_path, monkeypatch):
    find = code_cache.code_folder.__wrapped__
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "stated"))
    own = find()
    assert own.parent == tmp_path / "stated"
    old = [tmp_path / "stated" / f"gpmcflow-{k:024d}" for k in range(12)]
    for k, path in enumerate(old):
        path.mkdir()
        os.utime(path, (k, k))
    find()
    assert all(path.is_dir() for path in old)  # nothing goes while the own folder is there
    own.rmdir()
    find()
    assert [path for path in old if path.is_dir()] == old[-code_cache.KEPT :]
    # In turn: stated, the package's, the user's; nothing can be written below a file.
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "stated"))
    assert find().parent == PACKAGE / "__pycache__"
    monkeypatch.setattr(code_cache, "PACKAGE", tmp_path / "file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert find().parent == tmp_path / "user"
    monkeypatch.setattr(code_cache, "user_caches", lambda: None)
    assert find() is None


def test_what_loops_use_is_in_the_digest(tmp_path):
    """Each name that a loop takes from a module of the package is from one whose sources count."""
    wrong, n_loops = [], 0
    for path in sorted(PACKAGE.rglob("*.py")):
        content = path.read_text()
        room, counted = path.relative_to(PACKAGE).parts[0], "code_cache" in content
        if path.name == "code_cache.py" or ("numba" not in content and not counted):
            continue
        tree = ast.parse(content)
        sources = {
            alias.asname or alias.name: node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef):
                continue
            decorators = " ".join(map(ast.unparse, node.decorator_list))
            wrong += [f"{path}: {node.name}: a cache of Numba's own"] * ("cache=" in decorators)
            if not any(word in decorators for word in ("numba", "compiled", "overload")):
                continue
            n_loops += 1
            if room not in code_cache.ROOMS + code_cache.OTHER_ROOMS or not (
                counted or room in code_cache.ROOMS
            ):
                wrong.append(f"{path}: {node.name} is compiled, and its sources do not count")
            for name in {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}:
                module = (sources.get(name) or "").removeprefix("gpmcflow.")
                if module == (sources.get(name) or "") or "compiled" in name:
                    continue
                if module.split(".")[0] not in code_cache.ROOMS:
                    wrong.append(f"{path}: {node.name} uses {name} of {module}")
    assert not wrong
    assert n_loops > 60
    for room, kind in (("numerics", "a"), ("models", "compiled from code_cache")):
        (tmp_path / room).mkdir()
        (tmp_path / room / "one.py").write_text(kind)
    first = code_cache.sources_digest(tmp_path)
    (tmp_path / "models" / "one.py").write_text("compiled by code_cache")
    second = code_cache.sources_digest(tmp_path)
    (tmp_path / "models" / "two.py").write_text("no loops")
    assert first != second == code_cache.sources_digest(tmp_path)
    assert code_cache.sources_digest(tmp_path / "none") is None
