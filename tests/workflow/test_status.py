"""What `gpmcflow status` and `clean` say of state folders, and what can be read of a run that goes on."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import psutil
import pytest

from gpmcflow import GPModel, JointSplitHMC, Logistic, Matern32, sample
from gpmcflow.cli import main
from gpmcflow.errors import StorageError
from gpmcflow.execution import Execution, run
from gpmcflow.execution.lock import state_lock
from gpmcflow.jobs.resources import chains_of
from gpmcflow.monitor.clean import remove_state, unneeded_state
from gpmcflow.monitor.status import job_statuses
from gpmcflow.monitor.status_diagnostics import MOST_BYTES, partial_results
from gpmcflow.replications.rmhmc_ais.runs import annealing_runs

SIZES = {"n_chains": 6, "length": 120}
PIECES = {"block_size": 4, "segment_length": 20}
GRID = SIZES | PIECES  # as a manifest has it
N_SEGMENTS = 12


@dataclass(frozen=True)
class Autoregression:
    """x' = rho x + sqrt(1 - rho^2) noise from a first x, which stands for the log likelihood, too."""

    rho: float = 0.5
    first: float = 0.0

    def outputs(self):
        return {
            "sum_log_likelihood": ((), "<f8"),
            "acceptance_rate": ((), "<f8"),
            "accepted": ((), "|i1"),
            "latent": ((2,), "<f8"),
        }

    def start(self, rng):
        return {"x": np.full((len(rng), 2), self.first)}

    def advance(self, rng, carry, start, stop):
        x, kept = carry["x"], []
        for _ in range(start, stop):
            x = self.rho * x + np.sqrt(1 - self.rho**2) * rng.standard_normal((2,))
            kept.append(x)
        latent = np.stack(kept, axis=1)
        rate = np.broadcast_to(0.25 + 0.5 * (np.arange(start, stop) >= 60), latent.shape[:2])
        outputs = {
            "sum_log_likelihood": latent[..., 0].copy(),
            "acceptance_rate": rate.copy(),
            "accepted": np.ones(latent.shape[:2], np.int8),
            "latent": latent,
        }
        return {"x": x}, outputs


@dataclass(frozen=True)
class Weights:
    """Log weight increments of equal variance at each temperature."""

    def outputs(self):
        return {"log_weight_increment": ((), "<f8")}

    def start(self, rng):
        return {"nothing": np.zeros((len(rng), 1))}

    def advance(self, rng, carry, start, stop):
        return carry, {"log_weight_increment": 0.1 * rng.standard_normal((stop - start,))}


@pytest.fixture(scope="module")
def gone() -> int:
    """Number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture(autouse=True)
def old_process(monkeypatch):
    """Let this process have begun before the runs whose manifests name it."""
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: time.time() - 7200)


def manifest(path: Path, seconds_ago: float = 3600.0, **fields) -> None:
    began = datetime.fromtimestamp(time.time() - seconds_ago, UTC).isoformat()
    owner = {"pid": os.getpid(), "host": socket.gethostname(), "started_at": began}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**owner, **fields}))


def make_job(results: Path, name: str, program=None, spacing: float = 30.0, **fields) -> Path:
    """State of a finished run, each block's segments `spacing` seconds apart, the last one just now."""
    folder = results / ".state" / name
    template = results.parents[1] / repr(program or Autoregression())
    if not template.exists():
        how = Execution(**PIECES, state_dir=template, settings={})
        run(program or Autoregression(), **SIZES, seed=3, execution=how)
    shutil.copytree(template, folder)
    output = fields.pop("output", f"results/{name}.nc")
    manifest(folder / "run.json", label=f"label of {name}", settings={}, **GRID, **fields)
    manifest(folder / "job.json", output=output, rule="chains", wildcards={}, **fields)
    age(folder, spacing)
    return folder


def age(folder: Path, spacing: float, silence: float = 0.0) -> None:
    now = time.time() - silence
    for block in folder.glob("block_*"):
        files = sorted(block.glob("segment_*"))
        for index, path in enumerate(files):
            moment = now - spacing * (len(files) - 1 - index)
            os.utime(path, (moment, moment))
    for path in folder.glob("*.json"):
        os.utime(path, (now - 3000, now - 3000))


