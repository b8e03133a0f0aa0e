"""Files from strangers: what a results file may be made of is checked before its numbers are read."""

from __future__ import annotations

import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

from gpmcflow.cli import main
from gpmcflow.covariances.text import MOST_TERMS
from gpmcflow.errors import StorageError
from gpmcflow.storage import load_results, open_results, write_results
from gpmcflow.storage.input_files import MOST_BYTES
from gpmcflow.storage.reading import (
    MOST_ATTRIBUTES,
    MOST_GROUPS,
    MOST_OBJECTS,
    MOST_TIMES,
    SMALL,
)


@pytest.fixture
def path(tmp_path):
    tree = xr.DataTree.from_dict(
        {
            "/posterior": xr.Dataset(
                {"x": (("chain", "draw"), np.arange(12.0).reshape(2, 6))},
                coords={"chain": [0, 1], "draw": np.arange(6)},
                attrs={"unit": "m"},
            ),
            "/evidence": xr.Dataset({"words": ("k", np.array(["a", "b"], dtype=object))}),
        }
    )
    write_results(tree, tmp_path / "own.nc")
    (tmp_path / "own.nc.json").unlink()  # as a file comes from elsewhere
    return tmp_path / "own.nc"


def external_array(file, folder):
    (folder / "secret").write_bytes(b"12345678" * 4)
    where = [(str(folder / "secret"), 0, 32)]
    file["posterior"].create_dataset("y", (4,), "f8", external=where)


def virtual_array(file, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["z"] = np.arange(4.0)
    layout = h5py.VirtualLayout((4,), "f8")
    layout[:] = h5py.VirtualSource(folder / "other.h5", "z", (4,))
    file["posterior"].create_virtual_dataset("y", layout)


def external_link(file, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["z"] = np.arange(4.0)
    file["posterior/y"] = h5py.ExternalLink(str(folder / "other.h5"), "/z")


def soft_link(file, folder):
    file["posterior/y"] = h5py.SoftLink("/posterior/x")


def ring(file, folder):
    file["posterior/again"] = file["posterior"]


def root_in_itself(file, folder):
    file["posterior/again"] = file["/"]


def named_type(file, folder):
    file["posterior/y"] = np.dtype("f8")


def other_filter(file, folder):
    file["posterior"].create_dataset("y", data=np.zeros(100), compression="lzf")


def deflate_twice(file, folder):
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_chunk((100,))
    layout.set_deflate(9)
    layout.set_deflate(9)
    space = h5py.h5s.create_simple((100,))
    h5py.h5d.create(file["posterior"].id, b"y", h5py.h5t.NATIVE_DOUBLE, space, layout)


def bomb(file, folder):
    """80 MB of zeros in a file of some kilobytes."""
    n = SMALL // 8 + 1
    file["posterior"].create_dataset("y", (n,), "f8", compression=9, chunks=(2**20,))


def promise(file, folder):
    file["posterior"].create_dataset("y", (10**6, 10**6), "f8", chunks=(1, 1))


def many_chunks(file, folder):
    file["posterior"].create_dataset("y", (2 * 10**6,), "i1", chunks=(1,))


def many_groups(file, folder):
    for k in range(MOST_GROUPS):
        file.create_group(f"g{k}")


def compound_array(file, folder):
    file["posterior"]["y"] = np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])


def references(file, folder):
    file["posterior"].create_dataset("y", (2,), h5py.ref_dtype)


def compound_attribute(file, folder):
    value = np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])
    file["posterior/x"].attrs.create("odd", value)


def empty_attribute(file, folder):
    file["posterior/x"].attrs.create("odd", h5py.Empty("f8"))


def array_without_a_shape(file, folder):
    file["posterior"]["y"] = h5py.Empty("f8")


def scale_of_text(file, folder):
    file["posterior/x"].attrs["scale_factor"] = "ten"


def coordinates_of_numbers(file, folder):
    file["posterior/x"].attrs["coordinates"] = 3


def many_attributes(file, folder):
    file["posterior"].attrs.update({f"a{k}": k for k in range(501)})


STRANGE = (
    *(external_array, virtual_array, external_link, soft_link, ring, root_in_itself, named_type),
    *(other_filter, deflate_twice, bomb, promise, many_chunks, many_groups, compound_array),
    *(
        array_without_a_shape,
        references,
        compound_attribute,
        empty_attribute,
        scale_of_text,
        coordinates_of_numbers,
    ),
    many_attributes,
)


@pytest.mark.parametrize("strange", STRANGE, ids=lambda change: change.__name__)
def test_a_strange_file_is_refused_in_one_line_and_at_once(strange, path, capsys):
    with h5py.File(path, "r+") as file:
        strange(file, path.parent)
    began = time.process_time()
    for read in (load_results, open_results):
        with pytest.raises(StorageError, match=r"own\.nc: holds .*none of it was read"):
            read(path)
    assert main(["show", str(path)]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert time.process_time() - began < 2.0


def test_what_a_user_does_to_an_own_file_is_read(path):
    """Compressed by other tools, with attributes and arrays added, and one group without arrays."""
    expected = load_results(path)["posterior/x"].values
    with h5py.File(path, "r+") as file:
        file["posterior"].create_dataset("y", data=np.zeros(5000), compression=9, shuffle=True)
        file["posterior"].attrs["names"] = ["a", "b"]
        file["posterior/x"].attrs["valid_range"] = np.array([0.0, 12.0])
        file.create_group("empty")
    assert np.array_equal(load_results(path)["posterior/x"].values, expected)
    with open_results(path) as tree:
        assert np.array_equal(tree["posterior/x"].values, expected)


def test_a_large_file_may_promise_a_hundred_times_its_bytes(path):
    assert MOST_TIMES * path.stat().st_size < SMALL
    with h5py.File(path, "r+") as file:
        file["posterior"].create_dataset("held", data=np.random.default_rng(1).random(10**6))
        file["posterior"].create_dataset("y", (10**8,), "i1", chunks=(10**6,), compression=1)
    assert load_results(path)["posterior/held"].size == 10**6


def test_attributes_that_xarray_cannot_make_sense_of_are_one_line(path):
    with h5py.File(path, "r+") as file:
        file["posterior/draw"].attrs["units"] = "days since the year 99999999999"
    with pytest.raises(StorageError, match="damaged"):
        load_results(path)


def test_the_limits_are_those_that_are_stated():
    stated = (Path(__file__).parents[2] / "SECURITY.md").read_text()
    for text in (
        f"more than {SMALL // 10**6} MB and more than {MOST_TIMES} times",
        f"more than {MOST_GROUPS} groups, {MOST_OBJECTS:,} arrays, or {MOST_ATTRIBUTES} attributes",
    ):
        assert text in stated
    assert f"at most {MOST_TERMS} terms" in stated
    assert f"at most {MOST_BYTES:,} characters" in stated
