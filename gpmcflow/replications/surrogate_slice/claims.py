"""Claims of the surrogate-slice paper, judged."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gpmcflow.approximations.independent_sites import LaplaceSites
from gpmcflow.data import load_dataset
from gpmcflow.likelihoods import Poisson
from gpmcflow.replications.judgement import (
    Estimate,
    claim_row,
    combined,
    judged_row,
    missing_row,
    side,
    verdict,
)
from gpmcflow.replications.surrogate_slice.comparisons import (
    MUCH,
    above,
    as_many,
    compared_cells,
    is_exact,
    known_moments,
    label,
    moments,
    reference,
)
from gpmcflow.replications.surrogate_slice.estimates import (
    COSTS,
    MethodRuns,
    ProblemRuns,
    log_mean,
    log_ratio,
)
from gpmcflow.replications.surrogate_slice.settings import (
    JOINT,
    POSTERIORS,
    REPRESENTATIONS,
    SURROGATES,
    WITHOUT_SITES,
)

# What Murray & Adams (2010) say of their figure 3 in words, as rows of the verdict.

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


# The other claims of Murray & Adams (2010), as rows of the verdict.

Problems = dict[str, ProblemRuns]

COST = "n_cov"  # what the claims are measured by: it depends on no machine
DECADES = 100.0  # range of widths of claim 4
AHEAD = "beyond the paper: joint split HMC is ahead of every representation per second"
BOUND, LONGEST, FEATURES = 0.1, math.sqrt(10.0), 10  # of the length scales of claim 6


def claim_rows(problems: Problems, paper: dict[str, str], published: dict) -> list[dict]:
    """Claims 1 to 7; one whose runs are not there is marked missing."""
    return [
        *_discretisation_rows(problems, paper),
        *_laplace_rows(problems, paper),
        *_scale_rows(problems, paper),
        *_width_rows(problems, paper),
        *_ergodic_rows(problems, paper, published["exact"]),
        *_support_rows(problems),
        _sign_row(),
        *joint_rows(problems, paper),
    ]


def _discretisation_rows(problems: Problems, paper: dict) -> list[dict]:
    """Claim 1: with unreasonably many bins prior-white beats the site methods."""
    claim = "text (1): site methods do not always work well on unreasonably fine grids"
    rows = []
    for problem in problems.values():
        white = problem.plain("prior-white")
        if not problem.fine or white is None:
            continue
        for name in SITES:
            if (site := problem.plain(name)) is not None:
                why = _usual_bins(problems, problem.kind, name)
                rows.append(above(claim, label(problem, paper), [(white, site)], COST, why=why))
    need = "prior-white, surr-site, post-site on 811 bins of mining, 50 x 50 of redwoods"
    return rows or [missing_row(claim, need)]


def _usual_bins(problems: Problems, kind: str, name: str) -> str:
    """What the ratio is on a problem of that kind with no more bins than the paper's."""
    for other in problems.values():
        pair = other.plain("prior-white"), other.plain(name)
        if other.kind == kind and not other.fine and None not in pair:
            return f"{math.exp(log_ratio(*pair, COST).centre):.2g} with {other.n_cases} bins"
    return ""


def _laplace_rows(problems: Problems, paper: dict) -> list[dict]:
    """Claim 2: moments beat Laplace sites on classification."""
    claim = "text (2): Laplace sites do not work well for classification"
    rows = []
    for problem in problems.values():
        for name in SITES if problem.kind == "classification" else ():
            other = next(problem.all(representation=name, sites="laplace"), None)
            if problem.plain(name) is not None and other is not None:
                pair = (problem.plain(name), other)
                rows.append(above(claim, label(problem, paper), [pair], COST))
    return rows or [missing_row(claim, "sites: laplace beside the standard ones on classification")]


def _scale_rows(problems: Problems, paper: dict) -> list[dict]:
    """Claim 3: with a poor S the surrogate still works, the fixed reparameterisation need not."""
    works = "text (3): a poor choice of S still gives a workable surrogate sampler"
    badly = "text (3): with a poor choice of S a fixed reparameterisation can work badly"
    workable, worse = [], []
    for problem in problems.values():
        fixed = problem.plain("fixed")
        for surr, post in _scaled(problem):
            scale = (surr or post).site_scale
            row = f"{label(problem, paper)}: S x {scale:g}"
            if surr is not None and fixed is not None:
                why = "workable is read as better than fixed"
                workable.append(above(works, row, [(surr, fixed)], COST, why=why))
            if surr is not None and post is not None:
                why = _shares(problem, surr, post)
                worse.append(above(badly, row, [(surr, post)], COST, why=why))
    need = "site_scale: 0.01 and 100 for surr-site and post-site"
    return [*(workable or [missing_row(works, need)]), *(worse or [missing_row(badly, need)])]


