from __future__ import annotations

import io
import logging
import sys
from types import SimpleNamespace
from typing import ClassVar

import pytest

from gpmcflow.execution import Progress, progress


class Clock:
    def __init__(self):
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_after_two_seconds_a_log_gets_a_line_a_second_and_the_last(caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    report = Progress("sample pima", 10, stream=io.StringIO())
    for acceptance in [0.5] * 5 + [1.0] * 5:
        clock.now += 0.5
        report.update(acceptance)
        assert bool(caplog.records) == (clock.now >= 102.0)
    report.close()
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "sample pima: 4/10 segments, acceptance 0.50, 0:03 left",
        "sample pima: 6/10 segments, acceptance 0.58, 0:02 left",
        "sample pima: 8/10 segments, acceptance 0.69, 0:01 left",
        "sample pima: 10/10 segments, acceptance 0.75, 0:05 in all",
    ]


def test_an_odd_last_segment_is_shown_before_its_second_is_over(caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    report = Progress("sample", 5, stream=io.StringIO())
    for _ in range(5):
        clock.now += 0.5
        report.update()
    assert [record.getMessage() for record in caplog.records] == [
        "sample: 4/5 segments, 0:00 left",
        "sample: 5/5 segments, 0:02 in all",
    ]


@pytest.mark.parametrize("terminal", [False, True])
def test_work_of_less_than_two_seconds_shows_nothing(terminal, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    stream = Terminal() if terminal else io.StringIO()
    report = Progress("sample", 19, stream=stream)
    for _ in range(19):
        clock.now += 0.1
        report.update(0.5, restored=True)
    report.close()
    assert report.text().startswith("19/19 segments, 19 found on disk")  # counted, though silent
    assert stream.getvalue() == ""
    assert caplog.records == []


def test_time_left_does_not_count_what_was_found_on_disk(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    report = Progress("sample", 100, stream=io.StringIO())
    for _ in range(50):
        report.update(restored=True)
    assert report.text() == "50/100 segments, 50 found on disk"
    clock.now += 10
    report.update()
    assert report.text() == "51/100 segments, 50 found on disk, 8:10 left"


def test_a_terminal_gets_one_bar(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    terminal = Terminal()
    report = Progress("sample", 4, stream=terminal)
    for _ in range(4):
        clock.now += 1
        report.update()
    report.close()
    assert terminal.getvalue().count("\n") == 1
    assert terminal.getvalue().count("\r") == 3  # none at the end of the first second
    assert "[" + "#" * 24 + "] 4/4 segments" in terminal.getvalue()


def test_a_clock_that_is_set_back_neither_silences_nor_counts_below_nothing(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    terminal = Terminal()
    report = Progress("sample", 10, stream=terminal)
    clock.now += 50
    report.update()
    clock.now -= 3600
    for _ in range(3):
        clock.now += 1
        report.update()
    assert terminal.getvalue().count("\r") == 4
    assert report.text() == "4/10 segments, 0:00 left"


def test_work_whose_end_is_not_known_is_counted(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    terminal = Terminal()
    report = Progress("approximate", stream=terminal, unit="fits")
    for _ in range(3):
        clock.now += 1.5
        report.update()
    report.close()
    assert terminal.getvalue().split("\r")[-1] == (
        "approximate [############............] 3 fits\x1b[K\n"
    )


def test_a_notebook_gets_a_bar_of_tqdm_with_the_same_words(monkeypatch, capsys, caplog):
    caplog.set_level(logging.INFO)
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    report = Progress("sample", 4)
    for _ in range(4):
        clock.now += 1.5
        report.update(0.5)
    report.close()
    shown = [line for line in capsys.readouterr().err.split("\r") if line.strip()]
    assert [line.split("| ")[1].strip() for line in shown[:3]] == [
        "sample: 2/4 segments, acceptance 0.50, 0:03 left",
        "sample: 3/4 segments, acceptance 0.50, 0:02 left",
        "sample: 4/4 segments, acceptance 0.50, 0:06 in all",
    ]
    assert caplog.records == []


def test_the_kernel_of_a_notebook_is_known_by_its_application(monkeypatch):
    class Shell:
        config: ClassVar = {}

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not progress.in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=Shell))
    assert not progress.in_notebook()  # IPython in a terminal
    Shell.config = {"IPKernelApp": {}}
    assert progress.in_notebook()
