"""A study of one's own: its folder, its schema, its printed numbers, and a line of the registry."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILES = {
    "gpmcflow/replications/toy/__init__.py": "",
    "gpmcflow/replications/toy/study.py": '''
from gpmcflow.jobs.study import (
    PUBLISHED, Stage, Study, figures_stage, published_file, tables_stage,
)

DRAWS = Stage(
    "toy_draws", "gpmcflow.replications.toy.runs:draws", {"results": "results/toy/{problem}/fair.nc"}
)
TABLES = tables_stage("toy", {"verdict": "Beside the printed numbers.", "runs": "Rolls."})


def check(config, where, folder):
    pass


def jobs(config):
    runs = []
    for problem, n_rolls in config["studies"]["toy"]["problems"].items():
        job = DRAWS.job({}, {"n_rolls": n_rolls}, problem=problem)
        yield job
        runs.append(job.output)
    yield TABLES.job({"runs": runs, PUBLISHED: published_file("toy")}, {"study": "toy"})
    yield figures_stage("toy", {"rolls": "Means of the rolls."}).job({"runs": TABLES.outputs["runs"]})


STUDY = Study(
    "toy", check, jobs, title="Dice", costs="gpmcflow.replications.toy.runs:COSTS",
    readers="gpmcflow.replications.toy.tables:READERS", tables="gpmcflow.replications.toy.tables:tables",
    runs=lambda settings: len(settings["problems"]),
)
''',
    "gpmcflow/replications/toy/runs.py": '''
import numpy as np
import xarray as xr

from gpmcflow.storage import standard_attributes, with_attributes

COSTS = {"toy_draws": lambda context, job: context.single(1.0, 1000)}


def draws(job):
    rolls = np.random.default_rng(job.seed).integers(1, 7, job.settings["n_rolls"])
    tree = xr.DataTree(xr.Dataset({"rolls": ("draw", rolls)}))
    named = {"problem": job.wildcards.problem, "method": "fair"}
    attributes = standard_attributes(settings=job.settings, seed=job.seed, data_checksum="none")
    return with_attributes(tree, attributes | named), {"seconds": 0.0}
''',
    "gpmcflow/replications/toy/tables.py": '''
import pandas as pd

from gpmcflow.jobs.parts import make_part, rows_of
from gpmcflow.replications.judgement import (
    NUMBER,
    Estimate,
    near,
    verdict,
    verdict_row,
    verdict_table,
)
from gpmcflow.storage import load_results


def part(path):
    tree = load_results(path)
    mean = Estimate.of(tree["rolls"].values)
    return make_part("toy", "run", path, tree.attrs, {"mean": mean.centre, "error": mean.error})


READERS = {"toy/*/fair.nc": part}


def tables(parts, published):
    runs = pd.DataFrame(rows_of(parts, "run"))
    rows = []
    for run in runs.itertuples():
        mean = Estimate(run.mean, run.error)
        position = near(mean, published["mean"], tolerance=1.0)
        words = verdict((position, "within"), words=NUMBER)
        rows.append(verdict_row(table="rolls", row=run.problem, column="mean", verdict=words))
    return {"runs": runs[["problem", "mean"]], "verdict": verdict_table("toy", rows)}
''',
    "gpmcflow/replications/toy/figures.py": '''
from matplotlib.figure import Figure

from gpmcflow.storage import read_csv


def draw(job):
    figure = Figure()
    read_csv(job.input.runs).plot.bar("problem", "mean", ax=figure.subplots())
    yield "rolls", figure
''',
    "workflow/schemas/studies/toy.yaml": """
type: object
required: [problems]
properties:
  problems: {type: object, patternProperties: {"^[a-z]+$": {type: integer}}, additionalProperties: false}
