"""A tree that h5py reads is the one that xarray reads; what xarray interprets is left to it."""

from __future__ import annotations

import subprocess
import sys

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr

from gpmcflow.storage import load_results, write_results
from gpmcflow.storage.reading import plain_tree

TREE = {
    "/": xr.Dataset(attrs={"seed": 3, "words": ["a", "b"], "one": ["a"], "none": None}),
    "/posterior": xr.Dataset(
        {
            "theta": (("chain", "parameter"), np.array([[1.0, np.nan], [np.inf, -0.0]])),
            "half": ("chain", np.array([0.5, 0.25], np.float32)),
            "moved": ("chain", [True, False], {"of": "each", "shares": [0.5, 0.25], "n": 2}),
        },
        coords={
            "parameter": ["log length", "é"],
            "place": ("chain", ["north", "south"]),
            "file_row": ("chain", np.array([7, 9], np.int32)),
        },
    ),
    "/posterior/within": xr.Dataset({"x": (("chain", "k"), np.zeros((2, 0)))}),
    "/evidence": xr.Dataset({"value": -1.5, "by": "ep", "n": np.uint8(3), "sure": True}),
    "/empty": xr.Dataset({"words": ("k", np.array([], dtype=str))}),
}


def test_it_reads_what_xarray_reads(tmp_path):
    write_results(xr.DataTree.from_dict(TREE), tmp_path / "own.nc")
    with h5py.File(tmp_path / "own.nc") as file:
        own = plain_tree(file)
    expected = xr.load_datatree(tmp_path / "own.nc", engine="h5netcdf")
    assert own is not None
    assert own.identical(expected)
    for a, b in zip(own.subtree, expected.subtree, strict=True):
        assert (a.path, list(a.variables)) == (b.path, list(b.variables))
        assert {k: v.dtype for k, v in a.variables.items()} == {
            k: v.dtype for k, v in b.variables.items()
        }
        assert {k: type(v) for k, v in a.attrs.items()} == {k: type(v) for k, v in b.attrs.items()}


@pytest.mark.parametrize(
    "attributes",
    [
        {"scale_factor": 2.0},
        {"add_offset": 1.0},
        {"units": "days since 2020-01-01"},
        {"_FillValue": 1.0},
    ],
)
def test_what_xarray_interprets_it_does(tmp_path, attributes):
    tree = xr.DataTree.from_dict({"/group": xr.Dataset({"x": ("k", [0.0, 1.0])})})
    write_results(tree, tmp_path / "own.nc")
    (tmp_path / "own.nc.json").unlink()
    with h5py.File(tmp_path / "own.nc", "r+") as file:
        file["group/x"].attrs.update(attributes)
    expected = xr.load_datatree(tmp_path / "own.nc", engine="h5netcdf")["group/x"]
    loaded = load_results(tmp_path / "own.nc")["group/x"]
    assert loaded.identical(expected)
    assert not np.array_equal(loaded.values, [0.0, 1.0])


def test_times_and_dimensions_without_a_coordinate_are_read(tmp_path):
    days = np.array(["2020-01-01", "2020-03-01"], "datetime64[ns]")
    write_results(
        xr.DataTree.from_dict({"/a": xr.Dataset({"day": ("k", days)})}), tmp_path / "own.nc"
    )
    assert np.array_equal(load_results(tmp_path / "own.nc")["a/day"].values, days)
    with netCDF4.Dataset(tmp_path / "other.nc", "w") as file:
        file.creation_library = "gpmcflow"
        file.createDimension("k", 2)
        file.createVariable("x", "f8", ("k",))[:] = [1.0, 2.0]
    loaded = load_results(tmp_path / "other.nc")
    assert (loaded["x"].dims, loaded["x"].values.tolist()) == (("k",), [1.0, 2.0])


def test_a_file_is_loaded_without_arrays_of_dask(tmp_path):
    write_results(xr.DataTree.from_dict(TREE), tmp_path / "own.nc")
    code = (
        f"import sys; from gpmcflow.storage import load_results; load_results({str(tmp_path / 'own.nc')!r});"
        "print([m for m in ('dask.array', 'h5netcdf') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
