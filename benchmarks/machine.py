"""The machine and the versions behind the committed tables: `machine.csv`.

python benchmarks/machine.py
"""

from __future__ import annotations

import os
import platform
from datetime import date
from pathlib import Path

import pandas as pd

from gpmcflow.storage.files import environment

FILE = Path(__file__).with_name("machine.csv")


def processor() -> str:
    """The model name that Linux gives, or what Python knows of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "-")


def main() -> None:
    """Write one row a property."""
    process = environment()
    rows = {
        "date": date.today().isoformat(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        **process["versions"],
        "BLAS and LAPACK": next(name for name in process["threads"] if name.startswith("blas:")),
    }
    pd.Series(rows, name="value").rename_axis("what").to_csv(FILE)


if __name__ == "__main__":
    main()
