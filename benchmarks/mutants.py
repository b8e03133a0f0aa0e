"""Deliberately broken methods, and the test that catches each: rows of `mutants.csv`.

    python benchmarks/mutants.py

Runs every test of the suite that breaks something on purpose, a force without its sign, a determinant left
out, a rejected state whose energy stays, and demands that the harness notices. A row a broken method: the
test, what is broken, whether it was caught, and seconds.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[1]
ROWS = Path(__file__).with_name("mutants.csv")
ROOMS = (
    "statistical",
    "evidence",
    "samplers",
    "models",
    "approximations",
    "diagnostics",
    "likelihoods",
)
NAMED = "caught or mutants or never_looks_back or too_few_iterations"
CONTROLS = re.compile("control|passes")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        rooms = [f"tests/{room}" for room in ROOMS]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            *rooms,
            "-k",
            NAMED,
            f"--junitxml={report}",
        ]
        subprocess.run(command, cwd=ROOT, check=False)
        cases = ElementTree.parse(report).getroot().iter("testcase")
        rows = [row(case) for case in cases]
    table = pd.DataFrame(rows).sort_values(["room", "test", "broken"], ignore_index=True)
    table.to_csv(ROWS, index=False)
    print(table.groupby("room")["caught"].agg(["size", "sum"]).to_string())


def row(case: ElementTree.Element) -> dict:
    """One test, and one broken method of it."""
    test, _, broken = case.attrib["name"].partition("[")
    failed = any(child.tag in ("failure", "error", "skipped") for child in case)
    return {
        "room": case.attrib["classname"].split(".")[1],
        "test": f"{case.attrib['classname'].replace('.', '/')}.py::{test}",
        "broken": broken.removesuffix("]") or test.removeprefix("test_").replace("_", " "),
        "control": bool(CONTROLS.search(test)),
        "caught": not failed,
        "seconds": round(float(case.attrib["time"]), 1),
    }


if __name__ == "__main__":
    main()
