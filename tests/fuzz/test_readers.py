"""A hundred changed inputs of each reader; ``python -m tests.fuzz`` gives thousands."""

from __future__ import annotations

import contextlib
import sys

import pytest

from gpmcflow.errors import InputError, one_line

from .__main__ import count, in_a_child
from .outcome import TooSlowError, outcome
from .readers import IN_A_CHILD, readers

EXAMPLES = 100
FEWER = {"tables of an analysis": 50}  # a page with its pictures each time


@pytest.mark.parametrize("name", sorted(readers().keys() - set(IN_A_CHILD)))
def test_a_reader_succeeds_or_refuses_in_one_line(name):
    examples = FEWER.get(name, EXAMPLES)
    made = count(name, examples)
    assert made.failed == 0, "\n".join(made.shown)
    assert made.inputs >= examples
    assert made.read > 0  # else nothing would be seen of what lies behind the first check
    assert made.refused > 0


@pytest.mark.parametrize("name", IN_A_CHILD)
def test_a_reader_that_calls_c_does_so_too(name, capfd):
    child = in_a_child(name, EXAMPLES)
    assert child.returncode == 0, child.stderr
    assert f"| {name} | {EXAMPLES} |" in capfd.readouterr().out


def raising(error):
    def read(value, folder):
        raise error

    return read


@pytest.mark.parametrize(
    "error", [ValueError("a"), KeyError("a"), RecursionError("a"), MemoryError()]
)
def test_another_error_is_a_failure(tmp_path, error):
    with pytest.raises(type(error)):
        outcome(raising(error), None, tmp_path)


def test_two_lines_are_a_failure(tmp_path):
    error = InputError("a")
    error.args = ("a\nb",)
    with pytest.raises(AssertionError, match="not one line"):
        outcome(raising(error), None, tmp_path)


def test_what_does_not_end_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[outcome.__module__], "SECONDS", 0.2)

    def read(value, folder):
        while True:
            with contextlib.suppress(Exception):
                sum(range(1000))

    with pytest.raises(TooSlowError):
        outcome(read, None, tmp_path)


def test_what_takes_all_memory_is_a_failure(tmp_path):
    with pytest.raises(MemoryError):
        outcome(lambda value, folder: bytearray(3 * 1024**3), None, tmp_path)


def test_success_and_refusal_are_told_apart(tmp_path):
    assert outcome(lambda value, folder: None, None, tmp_path).read
    assert not outcome(raising(InputError("a\nb")), None, tmp_path).read


@pytest.mark.parametrize(
    "text", ["a\nb", "a\r\nb", "a\x00b", "a\u2028b", "a\x85b", "a\x1b[2Jb", "a\ud800b"]
)
def test_a_message_is_one_line_that_can_be_printed(text):
    line = one_line(text)
    assert line.isprintable()
    assert line.startswith("a\\")
    assert line.endswith("b")
    assert str(InputError(text)) == line


def test_a_long_message_keeps_its_ends():
    line = one_line("start" + 100_000 * "x" + "end")
    assert len(line) < 2500
    assert line.startswith("start")
    assert line.endswith("end")
