from __future__ import annotations

import io
import logging

from gpmcflow.execution import Progress, progress


class Clock:
    def __init__(self):
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_gets_a_line_a_second_and_the_last(caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    report = Progress("sample pima", 10, stream=io.StringIO())
    for acceptance in [0.5] * 5 + [1.0] * 5:
        clock.now += 0.5
        report.update(acceptance)
    report.close()
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "sample pima: 1/10 segments, acceptance 0.50, 0:04 left",
        "sample pima: 3/10 segments, acceptance 0.50, 0:04 left",
        "sample pima: 5/10 segments, acceptance 0.50, 0:02 left",
        "sample pima: 7/10 segments, acceptance 0.64, 0:02 left",
        "sample pima: 9/10 segments, acceptance 0.72, 0:00 left",
        "sample pima: 10/10 segments, acceptance 0.75, 0:05 in all",
    ]


def test_time_left_does_not_count_what_was_found_on_disk(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    report = Progress("sample", 100, stream=io.StringIO())
    for _ in range(50):
        report.update(found=True)
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
    assert terminal.getvalue().count("\r") == 4
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