def _scaled(problem: ProblemRuns) -> list[tuple[MethodRuns | None, MethodRuns | None]]:
    """Surrogate and posterior whitening with each scale of the sites' variances but 1, by scale."""
    pairs: dict[float, list] = {}
    for place, kind in enumerate(SITES):
        for runs in problem.all(representation=kind, standard_rule=True, elliptical=True):
            if runs.site_scale != 1.0:
                pairs.setdefault(runs.site_scale, [None, None])[place] = runs
    return [tuple(pairs[scale]) for scale in sorted(pairs)]


def _shares(problem: ProblemRuns, *changed: MethodRuns) -> str:
    """Share of its efficiency that each method keeps with the other S."""
    texts = []
    for runs in changed:
        own = problem.plain(runs.representation)
        if own is not None:
            share = math.exp(log_ratio(runs, own, COST).centre)
            texts.append(f"{runs.name} has {share:.2g} of {own.name}")
    return ", ".join(texts)


def _width_rows(problems: Problems, paper: dict) -> list[dict]:
    """Claim 4: slice sampling hardly depends on its width, Metropolis-Hastings does on its scale."""
    robust = "text (4): slice sampling is robust to the initial bracket width"
    less = (
        "text (4): slice sampling depends less on its width than Metropolis-Hastings on its scale"
    )
    rows, orders = [], []
    for problem in problems.values():
        for name in (*SURROGATES, *POSTERIORS, *WITHOUT_SITES):
            base = problem.plain(name)
            slices, metropolis = (
                sorted(
                    problem.all(
                        representation=name, update=update, own_sites=True, elliptical=True
                    ),
                    key=lambda runs: runs.width,
                )
                for update in ("slice", "metropolis")
            )
            if base is None or len(slices) < 2:
                continue
            span = slices[-1].width / slices[0].width
            why = f"widths span a factor {span:g}"
            for runs in slices:
                if runs is not base:
                    row = f"{label(problem, paper)}: width {runs.width:g}"
                    rows.append(_spanned(as_many(robust, row, (runs, base), COST, why), span))
            if len(metropolis) > 1:
                orders.append(
                    _spanned(_spread_row(less, label(problem, paper), slices, metropolis), span)
                )
    need = "widths over two decades beside the standard one"
    rows = rows or [missing_row(robust, need)]
    return rows + (orders or [missing_row(less, f"{need}, and scales of update: metropolis")])


def _spread_row(
    claim: str, row: str, slices: list[MethodRuns], metropolis: list[MethodRuns]
) -> dict:
    """Worst over best efficiency of one update over that of the other; above 1 the first depends less."""
    terms, texts = [], []
    for runs, weight in ((slices, 1.0), (metropolis, -1.0)):
        means = [log_mean(method, COST) for method in runs]
        worst, best = (choose(means, key=lambda mean: mean.centre) for choose in (min, max))
        terms += [(worst, weight), (best, -weight)]
        share = math.exp(worst.centre - best.centre)
        texts.append(f"{runs[0].width:g} to {runs[-1].width:g}: {share:.2g}")
    spread, why = combined(*terms), f"widths {texts[0]}; scales {texts[1]}"
    column, less = (
        f"worst / best ESS per {COSTS[COST]}: slice / metropolis",
        (side(spread, 0.0), "above"),
    )
    return judged_row(claim, row, column, spread.exp(), less, printed="> 1", why=why)


def _spanned(row: dict, span: float) -> dict:
    """The claim is about two decades: less of them shows nothing."""
    short = span < 0.999 * DECADES and row["verdict"] == "holds"
    return row | {"verdict": "not resolved"} if short else row


