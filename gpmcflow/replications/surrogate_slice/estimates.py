"""Runs of a problem by method, and effective samples per unit of cost over their chains."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from gpmcflow.jobs.parts import grouped
from gpmcflow.replications.judgement import Estimate
from gpmcflow.replications.surrogate_slice.settings import METHODS, has_counts, likelihood_name

COSTS = {
    "n_lik": "likelihood evaluation",
    "n_cov": "covariance construction",
    "n_hyp": "setting of theta",
    "seconds": "second",
}
NO_DATA = 1e6  # noise sd of observations that say nothing
FINEST = {"line": 112, "plane": 625}  # bins of the paper's Cox processes
# Site rules that are what the representation has of its own, by likelihood.
_STANDARD_SITES = dict.fromkeys(("logistic", "probit"), "moments") | dict.fromkeys(
    ("poisson", "negative_binomial", "binomial", "student_t"), "laplace"
)


@dataclass(frozen=True)
class MethodRuns:
    """All chains of one method on one problem, over its replicates, and its settings."""

    name: str
    settings: dict
    likelihood: str
    chains: tuple[dict, ...]

    @property
    def representation(self) -> str:
        """One of the paper's six."""
        return self.settings.get("representation") or self.name

    @property
    def site_scale(self) -> float:
        """Factor of the sites' variances."""
        scale = self.settings.get("site_scale")
        return 1.0 if scale is None else float(scale)

    @property
    def update(self) -> str:
        """Name of the update of theta: slice or metropolis."""
        return self.settings.get("update") or "slice"

    @property
    def width(self) -> float:
        """Bracket width of slices, or scale of proposals, in widths of the hyperprior."""
        width = self.settings.get("width" if self.update == "slice" else "scale")
        return 1.0 if width is None else float(np.mean(width))

    @property
    def own_sites(self) -> bool:
        """Whether the sites are those the representation has of its own, at their own scale."""
        by_hand = self.settings.get("site_variance") is not None
        return self.standard_rule and self.site_scale == 1.0 and not by_hand

    @property
    def standard_rule(self) -> bool:
        """Whether the site rule is the one the representation has of its own."""
        sites = self.settings.get("sites")
        if sites in (None, "standard") or self.likelihood == "gaussian":
            return True
        if self.representation.endswith("taylor"):
            return sites == "taylor"
        return sites == _STANDARD_SITES.get(self.likelihood)

    @property
    def elliptical(self) -> bool:
        """Whether latents are also updated by elliptical slices."""
        return self.settings.get("elliptical") != 0

    @property
    def variant(self) -> str:
        """What is not as in the paper; nothing for one of the six methods as they are there."""
        steps, variance = (self.settings.get(key) for key in ("max_steps", "site_variance"))
        wide = self.update == "slice" and self.width != 1.0
        changes = {
            f"{self.settings.get('sites')} sites": not self.standard_rule,
            f"S x {self.site_scale:g}": self.site_scale != 1.0,
            f"S = {variance or 0.0:g} I": variance is not None,
            f"{self.update} {self.width:g}": self.update != "slice",
            f"width {self.width:g}": wide,
            f"{steps} steps out": steps not in (None, 1),
            "no elliptical updates": not self.elliptical,
        }
        return ", ".join(text for text, changed in changes.items() if changed)

    @property
    def plain(self) -> bool:
        """Whether this is one of the six methods as in the paper."""
        return not self.variant

    def per(self, cost: str) -> np.ndarray:
        """Effective samples of T per unit of cost, one a chain; nan where nothing was spent."""
        ess = np.array([chain["ess"] for chain in self.chains], dtype=np.float64)
        spent = np.array([chain[cost] for chain in self.chains], dtype=np.float64)
        return ess / np.where(spent > 0.0, spent, np.nan)

    def mean_of(self, top: str, bottom: str) -> Estimate:
        """Mean over the chains of a quotient of two counters."""
        below = [chain[bottom] or math.nan for chain in self.chains]
        return Estimate.of([c[top] / under for c, under in zip(self.chains, below, strict=True)])


@dataclass(frozen=True)
class ProblemRuns:
    """All methods of one problem, with what the paper's problems are told by."""

    name: str
    settings: dict
    n_cases: int
    names: tuple[str, ...]
    methods: dict[str, MethodRuns] = field(default_factory=dict)

    @property
    def likelihood(self) -> str:
        """Name of the likelihood."""
        return likelihood_name(self.settings)

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the noise, nan where the likelihood is not Gaussian or states no number."""
        stated = self.settings["likelihood"]
        settings = {} if isinstance(stated, str) else stated.get("gaussian", stated)
        noise = settings.get("noise_sd")
        return float(noise) if isinstance(noise, (int, float)) else math.nan

    @property
    def without_data(self) -> bool:
        """Whether the noise is so large that the likelihood is constant."""
        return self.noise_sd >= NO_DATA

    @property
    def kind(self) -> str:
        """Which of the paper's problems this is like: classification, regression, line, plane or other."""
        if self.likelihood in ("logistic", "probit"):
            return "classification"
        if self.likelihood == "gaussian":
            return "other" if self.without_data else "regression"
        if not has_counts(self.settings):
            return "other"
        n_lengths = sum(name.startswith("log_length") for name in self.names)
        grid = self.settings.get("kronecker") or self.settings.get("structure") == "kronecker"
        n_features = 2 if grid else n_lengths
        return {1: "line", 2: "plane"}.get(n_features, "other")

    @property
    def fine(self) -> bool:
        """Whether a Cox process has more bins than the paper's."""
        return self.n_cases > FINEST.get(self.kind, math.inf)

    def plain(self, representation: str) -> MethodRuns | None:
        """Return the runs of one of the six methods as in the paper."""
        return next(self.all(plain=True, representation=representation), None)

    def all(self, **wanted: object) -> Iterator[MethodRuns]:
        """Methods with these properties or settings, in order."""
        for method in self.methods.values():
            has = {name: getattr(method, name, method.settings.get(name)) for name in wanted}
            if has == wanted:
                yield method


def problem_runs(parts: Iterable[dict]) -> dict[str, ProblemRuns]:
    """Group the parts by problem and method, the six methods first, replicates in order."""
    problems = []
    for name, methods in grouped(parts, "replicate").items():
        runs = []
        for method, rows in methods.items():
            last = rows[-1]
            settings, likelihood = last["settings"], likelihood_name(last["settings"]["problem"])
            chains = tuple(chain for row in rows for chain in row["chains"])
            runs.append(MethodRuns(method, settings["method"], likelihood, chains))
        by_name = {m.name: m for m in sorted(runs, key=_place)}
        names = tuple(last["names"])
        problems.append(ProblemRuns(name, settings["problem"], last["n_cases"], names, by_name))
    return {problem.name: problem for problem in sorted(problems, key=_order)}


def _place(runs: MethodRuns) -> tuple:
    return not runs.plain, METHODS.index(runs.representation), runs.name


def _order(runs: ProblemRuns) -> tuple:
    kinds = ("classification", "regression", "line", "plane", "other")
    return kinds.index(runs.kind), runs.fine, -runs.n_cases, runs.name


def log_ratio(a: MethodRuns, b: MethodRuns, cost: str) -> Estimate:
    """Log of the ratio of mean effective samples per cost, a's over b's, whose chains are independent."""
    return log_mean(a, cost).minus(log_mean(b, cost))


def log_mean(runs: MethodRuns, cost: str) -> Estimate:
    """Log of the mean over chains of effective samples per cost."""
    return Estimate.of(runs.per(cost)).log()
