"""The other claims of Murray & Adams (2010), as rows of the verdict."""

from __future__ import annotations

import math

import numpy as np

from gpmcflow.approximations.independent_sites import LaplaceSites
from gpmcflow.data import load_dataset
from gpmcflow.jobs.judgement import combined, side, verdict
from gpmcflow.likelihoods import Poisson
from gpmcflow.replications.surrogate_slice.comparisons import (
    above,
    as_many,
    claim_row,
    compared_cells,
    is_exact,
    judged_row,
    known_moments,
    label,
    missing_row,
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

Problems = dict[str, ProblemRuns]

COST = "n_cov"  # what the claims are measured by: it depends on no machine
SITES = ("surr-site", "post-site")
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
