"""A signal to end costs no finished segment, and no worker outlives its run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gpmcflow.execution import Execution, array_digest, graceful_stop, run
from gpmcflow.execution.signals import Stopped, finish_first, stop_if_asked

SIZES = {"n_chains": 4, "length": 50, "seed": 1}
HOW = Execution(block_size=2, segment_length=10)
HERE = str(Path(__file__).parent)


class Signalling:
    """Sends this process a signal in the middle of a segment, the first time it gets there."""

    def __init__(self, program, number: int):
        self.program, self.number = program, number
        self.start, self.outputs = program.start, program.outputs

    def advance(self, rng, carry, start, stop):
        if start == 20 and self.number:
            number, self.number = self.number, 0
            os.kill(os.getpid(), number)
        return self.program.advance(rng, carry, start, stop)


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_the_segment_under_way_is_finished_and_kept(walk, tmp_path, capfd, scheduler, number):
    program, expected = walk(), array_digest(run(walk(), **SIZES, execution=HOW))
    with pytest.raises(Stopped) as stopped, graceful_stop():
        run(
            Signalling(program, number),
            **SIZES,
            execution=replace(HOW, state_dir=tmp_path, scheduler=scheduler),
        )
    kept = len(list(tmp_path.rglob("segment_*.npz")))
    assert kept == len(program.calls) < 10
    assert str(stopped.value) == (
        f"stopped by {number.name}: {kept} of 10 segments are kept in {tmp_path}; "
        "give the same command again to go on."
    )
    assert "a second signal ends it at once" in capfd.readouterr().err
    again = walk()
    assert array_digest(run(again, **SIZES, execution=replace(HOW, state_dir=tmp_path))) == expected
    assert len(again.calls) == 10 - kept


def test_a_run_without_a_folder_says_that_nothing_is_kept(walk):
    with pytest.raises(Stopped, match=r"by SIGTERM; nothing is kept"), graceful_stop():
        run(Signalling(walk(), signal.SIGTERM), **SIZES, execution=HOW)


def test_outside_of_a_run_it_ends_at_once():
    with pytest.raises(Stopped, match="give the same command again"), graceful_stop():
        os.kill(os.getpid(), signal.SIGTERM)


def test_what_is_to_be_finished_is_finished():
    def work():
        with finish_first():
            os.kill(os.getpid(), signal.SIGUSR1)
            finished.append(1)
            stop_if_asked()

    finished = []
    with pytest.raises(Stopped, match="SIGUSR1"), graceful_stop():
        work()
    assert finished == [1]
    with finish_first():
        stop_if_asked()  # the request ended with its `graceful_stop`


def test_who_does_not_ask_for_it_has_the_signals_as_they_were(walk):
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGUSR1)
    run(walk(), **SIZES, execution=HOW)
    assert before == (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGUSR1))
    with graceful_stop():
        assert signal.getsignal(signal.SIGTERM) != before[0]
    assert before == (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGUSR1))


CHILD = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from conftest import Walk
from gpmcflow.execution import Execution, graceful_stop, run
from gpmcflow.execution.signals import EXIT_CODE, Stopped

class Slow(Walk):
    def advance(self, rng, carry, start, stop):
        open(os.path.join(sys.argv[2], f"{rng.chains[0]}-{start}"), "w").close()
        time.sleep(float(sys.argv[3]))
        return super().advance(rng, carry, start, stop)

if __name__ == "__main__":
    try:
        with graceful_stop():
            how = Execution(workers=2, block_size=2, segment_length=10, state_dir=sys.argv[2])
            run(Slow(), n_chains=4, length=50, seed=1, execution=how)
    except Stopped as stopped:
        print(stopped, flush=True)
        sys.exit(EXIT_CODE)
"""


def start_child(folder: Path, seconds: float) -> subprocess.Popen:
    """Start a run of two worker processes in its own group; come back when both are at work."""
    command = [sys.executable, "-c", CHILD, HERE, str(folder), str(seconds)]
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for(lambda: (folder / "0-0").exists() and (folder / "2-0").exists())
    return child


def wait_for(condition, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def group_is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def test_workers_write_their_segments_though_the_group_is_signalled(walk, tmp_path):
    child = start_child(tmp_path, 0.7)
    os.killpg(child.pid, signal.SIGUSR1)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 75, err
    wait_for(lambda: group_is_gone(child.pid), 10)
    kept = sorted(tmp_path.rglob("segment_*.npz"))
    assert {path.parent.name for path in kept} == {"block_00000", "block_00001"}
    assert f"stopped by SIGUSR1: {len(kept)} of 10 segments are kept" in out
    assert "Traceback" not in err
    assert list(tmp_path.rglob("*.tmp")) == []
    program = walk()
    expected = array_digest(run(walk(), **SIZES, execution=HOW))
    arrays = run(program, **SIZES, execution=replace(HOW, state_dir=tmp_path))
    assert array_digest(arrays) == expected
    assert len(program.calls) == 10 - len(kept)


@pytest.mark.parametrize("numbers", [(signal.SIGTERM, signal.SIGTERM), (signal.SIGKILL,)])
def test_a_second_signal_or_a_kill_leaves_no_worker_behind(tmp_path, numbers):
    child = start_child(tmp_path, 600)
    for number in numbers:
        child.send_signal(number)
        time.sleep(0.3)
    _, err = child.communicate(timeout=30)
    assert child.returncode == -numbers[-1], err
    wait_for(lambda: group_is_gone(child.pid), 10)
