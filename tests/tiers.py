"""Two tiers of tests: a plain run skips what a committed table lists as slower than 0.3 s.

``python -m pytest`` runs the fast tests, ``python -m pytest --all`` all but those of SLURM, and
``python -m pytest -m slow`` the rest alone. A test without a row counts as fast until it is measured.

To renew the table on a quiet machine: ``python -m pytest --all --write-durations=tests/durations.csv``.
To time both tiers: ``python -m tests.tiers``.
"""

from __future__ import annotations

import csv
import os
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

TABLE = Path(__file__).with_name("durations.csv")
SLOW = 0.3  #: seconds
PLAIN = "not slow and not slurm"  #: the tests of a plain run, as in pyproject.toml
ALL = "not slurm"


def loop_seconds() -> float:
    """Wall seconds of a Python loop of 2e7 additions, by which two machines are compared."""
    began, total = time.perf_counter(), 0
    for i in range(20_000_000):
        total += i
    return time.perf_counter() - began


def read_durations(path: Path = TABLE) -> dict[str, float]:
    """Seconds of each slow test by its node id; none without a table."""
    if not path.is_file():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {row["test"]: float(row["seconds"]) for row in csv.DictReader(file)}


def write_durations(measured: dict[str, float], path: Path, complete: bool) -> None:
    """Write the slow ones of measured tests to a table; after a complete run it has no others."""
    known = {} if complete else read_durations(path)
    rows = {test: s for test, s in known.items() if test not in measured}
    rows |= {test: s for test, s in measured.items() if s > SLOW}
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("test", "seconds"))
        table.writerows((test, f"{rows[test]:.2g}") for test in sorted(rows))


def longest_first(tests: Iterable[str]) -> dict[str, int]:
    """Place of each file, those that take longest first, so that workers end together."""
    durations, total = read_durations(), defaultdict(float)
    for test in tests:
        total[_file(test)] += durations.get(test, SLOW / 10)
    ordered = sorted(total, key=lambda name: -total[name])
    return {name: place for place, name in enumerate(ordered)}


def _file(test: str) -> str:
    return test.partition("::")[0]


def mark_expression(config: pytest.Config) -> str:
    """What the run selects: all tests if asked to or if a test is named, else what ``-m`` says."""
    named = any("::" in argument for argument in config.args)
    asked = config.option.markexpr
    return ALL if asked == PLAIN and (config.option.all or named) else asked


class TimeLimit:
    """Skips, and says so, what has not begun when the seconds of a run are over."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.began = seconds, time.monotonic()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        if time.monotonic() - self.began > self.seconds:
            pytest.skip(f"not run: the {self.seconds:.0f} s of --time-limit were over")


class Durations:
    """Measures what each test takes on its own: a fixture that several share counts in each of them."""

    def __init__(self, path: str, complete: bool) -> None:
        self.path, self.complete = path, complete
        self.shared: dict[
            object, float
        ] = {}  # by definition, as folders use one name for other things
        self.set_up_now = 0.0
        self.measured: defaultdict[str, float] = defaultdict(float)
        self.skipped: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        began = time.perf_counter()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self.shared[fixturedef] = time.perf_counter() - began
                self.set_up_now += self.shared[fixturedef]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        if call.when == "setup":
            known = item._fixtureinfo.name2fixturedefs
            used = {known[name][-1] for name in item.fixturenames if name in known}
            of_others = sum(self.shared.get(each, 0.0) for each in used)
            item.user_properties.append(("shared_setup", of_others - self.set_up_now))
            self.set_up_now = 0.0
        return (yield)

    def pytest_runtest_logreport(self, report):
        self.measured[report.nodeid] += report.duration
        if report.skipped:
            self.skipped.add(report.nodeid)
        if report.when == "setup":
            self.measured[report.nodeid] += dict(report.user_properties).get("shared_setup", 0.0)

    def pytest_sessionfinish(self, session):
        if not hasattr(session.config, "workerinput"):
            measured = {test: s for test, s in self.measured.items() if test not in self.skipped}
            write_durations(measured, Path(self.path), self.complete)


def main() -> None:
    """Time both tiers: wall and CPU seconds, and wall in loops of 2e7 additions."""
    for name, arguments in {"fast": [], "all": ["--all"]}.items():
        loop = loop_seconds()
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        code = subprocess.call([sys.executable, "-m", "pytest", "-q", *arguments])
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        loop = (loop + loop_seconds()) / 2
        print(
            f"{name}: exit {code}, wall {wall:.0f} s, CPU {cpu:.0f} s, {os.cpu_count()} cores, "
            f"loop {loop:.2f} s, {wall / loop:.0f} loops"
        )


if __name__ == "__main__":
    main()
