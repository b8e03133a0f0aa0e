"""Where a reading differs from the expected one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from benchmarks.real_files.reading import REFUSED, ROW_NAMES, Reading

#: what agrees with a use of the table
ALLOWED = {
    "number": {"number"},
    "category": {"category"},
    "flag": {"number", "category"},  # of two values: the same column in a model
    "time": {"number", "date"},
    "group": {"group"},
    "exposure": {"exposure"},
    "trials": {"trials"},
    "status": {"status"},
    "coordinates": {"coordinates"},
    "dropped": {"dropped"},
    "any": {"number", "category", "date", "group", "dropped"},
}
SETTINGS = ("target", "outcome", "season", "missing")
ASPECTS = ("outcome", "row names", *(use for use in ALLOWED if use != "any"), "season")
WITHIN = 0.05  #: relative, of a period


class Difference(NamedTuple):
    """An aspect in which a reading is not the expected one, with the column, if it is about one."""

    aspect: str
    column: str
    expected: str
    found: str


class Verdict(NamedTuple):
    """The aspects that an expected reading has, and where a reading differs."""

    name: str
    aspects: frozenset[str]
    differences: list[Difference]

    @property
    def agrees(self) -> bool:
        """Whether the reading is as expected in every aspect."""
        return not self.differences


def compare(name: str, expected: Mapping[str, Any], reading: Reading) -> Verdict:
    """Compare a reading with an entry of the table, in every aspect that the entry has."""
    uses = expected_uses(expected)
    others = [column for column in reading.uses if column not in uses]
    found_uses = dict(reading.uses)
    if others:  # the row names, whatever header they were given
        found_uses[ROW_NAMES] = found_uses[others[0]]
        uses.setdefault(ROW_NAMES, "dropped")
    elif ROW_NAMES in uses:
        found_uses[ROW_NAMES] = "dropped"  # the file has none
    aspects = {"outcome"} | {aspect_of(column, use) for column, use in uses.items() if use != "any"}
    aspects |= {"season"} if "season" in expected else set()
    kinds = _as_list(expected["outcome"])
    if reading.outcome == REFUSED:
        refusal = Difference(
            "outcome", expected["target"], " or ".join(kinds), f"refused: {reading.message}"
        )
        return Verdict(name, frozenset(aspects), [refusal])
    differences = []
    if reading.outcome not in kinds:
        differences.append(
            Difference("outcome", expected["target"], " or ".join(kinds), reading.outcome)
        )
    for column, use in uses.items():
        found = found_uses.get(column, "not named")
        if found not in set().union(*(ALLOWED[part] for part in use.split(" or "))):
            differences.append(Difference(aspect_of(column, use), column, use, found))
    if "season" in expected and not _season_agrees(expected["season"], reading.seasons):
        found = ", ".join(f"{period:g}" for period in reading.seasons) or "none"
        differences.append(Difference("season", "", str(expected["season"]), found))
    return Verdict(name, frozenset(aspects), differences)


def expected_uses(expected: Mapping[str, Any]) -> dict[str, str]:
    """Return the use of each column but the target, by its name without spaces around it."""
    uses = {use: columns for use, columns in expected.items() if use not in SETTINGS}
    return {column.strip(): use for use, columns in uses.items() for column in columns}


def aspect_of(column: str, use: str) -> str:
    """Return the aspect a column counts for: the first of its uses."""
    return ROW_NAMES if column == ROW_NAMES else use.split(" or ")[0]


def shares(verdicts: Iterable[Verdict]) -> dict[str, tuple[int, int]]:
    """Return how many data sets agree and how many there are: of "all aspects", and of each aspect.

    A refused file agrees in none of its aspects.
    """
    verdicts = list(verdicts)
    counts = {"all aspects": (sum(verdict.agrees for verdict in verdicts), len(verdicts))}
    for aspect in ASPECTS:
        own = [verdict for verdict in verdicts if aspect in verdict.aspects]
        right = sum(
            not any(d.aspect == aspect or d.found.startswith(REFUSED) for d in verdict.differences)
            for verdict in own
        )
        if own:
            counts[aspect] = (right, len(own))
    return counts


def _season_agrees(expected: Any, found: list[float]) -> bool:
    if expected == "none":
        return not found
    return any(abs(period / float(expected) - 1.0) <= WITHIN for period in found)


def _as_list(value: Any) -> list[str]:
    return [str(part) for part in value] if isinstance(value, list) else [str(value)]
