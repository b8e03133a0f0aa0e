"""What files of areas hold, in words: how many, the islands, and names that nothing else has."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

MOST_NAMED = 5  # in a sentence


@dataclass(frozen=True)
class AreaNames:
    """Names of areas by where they stand.

    Attributes
    ----------
    column:
        Column of the table that names them.
    rows:
        Names in the table.
    pairs:
        Pairs of neighbours, each either way round.
    file:
        Name of the file of the pairs, or "" where they are the borders of the map.
    outlined:
        Names on the map, none without one.
    """

    column: str
    rows: Collection[str]
    pairs: Sequence[Sequence[str]]
    file: str = ""
    outlined: Collection[str] = ()

    @property
    def paired(self) -> set[str]:
        """Names in the pairs."""
        return {area for pair in self.pairs for area in pair}

    @property
    def islands(self) -> list[str]:
        """Areas of the table and of the map without a neighbour."""
        return sorted({*self.rows, *self.outlined} - self.paired)

    @property
    def unplaced(self) -> list[str]:
        """Names in the pairs that neither the table nor the map has."""
        return sorted(self.paired - {*self.rows, *self.outlined})

    def counted(self) -> str:
        """Number of areas and of pairs, and the islands by name.

        >>> AreaNames("area", ["a", "b", "c"], [("a", "b"), ("b", "d")], "pairs.csv").counted()
        '4 areas, 2 pairs of neighbours; 1 island: c'
        """
        areas = {*self.rows, *self.outlined, *self.paired}
        pairs = {frozenset(pair) for pair in self.pairs}
        told = f"{_number(len(areas), 'area')}, {_number(len(pairs), 'pair')} of neighbours"
        islands = self.islands
        if not islands:
            return told
        return f"{told}; {_number(len(islands), 'island')}: {_listed(islands)}"

    def notes(self) -> list[str]:
        """A line for names in the pairs that nothing else has, with the nearest ones that it may be."""
        unplaced = self.unplaced
        if not unplaced:
            return []
        shown = [f'"{name}"{self._hint(name)}' for name in unplaced[:MOST_NAMED]]
        more = len(unplaced) - len(shown)
        shown += [f"{more} more"] if more else []
        nor = " or outline on the map" if self.outlined else ""
        return [
            f"{self.file}: no row{nor} for {_series(shown)}; correct the names, or keep them as areas "
            f"without rows, which are predicted"
        ]

    def _hint(self, name: str) -> str:
        """The nearest name: of the islands, else of all areas, then with the same digits."""
        others = {*self.rows, *self.outlined} - set(self.islands)
        near = nearest(name, self.islands) or nearest_code(name, sorted(others))
        return f' (did you mean "{near}"?)' if near else ""


def nearest(name: str, areas: Iterable[str]) -> str | None:
    """The area whose name is most alike, None where none is alike."""
    small = {area.lower(): area for area in areas}
    near = difflib.get_close_matches(name.lower(), small, n=1, cutoff=0.6)
    return small[near[0]] if near else None


def nearest_code(name: str, names: Iterable[str]) -> str | None:
    """As `nearest`, of those with the same digits: d13 is no misspelt d14."""
    digits = re.sub(r"\D", "", name)
    return nearest(name, (other for other in names if re.sub(r"\D", "", other) == digits))


def _number(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _series(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
