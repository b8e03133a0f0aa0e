"""The measure of seconds per iteration."""

from __future__ import annotations

import time

import pytest

from gpmcflow.jobs import costs as pace


@pytest.fixture
def clock(monkeypatch):
    """Processor time that passes only where a step says so."""
    now = [0.0]
    monkeypatch.setattr(time, "process_time", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("budget", "least", "steps"),
    [(0.0, 10, 10), (0.0, 1, 1), (3.0, 10, 10 + 31), (1e3, 10, 10 + 500)],
)
def test_the_mean_over_states_spread_over_a_run(clock, budget, least, steps):
    """Neither preparing a state nor the first step counts; a step takes 0.05 to 0.15 seconds."""
    shares, taken = [], []

    def step_at(share: float):
        shares.append(share)
        clock[0] += 7.0

        def step() -> None:
            clock[0] += 100.0 if not taken else 0.05 + 0.1 * share
            taken.append(share)

        return step

    seconds = pace.seconds_per_step(step_at, budget, least)
    assert len(taken) == 1 + steps
    last = shares[-(steps - least or least) :]
    assert seconds == pytest.approx(0.05 + 0.1 * sum(last) / len(last))
    assert min(last) == 0.0
    assert max(last) < 1.0
