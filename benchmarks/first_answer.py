"""Seconds to a first answer: commands, quick analyses, approximations, and mgcv and GPBoost beside them.

    python benchmarks/first_answer.py [--jobs check patients ..] [--repeats 5] [--beside CHECKOUT]
                                       [--peers FOLDER] [--keep]

Each job is a process of its own, its CPU seconds those of all processes that it starts. Jobs take turns,
after a round that is not counted (it compiles, and measures what is kept for later runs). Shown are medians,
and CPU seconds over those of a loop of 2e7 additions in the same round; of quick analyses, of R's mgcv, if
that is installed, and of GPBoost, if ``--peers`` has its environment (`peers/environment.sh gpboost`), also
the mean log density of the rows held out, and how much ours is larger, with its standard error. ``--beside``
runs each job with the package of another checkout, too. With all jobs the rows of this one are
`first_answer.csv`; ``--keep`` puts those of some jobs into it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent
FILE = HERE / "first_answer.csv"
LOOP, LABELS = "loop of 2e7 additions", "approximate: 500 labels, 8 length scales"
ROWS = "20,000 labels by basis functions"
COMMAND = [sys.executable, "-c", "import sys; from gpmcflow.cli import main; sys.exit(main())"]
CORES = ["--cores", "2"]

ADDITIONS = """
total = 0
for k in range(20_000_000):
    total += k
"""
APPROXIMATE = """
import numpy as np
import gpmcflow as gp
rng = np.random.default_rng(0)
X = rng.standard_normal((500, 8))
f = 1.5 * np.sin(2 * X[:, 0]) + X[:, 1]
y = np.where(rng.random(500) < 1 / (1 + np.exp(-f)), 1.0, -1.0)
gp.approximate(gp.GPModel(X, y, gp.SquaredExponential(ard=True), gp.Logistic()))
"""
BASIS = """
import numpy as np
import pandas as pd
import gpmcflow as gp
table = pd.read_csv("rows.csv")
X, y = table[["a", "b", "g"]].to_numpy(), table["y"].to_numpy()
covariance = (
    gp.SquaredExponential(columns=0) + gp.SquaredExponential(columns=1) + gp.Group(columns=2)
)
model = gp.GPModel(X, y, covariance, gp.Logistic(), structure=gp.BasisFunctions())
found = gp.predict(gp.approximate(model), X)
"""


def make_rows(folder: Path, n: int = 20_000) -> None:
    """Labels with two smooths and 100 groups, as `rows.csv`."""
    rng = np.random.default_rng(n)
    table = pd.DataFrame(rng.uniform(-1, 1, (n, 2)), columns=["a", "b"])
    table["g"] = rng.integers(100, size=n)
    effects = 0.4 * rng.standard_normal(100)[table["g"]]
    f = 1.5 * np.sin(4 * table["a"]) + np.cos(3 * table["b"]) + effects
    table["y"] = np.where(rng.random(n) < 1 / (1 + np.exp(-f)), 1, -1)
    table.to_csv(folder / "rows.csv", index=False)


ANALYSES = {"patients": "readmitted", "birds": "count", "machine": "vibration"}


def prepare(folder: Path) -> None:
    """Data and configs, each analysis in a folder of its own, and a finished one of 1,000 rows."""
    make = HERE.parent / "examples" / "own_data" / "make_data.py"
    subprocess.run([sys.executable, make, folder], check=True)
    machine = pd.read_csv(folder / "machine.csv")
    machine[:1000].to_csv(folder / "thousand.csv", index=False)
    machine[500:].drop(columns="vibration").to_csv(folder / "other.csv", index=False)
    make_rows(folder)
    own(["new", "thousand.csv", "--target", "vibration"], folder)
    own(["run", "thousand.yaml", "--quick", *CORES], folder)
    for name, target in ANALYSES.items():
        place = folder / name
        place.mkdir()
        shutil.move(folder / f"{name}.csv", place)
        own(["new", f"{name}.csv", "--target", target], place)
        own(["run", f"{name}.yaml", "--quick", *CORES], place)
        shutil.copy(place / "results" / name / "rows.csv", place / f"rows_{name}.csv")


def own(words: list[str], folder: Path) -> None:
    """A command of the package, which has to succeed."""
    subprocess.run([*COMMAND, *words], cwd=folder, check=True, capture_output=True)


class Work(NamedTuple):
    """A command, the folder it is run in, and what it has left there that has to go before."""

    command: list[str]
    folder: str = "."
    leaves: tuple[str, ...] = ()


def has_mgcv() -> bool:
    """Whether R has mgcv; says so where it has not."""
    try:
        subprocess.run(["Rscript", "-e", "library(mgcv)"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        print("R with mgcv is not installed: its rows are left out", file=sys.stderr)
        return False
    return True


def commands(peers: Path) -> dict[str, Work]:
    """The jobs by name; those of GPBoost and mgcv where there is an environment, or R has it."""
    jobs = {
        LOOP: Work([sys.executable, "-c", ADDITIONS]),
        "--help": Work([*COMMAND, "--help"]),
        "status": Work([*COMMAND, "status"]),
        "clean": Work([*COMMAND, "clean"]),
        "new": Work([*COMMAND, "new", "thousand.csv", "--target", "vibration", "--force"]),
        "check": Work([*COMMAND, "check", "thousand.yaml", *CORES]),
        "predict": Work([*COMMAND, "predict", "thousand", "other.csv", "-o", "out.csv"]),
    }
    for name in ANALYSES:
        command = [*COMMAND, "run", f"{name}.yaml", "--quick", *CORES]
        jobs[f"{name} --quick"] = Work(command, name, ("results", ".snakemake"))
    jobs[LABELS] = Work([sys.executable, "-c", APPROXIMATE])
    jobs[ROWS] = Work([sys.executable, "-c", BASIS])
    python, script = peers / "gpboost" / "bin" / "python", str(HERE / "peers" / "gpboost_first.py")
    if python.exists():
        jobs |= {f"GPBoost: {name}": Work([str(python), script, name], name) for name in ANALYSES}
    else:
        print(f"{python} is not there: the rows of GPBoost are left out", file=sys.stderr)
    if not has_mgcv():
        return jobs
    script = str(HERE / "peers" / "mgcv.R")
    jobs |= {f"mgcv: {name}": Work(["Rscript", script, name], name) for name in ANALYSES}
    return jobs | {"mgcv: 20,000 labels": Work(["Rscript", script, "rows"])}


def densities(job: str, folder: Path) -> pd.Series | None:
    """Log densities of the rows held out, by row, that a job has left; None for other jobs."""
    from gpmcflow.storage import load_results

    peer, _, name = job.removesuffix(" --quick").rpartition(": ")
    if name not in ANALYSES:
        return None
    place = folder / name
    if peer:
        return pd.read_csv(place / f"{peer.lower()}_{name}.csv", index_col="row")["log_density"]
    results = place / "results" / name
    shown = json.loads((results / "info.json").read_text())["shown"]
    values = load_results(results / shown / "fit.nc")["held_out/log_density"].values
    return pd.Series(values, pd.read_csv(results / "predictions_test.csv")["row"])


def scores(jobs: Iterable[str], folder: Path) -> pd.DataFrame:
    """Log score of each job that has one, and by how much ours is better than a peer's."""
    found = {job: own for job in jobs if (own := densities(job, folder)) is not None}
    rows = {}
    for job, peer in found.items():
        rows[job] = {"log_score": peer.mean()}
        if ": " in job:
            own = densities(f"{job.partition(': ')[2]} --quick", folder)
            apart = own - peer.loc[own.index]
            rows[job] |= {"better": apart.mean(), "error": apart.sem()}
    return pd.DataFrame.from_dict(rows, orient="index", dtype=float)


