"""Loading executes nothing that a file contains: no pickle, no eval, YAML by the safe loader."""

from __future__ import annotations

import ast
import contextlib
import io
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from gpmcflow.cli import main
from gpmcflow.covariances.text import parse_covariance
from gpmcflow.errors import GpmcflowError, InputError, StorageError
from gpmcflow.execution.segment_files import fault, read_arrays, read_if_whole, write_arrays
from gpmcflow.monitor.status_diagnostics import array_headers
from gpmcflow.storage import load_results
from gpmcflow.storage.input_files import load_yaml

from . import valid

ROOT = valid.ROOT
OURS = sorted(
    {
        *ROOT.glob("gpmcflow/**/*.py"),
        *ROOT.glob("workflow/**/*.py"),
        *ROOT.glob("workflow/**/*.smk"),
    }
)
MODULES = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
CALLS = {
    *("eval", "exec", "compile", "__import__", "yaml.load", "yaml.load_all", "yaml.full_load"),
    *("yaml.unsafe_load", "pd.read_pickle", "pd.read_hdf", "pd.eval"),
    *("os.system", "os.popen", "subprocess.getoutput", "jinja2.Template"),
}


class Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple:
        return Path.touch, (self.marker,)


@pytest.fixture
def marker(tmp_path):
    """The file that a trap would make; the test fails if it is there in the end."""
    path = tmp_path / "marker"
    yield path
    assert not path.exists()


def test_the_trap_works(tmp_path):
    pickle.loads(pickle.dumps(Trap(tmp_path / "marker")))
    assert (tmp_path / "marker").exists()


def dotted(node: ast.AST) -> str:
    """The name of what is called, such as yaml.load."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return getattr(node, "id", "")


def unsafe(path: Path) -> Iterator[str]:
    """Yield what a module calls or imports that could execute what a file contains."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".smk":  # no Python by itself: looked for as words
        yield from (name for name in CALLS if f" {name}(" in text)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            name = dotted(node.func)
            if name in CALLS or given.get("shell", "False") != "False":
                yield name
            if (
                given.get("allow_pickle", str(name == "np.load")) != "False"
            ):  # np.load has to say it
                yield f"{name} with pickle"
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        yield from MODULES & {name.split(".")[0] for name in names}


def test_no_module_calls_what_executes():
    assert len(OURS) > 200
    calls = {path.relative_to(ROOT).as_posix(): list(unsafe(path)) for path in OURS}
    # compiled loops are code, and are loaded only from folders that nobody else can write to
    known = {"gpmcflow/numerics/code_cache.py": ["pickle"]}
    assert {path: names for path, names in calls.items() if names} == known


@pytest.mark.parametrize(
    "line",
    ["eval(x)", "np.load(x)", "np.load(x, allow_pickle=True)", "np.savez(x, allow_pickle=True)",
     "yaml.load(x)", "import pickle", "from pickle import loads", "run(x, shell=True)"],
)  # fmt: skip
def test_such_a_call_is_seen(tmp_path, line):
    (tmp_path / "module.py").write_text(f"{line}\n")
    assert list(unsafe(tmp_path / "module.py"))


YAML = [
    "!!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path [{marker}]]",
    "!!python/object/apply:os.system ['touch {marker}']",
    "!!python/object/new:os.system ['touch {marker}']",
    "!!python/name:os.system",
    "!!python/module:os",
    "!!python/tuple [1, 2]",
]


@pytest.mark.parametrize("text", YAML)
@pytest.mark.parametrize("where", ["{value}", "seed: {value}", "? {value}\n: 1"])
def test_tags_of_python_in_yaml_are_refused(tmp_path, marker, text, where):
    path = tmp_path / "mine.yaml"
    path.write_text(where.format(value=text.format(marker=marker)))
    with pytest.raises(InputError, match="could not determine a constructor") as error:
        load_yaml(path)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("command", ["check", "run"])
