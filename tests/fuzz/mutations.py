"""Changed inputs, made from valid ones: bytes and text with edits, plain values with other values inside."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

# What readers are known to stumble over, in any format.
_MARKS = tuple(bytes([mark]) for mark in b",;:(){}[]=\n")  # what ends a cell, a value or a word
_BLANKS = (
    b"\x00",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\t",
    b": ",
    b"- ",
    b"? ",
    b"&a ",
    b"<<: ",
    b"!!set ",
)
_TEXTS = ("\u2028", "\u202e", "\x85", "\u00a0", "\U0001f600", "\ufeff", "!!omap ", "!!binary ")
_BYTES = (b"\xff\xfe", b"\xe9", b"\xc3", b"\xed\xa0\x80")  # no UTF-8
_LONG = (
    *(b"9" * 25, b"9" * 5000, b"0x" + b"f" * 5000, b"a" * 100_000, b"\n" * 5000, b"[" * 3000),
    *(b"(" * 3000, b"{a: " * 500, b"-" * 3000, b"+" * 3000),
)
_SHORT = rb"""
    " ' "" , ; : { } [ ] ( ) | > % @ ` \ ? = ** # nan -inf 1e999 -1 0 1e-320 1_0 null true 2020-13-45 1:30 *a
    &a[*a] !!python/name:os.system lambda:0 __import__('os')
""".split()
NASTY = (*_SHORT, *_BLANKS, *(text.encode() for text in _TEXTS), *_BYTES, *_LONG)
WORDS = (
    b"",
    *rb"""
    0 1 -1 1.5 1,5 1.234,5 yes no True None A NA nan inf 1e308 -1e-308 1e5000 'x' =cmd .. / 12:61 -99
    2020-02-30 9999-12-31 0001-01-01 31/12/99 2020-01-01T25:00 2020-01-01T10:00+14:00 1/1/2020
    """.split(),
    *(text.encode() for text in ("\u2212" + "1", "\u0663", "a b", "9" * 30)),
)
VALUES = (
    "", "a", "a\nb", "\x00", "\ud800", "../up", "/tmp/x", "~nobody/x", "a" * 100_000, "1e3", "nan", "=1+1",
    0, -1, 1, 2**31, 2**63, 10**400, -(10**400), 0.5, -0.0, 1e308, 5e-324, float("nan"), float("inf"),
    True, False, None, [], {}, [[]], [None], {"a": None}, datetime.date(2020, 1, 1), b"\x00\xff",
)  # fmt: skip

_places = st.integers(0, 999_999).map(lambda place: place / 1e6)  # floats would mostly be 0
_payloads = st.one_of(st.sampled_from(NASTY), st.binary(min_size=1, max_size=8))
_gentle = st.one_of(  # most of the input stays what it was, so that a reader gets far with it
    st.tuples(st.just("cell"), _places, st.sampled_from(WORDS)),
    st.tuples(st.just("line"), _places, _places),
    st.tuples(st.just("flip"), _places, st.integers(0, 6)),
)
_edits = st.one_of(
    _gentle,
    st.tuples(st.just("flip"), _places, st.integers(0, 7)),
    st.tuples(st.just("cell"), _places, _payloads),
    st.tuples(st.just("insert"), _places, _payloads),
    st.tuples(st.just("replace"), _places, _payloads),
    st.tuples(st.just("delete"), _places, st.integers(1, 40)),
    st.tuples(st.just("truncate"), _places, st.none()),
    st.tuples(st.just("repeat"), _places, st.integers(1, 200)),
    st.tuples(st.just("swap"), _places, _places),
)
_texts = st.text(max_size=12) | st.sampled_from([v for v in VALUES if isinstance(v, str)])
_scalars = st.one_of(st.sampled_from(VALUES), st.integers(), st.floats(), _texts, st.booleans())
_values = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3)
)
_changes = st.tuples(
    st.sampled_from(("set", "set", "set", "add", "remove", "wrap", "rename", "deepen")),
    _places,
    _values,
    _texts,
)


@st.composite
def changed_bytes(draw, valid: Sequence[bytes]) -> bytes:
    """One of the valid inputs after one to six edits."""
    data = draw(st.sampled_from(valid))
    gentle = st.lists(_gentle, min_size=1, max_size=6)
    for edit in draw(gentle | st.lists(_edits, min_size=1, max_size=3)):
        data = _edited(data, *edit)
    return data


def changed_text(valid: Sequence[str]) -> st.SearchStrategy[str]:
    """As `changed_bytes`, of text; bytes that are no UTF-8 become lone surrogates."""
    encoded = [text.encode() for text in valid]
    return changed_bytes(encoded).map(lambda data: data.decode("utf-8", "surrogateescape"))


@st.composite
def changed_values(draw, valid: Sequence[Any]) -> Any:
    """One of the valid trees of plain values after one to three changes at random places."""
    tree = {"": copy.deepcopy(draw(st.sampled_from(valid)))}
    for change in draw(st.lists(_changes, min_size=1, max_size=3)):
        _change(tree, *change)
    return tree[""]


def _edited(data: bytes, kind: str, place: float, how: Any) -> bytes:
    at = int(place * (len(data) + 1))
    if kind == "cell":
        first = max((data.rfind(mark, 0, at) for mark in _MARKS), default=-1) + 1
        last = min((k for mark in _MARKS if (k := data.find(mark, at)) >= 0), default=len(data))
        return data[:first] + how + data[last:]
    if kind == "line":  # once more, elsewhere
        lines = data.split(b"\n")
        line = lines[int(place * len(lines))]
        return b"\n".join([*lines[: int(how * len(lines))], line, *lines[int(how * len(lines)) :]])
    if kind == "flip":
        return data[:at] + bytes(byte ^ 1 << how for byte in data[at : at + 1]) + data[at + 1 :]
    if kind == "insert":
        return data[:at] + how + data[at:]
    if kind == "replace":
        return data[:at] + how + data[at + len(how) :]
    if kind == "delete":
        return data[:at] + data[at + how :]
    if kind == "truncate":
        return data[:at]
    if kind == "repeat":
        return data[: at + how] + data[at:]
    first, second = sorted((at, int(how * (len(data) + 1))))
    return data[second:] + data[first:second] + data[:first]


def _change(tree: dict, kind: str, place: float, value: Any, name: str) -> None:
    spots = list(_spots(tree))
    # The whole tree is rarely what changes.
    spots = spots if place < 0.02 else spots[1:] or spots
    parent, key = spots[int(place * len(spots))]
    value = copy.deepcopy(value)  # one value can be drawn twice, and must not end up within itself
    if kind == "set":
        parent[key] = value
    elif kind == "add" and isinstance(parent[key], dict):
        parent[key][name] = value
    elif kind == "add" and isinstance(parent[key], list):
        parent[key].append(value)
    elif kind == "remove" and parent is not tree:
        del parent[key]
    elif kind == "wrap":
        parent[key] = [parent[key]]
    elif kind == "rename" and isinstance(parent, dict) and parent is not tree:
        parent[name] = parent.pop(key)
    elif kind == "deepen":
        for _ in range(80):
            parent[key] = {name[:50]: parent[key]}


def _spots(parent: dict | list) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of all values below a container."""
    keys = list(parent) if isinstance(parent, dict) else range(len(parent))
    for key in keys:
        yield parent, key
        if isinstance(parent[key], (dict, list)):
            yield from _spots(parent[key])
