from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import weakref
from pathlib import Path

import arviz_base
import arviz_stats
import dask
import dask.array as da
import netCDF4
import numpy as np
import pytest
import xarray as xr

from gpmcflow.errors import InputError, StorageError
from gpmcflow.storage import (
    atomic,
    load_results,
    open_results,
    standard_attributes,
    write_results,
    writing,
)


def make_tree(chunks=None) -> xr.DataTree:
    rng = np.random.default_rng(1)
    arrays = {
        "x": (("chain", "draw", "x_dim"), rng.standard_normal((5, 70, 3))),
        "lp": (("chain", "draw"), rng.standard_normal((5, 70)).astype(np.float32)),
        "diverging": (("chain", "draw"), rng.random((5, 70)) < 0.1),
    }
    if chunks is not None:
        arrays = {
            name: (dims, da.from_array(values, chunks=(*chunks, 3)[: values.ndim], name=False))
            for name, (dims, values) in arrays.items()
        }
    attributes = standard_attributes(
        settings={"step": 0.5, "mass": None}, seed=3, data_checksum="a"
    )
    return xr.DataTree.from_dict(
        {
            "/": xr.Dataset(attrs=attributes),
            "/posterior": xr.Dataset({"x": arrays["x"]}, attrs=attributes),
            "/sample_stats": xr.Dataset({name: arrays[name] for name in ("lp", "diverging")}),
            "/evidence": xr.Dataset(
                {"log_evidence": ("method", [-1.5, np.nan], {"unit": "nat", "b": 1, "a": True})},
                coords={"method": np.array(["ais", "smc"], dtype=object)},
            ),
        }
    )


def checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def left(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("chunks", [None, (5, 70), (2, 30)])
def test_round_trip(tmp_path, chunks):
    path = tmp_path / "new" / "r.nc"
    write_results(make_tree(chunks), path)
    assert left(path.parent) == ["r.nc", "r.nc.json"]
    plain = make_tree()
    for read in (load_results, open_results):
        with read(path) as tree:
            assert set(tree.children) == {"posterior", "sample_stats", "evidence"}
            for name in ("posterior/x", "sample_stats/lp", "sample_stats/diverging"):
                np.testing.assert_array_equal(tree[name], plain[name])
                assert tree[name].dtype == plain[name].dtype
                assert tree[name].dims == plain[name].dims
            assert tree["evidence/method"].values.tolist() == ["ais", "smc"]
            np.testing.assert_array_equal(tree["posterior/draw"], np.arange(70))
            assert tree["posterior"].attrs["seed"] == 3
            assert json.loads(tree.attrs["settings"]) == {"step": 0.5, "mass": None}
            assert tree["evidence/log_evidence"].attrs == {"a": "true", "b": 1, "unit": "nat"}
            if read is open_results and chunks:
                assert tree["posterior/x"].chunksizes["draw"][0] == chunks[1]
    write_results(load_results(path), path)
    assert load_results(path)["posterior"].identical(tree["posterior"].load())


def test_the_tree_given_is_left_as_it_is(tmp_path):
    tree, same = make_tree(), make_tree()
    write_results(tree, tmp_path / "r.nc")
    assert tree.identical(same)
    assert list(tree["evidence/log_evidence"].attrs) == ["unit", "b", "a"]
    assert tree["evidence/method"].dtype == object


@pytest.mark.parametrize("chunks", [None, (2, 30)])
def test_two_writes_have_the_same_bytes(tmp_path, chunks):
    first, second = tmp_path / "a.nc", tmp_path / "b.nc"
    write_results(make_tree(chunks), first)
    time.sleep(1.1)
    tree = make_tree(chunks)
    tree.attrs = dict(reversed(tree.attrs.items()))
    # Other task names give Dask another order; what used to be in memory must not show either.
    junk = [np.full(100_000, k) for k in range(50)]
    del junk
    write_results(tree, second)
    assert checksum(first) == checksum(second)


def test_a_process_of_its_own_writes_the_same_bytes(tmp_path):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from test_results import *;"
        "write_results(make_tree((2, 30)), sys.argv[2])"
    )
    paths = [tmp_path / "a.nc", tmp_path / "b.nc"]
    for path, seed in zip(paths, "12", strict=True):
        subprocess.run(
            [sys.executable, "-c", code, str(Path(__file__).parent), str(path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
        )
    assert checksum(paths[0]) == checksum(paths[1])


def test_no_clock_host_or_path_inside(tmp_path):
    path = tmp_path / "r.nc"
    write_results(make_tree(), path, sidecar={"seconds": 1.5})
    data = path.read_bytes()
    sidecar = json.loads((tmp_path / "r.nc.json").read_text())
    assert sidecar["seconds"] == 1.5
    assert {"numpy", "scipy", "xarray", "dask", "python"} <= set(sidecar["versions"])
    for word in (sidecar["host"], str(tmp_path), sidecar["written_at"][:10]):
        assert len(word) < 4 or word.encode() not in data  # a host called "vm" could be anywhere


def test_netcdf4_python_reads_it(tmp_path):
    path = tmp_path / "r.nc"
    write_results(make_tree((2, 30)), path)
    plain = make_tree()
    with netCDF4.Dataset(path) as file:
        assert list(file.groups) == ["posterior", "sample_stats", "evidence"]
        x = file["posterior"]["x"]
        np.testing.assert_array_equal(x[:], plain["posterior/x"])
        assert x.dimensions == ("chain", "draw", "x_dim")
        assert x.chunking() == [2, 30, 3]
        flags = file["sample_stats"]["diverging"]
        assert flags.dtype == np.int8
        np.testing.assert_array_equal(flags[:], plain["sample_stats/diverging"])
        assert file["evidence"]["method"][:].tolist() == ["ais", "smc"]
        assert file["posterior"].sample_dims == ["chain", "draw"]
        assert file.creation_library == "gpmcflow"


def test_arviz_reads_it(tmp_path):
    path = tmp_path / "r.nc"
    write_results(make_tree((2, 30)), path)
    for tree in (load_results(path), arviz_base.convert_to_datatree(str(path))):
        for function in (arviz_stats.ess, arviz_stats.rhat):
            expected = function(make_tree()["posterior"].to_dataset())["x"]
            np.testing.assert_allclose(function(tree)["x"], expected)


def test_chunks_are_streamed(tmp_path):
    alive: list[weakref.ref] = []
    most = 0

    def make(block_info=None):
        nonlocal most
        chunk = np.full((1, 100, 50), float(len(alive)))
        alive.append(weakref.ref(chunk))
        most = max(most, sum(ref() is not None for ref in alive))
        return chunk

    x = da.map_blocks(make, chunks=((1,) * 8, (100,) * 20, (50,)), dtype=float, meta=np.empty(0))
    with dask.config.set(scheduler="threads"):  # is not used
        write_results(
            xr.DataTree.from_dict({"/posterior": xr.Dataset({"x": (("chain", "draw", "d"), x)})}),
            tmp_path / "r.nc",
        )
    assert len(alive) == 160
    assert most <= 3
    assert load_results(tmp_path / "r.nc")["posterior/x"].shape == (8, 2000, 50)


def test_a_graph_shared_by_variables_runs_once(tmp_path):
    calls = []

    @dask.delayed
    def both():
        calls.append(1)
        return np.ones((2, 3))

    shared = both()
    arrays = [da.from_delayed(shared * k, (2, 3), dtype=float) for k in (1, 2)]
    data = {f"x{k}": (("chain", "draw"), array) for k, array in enumerate(arrays)}
    write_results(xr.DataTree.from_dict({"/posterior": xr.Dataset(data)}), tmp_path / "r.nc")
    assert len(calls) == 1
    assert load_results(tmp_path / "r.nc")["posterior/x1"].values.tolist() == [[2.0] * 3] * 2


def test_inherited_coordinates_are_written_once(tmp_path):
    root = xr.Dataset(coords={"case": [10, 20, 30]})
    group = xr.Dataset({"y": ("case", [1, 2, 3])})
    write_results(xr.DataTree.from_dict({"/": root, "/observed_data": group}), tmp_path / "r.nc")
    tree = load_results(tmp_path / "r.nc")
    assert tree["observed_data/case"].values.tolist() == [10, 20, 30]
    assert "case" not in tree["observed_data"].to_dataset(inherit=False)


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        (("x", np.array([1, "a"], dtype=object)), "/g/v: values of type object"),
        (("x", np.array([1, 2j])), "complex128"),
        (("x", np.array([1, 2], dtype=np.float16)), "float16"),
        (("x", np.array([1, 2], dtype=np.longdouble)), "float128|longdouble|float64x"),
        (("x", [1.0, 2.0], {"when": object()}), "/g/v: attribute 'when': builtins.object"),
        (("x", [1.0, 2.0], {"bad": {"a": Path("x")}}), "attribute 'bad'.*Path"),
    ],
)
def test_what_cannot_be_stored_is_refused(tmp_path, variable, message):
    tree = xr.DataTree.from_dict({"/g": xr.Dataset({"v": variable})})
    with pytest.raises(InputError, match=message) as error:
        write_results(tree, tmp_path / "r.nc")
    assert "\n" not in str(error.value)
    assert left(tmp_path) == []


def test_not_a_tree_or_not_ours(tmp_path):
    with pytest.raises(InputError, match=r"expected xarray\.DataTree"):
        write_results(xr.Dataset(), tmp_path / "r.nc")
    tree = xr.DataTree(xr.Dataset(attrs={"creation_library": "other"}))
    with pytest.raises(InputError, match="'creation_library' is 'other'"):
        write_results(tree, tmp_path / "r.nc")


def test_standard_attributes():
    attributes = standard_attributes(
        settings={"b": 1, "a": [1.5]}, seed=np.int64(7), data_checksum="sha256:ab", name="pima"
    )
    assert list(attributes) == sorted(attributes)
    assert attributes["settings"] == '{"a":[1.5],"b":1}'
    assert attributes["seed"] == 7
    assert attributes["inference_library"] == attributes["creation_library"] == "gpmcflow"
    assert attributes["sample_dims"] == ["chain", "draw"]
    assert attributes["name"] == "pima"
    with pytest.raises(InputError, match="set is not a plain value"):
        standard_attributes(settings={"a": {1}}, seed=1, data_checksum="")