def test_templates_of_snakemake_in_a_config_are_refused_before_it_starts(
    tmp_path, marker, capsys, monkeypatch, command
):
    """Snakemake itself evaluates the expressions of a config with the key `__use_yte__`."""
    started = []
    monkeypatch.setattr("gpmcflow.pipeline.run.subprocess.Popen", lambda *a, **k: started.append(a))
    path = tmp_path / "mine.yaml"
    trap = f"?__import__('pathlib').Path({str(marker)!r}).touch()"
    analysis = valid.ANALYSIS.replace("seed: 3", f'seed: "{trap}"')
    path.write_text(f"__use_yte__: true\n{analysis}")
    valid.write_table(tmp_path)
    assert main([command, str(path)]) == 1
    assert "__use_yte__" in capsys.readouterr().err
    assert not started


TRICKS = [
    "__import__('os').system('touch {marker}')",
    "open('{marker}', 'w')",
    "eval('1')",
    "exec('1')",
    "().__class__.__bases__[0].__subclasses__()",
    "linear.__init__()",
    "linear().__class__",
    "gp.linear()",
    "(lambda: linear())()",
    "[linear() for _ in (1,)]",
    "{{linear(): 1}}",
    "linear() if True else linear()",
    "(x := linear())",
    "linear() @ linear()",
    "linear() - linear()",
    "linear() ** 9",
    "-linear()",
    "linear()[0]",
    "linear(*('a',))",
    "linear(**{{'sd': 1.0}})",
    "linear(sd=__import__('os').getpid())",
    "linear(sd=open('{marker}', 'w'))",
    "linear(sd=9**9**9)",
    "linear(sd=(1).__class__)",
    "linear(sd='{{0.__class__}}'.format(1))",
    "linear(sd=f'{{open(1)}}')",
    "linear(f'{{open(1)}}')",
    "linear(sd=prior.__globals__)",
    "linear(sd=prior('rv_frozen'))",
    "linear(sd=prior('__class__'))",
    "linear(sd=prior('norm', on='natural', __init__=1.0))",
    "linear(__class__=1)",
    "linear(columns=1)",
    "yield linear()",
    "await linear()",
    "import os",
    "linear(); linear()",
    "linear()\nimport os",
    "linear() # \nopen('{marker}', 'w')",
    "",
    "\x00",
]


@pytest.mark.parametrize("text", TRICKS)
def test_a_covariance_is_parsed_and_not_run(text, marker):
    with pytest.raises(GpmcflowError) as error:
        parse_covariance(text.format(marker=marker))
    assert len(str(error.value).splitlines()) == 1


def test_no_object_of_a_segment_is_unpickled(tmp_path, marker):
    path = tmp_path / "segment_00000.npz"
    array = np.array([Trap(marker)], dtype=object)
    header = np.array([valid.IDENTITY, "array:x"])
    np.savez(path, allow_pickle=True, **{"identity": header, "array:x": array})
    with pytest.raises(StorageError, match="allow_pickle"):
        read_arrays(path)
    arrays, why = read_if_whole(path, valid.IDENTITY)
    assert arrays == {}
    assert "allow_pickle" in why
    fault(path, valid.IDENTITY)
    array_headers(path)


def test_a_compressed_segment_is_refused(tmp_path):
    """The package writes none; a small one could fill the memory."""
    path = tmp_path / "segment_00000.npz"
    write_arrays(path, {"x": np.zeros(1000)}, valid.IDENTITY)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(StorageError, match="compressed"):
        read_arrays(path)
    assert "compressed" in fault(path, valid.IDENTITY)


def test_no_object_of_a_results_file_is_unpickled(tmp_path, marker):
    path = tmp_path / "results.nc"
    path.write_bytes(valid.results_file())
    trap = pickle.dumps(Trap(marker), protocol=0)
    with h5py.File(path, "a") as file:
        file.attrs["python_object"] = np.void(trap)
        file.attrs["text"] = trap
        file["opaque"] = np.void(trap)
        file.create_dataset("bytes", data=[trap], dtype=h5py.special_dtype(vlen=bytes))
    with contextlib.suppress(StorageError):
        load_results(path)


def test_a_plain_pickle_is_no_results_file(tmp_path, marker):
    path = tmp_path / "results.nc"
    stream = io.BytesIO()
    pickle.dump(Trap(marker), stream)
    path.write_bytes(stream.getvalue())
    with pytest.raises(StorageError, match="not a NetCDF-4 file"):
        load_results(path)