def drop(folder: Path, block: int, first: int) -> None:
    for index in range(first, 6):
        (folder / f"block_{block:05d}" / f"segment_{index:05d}.npz").unlink(missing_ok=True)


@pytest.fixture
def results(tmp_path) -> Path:
    (tmp_path / "results").mkdir()
    return tmp_path / "results"


def only(results: Path):
    (status,) = job_statuses(results)
    return status


def test_running_job_with_its_numbers(results):
    folder = make_job(results, "a")
    drop(folder, 1, 3)
    age(folder, 30.0)
    status = only(results)
    assert (status.job, status.state) == ("a.nc", "running")
    assert (status.segments_done, status.segments_total) == (9, N_SEGMENTS)
    # the later half of the draws all blocks have: 20 to 59 of 60
    assert status.acceptance == pytest.approx(0.25)
    assert 0.99 < status.rhat < 1.2
    # 480 draws of an autoregression of 0.5, a third each: 160
    assert 60 < status.effective_size < 400
    # 9 segments in 150 s, three to come
    assert status.seconds_left == pytest.approx(3 * 150 / 8, rel=0.3)
    assert status.seconds_per_segment == pytest.approx(30.0, rel=0.01)


def test_acceptance_and_mixing_are_of_the_later_half(results):
    make_job(results, "a", Autoregression(first=30.0))  # far off, for some ten of 120 draws
    status = only(results)
    assert status.acceptance == pytest.approx(0.75)
    assert status.rhat < 1.1


def test_chains_that_do_not_mix_are_seen(results):
    make_job(results, "a", Autoregression(rho=0.999))
    status = only(results)
    assert status.rhat > 1.3
    assert status.effective_size < 40


