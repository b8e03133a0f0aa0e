"""Reports of open files with durations, grades, shares, many zeros, k of n and amounts: `kinds.csv`.

    python -m benchmarks.real_files.kinds [NAME ...] [--record]

Each file goes through `gpmcflow new` and `gpmcflow run --quick` in a temporary folder, with the config as it
was written. The table has the score of the shown model and of its simple peer, a regression of the same kind
by maximum likelihood, on the rows that the report scores: those held out, or where these are fewer than 30
each row left out (peers then by 10-fold cross-validation).
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.real_files.__main__ import TABLES, content, load_table
from benchmarks.real_files.reports import ReportError, _call

#: chosen from the open table before any was run, but for one (README.md): 30 to 1,000 rows
NAMES = (
    "KMsurv/larynx", "MASS/Melanoma", "survival/veteran", "survival/stanford2",
    "openintro/heart_transplant", "rpart/stagec",
    "ordinal/wine", "vcd/Arthritis", "rpart/cu.summary", "HSAUR/Lanza", "AER/BankWages",
    "betareg/GasolineYield", "betareg/ReadingSkills", "betareg/StressAnxiety", "dslabs/brexit_polls",
    "AER/RecreationDemand", "pscl/bioChemists", "DAAG/codling", "lme4/cbpp",
    "MASS/cpus", "AER/HousePrices",
)  # fmt: skip
FILE = Path(__file__).with_name("kinds.csv")
COLUMNS = (
    "name", "kind", "rows", "model", "likelihood", "score_by", "score", "peer", "peer_score",
    "difference", "difference_se", "cpu_seconds",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each file, then how many are at least as good as their peers."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_files.kinds")
    parser.add_argument("names", nargs="*", help="such as ordinal/wine; by default all")
    parser.add_argument("--record", action="store_true", help="write the rows into kinds.csv")
    options = parser.parse_args(arguments)
    rows = []
    for name in options.names or NAMES:
        try:
            with tempfile.TemporaryDirectory() as folder:
                rows.append(row_of(name, Path(folder)))
        except ReportError as error:
            print(f"{name}: {error}", flush=True)
            continue
        print(", ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
        if options.record:
            record(rows[-1])
    better = sum(row["difference"] >= 0 for row in rows)
    near = sum(row["difference"] >= -2 * row["difference_se"] for row in rows)
    print(f"at least the peer: {better} of {len(rows)}; within two standard errors: {near}")
    return 0


def row_of(name: str, home: Path) -> dict[str, Any]:
    """Run one file in a folder and return its row of the table."""
    entry = load_table(TABLES["open"])[name]
    (home / "file.csv").write_bytes(content(name, entry))
    _call(home, "new", "file.csv", "--target", entry["target"])
    seconds = _call(home, "run", "--quick", "file.yaml")
    results = home / "results" / "file"
    info = json.loads((results / "info.json").read_text(encoding="utf-8"))
    models = pd.read_csv(results / "models.csv")
    own = models.set_index("name").loc[info["shown"]]
    peer = models.set_index("role").loc["simple"]
    return {
        "name": name,
        "kind": info["target"]["kind"],
        "rows": len(pd.read_csv(results / "rows.csv")),
        "model": info["shown"],
        "likelihood": own["likelihood"],
        "score_by": info["score_by"],
        "score": round(own["test_score"], 4),
        "peer": peer["name"],
        "peer_score": round(peer["test_score"], 4),
        "difference": round(own["difference"], 4),
        "difference_se": round(own["difference_se"], 4),
        "cpu_seconds": round(seconds, 1),
    }


def record(row: Mapping[str, Any]) -> None:
    """Write a row instead of an older one of the same name."""
    old = {}
    if FILE.is_file():
        with FILE.open(newline="", encoding="utf-8") as lines:
            old = {found["name"]: found for found in csv.DictReader(lines)}
    old[row["name"]] = row
    with FILE.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(old[name] for name in NAMES if name in old)


if __name__ == "__main__":
    sys.exit(main())
