"""Reports of 20 open files: held-out scores beside three peers, coverage, seconds and the first sentence.

    python -m benchmarks.real_files.reports [NAME ...] [--record]

Each file goes through `gpmcflow new`, `gpmcflow run --quick` and `gpmcflow predict` in a temporary folder. At
least 30 rows are held out: where a fifth of the rows is fewer, `test_fraction` is raised in the config.
"""

from __future__ import annotations

import argparse
import csv
import html
import json
import math
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
import yaml

from benchmarks.real_files.__main__ import TABLES, content, load_table
from benchmarks.real_files.peers import PEERS, Problem, coded, log_scores

#: chosen from the open table before any was run: read right, 60 to 1,500 rows, every kind of outcome
NAMES = (
    "palmerpenguins/penguins", "AER/CASchools", "ISLR/Auto", "openintro/births14", "DAAG/ais",
    "carData/Salaries", "AER/HousePrices", "MASS/cpus", "datasets/airquality",
    "MASS/quine", "pscl/bioChemists", "carData/Ornstein", "COUNT/fishing",
    "MASS/Pima.te", "carData/TitanicSurvival", "MASS/birthwt",
    "MASS/snails", "lme4/sleepstudy", "datasets/nottem", "modeldata/Sacramento",
)  # fmt: skip
FILE = Path(__file__).with_name("reports.csv")
COLUMNS = (
    "name", "kind", "rows", "model", "ours", *PEERS, "best_peer", "difference", "difference_se",
    "coverage", "held_out", "test_fraction", "cpu_seconds", "headline",
)  # fmt: skip
HELD_OUT = 31  #: rows at least; below 30 the report scores by leave-one-out
NEW_ROWS = 5
GAPS = ["NA", "N/A", "NaN", "nan", "null", "NULL", "?", ".", ""]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each data set, then how many are won and how many intervals cover."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_files.reports")
    parser.add_argument("names", nargs="*", help="such as MASS/birthwt; by default all 20")
    parser.add_argument("--record", action="store_true", help="write the rows into reports.csv")
    parser.add_argument("--keep", type=Path, help="a folder to keep files and results in")
    options = parser.parse_args(arguments)
    rows = []
    for name in options.names or NAMES:
        try:
            with tempfile.TemporaryDirectory() as folder:
                home = options.keep / name.replace("/", "_") if options.keep else Path(folder)
                home.mkdir(parents=True, exist_ok=True)
                rows.append(report_row(name, home))
        except ReportError as error:
            print(f"{name}: {error}", flush=True)
            continue
        print(line_text(rows[-1]), flush=True)
        if options.record:
            record(rows)
    print(figures_text(rows))
    return 0


class ReportError(Exception):
    """A command that exits otherwise than 0, or results that contradict each other."""


def report_row(name: str, home: Path) -> dict[str, Any]:
    """Run one data set in a folder and return its row of the table."""
    entry = load_table(TABLES["open"])[name]
    for old in ("results", ".snakemake"):  # of an earlier run that was kept
        shutil.rmtree(home / old, ignore_errors=True)
    (home / "file.csv").write_bytes(content(name, entry))
    _call(home, "new", "file.csv", "--target", entry["target"], "--force")
    fraction = hold_out_enough(home / "file.yaml")
    seconds = _call(home, "run", "--quick", "file.yaml")
    results = home / "results" / "file"
    predict_new_rows(home, entry["target"])
    return scored(home, results) | {
        "name": name,
        "test_fraction": fraction,
        "cpu_seconds": round(seconds, 1),
        "headline": headline((results / "report.html").read_text(encoding="utf-8")),
    }