def test_chains_that_stand_still_raise_no_warning(results):
    make_job(results, "still", Autoregression(rho=1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert only(results).rhat is None


def test_effective_size_of_annealing_weights(results):
    folder = make_job(results, "a", Weights())
    drop(folder, 1, 4)
    status = only(results)
    assert status.rhat is None
    assert 3.0 < status.effective_size < 6.0  # of six particles, with weights of sd 0.9


def test_segments_of_all_ladders_are_counted(results):
    folder = make_job(results, "a")
    method = {"particles": 6, "temperatures": [120, 30], "replicates": 2, "reverse": True}
    runs = [[chains_of(method), length] for _, length in annealing_runs(method)]
    manifest(folder / "job.json", **{**json.loads((folder / "job.json").read_text()), "runs": runs})
    manifest(folder / "run.json", **GRID)
    # two blocks; forward and back 6 and 2 segments, and one for the start of each way back
    assert only(results).segments_total == 2 * 2 * (2 * 6 + 2 * 2 + 2)


def test_stalled_interrupted_finished(results, gone):
    folder = make_job(results, "a")
    drop(folder, 1, 5)
    age(folder, 30.0, silence=301.0)
    assert only(results).state == "stalled"
    age(folder, 30.0, silence=299.0)
    assert only(results).state == "running"
    manifest(folder / "job.json", output="results/a.nc", pid=gone)
    assert only(results).state == "interrupted"
    assert only(results).seconds_left is None
    (results / "a.nc").write_text("whole")
    assert only(results).state == "finished"
    manifest(folder / "job.json", seconds_ago=-1, output="results/a.nc")  # asked for again
    os.utime(results / "a.nc", (1e9, 1e9))
    assert only(results).state == "running"


def test_number_of_a_dead_process_that_another_one_has_got(results):
    folder = make_job(results, "a")
    manifest(folder / "job.json", seconds_ago=1e8, output="results/a.nc")
    assert only(results).state == "interrupted"


def test_a_held_lock_says_more_than_a_process_number(results, gone):
    folder = make_job(results, "a", pid=gone)
    with state_lock(folder):
        assert only(results).state == "running"
        assert reasons(results, []) == {"a": None}
    assert only(results).state == "interrupted"
    assert reasons(results, []) == {"a": "not in the config"}


def test_run_outside_a_workflow(results, gone):
    folder = make_job(results, "a", pid=gone)
    (folder / "job.json").unlink()
    assert only(folder).state == "finished"
    drop(folder, 1, 5)
    assert (only(folder).job, only(folder).state) == ("label of a", "interrupted")


def test_job_on_another_machine_counts_as_alive_until_it_is_silent(results, gone):
    folder = make_job(results, "a", pid=gone, host="elsewhere")
    assert only(results).state == "running"
    age(folder, 30.0, silence=1000.0)
    assert only(results).state == "stalled"


def test_half_written_and_vanishing_files_do_no_harm(results):
    folder = make_job(results, "a")
    (folder / "run.json").write_text('{"label": "x", "n_cha')
    assert only(results).segments_total == 0
    (folder / "job.json").write_text("")
    assert only(results).state == "interrupted"
    manifest(folder / "run.json", label="x", **GRID)
    for path in folder.glob("block_*/segment_*"):
        path.write_bytes(path.read_bytes()[:100])  # as after a power loss
    status = only(results)
    assert (status.job, status.rhat, status.segments_done) == ("x", None, N_SEGMENTS)
    (folder / "run.json").write_text(json.dumps({**GRID, "length": -1}))
    assert only(results).segments_total == 0


def test_little_is_read_of_a_long_run(results, monkeypatch):
    import gpmcflow.monitor.status_diagnostics as diagnostics

    make_job(results, "a")
    size = 4 * 20 * 8
    monkeypatch.setattr(diagnostics, "MOST_BYTES", 3 * size)
    read = []
    original = diagnostics.read_arrays
    monkeypatch.setattr(
        diagnostics, "read_arrays", lambda path, names: read.append(path) or original(path, names)
    )
    assert only(results).rhat is not None
    assert len(read) == 2 * 3  # acceptance and log likelihood, three segments each
    assert MOST_BYTES <= 5_000_000


def test_partial_results_of_a_run_that_goes_on(results):
    folder = make_job(results, "a")
    whole = partial_results(folder).load()
    arrays = run(Autoregression(), **SIZES, seed=3, execution=Execution(**PIECES))
    for name, array in arrays.items():
        assert whole[name].dtype == array.dtype
        np.testing.assert_array_equal(whole[name].values, array.compute())
    drop(folder, 1, 3)
    tree = partial_results(folder)
    assert dict(tree.sizes) == {"chain": 6, "draw": 120, "latent_dim": 2}
    assert tree["n_finished"].values.tolist() == [120] * 4 + [60] * 2
    latent = tree["latent"]
    assert latent.chunks[:2] == ((4, 2), (20,) * 6)
    np.testing.assert_array_equal(latent.values[4:, :60], whole["latent"].values[4:, :60])
    assert np.isnan(latent.values[4:, 60:]).all()
    assert tree["accepted"].dtype == float
    drop(folder, 0, 0)
    assert partial_results(folder)["chain"].values.tolist() == [4, 5]


def test_partial_results_of_a_run_with_a_pilot(tmp_path):
    """The pilot's chains and draws are not those of the run: it is opened by itself."""
    model = GPModel(np.arange(6.0), np.tile([1.0, -1.0], 3), Matern32(), Logistic())
    for name in ("a", "b"):
        how = Execution(state_dir=tmp_path / name, progress=False)
        sample(model, JointSplitHMC(), n_chains=2, n_draws=20, execution=how)
    tree = partial_results(tmp_path / "a")
    assert tree.sizes["draw"] == 20
    assert tree.children == {}
    assert partial_results(tmp_path / "a" / "pilot").sizes["chain"] == 1
    assert {*partial_results(tmp_path).children} == {"a", "b"}


def test_partial_results_are_a_group_a_run(results):
    folder = make_job(results, "a")
    (folder / "job.json").unlink()
    folder.rename(results / "t0010_r0")
    (results / "job").mkdir()
    (results / "t0010_r0").rename(results / "job" / "t0010_r0")
    assert partial_results(results / "job")["t0010_r0/latent"].shape == (6, 120, 2)
    with pytest.raises(StorageError, match="no finished segment"):
        partial_results(results / "elsewhere")


def test_segment_of_an_earlier_shorter_run_is_left_out(results):
    folder = results / "state"
    how = Execution(**PIECES, state_dir=folder, settings={})
    run(Autoregression(), **SIZES | {"length": 50}, seed=3, execution=how)
    manifest(folder / "run.json", **GRID)
    assert partial_results(folder).sizes["draw"] == 40


def test_status_command(results, capsys):
    make_job(results, "a")
    assert main(["status", str(results)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1].split()[:3] == ["a.nc", "running", "12/12"]
    assert out[-1] == "1 running, 0 stalled, 0 interrupted, 0 finished"
    assert main(["status", "--json", str(results)]) == 0
    (status,) = json.loads(capsys.readouterr().out)
    assert status["state_dir"].endswith("a")
    assert status["segments_done"] == 12
    assert main(["status", str(results / "nowhere")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def reasons(results: Path, outputs=None) -> dict[str, str | None]:
    return {folder.path.name: folder.reason for folder in unneeded_state(results, outputs)}


def test_clean_judges_by_output_successor_and_config(results, gone):
    for name in ("done", "old", "new", "dropped", "kept", "alive"):
        make_job(results, name, pid=os.getpid() if name == "alive" else gone)
    (results / "done.nc").write_text("whole")
    state = results / ".state"
    manifest(state / "old" / "job.json", output="results/same.nc", pid=gone, seconds_ago=9000)
    manifest(state / "new" / "job.json", output="results/same.nc", pid=gone, seconds_ago=10)
    needed = ["results/same.nc", "results/kept.nc"]
    superseded = "superseded by a later run of the job"
    found = dict.fromkeys(["new", "dropped", "kept", "alive"]) | {
        "done": "finished",
        "old": superseded,
    }
    assert reasons(results) == found
    assert reasons(results, needed) == found | {"dropped": "not in the config"}


def test_clean_keeps_the_certificate_of_another_model(results, gone):
    for model, seconds in (("lines", 9000), ("curve", 10)):
        folder = make_job(results, model, pid=gone)
        about = {"output": "results/plots/certificate.csv", "wildcards": {"model": model}}
        manifest(folder / "job.json", **about, pid=gone, seconds_ago=seconds)
    assert reasons(results) == {"lines": None, "curve": None}


def test_clean_keeps_what_is_alive_or_may_be(results, gone):
    folder = make_job(results, "a", host="elsewhere", pid=gone)
    assert reasons(results, []) == {"a": None}
    for path in folder.rglob("*"):
        os.utime(path, (time.time() - 90000,) * 2)
    assert reasons(results, []) == {"a": "not in the config"}
    make_job(results, "b", pid=gone)
    (results / ".state" / "b" / "job.json").unlink()
    assert reasons(results, [])["b"] is None
    for path in (results / ".state" / "b").rglob("*"):
        os.utime(path, (time.time() - 4000,) * 2)
    assert reasons(results, [])["b"] == "belongs to no known job"


def test_clean_looks_again_before_it_removes(results, gone):
    folder = make_job(results, "a", pid=gone)
    found = unneeded_state(results, [])
    manifest(folder / "job.json", output="results/a.nc")  # taken up in the meantime
    assert remove_state(found, results) == 0
    assert folder.is_dir()


def test_clean_command_removes_with_yes_alone(results, capsys, gone):
    make_job(results, "a", pid=gone)
    (results / "a.nc").write_text("whole")
    alive = make_job(results, "b")
    assert main(["clean", str(results)]) == 0
    out = capsys.readouterr().out
    assert "remove: finished" in out
    assert "nothing was removed" in out
    assert (results / ".state" / "a").is_dir()
    assert main(["clean", str(results), "--yes"]) == 0
    assert "removed" in capsys.readouterr().out
    assert not (results / ".state" / "a").exists()
    assert alive.is_dir()
    assert (results / "a.nc").exists()
