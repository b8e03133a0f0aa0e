"""Snakemake without the start of a Python each time, and all jobs of a config in one process."""

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
CALL = """
import os, sys
from snakemake.cli import main
os.environ.clear()
os.environ.update(environment)
for number, path in enumerate(paths, start=1):
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
main(arguments)
"""
ALL_JOBS = Path(__file__).with_name("all_jobs.py")


@pytest.fixture(scope="session")
def snakemake(tmp_path_factory) -> Callable[..., subprocess.CompletedProcess]:
    """Snakemake's command on a config, a path or a mapping; only its imports are shared between calls."""
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
        names = {"arguments": command, "environment": environment, "paths": list(map(str, paths))}
        process = FORKS.Process(target=exec, args=(CALL, names))
        process.start()
        process.join(600)
        assert process.exitcode is not None
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