""",
    "workflow/published/toy.yaml": "mean: 3.5\n",
}  # fmt: skip
REGISTRY = "gpmcflow/replications/papers.py"
CONFIG = {"studies": {"toy": {"problems": {"one": 400, "two": 900}}}, "seed": 3}


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A copy of the project with the study, and one shared file changed, by two lines."""
    folder = tmp_path_factory.mktemp("clone")
    leave_out = shutil.ignore_patterns("__pycache__", "*.nb?", "results", ".snakemake")
    for name in ("gpmcflow", "workflow"):
        shutil.copytree(ROOT / name, folder / name, ignore=leave_out)
    shutil.copy(ROOT / "Snakefile", folder)
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    registry = (folder / REGISTRY).read_text()
    imported = "from gpmcflow.replications.toy.study import STUDY as TOY\n\nPAPERS"
    assert registry.count("\nPAPERS") == registry.count("SURROGATE_SLICE)") == 1
    registry = registry.replace("\nPAPERS", imported).replace("LICE)", "LICE, TOY)")
    (folder / REGISTRY).write_text(registry)
    (folder / "toy.yaml").write_text(yaml.safe_dump(CONFIG))
    run(folder, "snakemake", "--cores", "1", "--configfile", "toy.yaml")
    return folder


def run(folder: Path, module: str, *words: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SNAKEMAKE")}
    environment["PYTHONPATH"] = str(folder)
    called = (
        ["-m", module] if module == "snakemake" else ["-c", f"from {module} import main; main()"]
    )
    command = [sys.executable, *called, *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


def stale(folder: Path) -> dict[str, int]:
    text = run(
        folder, "snakemake", "--cores", "1", "--configfile", "toy.yaml", "-n", "--quiet", "rules"
    )
    counts = dict(re.findall(r"^(\w+) +(\d+)$", text, flags=re.MULTILINE))
    return {rule: int(n) for rule, n in counts.items() if rule not in ("all", "total")}


def test_a_new_study_runs_and_is_part_of_all_that_walks_studies(clone):
    results = clone / "results"
    verdict = pd.read_csv(results / "toy" / "verdict.csv")
    assert list(verdict["row"]) == ["one", "two"]
    assert set(verdict["verdict"]) == {"agrees"}
    page = (results / "report.html").read_text()
    assert "Dice" in page
    assert "Means of the rolls." in page
    assert (results / "toy" / "one" / "fair.nc.json").is_file()
    assert "toy_draws" in run(clone, "gpmcflow.cli", "forecast", "--configfile", "toy.yaml")
    assert "2 runs of a method" in run(clone, "gpmcflow.cli", "check", "toy.yaml")
    run(clone, "gpmcflow.cli", "keep", "toy", "parts.jsonl")
    rebuilt = run(clone, "gpmcflow.cli", "verdict", "toy", "parts.jsonl")
    assert rebuilt.splitlines() == (results / "toy" / "verdict.csv").read_text().splitlines()


STALE = {
    "replications/toy/runs.py": {
        "toy_draws": 2,
        "toy_summarise": 1,
        "toy_figures": 1,
        "build_report": 1,
    },
    "replications/judgement.py": {"toy_summarise": 1, "toy_figures": 1, "build_report": 1},
    "replications/toy/figures.py": {"toy_figures": 1, "build_report": 1},
    "run_page/page.py": {"build_report": 1},
    "analysis/page/page.py": {"build_report": 1},
    "samplers/latent/hamiltonian.py": {},
    "storage/files.py": {},
}


@contextlib.contextmanager
def added(clone: Path, line: str, *modules: str):
    """A line at the end of modules, for a while."""
    texts = {clone / "gpmcflow" / module: "" for module in modules}
    for path in texts:
        texts[path] = path.read_text()
        path.write_text(f"{texts[path]}\n{line}\n")
    try:
        yield
    finally:
        for path, text in texts.items():
            path.write_text(text)


@pytest.mark.parametrize("module", [name for name, jobs in STALE.items() if jobs])
def test_code_that_changes_makes_what_depends_on_it_again(clone, module):
    with added(clone, "ADDED = 1", module):
        assert stale(clone) == STALE[module]


def test_code_that_no_job_runs_and_comments_make_nothing_again(clone):
    assert stale(clone) == {}
    with added(clone, "ADDED = 1", *(name for name, jobs in STALE.items() if not jobs)):
        assert stale(clone) == {}
    with added(clone, "# a comment", *STALE):
        assert stale(clone) == {}
