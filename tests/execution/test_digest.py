from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dask.array as da
import numpy as np
import pytest

from gpmcflow.errors import InputError
from gpmcflow.execution import array_digest, canonical_json, code_digest, settings_digest

CODE = '''"""Module."""
def area(radius: float) -> float:
    """Area."""
    return 3.14 * radius**2  # roughly
class Empty:
    """Only this."""
'''


def package(root: Path, code: str) -> Path:
    (root / "shapes").mkdir(parents=True)
    (root / "shapes" / "circle.py").write_text(code)
    (root / "single.py").write_text(code)
    return root


def test_code_digest_ignores_comments_docstrings_and_layout(tmp_path):
    plain = package(tmp_path / "a", CODE)
    other = CODE.replace("Module", "Other text").replace("Area.", "Longer.\n    More.")
    other = other.replace("# roughly", "# pi, roughly\n\n").replace("3.14 *", "3.14*")
    same = package(tmp_path / "b", other)
    for name in ("shapes", "single", "shapes.circle"):
        assert code_digest(name, root=plain) == code_digest(name, root=same)


@pytest.mark.parametrize(
    "change",
    [
        ("3.14", "3.1416"),
        ("radius: float", "radius: int"),
        ("area", "surface"),
        ('"""Only', 'x = """'),
    ],
)
def test_code_digest_sees_code(tmp_path, change):
    plain = package(tmp_path / "a", CODE)
    changed = package(tmp_path / "b", CODE.replace(*change))
    assert code_digest("shapes", root=plain) != code_digest("shapes", root=changed)


def test_code_digest_sees_files_and_their_names(tmp_path):
    root = package(tmp_path / "a", CODE)
    before = code_digest("shapes", "single", root=root)
    assert before == code_digest("single", "shapes", root=root)
    (root / "shapes" / "circle.py").rename(root / "shapes" / "disc.py")
    renamed = code_digest("shapes", "single", root=root)
    (root / "shapes" / "new.py").write_text("")
    assert len({before, renamed, code_digest("shapes", "single", root=root)}) == 3


def test_code_digest_of_the_package():
    assert code_digest("execution") != code_digest("storage")
    with pytest.raises(InputError, match="did you mean 'execution'"):
        code_digest("executions")


def test_no_code_is_parsed_twice(tmp_path):
    """Beside Snakemake's notes it is written down what became of which source."""
    (tmp_path / ".snakemake").mkdir()
    here = {"cwd": tmp_path, "capture_output": True, "text": True, "check": True}
    code = "import sys; from gpmcflow.execution import code_digest;"
    first = subprocess.run(
        [sys.executable, "-c", f"{code} print(code_digest('execution'))"], **here
    ).stdout
    again = f"import ast; ast.parse = None; {code} print(code_digest('execution'))"
    assert subprocess.run([sys.executable, "-c", again], **here).stdout == first
    for damage in ("{", "[1, 2]"):
        (tmp_path / ".snakemake" / "gpmcflow_code.json").write_text(damage)
        told = subprocess.run(
            [sys.executable, "-c", f"{code} print(code_digest('execution'))"], **here
        )
        assert told.stdout == first


def test_code_digest_loads_nothing_heavy():
    code = (
        "import sys; from gpmcflow.execution import code_digest, settings_digest;"
        "code_digest('execution'); settings_digest({});"
        "print([m for m in ('numpy', 'dask', 'xarray', 'scipy') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_settings_digest():
    settings = {"b": [1, 2.5, None], "a": {"x": True, "text": "é"}}
    assert canonical_json(settings) == '{"a":{"text":"é","x":true},"b":[1,2.5,null]}'
    reordered = {"a": {"text": "é", "x": True}, "b": [1, 2.5, None]}
    assert settings_digest(settings) == settings_digest(reordered)
    assert settings_digest({"a": 1}) != settings_digest({"a": True})
    assert settings_digest({"a": [1, 2]}) != settings_digest({"a": [2, 1]})


@pytest.mark.parametrize(
    "value",
    [
        np.int64(1),
        np.float64(1.0),
        np.ones(2),
        (1, 2),
        {1, 2},
        Path("x"),
        float("nan"),
        float("inf"),
    ],
)
def test_settings_digest_refuses(value):
    with pytest.raises(InputError, match=r"settings\.chains\[1\]") as error:
        settings_digest({"chains": [0, value]})
    assert "\n" not in str(error.value)


def test_settings_digest_refuses_keys():
    with pytest.raises(InputError, match="key 1 is not a str"):
        settings_digest({1: "a"})


def test_array_digest():
    x = np.arange(12.0).reshape(3, 4)
    digest = array_digest({"x": x, "n": np.arange(3)})
    assert digest == array_digest({"n": np.arange(3), "x": np.asfortranarray(x)})
    assert digest == array_digest({"n": np.arange(3), "x": da.from_array(x, chunks=2)})
    one_bit = x.copy()
    one_bit[1, 1] = np.nextafter(5, 6)
    others = [one_bit, x.astype(np.float32), x.reshape(4, 3), x.T]
    assert digest not in [array_digest({"x": other, "n": np.arange(3)}) for other in others]
    assert digest != array_digest({"y": x, "n": np.arange(3)})
    with pytest.raises(InputError, match="Python objects"):
        array_digest({"x": np.array([object()])})