def one_line(error) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("read", [open_results, load_results])
def test_missing_foreign_and_truncated_files(tmp_path, read):
    path = tmp_path / "r.nc"
    with pytest.raises(StorageError, match="no such file") as error:
        read(path)
    assert str(path) in one_line(error)
    with pytest.raises(StorageError, match="it is a folder"):
        read(tmp_path)
    for content in (b"", b"chain,draw,x\n0,0,1.5\n"):
        path.write_bytes(content)
        with pytest.raises(StorageError, match="not a NetCDF-4 file") as error:
            read(path)
        one_line(error)
    xr.Dataset({"x": 1.0}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(StorageError, match="not written by gpmcflow") as error:
        read(path)
    assert "None" in one_line(error)


@pytest.mark.parametrize("read", [open_results, load_results])
@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
def test_truncated_files(tmp_path, read, keep):
    path = tmp_path / "r.nc"
    write_results(make_tree((2, 30)), path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(StorageError, match=r"truncated.*delete it and run again") as error:
        read(path)
    assert str(path) in one_line(error)


@pytest.mark.parametrize(
    ("number", "message"),
    [(28, "the disk is full"), (30, "the folder is read-only"), (13, "permission denied")],
)
@pytest.mark.parametrize("function", ["replace", "fsync", "pwrite", "open"])
def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch, number, message, function):
    path = tmp_path / "r.nc"
    write_results(make_tree(), path)
    before = checksum(path)

    def fail(*_):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(atomic.os, function, fail)
        with pytest.raises(StorageError, match=message) as error:
            write_results(make_tree((2, 30)), path, sidecar={})
    assert str(path) in one_line(error)
    assert left(tmp_path) == ["r.nc", "r.nc.json"]
    assert checksum(path) == before


@pytest.mark.parametrize("after", [0, 1, 5, 20, 40])
def test_hdf5_survives_a_write_that_fails_at_any_point(tmp_path, monkeypatch, after):
    real, calls = os.pwrite, []

    def fail(*arguments):
        calls.append(1)
        if len(calls) > after:
            raise OSError(28, "No space left on device")
        return real(*arguments)

    for chunks in (None, (2, 30)):
        with monkeypatch.context() as patch:
            calls.clear()
            patch.setattr(os, "pwrite", fail)
            with pytest.raises(StorageError, match="the disk is full"):
                write_results(make_tree(chunks), tmp_path / "r.nc")
        assert left(tmp_path) == []
    write_results(make_tree((2, 30)), tmp_path / "r.nc")  # HDF5 is still of use
    np.testing.assert_array_equal(
        load_results(tmp_path / "r.nc")["posterior/x"], make_tree()["posterior/x"]
    )


LIMITED = """
import resource, sys
sys.path.insert(0, sys.argv[1])
from test_results import *
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
for chunks in (None, (2, 30)) * 2:
    try:
        write_results(make_tree(chunks), sys.argv[2])
    except StorageError as error:
        print(error)
"""


def test_a_file_that_may_not_grow(tmp_path):
    here = str(Path(__file__).parent)
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, here, str(tmp_path / "r.nc")],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr  # HDF5 alone ends here with a segmentation fault
    assert run.stdout.count("larger than this system allows") == 4
    assert left(tmp_path) == []


def test_space_is_asked_for_before_anything_is_written(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=1_000_000)
    monkeypatch.setattr(writing.shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr(writing, "Sink", None)
    with pytest.raises(StorageError, match=r"needs 1\.01 MB and the disk has 1 MB free") as error:
        write_results(make_tree(), tmp_path / "r.nc")
    one_line(error)
    assert left(tmp_path) == []


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from test_results import *
write = os.pwrite
def killed(descriptor, data, offset):
    if offset > 15_000:
        os.kill(os.getpid(), signal.SIGKILL)
    return write(descriptor, data, offset)
os.pwrite = killed
write_results(make_tree((2, 30)), sys.argv[2])
"""


def test_killed_in_the_middle_of_a_write(tmp_path):
    path = tmp_path / "r.nc"
    write_results(make_tree(), path)
    before = checksum(path)
    here = str(Path(__file__).parent)
    killed = subprocess.run([sys.executable, "-c", KILLED, here, str(path)])
    assert killed.returncode == -9
    assert checksum(path) == before
    assert len(left(tmp_path)) == 3  # the file, its sidecar, and what the killed write left
    write_results(make_tree((2, 30)), path)
    assert left(tmp_path) == ["r.nc", "r.nc.json"]
    load_results(path)


def test_an_error_in_the_graph_comes_out_as_it_is(tmp_path):
    def fail():
        raise ZeroDivisionError("in the sampler")

    x = da.from_delayed(dask.delayed(fail)(), (2, 3), dtype=float)
    tree = xr.DataTree.from_dict({"/posterior": xr.Dataset({"x": (("chain", "draw"), x)})})
    with pytest.raises(ZeroDivisionError):
        write_results(tree, tmp_path / "r.nc")
    assert left(tmp_path) == []