def seconds(work: Work, place: Path, package: Path) -> tuple[float, float]:
    """CPU and wall seconds of a job and of all processes that it starts."""
    folder = place / work.folder
    for path in work.leaves:
        shutil.rmtree(folder / path, ignore_errors=True)
    began = time.perf_counter()
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(
            work.command, cwd=folder, stdout=told, stderr=told,
            env={**os.environ, "PYTHONPATH": str(package)},
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - began
        if process.returncode:
            told.seek(0)
            raise SystemExit(f"{work.command}: failed\n{told.read().decode()}")
    return used.ru_utime + used.ru_stime, wall


def measured(jobs: Mapping[str, Work], packages: list[Path], repeats: int) -> pd.DataFrame:
    """Medians of the seconds of each job with each package, CPU seconds in loops, and scores."""
    rows, tables = [], []
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place, str(k)) for k in range(len(packages))]
        for folder, package in zip(folders, packages, strict=True):
            os.environ["PYTHONPATH"] = str(package)
            prepare(folder)
        for repeat in range(repeats + 1):
            for job, work in jobs.items():
                for folder, package in zip(folders, packages, strict=True):
                    cpu, wall = seconds(work, folder, package)
                    row = {"job": job, "package": package, "round": repeat}
                    rows += [row | {"cpu": cpu, "wall": wall}] if repeat else []
        for folder, package in zip(folders, packages, strict=True):
            own = medians(pd.DataFrame([row for row in rows if row["package"] == package]))
            tables.append(own.join(scores(jobs, folder)).assign(package=package.name))
    return pd.concat(tables).round(4)


def medians(rows: pd.DataFrame) -> pd.DataFrame:
    """Of the seconds of each job, and of its CPU seconds over those of the loop of the same round."""
    loops = rows[rows["job"] == LOOP].set_index("round")["cpu"]
    rows["loops"] = rows["cpu"] / loops.loc[rows["round"]].to_numpy()
    return rows.groupby("job", sort=False)[["cpu", "wall", "loops"]].median()


def main() -> None:
    """Measure and print; see above."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--jobs", nargs="+", default=[], help="words in names of jobs; default: all"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--beside", type=Path, help="another checkout")
    parser.add_argument("--peers", type=Path, default=Path("peers"), help="environments of peers")
    parser.add_argument("--keep", action="store_true", help="put these rows into first_answer.csv")
    options = parser.parse_args()
    words, known = options.jobs or [""], commands(options.peers.absolute())
    jobs = {job: work for job, work in known.items() if job == LOOP or any(w in job for w in words)}
    packages = [path.resolve() for path in (options.beside, HERE.parent) if path]
    found = measured(jobs, packages, options.repeats)
    print(found.to_string())
    mine = found[found["package"] == packages[-1].name].drop(columns="package")
    if not options.jobs:
        mine.to_csv(FILE)
    elif options.keep:
        kept, mine = pd.read_csv(FILE, index_col="job"), mine.drop(index=LOOP)
        pd.concat([kept.drop(index=mine.index, errors="ignore"), mine]).to_csv(FILE)


if __name__ == "__main__":
    main()