def _without_data_rows(problems: Problems) -> list[dict]:
    """Acceptance of prior-white with proposals from the hyperprior, under observations that say nothing."""
    claim = "text (5): without data, prior-white proposals from the prior are always accepted"
    rows = []
    for problem in (problem for problem in problems.values() if problem.without_data):
        for runs in problem.all(representation="prior-white", proposal="prior"):
            rates = [chain["acceptance"] for chain in runs.chains]
            rate = round(min(rates), 9)  # up to rounding of the likelihoods
            why = (
                f"{len(rates)} chains of {runs.chains[-1]['iterations']} iterations, the lowest rate; "
                f"noise sd {problem.noise_sd:g}"
            )
            cells = {"printed": "1", "ours": rate, "verdict": verdict(rate == 1.0), "why": why}
            rows.append(claim_row(claim, problem.name, f"acceptance rate: {runs.name}", **cells))
    need = "prior-white, update: metropolis, proposal: prior on data of immense noise"
    return rows or [missing_row(claim, need)]


def _ergodic_rows(problems: Problems, paper: dict, exact: dict) -> list[dict]:
    """Claim 5: proposals without data, and surrogates without elliptical updates."""
    rows = _without_data_rows(problems)
    claim = "text (5): surrogate samplers are ergodic with no other update of the latents"
    alone_rows = []
    for problem in problems.values():
        others = {m.name: moments(m, problem.names) for m in problem.all(elliptical=True)}
        best = reference(others) or next(iter(others), None)
        exactly = is_exact(problem, exact)
        if not exactly and best is None:
            continue
        theirs, name = (known_moments(exact), "exact") if exactly else (others[best], best)
        for runs in problem.all(elliptical=False):
            if runs.representation in SURROGATES:
                cells = compared_cells(moments(runs, problem.names), theirs, name)
                column = f"root mean square z: {runs.name} - {name}"
                alone_rows.append(
                    claim_row(claim, label(problem, paper), column, printed="1", **cells)
                )
    need = "elliptical: 0 with surr-site, beside the exact posterior or another method"
    return rows + (alone_rows or [missing_row(claim, need)])


def _support_rows(problems: Problems) -> list[dict]:
    """Claim 6: length scales of the synthetic data inside the hyperprior's support."""
    claim = "text (6): length scales of the synthetic data lie inside the hyperprior's support"
    if not any(problem.kind == "regression" for problem in problems.values()):
        return [missing_row(claim, "a regression problem")]
    facts = load_dataset("synthetic-regression").attrs
    ours = min(float(v) for v in facts["length_scales"].split())
    share = 1.0 - (1.0 - BOUND / LONGEST) ** FEATURES
    why = (
        f"U(0, sqrt 10) falls below {BOUND:g} in {100 * share:.0f} % of data sets with {FEATURES} "
        "features: length scales are drawn again until none does, here "
        f"{facts['draws_of_length_scales']} times in all"
    )
    cells = {"printed": f"> {BOUND:g}", "ours": ours, "verdict": verdict(ours > BOUND), "why": why}
    return [claim_row(claim, "synthetic-regression", "least length scale", **cells)]


def _sign_row() -> dict:
    """Claim 7: equation 13 as printed has the wrong sign."""
    claim = "text (7): equation 13 as printed: Lambda is the second derivative of log L"
    likelihood, y, k = Poisson(), np.array([3.0]), 1.0
    w, b, _ = LaplaceSites()(likelihood, y, k)
    second = float(likelihood.derivatives(b / (1.0 / k + w), y)[2][0])
    ours = round(second / float(w[0]), 9)
    why = (
        "slip of the paper: it lacks a minus sign; log-concave likelihoods have negative second "
        "derivatives, and S = 1 / Lambda has to be positive"
    )
    column = "second derivative at the mode / precision of the site"
    cells = {"printed": "1", "ours": ours, "verdict": verdict(ours >= 0.0), "why": why}
    return claim_row(claim, "one count, y = 3", column, **cells)


def joint_rows(problems: dict[str, ProblemRuns], paper: dict[str, str]) -> list[dict]:
    """Effective samples of T per second of joint split HMC over those of each representation that was run."""
    rows = []
    for problem in problems.values():
        joint = problem.plain(JOINT)
        others = [problem.plain(name) for name in REPRESENTATIONS]
        pairs = [(joint, other) for other in others if other is not None]
        if joint is not None and pairs:
            why = "burn-in and pilots are not counted"
            rows.append(above(AHEAD, label(problem, paper), pairs, "seconds", why=why))
    return rows or [missing_row(AHEAD, f"{JOINT} beside a representation")]
