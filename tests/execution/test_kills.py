"""Killed at any moment and started again, on any number of cores: the same bytes.

The long campaign is `benchmarks/kills.py`; these are a few of its kills.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpmcflow.execution import array_digest
from gpmcflow.storage import load_results, write_results

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def kills():
    sys.path.insert(0, str(BENCHMARKS))  # workers get it as well
    import kills

    yield kills
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def killed_job(kills):
    import killed_job

    return killed_job


@pytest.fixture(scope="module")
def expected(killed_job, tmp_path_factory):
    """Folder of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    write_results(killed_job.results(folder / "state"), folder / "results.nc")
    return folder


@pytest.mark.parametrize(("phase", "nth"), [("compute", 77), ("write", 9), ("rename", 24)])
def test_a_job_killed_in_any_phase_ends_in_the_same_bytes(
    kills, killed_job, expected, tmp_path, files, phase, nth
):
    kills.aim(tmp_path, phase, nth, "group")
    assert kills.kill_at_aim("in_process", tmp_path) == phase
    done = list((tmp_path / "state").rglob("segment_*.npz"))
    assert 0 < len(done) < 36
    assert not (tmp_path / "results.nc").exists()
    kept = {path: path.stat().st_mtime_ns for path in done}
    write_results(killed_job.results(tmp_path / "state"), tmp_path / "results.nc")
    assert {path: path.stat().st_mtime_ns for path in done} == kept  # none was computed again
    assert files(tmp_path / "state") == files(expected / "state")
    assert (tmp_path / "results.nc").read_bytes() == (expected / "results.nc").read_bytes()


def test_one_digest_on_any_cores_and_killed_and_resumed(
    kills, killed_job, tmp_path, expected, capsys
):
    from gpmcflow.execution import workers

    rows = {}
    for name, count in (("one core", 1), ("two cores", 2), ("four workers", 4)):
        with workers("processes" if count > 1 else "synchronous", count) as pool:
            tree = killed_job.results(tmp_path / name, pool)
            write_results(tree, tmp_path / f"{name}.nc")
        rows[name] = tmp_path / f"{name}.nc"
    kills.aim(tmp_path, "fsync", 31, "group")
    assert kills.kill_at_aim("in_process", tmp_path) == "fsync"
    with workers("threads", 2) as pool:
        write_results(killed_job.results(tmp_path / "state", pool), tmp_path / "killed.nc")
    rows["killed and resumed"] = tmp_path / "killed.nc"
    digests = {}
    for name, path in rows.items():
        posterior = load_results(path)["posterior"].to_dataset()
        digests[name] = array_digest(posterior.variables)
    with capsys.disabled():
        print("\n" + "\n".join(f"{name:20} {digest}" for name, digest in digests.items()))
    assert len(set(digests.values())) == 1
    whole = (expected / "results.nc").read_bytes()
    assert all(path.read_bytes() == whole for path in rows.values())
