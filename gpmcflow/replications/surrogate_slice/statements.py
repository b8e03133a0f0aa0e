"""What Murray & Adams (2010) say of their figure 3 in words, as rows of the verdict."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from gpmcflow.jobs.judgement import Estimate, side
from gpmcflow.replications.surrogate_slice.comparisons import (
    MUCH,
    above,
    as_many,
    judged_row,
    label,
    missing_row,
)
from gpmcflow.replications.surrogate_slice.estimates import COSTS, ProblemRuns
from gpmcflow.replications.surrogate_slice.settings import (
    POSTERIORS,
    REPRESENTATIONS,
    SURROGATES,
    WITHOUT_SITES,
)

BY_COUNT = ("n_lik", "n_cov")  # costs that do not depend on the machine
VARIABLE = 0.25  # coefficient of variation between runs that "variable" is read as
NEW = (*SURROGATES, *POSTERIORS)
SITES = ("surr-site", "post-site")
KINDS = {"": "a problem", "line": "a 1-d Cox process problem", "plane": "a 2-d Cox process problem"}

RowsOf = Callable[[str, str, ProblemRuns], list[dict]]  # of a claim, on a problem with its label


class Statement(NamedTuple):
    """A claim, the kind of problems it is tested on, the methods these need, and its rows."""

    claim: str
    kind: str
    needed: tuple[str, ...]
    rows_of: RowsOf


def _over(tops, bottoms, factor: float = 1.0, why: str = "", costs=BY_COUNT) -> RowsOf:
    """Each of ``tops`` has more effective samples than all of ``bottoms``."""

    def rows_of(claim: str, row: str, problem: ProblemRuns) -> list[dict]:
        others = [name for name in bottoms if problem.plain(name)]
        pairs = [
            [(problem.plain(top), problem.plain(name)) for name in others if name != top]
            for top in tops
        ]
        return [above(claim, row, p, cost, factor=factor, why=why) for p in pairs for cost in costs]

    return rows_of


def _worst(claim: str, row: str, problem: ProblemRuns) -> list[dict]:
    """All others have more effective samples than fixed."""
    fixed, others = problem.plain("fixed"), map(problem.plain, REPRESENTATIONS)
    pairs = [(other, fixed) for other in others if other not in (None, fixed)]
    return [above(claim, row, pairs, cost, factor=MUCH, why=MUCH_TEXT) for cost in BY_COUNT]


def _same(a: str, b: str) -> RowsOf:
    return lambda claim, row, problem: [
        as_many(claim, row, (problem.plain(a), problem.plain(b)), cost) for cost in BY_COUNT
    ]


def _variation(claim: str, row: str, problem: ProblemRuns) -> list[dict]:
    """Coefficient of variation between chains, pooled over the new methods."""
    rows = []
    for cost in BY_COUNT:
        costs = [problem.plain(name).per(cost) for name in NEW]
        costs = [values for values in costs if len(values) > 1 and values.mean() > 0.0]
        freedom = sum(len(values) - 1 for values in costs)
        squares = sum(
            values.var(ddof=1) / values.mean() ** 2 * (len(values) - 1) for values in costs
        )
        ours = math.sqrt(squares / freedom) if freedom else math.nan
        # the log of a standard deviation has the error 1 / sqrt(2 degrees of freedom)
        error = 1.0 / math.sqrt(2 * freedom) if freedom else math.nan
        log_ours = Estimate(ours, ours * error).log()
        low, high = map(math.exp, log_ours.interval())
        why = f"variable is read as more than {VARIABLE:g}; 95 % interval {low:.2g} to {high:.2g}"
        column = f"sd / mean of ESS per {COSTS[cost]}, new methods"
        variable = (side(log_ours, math.log(VARIABLE)), "above")
        cells = {"printed": f"> {VARIABLE:g}", "why": why}
        rows.append(judged_row(claim, row, column, log_ours.exp(), variable, **cells))
    return rows


MUCH_TEXT = f"much or far is read as a factor {MUCH:g}"
MIDDLE = ("prior-white", "post-taylor")
CLASSIFICATION, MINING = "figure 3 (2): classification", "figure 3 (4): mining"
REGRESSION, REDWOODS = "figure 3 (3): regression", "figure 3 (5): redwoods"
STATEMENTS = [
    Statement("figure 3 (1): fixed is by far the worst", "", ("fixed", "surr-site"), _worst),
    Statement(
        "figure 3 (1): prior-white is much better than fixed", "", WITHOUT_SITES,
        _over(("prior-white",), ("fixed",), MUCH, MUCH_TEXT),
    ),
    Statement(
        f"{CLASSIFICATION}: both site methods are much better than both baselines", "classification",
        (*SITES, *WITHOUT_SITES), _over(SITES, WITHOUT_SITES, MUCH, MUCH_TEXT),
    ),
    Statement(
        f"{CLASSIFICATION}: surr-site and post-site are about equal", "classification", SITES,
        _same(*SITES),
    ),
    Statement(
        f"{REGRESSION}: post and surr are very similar by count", "regression", SITES[::-1],
        _same(*SITES[::-1]),
    ),
    Statement(
        f"{REGRESSION}: post is slightly faster per second", "regression", SITES[::-1],
        _over(("post-site",), ("surr-site",), costs=("seconds",)),
    ),
    Statement(
        f"{MINING}: post-taylor and all new methods work well", "line", (*NEW, *WITHOUT_SITES),
        _over(NEW, WITHOUT_SITES, why="working well is read as better than both baselines"),
    ),
    Statement(f"{MINING}: results are variable between runs", "line", NEW, _variation),
    Statement(
        f"{REDWOODS}: post-taylor and prior-white are about equal", "plane", MIDDLE,
        _same(*MIDDLE[::-1]),
    ),
    Statement(
        f"{REDWOODS}: surr-taylor is better than post-taylor and prior-white", "plane",
        ("surr-taylor", *MIDDLE), _over(("surr-taylor",), MIDDLE),
    ),
    Statement(
        f"{REDWOODS}: surr-site and post-site are best", "plane", (*SITES, "surr-taylor", *MIDDLE),
        _over(SITES, ("fixed", "surr-taylor", *MIDDLE)),
    ),
]  # fmt: skip


def statement_rows(problems: dict[str, ProblemRuns], paper: dict[str, str]) -> list[dict]:
    """Statements 1 to 5; ``paper`` names those problems that are the paper's own.

    Each is tested on every problem of its kind with two unknowns or more, the finer discretisations apart;
    what no problem of the config has the methods for is marked missing.
    """
    usual = [p for p in problems.values() if not p.fine and len(p.names) > 1]
    rows = []
    for claim, kind, needed, rows_of in STATEMENTS:
        tested = [p for p in usual if kind in ("", p.kind) and all(map(p.plain, needed))]
        what = KINDS.get(kind, f"a {kind} problem")
        rows += [row for p in tested for row in rows_of(claim, label(p, paper), p)] or [
            missing_row(claim, f"{what} with {', '.join(needed)}")
        ]
    return rows
