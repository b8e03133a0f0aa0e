"""What Murray & Adams (2010) say of their figure 3 in words, as rows of the verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from gpmcflow.studies.frame.judgement import Estimate, side, verdict
from gpmcflow.studies.surrogate_slice.estimates import (
    COSTS,
    ProblemRuns,
)
from gpmcflow.studies.surrogate_slice.orders import (
    MUCH,
    above,
    claim_row,
    equal,
    label,
    missing_row,
)
from gpmcflow.studies.surrogate_slice.settings import (
    POSTERIORS,
    REPRESENTATIONS,
    SURROGATES,
    WITHOUT_SITES,
)

BY_COUNT = ("n_lik", "n_cov")  # costs that do not depend on the machine
VARIABLE = 0.25  # coefficient of variation between runs that "variable" is read as
NEW = (*SURROGATES, *POSTERIORS)
MUCH_TEXT = f"much or far is read as a factor {MUCH:g}"


def statement_rows(problems: dict[str, ProblemRuns], paper: dict[str, str]) -> list[dict]:
    """Statements 1 to 5; ``paper`` names those problems that are the paper's own.

    Each is tested on every problem of its kind with two unknowns or more, the finer discretisations apart;
    what no problem of the config has the methods for is marked missing.
    """
    usual = [
        problem for problem in problems.values() if not problem.fine and len(problem.names) > 1
    ]
    return [
        *_baselines(usual, paper),
        *_classification(usual, paper),
        *_regression(usual, paper),
        *_line(usual, paper),
        *_plane(usual, paper),
    ]


def _tested(
    claim: str, problems: Iterable[ProblemRuns], kind: str, needed: Iterable[str],
    rows_of: Callable[[ProblemRuns], list[dict]],
) -> list[dict]:  # fmt: skip
    """Rows of every problem of a kind that has the methods, or a row that says what is missing."""
    needed = tuple(needed)
    rows = []
    for problem in problems:
        if kind in ("", problem.kind) and all(problem.plain(name) for name in needed):
            rows += rows_of(problem)
    if rows:
        return rows
    what = {"line": "1-d Cox process", "plane": "2-d Cox process"}.get(kind, kind)
    what = f"a {what} problem" if what else "a problem"
    return [missing_row(claim, f"{what} with {', '.join(needed)}")]


def _over(
    claim: str, paper: dict, tops, bottoms, factor: float = 1.0, why: str = "", costs=BY_COUNT
):
    """Rows of one problem: each of ``tops`` has more effective samples than all of ``bottoms``."""

    def rows_of(problem: ProblemRuns) -> list[dict]:
        rows = []
        for top in tops:
            others = [problem.plain(name) for name in bottoms if name != top]
            pairs = [(problem.plain(top), other) for other in others if other is not None]
            rows += [
                above(claim, label(problem, paper), pairs, cost, factor=factor, why=why)
                for cost in costs
            ]
        return rows

    return rows_of


def _same(claim: str, paper: dict, a: str, b: str, costs=BY_COUNT):
    def rows_of(problem: ProblemRuns) -> list[dict]:
        pair = problem.plain(a), problem.plain(b)
        return [equal(claim, label(problem, paper), pair, cost) for cost in costs]

    return rows_of


def _baselines(problems: list[ProblemRuns], paper: dict) -> list[dict]:
    """Statement 1."""
    claim = "figure 3 (1): fixed is by far the worst"

    def by_far(problem: ProblemRuns) -> list[dict]:
        fixed = problem.plain("fixed")
        others = [problem.plain(name) for name in REPRESENTATIONS if name != "fixed"]
        pairs = [(other, fixed) for other in others if other is not None]
        return [
            above(claim, label(problem, paper), pairs, cost, factor=MUCH, why=MUCH_TEXT)
            for cost in BY_COUNT
        ]

    rows = _tested(claim, problems, "", ("fixed", "surr-site"), by_far)
    claim = "figure 3 (1): prior-white is much better than fixed"
    much = _over(claim, paper, ("prior-white",), ("fixed",), MUCH, MUCH_TEXT)
    return rows + _tested(claim, problems, "", WITHOUT_SITES, much)


def _classification(problems: list[ProblemRuns], paper: dict) -> list[dict]:
    """Statement 2."""
    claim = "figure 3 (2): classification: both site methods are much better than both baselines"
    much = _over(claim, paper, ("surr-site", "post-site"), WITHOUT_SITES, MUCH, MUCH_TEXT)
    needed = ("surr-site", "post-site", *WITHOUT_SITES)
    rows = _tested(claim, problems, "classification", needed, much)
    claim = "figure 3 (2): classification: surr-site and post-site are about equal"
    same = _same(claim, paper, "surr-site", "post-site")
    return rows + _tested(claim, problems, "classification", needed[:2], same)


def _regression(problems: list[ProblemRuns], paper: dict) -> list[dict]:
    """Statement 3."""
    needed = ("post-site", "surr-site")
    claim = "figure 3 (3): regression: post and surr are very similar by count"
    rows = _tested(claim, problems, "regression", needed, _same(claim, paper, *needed))
    claim = "figure 3 (3): regression: post is slightly faster per second"
    faster = _over(claim, paper, needed[:1], needed[1:], costs=("seconds",))
    return rows + _tested(claim, problems, "regression", needed, faster)


def _line(problems: list[ProblemRuns], paper: dict) -> list[dict]:
    """Statement 4."""
    claim = "figure 3 (4): mining: post-taylor and all new methods work well"
    why = "working well is read as better than both baselines"
    well = _over(claim, paper, NEW, WITHOUT_SITES, why=why)
    rows = _tested(claim, problems, "line", (*NEW, *WITHOUT_SITES), well)
    claim = "figure 3 (4): mining: results are variable between runs"
    return rows + _tested(
        claim, problems, "line", NEW, lambda problem: _variation(claim, problem, paper)
    )


def _variation(claim: str, problem: ProblemRuns, paper: dict) -> list[dict]:
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
        rows.append(
            claim_row(
                claim, label(problem, paper), f"sd / mean of ESS per {COSTS[cost]}, new methods",
                printed=f"> {VARIABLE:g}", **log_ours.exp().cells(),
                verdict=verdict((side(log_ours, math.log(VARIABLE)), "above")),
                why=f"variable is read as more than {VARIABLE:g}; 95 % interval {low:.2g} to {high:.2g}",
            )
        )  # fmt: skip
    return rows


def _plane(problems: list[ProblemRuns], paper: dict) -> list[dict]:
    """Statement 5."""
    middle = ("prior-white", "post-taylor")
    claim = "figure 3 (5): redwoods: post-taylor and prior-white are about equal"
    same = _same(claim, paper, "post-taylor", "prior-white")
    rows = _tested(claim, problems, "plane", middle, same)
    claim = "figure 3 (5): redwoods: surr-taylor is better than post-taylor and prior-white"
    better = _over(claim, paper, ("surr-taylor",), middle)
    rows += _tested(claim, problems, "plane", ("surr-taylor", *middle), better)
    claim = "figure 3 (5): redwoods: surr-site and post-site are best"
    best = _over(claim, paper, ("surr-site", "post-site"), ("fixed", "surr-taylor", *middle))
    needed = ("surr-site", "post-site", "surr-taylor", *middle)
    return rows + _tested(claim, problems, "plane", needed, best)
