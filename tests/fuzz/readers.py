"""Every reader of files that others wrote: what it is given, and how it reads that."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import h5py
import numpy as np
import yaml
from hypothesis import strategies as st

from gpmcflow.analysis.page import build_page
from gpmcflow.analysis.reading import prepare
from gpmcflow.covariances.text import parse_covariance
from gpmcflow.data import load_csv
from gpmcflow.data.own_table import encode_new, prepare_table
from gpmcflow.errors import InputErrors
from gpmcflow.execution.segment_files import fault, read_arrays, read_if_whole
from gpmcflow.execution.state_folder import Ledger
from gpmcflow.jobs.stated_models import check_models
from gpmcflow.monitor.clean import state_table, unneeded_state
from gpmcflow.monitor.status import job_statuses, status_table
from gpmcflow.monitor.status_diagnostics import partial_results
from gpmcflow.pipeline import config as config_module
from gpmcflow.pipeline.config import check_config
from gpmcflow.pipeline.new import new
from gpmcflow.replications.parts import PUBLISHED, rebuild
from gpmcflow.run_page.page import build_report
from gpmcflow.storage import load_results, open_results
from gpmcflow.storage import read_csv as read_report_table
from gpmcflow.storage.input_files import load_yaml

from . import valid
from .mutations import changed_bytes, changed_text, changed_values

sys.path.insert(0, str(valid.ROOT / "tests"))
from analysis.made_up import MADE

_load_schema = functools.cache(config_module.load_schema)  # half a second each time


class Reader(NamedTuple):
    """Inputs of a reader, and the function (input, folder of its own) that reads one."""

    inputs: st.SearchStrategy
    read: Callable[[Any, Path], Any]


def _read_config(content: Any, folder: Path) -> None:
    path = folder / "mine.yaml"
    if not isinstance(content, bytes):
        content = yaml.safe_dump(content, allow_unicode=True).encode("utf-8", "surrogatepass")
    path.write_bytes(content)
    valid.write_table(folder)
    with mock.patch.object(config_module, "load_schema", _load_schema):
        config = check_config(load_yaml(path), where="mine.yaml", folder=folder, path=path)
    check_models(config, where="mine.yaml")


def _read_table(value: tuple[int, bytes], folder: Path) -> None:
    place, content = value
    (folder / "table.csv").write_bytes(content)
    os.chdir(folder)
    target = valid.TARGETS[place]
    new("table.csv", target, force=True)
    settings = load_yaml("table.yaml")["data"]
    prepare_table(settings, folder)


def _read_table_as_stated(value: tuple[bytes, Any], folder: Path) -> None:
    content, settings = value
    (folder / "table.csv").write_bytes(content)
    valid.write_table(folder)
    config = {"data": settings, "models": {"slopes": {"covariance": "linear()"}}}
    with mock.patch.object(config_module, "load_schema", _load_schema):
        problems = config_module.config_problems(config, path=folder / "mine.yaml")
    if problems:
        raise InputErrors(problems)
    prepare("mine", config, folder, 1, "data")


def _read_study_table(content: bytes, folder: Path) -> None:
    (folder / "table.csv").write_bytes(content)
    load_csv(folder / "table.csv", "price", task="regression", test_fraction=0.25)


def _read_new_rows(content: bytes, folder: Path) -> None:
    (folder / "new.csv").write_bytes(content)
    encode_new(valid.encoding(), folder / "new.csv")


def _read_areas(value: tuple[str, Any], folder: Path) -> None:
    name, content = value
    if not isinstance(content, bytes):
        content = json.dumps(content, default=str).encode()
    files = {"towns.csv": valid.AREAS, "map.geojson": json.dumps(valid.MAP)}
    files |= {"pairs.csv": valid.NEIGHBOURS, "tree.csv": valid.CORRELATION}
    for each, whole in files.items():
        (folder / each).write_text(whole)
    (folder / name).write_bytes(content)
    settings = {"csv": "towns.csv", "target": "cases", "groups": ["town"]}
    if name == "map.geojson":
        os.chdir(folder)
        new("towns.csv", "cases", area_map=name, force=True)
        settings["map"] = name
    else:
        key = "graphs" if name == "pairs.csv" else "correlations"
        settings[key] = {"own": name}
    prepare_table(settings, folder)


def _read_covariance(value: tuple[str, Any], folder: Path) -> None:
    text, priors = value
    repr(parse_covariance(text, priors))


def _read_results(content: bytes, folder: Path) -> None:
    path = folder / "results.nc"
    path.write_bytes(content)
    load_results(path)
    with open_results(path) as tree:
        repr(tree)


_STRANGE = (
    "soft",
    "external link",
    "external",
    "virtual",
    "filter",
    "promise",
    "attribute",
    "twice",
)
_THINGS = ("/", "/posterior", "/posterior/x", "/posterior/chain", "/evidence/log_evidence")
_ATTRIBUTES = (
    "scale_factor",
    "add_offset",
    "_FillValue",
    "coordinates",
    "dtype",
    "units",
    "calendar",
)
_ATTRIBUTES += ("DIMENSION_LIST", "_Netcdf4Dimid", "CLASS", "creation_library", "settings", "odd")
_VALUES = (
    *("days since 0000-13-45", "x", b"\xff", "", 1e308, float("nan"), -1, 2**63 - 1, [1, 2], ["a"]),
    *(
        "bool",
        "a" * 70_000,
        h5py.Empty("f8"),
        np.zeros((2, 2)),
        np.array([(1, 2.0)], "i4,f8"),
        1 + 2j,
    ),
)


def _read_structure(changes: list[tuple[str, int, int, int]], folder: Path) -> None:
    """Change the structure of a whole file by HDF5 itself, then read it."""
    path, other = folder / "results.nc", folder / "other.h5"
    path.write_bytes(valid.results_file())
    with h5py.File(other, "w") as file:
        file["z"] = np.arange(4.0)
    with h5py.File(path, "a") as file:
        for k, (kind, thing, value, size) in enumerate(changes):
            with contextlib.suppress(TypeError, ValueError, KeyError, OSError, RuntimeError):
                _change_structure(file, kind, f"new{k}", _at(_THINGS, thing), value, size)
    try:
        load_results(path)
    finally:
        with open_results(path) as tree:
            repr(tree)


def _at(values: Sequence[Any], place: int) -> Any:
    return values[place % len(values)]


def _change_structure(
    file: h5py.File, kind: str, name: str, thing: str, value: int, size: int
) -> None:
    group = file["posterior"]
    if kind == "soft":
        group[name] = h5py.SoftLink(thing)
    elif kind == "external link":
        group[name] = h5py.ExternalLink("other.h5", "/z")
    elif kind == "external":
        group.create_dataset(name, (4,), "f8", external=[("other.h5", value % 100, 32)])
    elif kind == "virtual":
        layout = h5py.VirtualLayout((4,), "f8")
        layout[:] = h5py.VirtualSource("other.h5", "z", (4,))
        group.create_virtual_dataset(name, layout)
    elif kind == "filter":
        how = _at(("gzip", "lzf"), value)
        group.create_dataset(name, (size,), "f8", compression=how, shuffle=bool(value % 3))
    elif kind == "promise":
        group.create_dataset(
            name, (size, size), _at(("f8", "i1", "S9"), value), chunks=(1, 1 + value)
        )
    elif kind == "attribute":
        file[thing].attrs[_at(_ATTRIBUTES, size)] = _at(_VALUES, value)
    else:
        group[name] = file[thing]


def _read_segment(content: bytes, folder: Path) -> None:
    path = folder / "segment_00000.npz"
    path.write_bytes(content)
    fault(path, valid.IDENTITY)
    read_if_whole(path, valid.IDENTITY)
    read_arrays(path)


def _read_state(value: tuple[str, Any], folder: Path) -> None:
    name, content = value
    state = folder / "results" / ".state" / "0123"
    for path, whole in valid.state_files().items():
        file = state / path
        if not file.exists() or file.read_bytes() != whole:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(whole)
    if not isinstance(content, bytes):
        content = json.dumps(content, default=str).encode()
    (state / name).write_bytes(content)
    status_table(job_statuses(folder / "results"))
    state_table(unneeded_state(folder / "results"))
    Ledger(state).read()
    partial_results(state).load()


def _read_parts(value: tuple[str, int, Any], folder: Path) -> None:
    study, changed, content = value
    if not isinstance(content, bytes):
        content = json.dumps(content, default=str).encode()
    lines = [content if k == changed else line for k, line in enumerate(valid.parts()[study])]
    table = folder / "parts.jsonl"
    table.write_bytes(b"\n".join(lines))
    rebuild(study, table, PUBLISHED / f"{study}.yaml")


def _read_report_tables(value: tuple[str, bytes], folder: Path) -> None:
    name, content = value
    path = folder / f"{name}.csv"
    path.write_bytes(content)
    read_report_table(path)
    study = {"title": "t", "frames": {name: str(path)}, "figures": []}
    build_report({"rmhmc_ais": study}, title="t")


def _read_page_tables(value: tuple[str, str, bytes], folder: Path) -> None:
    name, table, content = value
    place = folder / name
    info, tables = MADE[name]()
    for each, frame in tables.items():
        if not (place / f"{each}.csv").exists():
            place.mkdir(exist_ok=True)
            frame.to_csv(place / f"{each}.csv", index=False)
    try:
        (place / f"{table}.csv").write_bytes(content)
        build_page(place, info)
    finally:
        tables[table].to_csv(place / f"{table}.csv", index=False)


@st.composite
def _files(draw, files: dict[str, bytes]) -> tuple[str, Any]:
    """Name of one of the files, and its content, changed; of JSON also as values."""
    kinds = [[name for name in files if name.endswith(".json")], list(files)]
    name = draw(st.sampled_from(draw(st.sampled_from([kind for kind in kinds if kind]))))
    changed = changed_bytes([files[name]])
    if name.endswith(".json"):
        changed |= changed_values([json.loads(files[name])])
    return name, draw(changed)


def _areas() -> st.SearchStrategy:
    tables = {"pairs.csv": valid.NEIGHBOURS, "tree.csv": valid.CORRELATION}
    changed = [
        st.tuples(st.just(name), changed_bytes([text.encode()])) for name, text in tables.items()
    ]
    whole = json.dumps(valid.MAP).encode()
    maps = changed_bytes([whole]) | changed_values([valid.MAP])
    return st.one_of(*changed, st.tuples(st.just("map.geojson"), maps))


@st.composite
def _parts(draw) -> tuple[str, int, Any]:
    """A study, the number of one of its kept rows, and that row, changed as bytes or as values."""
    study, lines = draw(st.sampled_from(sorted(valid.parts().items())))
    k = draw(st.integers(0, len(lines) - 1))
    return study, k, draw(changed_bytes([lines[k]]) | changed_values([json.loads(lines[k])]))


@st.composite
def _page_tables(draw) -> tuple[str, str, bytes]:
    name = draw(st.sampled_from(sorted(MADE)))
    _, tables = MADE[name]()
    table = draw(st.sampled_from(sorted(tables)))
    return name, table, draw(changed_bytes([tables[table].to_csv(index=False).encode()]))


def _tables() -> st.SearchStrategy:
    utf_8 = [st.tuples(st.just(k), changed_bytes([t.encode()])) for k, t in enumerate(valid.TABLES)]
    others = ((1, "cp1252"), (0, "utf-16"), (1, "utf-8-sig"))
    other = st.sampled_from([(k, valid.TABLES[k].encode(code)) for k, code in others])
    return st.one_of(*utf_8, other)


def _stated() -> st.SearchStrategy:
    table, settings = valid.TABLES[0].encode(), yaml.safe_load(valid.ANALYSIS)["data"]
    settings = {**settings, "csv": "table.csv"}
    return st.tuples(changed_bytes([table]), changed_values([settings])) | st.tuples(
        st.just(table), changed_values([settings, {**settings, "new": "patients.csv"}])
    )


def _structures() -> st.SearchStrategy:
    sizes = st.integers(0, 30) | st.sampled_from([10**3, 10**6, 2**31, 10**12])
    change = st.tuples(st.sampled_from(_STRANGE), st.integers(0, 99), st.integers(0, 99), sizes)
    return st.lists(change, min_size=1, max_size=3)


def _covariances() -> st.SearchStrategy:
    texts = changed_text(valid.COVARIANCES)
    whole = st.sampled_from(valid.COVARIANCES)
    return st.tuples(texts, st.just(valid.PRIORS)) | st.tuples(
        whole, changed_values([valid.PRIORS])
    )


@functools.cache
def readers() -> dict[str, Reader]:
    """All readers by name; those of `IN_A_CHILD` are not to be run in the process of the tests."""
    analysis = valid.ANALYSIS.encode()
    segment = next(v for k, v in valid.state_files().items() if "/segment_" in k)
    checkpoint = next(v for k, v in valid.state_files().items() if "/checkpoint_" in k)
    return {
        "config of an analysis": Reader(
            changed_bytes([analysis]) | changed_values([yaml.safe_load(analysis)]), _read_config
        ),
        "config of studies": Reader(
            changed_bytes(valid.configs()) | changed_values(valid.config_trees()), _read_config
        ),
        "own table, first look": Reader(_tables(), _read_table),
        "own table, as stated": Reader(_stated(), _read_table_as_stated),
        "table of a study": Reader(changed_bytes([valid.TABLES[2].encode()]), _read_study_table),
        "new rows": Reader(changed_bytes([valid.NEW_ROWS.encode()]), _read_new_rows),
        "maps, neighbours, correlations": Reader(_areas(), _read_areas),
        "covariance text": Reader(_covariances(), _read_covariance),
        "results (NetCDF)": Reader(changed_bytes([valid.results_file()]), _read_results),
        "results (structure)": Reader(_structures(), _read_structure),
        "segments, checkpoints": Reader(changed_bytes([segment, checkpoint]), _read_segment),
        "state of runs": Reader(_files(valid.state_files()), _read_state),
        "kept parts": Reader(_parts(), _read_parts),
        "tables of the report": Reader(_files(valid.report_tables()), _read_report_tables),
        "tables of an analysis": Reader(_page_tables(), _read_page_tables),
    }


IN_A_CHILD = (
    "results (NetCDF)",
    "results (structure)",
)  # a damaged file can end the process within HDF5
