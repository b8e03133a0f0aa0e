"""The target of an own table: what kind of outcome it is, and its coding as numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpmcflow.data.columns import MOST_LEVELS, Column, yaml_text
from gpmcflow.data.csv_table import CsvTable, row_problem
from gpmcflow.data.grades import grade_order, grades_above, grades_below, listed_grades
from gpmcflow.data.outcome_kinds import KINDS, YES_WORDS, OutcomeKind
from gpmcflow.data.own_settings import TableSettings, text_of, unknown
from gpmcflow.data.roles import MANY_CLASSES, are_percent, find_trials, is_counted
from gpmcflow.data.times import known_times, not_a_time, until_problems

# Words for an end that was seen.
END_WORDS = {
    "dead", "died", "death", "deceased", "event", "failed", "failure", "ended", "relapse", "relapsed",
    "progression", "churned", "left", "broken", "observed", "uncensored",
}  # fmt: skip
SHOWN_CLASSES = 6
LARGEST_OFFSET = 500  # of a log: its exponential is a number
MOST_REPEATED = 10_000_000  # rows that weights stand for, as memory goes


@dataclass(frozen=True)
class Target:
    """How the target column is coded.

    `kind` is one of `KINDS`. Of a "binary" one `positive` is +1, all else -1; of "grades" the model's y is
    their place 1, 2, .. in `levels`, and `positive` and `negative` are words for those from `split` on, and
    those below; so of "classes", whose `positive` is the one at `split`, which pictures are of; else y is
    (value - `shift`) / `scale`, without a shift where the scale is a geometric mean. `unit` names the
    column of exposures, trials or events, with `log_unit` of logs of exposures, with `until` of upper ends of
    times; of times with events `positive` is the value there where the end was seen.
    """

    name: str
    kind: str
    positive: str | None = None
    negative: str | None = None
    unit: str | None = None
    log_unit: bool = False
    until: bool = False
    shift: float = 0.0
    scale: float = 1.0
    levels: tuple[str, ...] = ()
    split: int = 0

    @property
    def own(self) -> OutcomeKind:
        """What is known of outcomes of this kind."""
        return KINDS[self.kind]

    def standardised_by(self, outcome: np.ndarray) -> Target:
        """Return the target with shift and scale, or the split of grades, by the learning rows.

        Grades are split where the two groups are of sizes as equal as can be; of classes the most frequent is
        set against the others, unless one is stated.
        """
        if self.kind == "classes":
            shown = self.positive
            if shown is None:
                shown = self.levels[int(np.bincount(outcome.astype(int)).argmax()) - 1]
            place = self.levels.index(shown) + 1
            return replace(self, split=place, positive=shown, negative=f"not {shown}")
        if self.levels:
            above = [(outcome >= grade).mean() for grade in range(2, len(self.levels) + 1)]
            split = 2 + int(np.argmin(np.abs(np.array(above) - 0.5)))
            low, high = grades_below(self.levels, split), grades_above(self.levels, split)
            return replace(self, split=split, positive=high, negative=low)
        if self.own.scaling == "geometric":
            return replace(self, scale=float(np.exp(np.log(outcome).mean())))
        if self.own.scaling is None:
            return self
        scale = float(outcome.std(ddof=1))
        return replace(self, shift=float(outcome.mean()), scale=scale or 1.0)

    def model_values(self, outcome: np.ndarray) -> np.ndarray:
        """Return y as models take it: -1 and +1, grades, counts, or numbers about a typical one."""
        if self.kind == "binary":
            return 2.0 * outcome - 1.0
        return (outcome - self.shift) / self.scale

    def unit_values(self, unit: Column) -> np.ndarray:
        """Exposures or trials as they are, of offsets their exponentials; of events 1 where the end was seen,
        else 0. NaN where missing."""
        if self.log_unit:
            return np.exp(unit.values)
        if self.kind != "survival":
            return unit.values
        return np.where(unit.missing, np.nan, unit.labels == self.positive)


def guess_kind(target: Column, settings: TableSettings) -> str:
    """Return the kind of outcome: as stated, by the column of units, or by the target's values.

    Two different values are binary; counts are those of `is_counted`.
    """
    if settings.outcome:
        return settings.outcome
    if settings.trials:
        return "binomial"
    if settings.exposure or settings.offset:
        return "counts"
    if settings.event or settings.until:
        return "survival"
    if settings.levels:
        return "grades"
    values = target.values
    different = len(set(target.labels[_read(target, settings.positive)].tolist()))
    words = values is None and settings.positive is None
    if words and 2 < different <= MANY_CLASSES and not target.problems:
        return "classes"
    if different == 2 or settings.positive is not None or values is None:
        return "binary"
    return "counts" if is_counted(target) else "real"


def code_target(
    table: CsvTable, columns: dict[str, Column], settings: TableSettings, where: str
) -> tuple[Target, np.ndarray, list[str]]:
    """Return the target, its values in natural units (NaN where missing), and what is wrong.

    The values are 1 and 0 for a binary target, and 1, 2, .. for grades from low to high.
    """
    column = columns[settings.target]
    kind, logs = guess_kind(column, settings), settings.unit == settings.offset
    target = Target(
        column.name,
        kind,
        unit=settings.unit,
        log_unit=settings.unit is not None and logs,
        until=settings.until is not None,
    )
    values = np.full(len(table.rows), np.nan)
    problems = _unit_of_wrong_kind(target.kind, settings, columns, where)
    if column.kind in ("empty", "constant"):
        always = f'is always "{column.levels[0]}"' if column.levels else "has no cell filled in"
        problems.append(f"{where}.target: column {column.name} {always}; choose another target")
    elif target.kind == "binary":
        positive, negative, problem = _classes(column, settings.positive, where)
        target = replace(target, positive=positive, negative=negative)
        problems += problem
        if not _read(column, settings.positive)[~column.missing].all():
            problems += [line for line in column.problems if line not in problem]
        values = np.where(column.labels == positive, 1.0, 0.0)
        values[column.missing] = np.nan
    elif target.kind == "grades":
        levels, values, wrong = _graded(table, column, settings, where)
        target = replace(target, levels=levels)
        problems += wrong
    elif target.kind == "classes":
        levels, values, wrong = _classified(table, column, settings, where)
        target = replace(target, levels=levels)
        if settings.positive is not None:
            chosen, _, unknown_class = _classes(column, settings.positive, where)
            target = replace(target, positive=chosen)
            wrong += unknown_class
        problems += wrong
    elif column.values is None or column.kind == "date":
        problems.append(
            f"{where}.target: column {column.name} holds {column.contents}, the outcome is "
            f"{target.kind}, which needs numbers; choose another target or outcome: binary"
        )
    else:
        values = column.values
        problems += column.problems
        if settings.positive is not None:
            problems.append(
                f"{where}.positive: found {settings.positive!r}, and the outcome is {target.kind}; "
                "only a binary outcome has one; leave it out"
            )
        if target.until and (right := columns.get(settings.until)):
            wrong = until_problems(table, column, right, where)
            values = values if right.values is None else known_times(column, right)[0]
            problems += wrong
        elif target.own.scaling == "geometric":
            with np.errstate(invalid="ignore"):
                bad = values <= 0
            if bad.any():
                says = _not_positive if target.kind == "positive" else not_a_time
                problems.append(row_problem(table, column.name, bad, says))
        elif target.kind == "share":
            values = values / 100.0 if are_percent(column) else values
            with np.errstate(invalid="ignore"):
                bad = (values <= 0) | (values >= 1)
            if bad.any():
                problems.append(row_problem(table, column.name, bad, _no_share))
        elif target.kind != "real":
            with np.errstate(invalid="ignore"):
                bad = (values < 0) | (values != np.floor(values)) & np.isfinite(values)
            if bad.any():
                problems.append(row_problem(table, column.name, bad, _no_count))
    if target.kind == "survival" and settings.event in columns:
        positive, negative, problem = event_classes(
            columns[settings.event], settings.event_value, where
        )
        target = replace(target, positive=positive, negative=negative)
        problems += problem
    return target, values, problems


def unit_problems(
    table: CsvTable,
    unit: Column,
    kind: str,
    target: str | None = None,
    outcome: np.ndarray | None = None,
) -> list[str]:
    """Return what is wrong with the exposures or trials, where they are filled in.

    With `outcome`, successes above the number of trials are among it, and rows in which nothing came of
    nothing are not: see `idle_rows`.
    """
    if kind == "survival":
        return []  # see `event_classes` and `until_problems`
    values = unit.values
    if values is None or unit.kind in ("empty", "date"):
        return [f"column {unit.name}: found {unit.contents}; {_unit_words(kind)} are needed"]
    problems = list(unit.problems)
    with np.errstate(invalid="ignore"):
        bad = values <= 0 if kind == "counts" else (values < 1) | (values != np.floor(values))
        bad &= np.isfinite(values)
        if outcome is not None:
            bad &= ~idle_rows(unit, outcome)
        if bad.any():
            says = f"{_unit_words(kind)} are allowed; correct the cell or empty it"
            problems.append(row_problem(table, unit.name, bad, lambda cell: f'"{cell}"; {says}'))
        if target is not None and outcome is not None and kind == "binomial":
            over = outcome > values
            if over.any():
                trials = values[np.flatnonzero(over)[0]]
                problems.append(
                    row_problem(
                        table,
                        target,
                        over,
                        lambda cell: (
                            f'"{cell}" of {trials:g} trials ({unit.name}); correct the row'
                        ),
                    )
                )
    return problems


def offset_problems(table: CsvTable, offset: Column) -> list[str]:
    """Return what is wrong with logs of exposures, where they are filled in."""
    if offset.values is None or offset.kind in ("empty", "date"):
        return [
            f"column {offset.name}: found {offset.contents}; numbers, logs of exposures, are needed"
        ]
    far = np.abs(offset.values) > LARGEST_OFFSET
    says = (
        f"offsets from -{LARGEST_OFFSET} to {LARGEST_OFFSET} are allowed, as they are logs; correct the "
        f"cell, or write exposure: {yaml_text(offset.name)}"
    )
    found = (
        [row_problem(table, offset.name, far, lambda cell: f'"{cell}"; {says}')]
        if far.any()
        else []
    )
    return [*offset.problems, *found]


def weight_problems(table: CsvTable, weights: Column) -> list[str]:
    """Return what is wrong with weights, where they are filled in."""
    allowed = "whole numbers from 0, how many equal rows each row stands for"
    if weights.values is None or weights.kind in ("empty", "date"):
        return [f"column {weights.name}: found {weights.contents}; {allowed}, are needed"]
    values = weights.values
    bad = np.isfinite(values) & ((values < 0) | (values != np.floor(values)))
    if bad.any():
        says = f"{allowed}, are allowed; correct the cell or empty it"
        return [
            *weights.problems,
            row_problem(table, weights.name, bad, lambda cell: f'"{cell}"; {says}'),
        ]
    if (total := np.nansum(values)) > MOST_REPEATED:
        return [
            f"column {weights.name}: the weights sum to {total:.4g} rows; up to {MOST_REPEATED:,} are "
            "allowed, as a row of weight 3 is three rows"
        ]
    return list(weights.problems)


def idle_rows(unit: Column, outcome: np.ndarray) -> np.ndarray:
    """Rows in which the outcome and its exposure, or number of trials, are both 0: they tell nothing."""
    return (unit.values == 0) & (outcome == 0)


def event_classes(
    column: Column, value: Any, where: str
) -> tuple[str | None, str | None, list[str]]:
    """Return the label of an ended time, that of the others, and what is wrong with the events."""
    counts = Counter(column.labels[~column.missing].tolist())
    classes = sorted(counts, key=lambda label: (-counts[label], label))
    shown = ", ".join(f"{label} {counts[label]}" for label in classes[:SHOWN_CLASSES])
    shown += ", ..." if len(classes) > SHOWN_CLASSES else ""
    if value is not None:
        chosen = _positive(value, classes)
        if chosen is None:
            return None, None, [
                f'{where}.event_value: found {text_of(value)!r}, which column {column.name} does not hold '
                f"({shown or 'no cell filled in'}), so no end was seen; name the value of a time that ended"
            ]  # fmt: skip
    elif len(classes) == 2:
        chosen = ended(classes)
    elif len(classes) < 2:
        always = f'is always "{classes[0]}"' if classes else "has no cell filled in"
        return None, None, [
            f"{where}.event: column {column.name} {always}; allowed: two values, one of them where the end "
            "was seen; name another column, or if all ends were seen write outcome: positive without event"
        ]  # fmt: skip
    else:
        return None, None, [
            f"{where}.event: column {column.name} has {len(classes)} values ({shown}); allowed: two; correct "
            f"the cells, or name the value of a time that ended, all others as not ended: event_value: "
            f'"{ended(classes)}"'
        ]  # fmt: skip
    rest = [label for label in classes if label != chosen]
    return chosen, rest[0] if len(rest) == 1 else f"not {chosen}", []


def ended(classes: list[str]) -> str:
    """Return the value that most likely says that the end of a time was seen: a word for it, or the last."""
    words = [label for label in classes if label.lower() in YES_WORDS | END_WORDS]
    return words[0] if len(words) == 1 else max(classes, key=_order)


def _unit_words(kind: str) -> str:
    return "whole numbers from 1" if kind == "binomial" else "positive numbers"


def _not_positive(cell: str) -> str:
    return (
        f'"{cell}" is not above 0, and a positive outcome is modelled on the log scale; correct the cell '
        "or write outcome: real and likelihood: gaussian"
    )


def _no_share(cell: str) -> str:
    return (
        f'"{cell}" is not above 0 and below 1 (or 100 %), and a share has to be; correct the cell, or write '
        "outcome: real and likelihood: gaussian"
    )


def _no_count(cell: str) -> str:
    return (
        f'"{cell}" is not a count; counts are 0, 1, 2, ...; correct the cell or write outcome: real'
    )


def _graded(
    table: CsvTable, column: Column, settings: TableSettings, where: str
) -> tuple[tuple[str, ...], np.ndarray, list[str]]:
    """Return the grades from low to high, the place of each cell among them from 1 on, and what is wrong."""
    filled = column.labels[~column.missing].tolist()
    classes = sorted(set(filled), key=_order)
    values = np.full(len(column.labels), np.nan)
    if settings.levels:
        levels = tuple(_positive(level, classes) or text_of(level) for level in settings.levels)
    elif found := grade_order(classes):
        levels = found
    else:
        shown = listed_grades(classes[:SHOWN_CLASSES])
        shown += ", ..." if len(classes) > SHOWN_CLASSES else ""
        return (), values, [
            f"{where}.levels: the order of the {len(classes)} grades of column {column.name} is not known; "
            f"write them from low to high: levels: [{shown}]"
        ]  # fmt: skip
    listed = listed_grades(levels)
    if twice := [level for level, n in Counter(levels).items() if n > 1]:
        return (), values, [
            f"{where}.levels: found {twice[0]} twice in [{listed}]; name each once"
        ]  # fmt: skip
    places = {level: place for place, level in enumerate(levels, 1)}
    values[~column.missing] = [places.get(label, np.nan) for label in filled]
    unknown_grade = ~column.missing & np.isnan(values)
    if unknown_grade.any():
        first = listed_grades([column.labels[int(np.flatnonzero(unknown_grade)[0])]])
        known = settings.outcome or "grades"
        says = f"is not among the {known}; correct it, or add it at its place: levels: [{listed}, {first}]"
        problem = row_problem(table, column.name, unknown_grade, lambda cell: f'"{cell}" {says}')
        return levels, values, [problem]
    return levels, values, []


def _classified(
    table: CsvTable, column: Column, settings: TableSettings, where: str
) -> tuple[tuple[str, ...], np.ndarray, list[str]]:
    """Return the classes by the alphabet, the place of each cell among them from 1 on, and what is wrong."""
    classes = sorted(set(column.labels[~column.missing].tolist()), key=_order)
    if len(classes) > MOST_LEVELS:
        return (), np.full(len(column.labels), np.nan), [
            f"{where}.target: column {column.name} has {len(classes)} classes; allowed: {MOST_LEVELS}; "
            "choose another target, or set one class against the rest: outcome: binary and positive: "
            f"{yaml_text(classes[0])}"
        ]  # fmt: skip
    stated = settings.levels or tuple(classes)
    return _graded(table, column, replace(settings, levels=stated), where)


def _unit_of_wrong_kind(
    kind: str, settings: TableSettings, columns: dict[str, Column], where: str
) -> list[str]:
    problems = [
        f"{where}.{own.unit}: the outcome is {kind}, and only {own.has_unit}; leave it out or write outcome: "
        f"{own.name}"
        for own in KINDS.values()
        if own.unit and getattr(settings, own.unit) and own.name != kind
    ]
    if settings.until and kind != "survival":
        problems.append(
            f"{where}.until: the outcome is {kind}, and only times to an end have an until; leave it out or "
            "write outcome: survival"
        )
    if settings.offset and kind != "counts":
        problems.append(
            f"{where}.offset: the outcome is {kind}, and only counts have an offset, the log of an exposure; "
            "leave it out or write outcome: counts"
        )
    if settings.levels and not KINDS[kind].leveled:
        problems.append(
            f"{where}.levels: the outcome is {kind}, and only grades and classes have levels; leave them out "
            "or write outcome: grades"
        )
    if kind == "survival" and not (settings.event or settings.until):
        problems.append(
            f"{where}.event: a survival outcome needs the column that says whether the end was seen; name "
            "it, or that of the upper ends of intervals as until, or if all ends were seen write outcome: "
            "positive"
        )
    if settings.event_value is not None and not settings.event:
        problems.append(
            f"{where}.event_value: found {settings.event_value!r} without event; name its column there"
        )
    if kind == "binomial" and not settings.trials:
        numbers = [c for c in columns.values() if c.kind in ("number", "whole") and not c.problems]
        others = [column for column in numbers if column.name != settings.target]
        counted = columns[settings.target].values is not None
        found = find_trials(columns[settings.target], others) if counted else None
        says = f"write trials: {yaml_text(found)}" if found else "name it, such as trials: tested"
        problems.append(f"{where}.trials: a binomial outcome needs the column of trials; {says}")
    return problems


def _read(column: Column, positive: Any) -> np.ndarray:
    """Rows whose label counts: of numbers not those with a word, unless it is the positive class."""
    words = ~column.missing & ~np.isfinite(column.values) if column.values is not None else []
    if not np.any(words) or text_of(positive) in column.labels[words]:
        return ~column.missing
    return ~column.missing & ~words


def _classes(column: Column, positive: Any, where: str) -> tuple[str | None, str | None, list[str]]:
    """Return the words of the class that counts as 1 and of the rest, and what is wrong."""
    counts = Counter(column.labels[_read(column, positive)].tolist())
    classes = sorted(counts, key=lambda label: (-counts[label], label))
    if positive is not None:
        chosen = _positive(positive, classes)
        if chosen is None:
            shown = classes[:SHOWN_CLASSES]
            wrong = unknown(
                f"{where}.positive: ", "value", text_of(positive), shown, f"column {column.name}"
            )
            return None, None, [wrong]
        rest = [label for label in classes if label != chosen]
        return chosen, rest[0] if len(rest) == 1 else f"not {chosen}", []
    if len(classes) != 2 and column.problems:  # such as numbers in another notation
        return None, None, list(column.problems)
    if len(classes) != 2:
        shown = ", ".join(f"{label} {counts[label]}" for label in classes[:SHOWN_CLASSES])
        shown += ", ..." if len(classes) > SHOWN_CLASSES else ""
        says = (
            f'one class against the rest can be learnt: positive: "{classes[0]}" (or gpmcflow new '
            f'with --positive "{classes[0]}")'
        )
        if len(classes) > MOST_LEVELS:
            says = "two are needed; choose another target"
        return None, None, [
            f"{where}.target: column {column.name} has {len(classes)} classes ({shown}); {says}"
        ]  # fmt: skip
    yes = [label for label in classes if label.lower() in YES_WORDS]
    if not yes and sum(_order(label)[0] for label in classes) == 1:  # a number beside a word
        yes = [label for label in classes if label == "1"]
    chosen = yes[0] if len(yes) == 1 else max(classes, key=_order)
    return chosen, next(label for label in classes if label != chosen), []


def _order(label: str) -> tuple:
    """Numbers by their size, then words by the alphabet."""
    try:
        return 0, float(label), ""
    except ValueError:
        return 1, 0.0, label.lower()


def _positive(positive: Any, classes: list[str]) -> str | None:
    """Return the class that a setting means; YAML reads yes and no without quotes as booleans."""
    wanted = [text_of(positive)]
    if isinstance(positive, bool):
        wanted = ["true", "yes", "on"] if positive else ["false", "no", "off"]
    for label in classes:
        if any(label.lower() == word.lower() for word in wanted):
            exact = next((name for name in classes if name in wanted), label)
            return exact
    numbers = {_order(label): label for label in classes}
    return numbers.get(_order(wanted[0]))
