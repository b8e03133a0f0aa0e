"""Snakemake and its jobs without the start of a Python each time, and all jobs of a config in one process."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FORKS = multiprocessing.get_context("forkserver")
LOADED = ["snakemake.cli", "gpmcflow.pipeline.plan", "gpmcflow.jobs.stated_models"]
FORKED = Path(__file__).with_name("forked_snakemake.py")
CALL = "import runpy; runpy.run_path(path)['command'](*arguments)"
ALL_JOBS = Path(__file__).with_name("all_jobs.py")


@pytest.fixture(scope="session")
def snakemake(tmp_path_factory) -> Callable[..., subprocess.CompletedProcess]:
    """Snakemake's command on a config, a path or a mapping; only imports are shared."""
    FORKS.set_forkserver_preload(LOADED)
    messages = tmp_path_factory.mktemp("messages")

    def call(
        folder: Path, *arguments: str, config: Path | dict, cores: int = 1
    ) -> subprocess.CompletedProcess:
        if isinstance(config, dict):
            config = _written(folder, config)
        command = ["--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder)]
        command += ["--configfile", str(config), "--cores", str(cores), *arguments]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SNAKEMAKE")}
        paths = [messages / "out", messages / "err"]
        for path in paths:
            path.write_text("")
        call = {"path": str(FORKED), "arguments": (command, environment, list(map(str, paths)))}
        process = FORKS.Process(target=exec, args=(CALL, call))
        process.start()
        process.join(1800)
        if process.exitcode is None:
            process.kill()
            pytest.fail("Snakemake took more than half an hour")
        return subprocess.CompletedProcess(
            command, process.exitcode, *(path.read_text() for path in paths)
        )

    return call


@pytest.fixture(scope="session")
def run_all_jobs() -> Callable[[Path, dict | Path], None]:
    """Every job of a config, one after another in one process, each on one thread."""

    def run(folder: Path, config: dict | Path) -> None:
        if isinstance(config, dict):
            config = _written(folder, config)
        done = subprocess.run(
            [sys.executable, str(ALL_JOBS), str(config)],
            cwd=folder, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]

    return run


def _written(folder: Path, config: dict) -> Path:
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path
