"""Valid inputs of each reader, made once, from which the changed ones come."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
import yaml

from gpmcflow.data.codes import Encoding
from gpmcflow.data.own_table import prepare_table
from gpmcflow.execution import Execution, run
from gpmcflow.storage import standard_attributes, with_attributes, write_results

ROOT = Path(__file__).parents[2]
PARTS = ROOT / "docs" / "results"
METHOD = {"method": {"temperatures": [3, 5], "replicates": 2, "particles": 4, "reverse": True}}
IDENTITY = "a" * 64

ANALYSIS = """\
title: Who came back?
seed: 3
data:
  csv: patients.csv
  target: back
  positive: "yes"
  drop: [id]
  categorical: [ward]
  missing: [NA, "?", -99]
  test_fraction: 0.25
units: {age: years, dose: mg}
likelihood: {student_t: {df: 4.0}}
priors: {wide: {distribution: loguniform, parameters: {a: 0.1, b: 10.0}, scale: natural}}
models:
  curves: {covariance: "squared_exponential(ard=True)"}
  plain: {covariance: "linear(age, sd=wide) + constant(signal_sd=2.0)", likelihood: probit}
sampling: {chains: 2, draws: 40}
execution: {block_size: 8, segment_length: 3}
"""
TABLES = (
    "id,age,dose,ward,seen,back\n"
    + "".join(
        f"{k},{30 + 7 * k % 40},{1.5 * k},{'ABC'[k % 3]},2021-03-{1 + k:02d},{'yes' if k % 3 else 'no'}\n"
        for k in range(24)
    ),
    "ort;zeit;fälle;stunden\n"
    + "".join(f'"Ort, {k % 4}";{k},{k % 10};{k % 5};{1 + k % 3}\n' for k in range(24)),
    "x,y,price\n" + "".join(f"{k},{k * k % 11},{100.5 + 3.25 * k}\n" for k in range(24)),
    "seen,a\n"
    + "".join(f"{1 + k:02d}/{1 + k % 12:02d}/2020 12:30:0{k % 10},{k}\n" for k in range(9)),
)
TARGETS = ("back", "fälle", "price", "a")
NEW_ROWS = "id,age,dose,ward,seen\n1,40,2.5,A,2021-03-05\n2,,NA,D,2022-01-01\n"
COVARIANCES = (
    "matern32(age, 'bmi', ard=True) + linear(dose, sd=5.0)",
    "squared_exponential(length_scale=(wide, wide), signal_sd=2) * categorical(ward)",
    "periodic(x, period=shared('p', prior('gamma', on='natural', a=2.0)), length_scale=1e-2)",
    "rational_quadratic(0, -1, alpha=prior('norm', loc=0.0, scale=1.0)) + constant(signal_sd=1)",
)
AREAS = "town,cases\n" + "".join(f"{name},{k % 5}\n" for k, name in enumerate("abcd" * 6))
MAP = {
    "type": "FeatureCollection",
    "features": [
        {
            "type": "Feature",
            "id": k,
            "properties": {"town": name, "people": 10.5 * k},
            "geometry": {
                "type": "Polygon",
                "coordinates": [[[k, 0], [k + 1, 0], [k + 1, 1.5], [k, 1.5], [k, 0]]],
            },
        }
        for k, name in enumerate("abcd")
    ],
}
NEIGHBOURS = "town,beside\na,b\nb,c\nc,d\n"
CORRELATION = "town,a,b,c,d\na,1,.5,0,0\nb,.5,1,.5,0\nc,0,.5,1,.5\nd,0,0,.5,1\n"
_WIDE = {"distribution": "loguniform", "parameters": {"a": 0.1, "b": 10.0}, "scale": "natural"}
PRIORS = {"wide": _WIDE}


@functools.cache
def config_trees() -> tuple[dict, ...]:
    """Configs as plain values: a small one with every study, and the default one."""
    paths = (ROOT / "tests/workflow/small.yaml", ROOT / "config/config.yaml")
    small, default = (yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths)
    methods = {"mh": {"representation": "surr-site", "update": "metropolis"}, "joint-split": {}}
    regression = {"n": 12, "n_features": 2}
    small["datasets"]["made"] = {"synthetic_regression": regression}
    small["problems"]["made"] = {
        "dataset": "made",
        "model": "joint",
        "likelihood": "gaussian",
        "covariance": "squared_exponential(length_scale=wide, ard=True)",
        "priors": PRIORS,
    }
    types = {"small": {"data": 1, "n": 30, "methods": ["standard", "sod"], "replicates": 1}}
    small["studies"]["fast_likelihood"] = {"types": types, "replicates": 2}
    sizes = {"replicates": 1, "chains": 2, "iterations": 40, "warmup": 10, "thin": 2}
    small["studies"]["surrogate_slice"] = {**sizes, "problems": {"made": methods}}
    return small, default


@functools.cache
def configs() -> tuple[bytes, ...]:
    """The same as files, and one with anchors."""
    written = [yaml.safe_dump(tree).encode() for tree in config_trees()]
    anchored = (
        b"shared: &s {chains: 4, draws: 512}\nstudies: {split_hmc: {<<: *s, problems: {a: *s}}}\n"
    )
    return (*written, anchored)


def write_table(folder: Path) -> None:
    """The table that `ANALYSIS` and `encoding` are of."""
    (folder / "patients.csv").write_text(TABLES[0], encoding="utf-8")


@functools.cache
def encoding() -> Encoding:
    """What a finished analysis keeps of its table, to read new rows."""
    with tempfile.TemporaryDirectory() as folder:
        write_table(Path(folder))
        return prepare_table({"csv": "patients.csv", "target": "back"}, folder).encoding


@functools.cache
def results_file() -> bytes:
    """A small NetCDF file of the package, with groups, text, numbers and attributes."""
    rng = np.random.default_rng(4)
    posterior = xr.Dataset(
        {
            "theta": (("chain", "draw", "parameter"), rng.standard_normal((2, 5, 2))),
            "accepted": (("chain", "draw"), np.ones((2, 5), np.int8)),
        },
        {"parameter": ["length_scale", "signal_sd"]},
    )
    attributes = standard_attributes(settings={"draws": 5}, seed=4, data_checksum="0" * 64)
    tree = xr.DataTree.from_dict(
        {"/posterior": posterior, "/sample_stats": posterior[["accepted"]]}
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "results.nc")
        write_results(with_attributes(tree, attributes), path)
        return path.read_bytes()


class Walk:
    """Random walk: what a state folder is made of."""

    def outputs(self) -> dict:
        """Outputs by name."""
        return {
            "sum_log_likelihood": ((), "<f8"),
            "acceptance_rate": ((), "<f8"),
            "x": ((2,), "<f8"),
        }

    def start(self, rng) -> dict:
        """Start at the origin."""
        return {"x": np.zeros((len(rng), 2))}

    def advance(self, rng, carry: dict, start: int, stop: int) -> tuple[dict, dict]:
        """Draw steps."""
        steps = np.stack([rng.standard_normal((2,)) for _ in range(start, stop)], axis=1)
        x = carry["x"][:, None] + steps.cumsum(axis=1)
        rate = np.full(x.shape[:2], 0.5)
        return {"x": x[:, -1]}, {
            "sum_log_likelihood": x[..., 0].copy(),
            "acceptance_rate": rate,
            "x": x,
        }


@functools.cache
def state_files() -> dict[str, bytes]:
    """Files of the state folder of a job by their path below it, `job.json` beside those of its run."""
    with tempfile.TemporaryDirectory() as folder:
        how = Execution(block_size=2, segment_length=5, state_dir=folder, settings=METHOD)
        run(Walk(), n_chains=4, length=20, seed=1, execution=how)
        paths = [path for path in Path(folder).rglob("*") if path.is_file() and path.name != "lock"]
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(paths)}
    job = {**json.loads(files["run.json"]), "output": "results/split_hmc/a/hmc.nc"}
    return {**files, "job.json": json.dumps(job).encode()}


@functools.cache
def parts() -> dict[str, list[bytes]]:
    """Kept rows of finished runs by study, a quarter of each."""
    tables = sorted(PARTS.glob("*/parts.jsonl"))
    return {path.parent.name: path.read_bytes().splitlines()[::4] for path in tables}


@functools.cache
def report_tables() -> dict[str, bytes]:
    """Tables of the report by kind."""
    kept = PARTS / "rmhmc_ais"
    names = ("evidence", "approximations", "verdict", "which_method")
    return {
        name: pd.read_csv(kept / f"{name}.csv").head(8).to_csv(index=False).encode()
        for name in names
    }
