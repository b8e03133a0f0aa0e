"""Errors a user can act on: one message with where, what was found, what is allowed, what to do."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterable, Iterator

_MOST = 2000  # characters of a message: what is allowed may be a list of all columns of a table


class GpmcflowError(Exception):
    """Base of all errors that the user can correct; the command line prints only its message.

    The message is one line, whatever the file or the library said that it quotes.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


class InputError(GpmcflowError, ValueError):
    """A wrong value in the config, in an argument or in a data file."""


class InputErrors(InputError):  # noqa: N818 (it holds several)
    """All that is wrong at once, one line each in `problems`; the message is the first."""

    def __init__(self, problems: Iterable[str], where: str = "") -> None:
        self.problems, self.where = [one_line(problem) for problem in problems], where
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        super().__init__(f"{f'{where}: ' if where else ''}{self.problems[0]}{more}")

    def __reduce__(self) -> tuple:
        return InputErrors, (self.problems, self.where)


class StorageError(GpmcflowError, OSError):
    """A results file that is missing, truncated, foreign, or cannot be written."""


class NumericalError(GpmcflowError, ArithmeticError):
    """A computation that cannot go on: a matrix not positive definite, a fit that does not converge."""


class ResourceError(GpmcflowError, RuntimeError):
    """Work that would not fit into the memory, disk or time it may use."""


class UnavailableError(ResourceError):
    """What is not to be had now and may be later, such as a Dask cluster: a retry is worth it."""


def out_of_memory(error: BaseException) -> ResourceError | None:
    """Return the error to tell where one means that the process was given no more memory; None for others.

    A library may have raised an error of its own in its place, as llvmlite does.

    >>> str(out_of_memory(MemoryError("Unable to allocate 8 GiB")))[:63]
    'this process was given no more memory (Unable to allocate 8 GiB'
    >>> out_of_memory(KeyError("a")) is None
    True
    """
    said = str(error) or type(error).__name__
    if not isinstance(error, MemoryError):
        if not isinstance(error, ImportError | OSError | RuntimeError):
            return None
        marks = ("failed to map segment", "annot allocate memory", "can't start new thread")
        if not any(mark in said for mark in marks):
            return out_of_memory(error.__context__) if error.__context__ else None
    return ResourceError(
        f"this process was given no more memory ({said}); raise its limit (ulimit -v), use fewer rows or "
        "columns, or a machine with more memory"
    )


@contextlib.contextmanager
def refuse_unfit(where: str, advice: str) -> Iterator[None]:
    """Turn what values raise that do not fit, read from files by the block, into a `StorageError`.

    For files of our own making: their values are not checked one by one, as only damage can change them.
    """
    try:
        yield
    except GpmcflowError:
        raise
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        NotImplementedError,  # of Arrow's, for numbers that came as text
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        kind = type(error).__name__
        raise StorageError(
            f"{where}: damaged, or of something else ({kind}: {error}); {advice}"
        ) from error


def one_line(text: str) -> str:
    """Return text in one line: what cannot be printed as Python writes it, the middle of much left out.

    >>> one_line("a name\\n: not found")
    'a name\\\\n: not found'
    """
    shown = str(text)
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else _escaped(c) for c in shown)
    return shown if len(shown) <= _MOST else f"{shown[: _MOST // 2]} ... {shown[-_MOST // 4 :]}"


# Control characters but for tabs and line feeds, and those that turn the direction of text.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Return text with what would steer a terminal, or turn the direction of text, as Python writes it.

    >>> visible("a \x1b[2J name\\n")
    'a \\\\x1b[2J name\\n'
    """
    return _HIDDEN.sub(lambda mark: _escaped(mark[0]), text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def unknown_name(where: str, word: str, allowed: Iterable[str]) -> InputError:
    """Return the error for a name that is not in a list, with the nearest valid one.

    >>> str(unknown_name("config: datasets", "digit-3v5", ["digits-3v5", "pima"]))
    "config: datasets: unknown name 'digit-3v5'; did you mean 'digits-3v5'? (allowed: digits-3v5, pima)"
    """
    names = sorted(str(name) for name in allowed)
    near = difflib.get_close_matches(str(word), names, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return InputError(
        f"{where}: unknown name {word!r}{hint} (allowed: {', '.join(names) or 'none'})"
    )
