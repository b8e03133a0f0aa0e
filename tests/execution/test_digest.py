from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dask.array as da
import numpy as np
import pytest

from gpmcflow.errors import InputError
from gpmcflow.execution import array_digest, code_digest, settings_digest
from gpmcflow.execution.code import code_of
from gpmcflow.jobs.study import load
from gpmcflow.pipeline import plan as plan_module
from gpmcflow.pipeline.config import check_config
from gpmcflow.pipeline.plan import Plan
from gpmcflow.pipeline.studies import STUDIES
from gpmcflow.storage import canonical_json
from gpmcflow.storage.input_files import load_yaml

ROOT = Path(__file__).parents[2]
CODE = '''"""Module."""
from gpmcflow.shapes.plane import PI
def area(radius: float) -> float:
    """Area."""
    from gpmcflow.late import times
    return times(PI, radius**2)  # roughly
class Empty:
    """Only this."""
'''
FILES = {
    "__init__": "from gpmcflow.other import nothing\n",
    "errors": "",
    "late": "def times(a, b): return a * b\n",
    "other": "from gpmcflow.shapes import perimeter\ndef nothing(): ...\n",
    "shapes/__init__": "from gpmcflow.shapes.plane import PI\nfrom gpmcflow.shapes.line import perimeter\n",
    "shapes/circle": CODE,
    "shapes/line": "from gpmcflow.errors import InputError\ndef perimeter(): ...\n",
    "shapes/plane": "PI = 3.14\n",
    "lazy/__init__": '_HOME = {"swift": "wings"}\n',
    "lazy/wings": "def swift(): ...\n",
    "lazy/feet": "def slow(): ...\n",
    "user": "from gpmcflow.lazy import swift\nfrom gpmcflow.shapes import PI\n",
}


def package(root: Path, **changed: str) -> Path:
    for name, text in FILES.items():
        path = root / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(changed.get(name.replace("/", "_"), text))
    return root


def test_code_digest_ignores_comments_docstrings_and_layout(tmp_path):
    other = CODE.replace("Module", "Other text").replace("Area.", "Longer.\n    More.")
    other = other.replace("# roughly", "# pi, roughly\n\n").replace("PI, ", "PI,")
    roots = package(tmp_path / "a"), package(tmp_path / "b", shapes_circle=other)
    digests = {code_digest("gpmcflow.shapes.circle:area", root=root) for root in roots}
    assert len(digests) == 1


@pytest.mark.parametrize(
    "change",
    [
        ("**2", "**3"),
        ("radius: float", "radius: int"),
        ("area", "surface"),
        ('"""Only', 'x = """'),
    ],
)
def test_code_digest_sees_code(tmp_path, change):
    roots = package(tmp_path / "a"), package(tmp_path / "b", shapes_circle=CODE.replace(*change))
    one, other = (code_digest("gpmcflow.shapes.circle", root=root) for root in roots)
    assert one != other


@pytest.mark.parametrize(
    ("entry", "reached"),
    [
        ("gpmcflow.shapes.circle:area", {"shapes/circle", "shapes/plane", "late"}),
        ("gpmcflow.other", {"other", "shapes/line"}),  # errors do no harm
        ("gpmcflow.user", {"user", "lazy/wings", "shapes/plane"}),
    ],
)
def test_code_is_what_imports_reach(tmp_path, entry, reached):
    """Through packages to the modules that names are from; a change there, and only there, is seen."""
    root = package(tmp_path)
    assert {path.removesuffix(".py") for path in code_of(entry, root=root)} == reached
    before = code_digest(entry, root=root)
    for name, text in FILES.items():
        (root / f"{name}.py").write_text(f"{text}more = 1\n")
        assert (code_digest(entry, root=root) != before) == (name in reached), name
        (root / f"{name}.py").write_text(text)


def test_code_of_the_package_reaches_its_models_and_not_its_figures():
    chains = set(code_of("gpmcflow.replications.split_hmc.runs:chains_job"))
    assert {"models/multinomial.py", "samplers/latent/hamiltonian.py",
            "execution/runner.py", "jobs/problems.py", "data/catalogue.py"} <= chains  # fmt: skip
    assert not [path for path in chains if path.startswith(("figures", "studies/rmhmc_ais", "cli"))]
    assert not [path for path in chains if path.endswith(("tables.py", "draw.py", "claims.py"))]
    with pytest.raises(InputError, match=r"no module gpmcflow\.executions"):
        code_digest("gpmcflow.executions")


def test_every_function_a_plan_names_is_there():
    """A name that no module has would be found when its job runs."""
    config = check_config(load_yaml(ROOT / "config" / "replications.yaml"), folder=ROOT)
    stages = Plan(config).stages
    assert len(stages) > 12
    assert all(callable(load(stage.entry)) for stage in stages)
    for study in STUDIES:
        named = ("costs", "answers", "readers", "tables")
        assert all(study.load(name) for name in named if getattr(study, name))


def test_a_plan_digests_the_code_of_those_stages_that_are_asked_for(monkeypatch):
    """A job's process parses the Snakefile again, and asks for its own stage alone; and for each once."""
    asked = []
    monkeypatch.setattr(plan_module, "code_digest", lambda *names: asked.append(names) or "digest")
    plan = Plan(check_config(load_yaml(ROOT / "config" / "replications.yaml"), folder=ROOT))
    functions = {stage.rule: plan.code(stage) for stage in plan.stages}
    assert not asked
    stage = plan.stages[0]
    assert [functions[stage.rule]({}) for _ in range(2)] == ["digest"] * 2
    assert asked == [(stage.entry, *stage.code)]


def test_no_code_is_parsed_twice(tmp_path):
    """Among the user's caches it is written down what became of which source."""
    here = {"cwd": tmp_path, "capture_output": True, "text": True, "check": True}
    here["env"] = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    code = "import sys; from gpmcflow.execution import code_digest;"
    first = subprocess.run(
        [sys.executable, "-c", f"{code} print(code_digest('gpmcflow.execution.runner'))"], **here
    ).stdout
    again = f"import ast; ast.parse = None; {code} print(code_digest('gpmcflow.execution.runner'))"
    assert subprocess.run([sys.executable, "-c", again], **here).stdout == first
    for damage in ("{", "[1, 2]"):
        (tmp_path / "gpmcflow" / "sources.json").write_text(damage)
        told = subprocess.run(
            [sys.executable, "-c", f"{code} print(code_digest('gpmcflow.execution.runner'))"],
            **here,
        )
        assert told.stdout == first


def test_code_digest_loads_nothing_heavy():
    code = (
        "import sys; from gpmcflow.execution import code_digest, settings_digest;"
        "code_digest('gpmcflow.execution.runner'); settings_digest({});"
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