def _call(home: Path, *words: str) -> float:
    """Run a command of the package; return its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [Path(sys.executable).with_name("gpmcflow"), *words],
        cwd=home,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ReportError(
            f"gpmcflow {' '.join(words)} exits {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def hold_out_enough(config: Path) -> float:
    """Raise `test_fraction` in a config where it holds out too few rows; return it."""
    text = config.read_text(encoding="utf-8")
    rows = int(re.search(r": ([\d,]+) rows", text)[1].replace(",", ""))
    target = yaml.safe_load(text)["data"]["target"]
    column = read_csv(config.with_name("file.csv"))[target]
    rows = min(rows, int(column.notna().sum()))
    fraction = float(re.search(r"test_fraction: ([\d.]+)", text)[1])
    if fraction * rows < HELD_OUT:
        fraction = max(0.3, math.ceil(20 * HELD_OUT / rows) / 20)
        text = re.sub(r"test_fraction: [\d.]+", f"test_fraction: {fraction:g}", text)
        config.write_text(text, encoding="utf-8")
    return fraction


def read_csv(path: Path) -> pd.DataFrame:
    """Return a file as users of pandas read it."""
    return pd.read_csv(path, na_values=GAPS, keep_default_na=False, skipinitialspace=True)


def predict_new_rows(home: Path, target: str) -> None:
    """Predict the first rows of the file without their outcome; each must get a prediction."""
    text = pd.read_csv(home / "file.csv", dtype=str, keep_default_na=False)
    text.drop(columns=target).head(NEW_ROWS).to_csv(home / "new.csv", index=False)
    _call(home, "predict", "file", "new.csv")
    found = pd.read_csv(home / "predictions.csv")
    if len(found) != NEW_ROWS or found["mean"].isna().any():
        raise ReportError(f"{NEW_ROWS} new rows, {len(found)} predictions:\n{found}")


def scored(home: Path, results: Path) -> dict[str, Any]:
    """Return the scores of the shown model and of its peers on the held-out rows."""
    info = json.loads((results / "info.json").read_text(encoding="utf-8"))
    kind, shown = info["target"]["kind"], info["shown"]
    ours = xr.open_datatree(results / shown / "fit.nc")["held_out/log_density"].values
    stated = pd.read_csv(results / "models.csv").set_index("name").loc[shown, "test_score"]
    if info["score_by"] == "leave-one-out" or not math.isclose(ours.mean(), stated, rel_tol=1e-6):
        raise ReportError(f"models.csv scores by {info['score_by']}, {stated}; rows: {ours.mean()}")
    held = pd.read_csv(results / "predictions_test.csv")
    uses = pd.read_csv(results / "rows.csv")
    learning = uses.loc[uses["use"] == "learning", "row"].to_numpy() - 2  # row 1 is the header
    new = held["row"].to_numpy() - 2
    problem = problem_of(home, info, learning)
    if not np.allclose(problem.y[new], _numbers(held["outcome"], info)):
        raise ReportError("the held-out rows are not those of the file")
    peers = log_scores(problem, learning, new)
    best = max(peers, key=lambda peer: peers[peer].mean())
    apart = ours - peers[best]
    inside = None
    if kind != "binary":
        inside = (held["outcome"] >= held["q025"]) & (held["outcome"] <= held["q975"])
    return {
        "kind": kind,
        "rows": len(problem.y),
        "model": shown,
        "ours": round(ours.mean(), 4),
        **{peer: round(score.mean(), 4) for peer, score in peers.items()},
        "best_peer": best,
        "difference": round(apart.mean(), 4),
        "difference_se": round(apart.std(ddof=1) / math.sqrt(len(apart)), 4),
        "coverage": "" if inside is None else round(inside.mean(), 4),
        "held_out": len(new),
    }


def problem_of(home: Path, info: Mapping[str, Any], learning: np.ndarray) -> Problem:
    """Return the rows for the peers: the columns that the config uses, coded by its categories."""
    data = yaml.safe_load((home / "file.yaml").read_text(encoding="utf-8"))["data"]
    table = read_csv(home / "file.csv")
    unit = data.get("trials") or data.get("exposure")
    comments = (home / "file.yaml").read_text(encoding="utf-8").splitlines()
    dropped = {line.strip("# ").partition(": ")[0] for line in comments if "-> dropped" in line}
    left_out = {data["target"], unit, *data["drop"], *dropped}
    X = table[[column for column in table if str(column) not in left_out]]
    X = X[[column for column in X if not str(column).startswith("Unnamed: 0")]]
    if "time" in X and X["time"].between(1500, 2100).all() and (X["time"] % 1).any():
        X = X.assign(month=(12 * (X["time"] % 1)).round().astype(int).astype(str))
    categories = {str(column) for column in [*data["categorical"], *data["groups"]]}
    y = _numbers(table[data["target"]], info)
    units = np.ones(len(y)) if unit is None else table[unit].to_numpy(float)
    by = data.get("test_by")  # whole groups are held out, so folds are of whole groups
    block = np.unique(table[by].astype(str), return_inverse=True)[1] if by else np.arange(len(y))
    return Problem(info["target"]["kind"], coded(X, categories, learning), y, units, block)


def _numbers(outcome: pd.Series, info: Mapping[str, Any]) -> np.ndarray:
    """Return outcomes as numbers, 1 for the positive class."""
    if info["target"]["kind"] != "binary":
        return outcome.to_numpy(float)
    positive = str(info["target"]["positive"])
    if pd.api.types.is_numeric_dtype(outcome):  # 1 in the results, whatever its word in the file
        positive = float(positive) if re.fullmatch(r"[-\d.]+", positive) else 1.0
        return (outcome == positive).to_numpy(float)
    return (outcome.astype(str) == positive).to_numpy(float)


def headline(page: str) -> str:
    """Return the first sentence of the answer."""
    text = re.search(r'<p class="answer">(.*?)</p>', page, re.DOTALL)[1]
    text = html.unescape(re.sub(r"<[^>]+>", "", text))
    return re.split(r"(?<=[.!?])\s+(?=[A-Z])", " ".join(text.split()))[0]


def line_text(row: Mapping[str, Any]) -> str:
    """Return a data set's line."""
    return (
        f"{row['name']}: {row['kind']}, {row['model']} {row['ours']:.3f}, best peer {row['best_peer']} "
        f"{row[row['best_peer']]:.3f}, difference {row['difference']:+.3f} (se {row['difference_se']:.3f}), "
        f"coverage {row['coverage']}, held out {row['held_out']}, {row['cpu_seconds']} CPU s\n"
        f"  {row['headline']}"
    )


def figures_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return how many data sets are won, how many are not lost, and the pooled coverage."""
    won = sum(row["difference"] >= 0 for row in rows)
    near = sum(row["difference"] >= -2 * row["difference_se"] for row in rows)
    covered = [row for row in rows if row["coverage"] != ""]
    n = sum(row["held_out"] for row in covered)
    share = sum(row["coverage"] * row["held_out"] for row in covered) / n if n else math.nan
    text = (
        f"at least the best of three peers: {won} of {len(rows)}\n"
        f"within two standard errors of it: {near} of {len(rows)}"
    )
    if not covered:
        return text
    return (
        f"{text}\n95 % intervals hold {100 * share:.1f} % of {n} held-out outcomes "
        f"({len(covered)} data sets)"
    )


def record(rows: Sequence[Mapping[str, Any]], path: Path = FILE) -> None:
    """Write the rows; each replaces an older one with the same name."""
    old = {}
    if path.is_file():
        with path.open(newline="", encoding="utf-8") as lines:
            old = {row["name"]: row for row in csv.DictReader(lines)}
    old |= {row["name"]: row for row in rows}
    names = [name for name in NAMES if name in old] + [name for name in old if name not in NAMES]
    with path.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(old[name] for name in names)


if __name__ == "__main__":
    sys.exit(main())
