"""Estimates of `model_evidence` from its runs, their errors, alarms and costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.diagnostics.importance_weights import smooth_weights
from gpmcflow.evidence import alarms, ladder_estimates
from gpmcflow.evidence.bridge import Bridge, Terms, bridge
from gpmcflow.evidence.estimates import Estimate, estimate_columns
from gpmcflow.evidence.parallel_tempering import smallest_effective_size
from gpmcflow.models.description import data_of
from gpmcflow.models.gp_model import GPModel
from gpmcflow.samplers.variables import in_own_units

LEAST_COUNTED = 100.0  # effective draws of the posterior for a bridge, in the mean; half in each
SLIGHT = 0.02  # nats


@dataclass(frozen=True, eq=False)
class Ends:
    """u at draws of the posterior and of the reference of R replicates, and what the chains tell."""

    log_ratio: np.ndarray  #: (R, N)
    reference: np.ndarray  #: (R, N, k)
    theta: np.ndarray  #: (R, N, d)
    latents: np.ndarray  #: (R, N, m)
    sum_log_likelihood: np.ndarray  #: (R, N), log p(y | f)
    acceptance_rate: np.ndarray
    diverging: np.ndarray
    n_gradient: int

    @cached_property
    def bridges(self) -> list[Bridge]:
        """One of each replicate."""
        both = zip(self.reference, self.log_ratio, strict=True)
        return [bridge(lower.ravel(), upper) for lower, upper in both]

    @cached_property
    def estimate(self) -> Estimate:
        """By the bridge."""
        return Estimate(*(
            np.array([getattr(b, name) for b in self.bridges])
            for name in ("log_ratio", "standard_error")
        ))  # fmt: skip

    @property
    def counts(self) -> list[float]:
        """Effective draws of the posterior side, of replicates to whose error it adds more than `SLIGHT`."""
        return [b.counted for b in self.bridges if b.upper_error > SLIGHT]

    def slow(self) -> list[str]:
        """Whether these are too few for an error that can be told."""
        return alarms.slow_alarms(self.counts, LEAST_COUNTED)

    @cached_property
    def overlap(self) -> float:
        """Largest variance of the terms of any bridge."""
        return max(b.variance for b in self.bridges)

    @cached_property
    def pareto_k(self) -> float:
        """Largest Pareto shape of the terms of either end, all replicates together."""
        ends = zip(*((b.terms.lower, b.terms.upper) for b in self.bridges), strict=True)
        return max(_shape(np.concatenate(end)) for end in ends)

    @cached_property
    def largest_share(self) -> float:
        """What one more draw of a replicate can change its estimate by at most, in nats."""
        return max(b.largest_share for b in self.bridges)

    def poor(self) -> list[str]:
        """Why the two ends are too far apart for a bridge, empty where they are not."""
        return alarms.overlap_alarms(self.overlap, self.pareto_k, self.largest_share)

    def apart(self) -> bool:
        """Whether the two ends are so far apart that more draws would not join them."""
        return self.overlap > alarms.MAX_BRIDGE_VARIANCE

    def enough(self, target_error: float) -> bool:
        """Whether no further round of draws is needed."""
        return self.estimate.error <= target_error and not self.poor() and not self.slow()

    def alarms(self) -> list[str]:
        """All that speaks against the bridge."""
        u = (self.reference, self.log_ratio)
        finite = [values[np.isfinite(values)] for values in u]
        mean, sd = (np.array([getattr(v, name)() for v in finite]) for name in ("mean", "std"))
        return [
            *self.poor(),
            *alarms.jump_alarms(mean, sd, "u"),
            *self.slow(),
        ]


@dataclass(frozen=True, eq=False)
class Ladder:
    """u along ladders of R replicates, (R, N, T + 1) in ``arrays``, beside swaps and statistics."""

    betas: np.ndarray
    distance: float  #: int sd(u) d beta, which its steps share
    arrays: Mapping[str, np.ndarray]
    n_gradient_before: int  #: of the short ladder, and of iterations that were dropped

    @property
    def u(self) -> np.ndarray:
        """(R, T + 1, N)."""
        return self.arrays["log_ratio"].transpose(0, 2, 1)

    def by(self, estimator: str) -> Estimate:
        """Estimates by one of `ladder_estimates.ESTIMATORS`."""
        values = getattr(ladder_estimates, estimator)(self.betas, self.u)
        terms = ladder_estimates.influence(self.betas, self.u, estimator)
        return Estimate(values, ladder_estimates.batch_means_error(terms))

    @cached_property
    def estimate(self) -> Estimate:
        """By the sum of bridges."""
        return self.by("bridge")

    def enough(self, target_error: float) -> bool:
        """Whether no further round of iterations is needed."""
        return self.estimate.error <= target_error

    @cached_property
    def _terms(self) -> Terms:
        return ladder_estimates.pair_terms(self.betas, self.u)

    @property
    def overlap(self) -> float:
        """Largest variance of the terms of any pair."""
        return float(max(terms.var(-1).max() for terms in self._terms[:2]))

    @property
    def pareto_k(self) -> float:
        """Largest Pareto shape of the terms of any pair, all replicates together."""
        T = len(self.betas) - 1
        return max(_shape(terms[:, t].ravel()) for terms in self._terms[:2] for t in range(T))

    @property
    def largest_share(self) -> float:
        """What one more iteration of a replicate can change the bridge of a pair by at most, in nats."""
        return float(max(limit.max() for limit in self._terms[2:]) / self.u.shape[-1])

    @property
    def swap_rate(self) -> np.ndarray:
        """Of each pair (T,)."""
        return ladder_estimates.swap_rates(self.arrays["swap_accepted"].transpose(0, 2, 1))

    @property
    def round_trips(self) -> np.ndarray:
        """Of each replicate."""
        return ladder_estimates.round_trips(self.arrays["walker"].transpose(0, 2, 1))

    def alarms(self) -> list[str]:
        """All that speaks against the ladder."""
        u = np.where(np.isfinite(self.u), self.u, np.nan)
        stones = self.by("stepping_stones")
        gap = self.estimate.mean - stones.mean
        return [
            *alarms.overlap_alarms(self.overlap, self.pareto_k, self.largest_share),
            *alarms.jump_alarms(np.nanmean(u, (0, 2)), np.nanstd(u, (0, 2)), "u"),
            *alarms.short_ladder_alarms(self.distance, len(self.betas) - 1),
            *alarms.swap_alarms(self.swap_rate, int(self.round_trips.sum())),
            *alarms.disagreement_alarms(
                ("the bridge", self.estimate.mean),
                ("stepping stones", stones.mean),
                gap,
                float(np.hypot(self.estimate.error, stones.error)),
                max(len(stones.values) - 1, 1),
            ),
        ]


def _shape(terms: np.ndarray) -> float:
    """Pareto shape of the tail of positive terms."""
    with np.errstate(divide="ignore"):
        return smooth_weights(np.log(terms))[1]


def evidence_group(
    ends: Ends, ladder: Ladder | None, n_gradient_pilot: int, further_alarms: list[str]
) -> xr.Dataset:
    """Group ``evidence`` of `model_evidence`."""
    run: Any = ends if ladder is None else ladder
    estimates = {"bridge": run.estimate}
    if ladder is not None:
        others = (name for name in ladder_estimates.ESTIMATORS if name != "bridge")
        estimates |= {name: ladder.by(name) for name in others}
    first, fit = estimates["bridge"], float(ends.sum_log_likelihood.mean())
    own = {} if ladder is None else ladder.arrays
    n_gradient = ends.n_gradient + n_gradient_pilot
    diverging, rate = ends.diverging.mean(), ends.acceptance_rate.mean()
    if ladder is not None:
        n_gradient += int(own["n_gradient"].sum()) + ladder.n_gradient_before
        diverging = own["diverging"][..., 1:].mean()
        rate = own["acceptance_rate"][..., 1:].mean()
    scalars = {
        "effective_size": (
            float(sum(b.counted for b in ends.bridges))
            if ladder is None
            else smallest_effective_size(ladder.u)
        ),
        "fit": fit,
        "complexity": fit - first.mean,
        "overlap": run.overlap,
        "pareto_k": run.pareto_k,
        "n_gradient": float(n_gradient),
        "n_gradient_pilot": float(n_gradient_pilot),
        "n_likelihood": float(n_gradient + ends.log_ratio.size + ends.reference.size),
        "n_factorisation": 0.0,
        "acceptance_rate": float(rate),
        "diverging": float(diverging),
        "unsolved": 0.0,
        "alarm": alarms.join(
            alarms.not_finite_alarms(first.mean),
            run.alarms(),
            alarms.transition_alarms(float(diverging), 0.0),
            alarms.spread_alarms(first.spread, first.within, len(first.values)),
            alarms.apart_alarms(ends.theta),
            alarms.stand_alarms(ends.theta),
            further_alarms,
        ),
    }
    coords = {"estimator": list(estimates), "replicate": np.arange(len(first.values))}
    values: dict[str, Any] = estimate_columns(estimates)
    values |= {name: ((), value) for name, value in scalars.items()}
    if ladder is not None:
        values["swap_rate"] = ("pair", ladder.swap_rate)
        values["round_trips"] = ("replicate", ladder.round_trips)
    return xr.Dataset(values, coords, {"route": "two_ended" if ladder is None else "ladder"})


def posterior_groups(model: GPModel, ends: Ends) -> dict[str, xr.Dataset]:
    """Groups ``posterior``, ``sample_stats``, ``reference`` and ``observed_data``."""
    n_replicates, n_draws, n_repeats = ends.reference.shape
    coords = {"chain": np.arange(n_replicates), "draw": np.arange(n_draws)}
    draws = ("chain", "draw")
    posterior = {
        name: ((*draws, "theta_dim") if values.ndim == 3 else draws, values)
        for name, values in in_own_units(model, ends.theta).items()
    }
    stats = {
        name: (draws, getattr(ends, name))
        for name in ("log_ratio", "sum_log_likelihood", "acceptance_rate", "diverging")
    }
    reference = {"log_ratio": ((*draws, "repeat"), ends.reference)}
    return {
        "observed_data": data_of(model)["observed_data"],
        "posterior": xr.Dataset(posterior, coords | {"theta_dim": np.array(model.names)}),
        "sample_stats": xr.Dataset(stats, coords),
        "reference": xr.Dataset(reference, coords | {"repeat": np.arange(n_repeats)}),
    }


def ladder_group(ladder: Ladder) -> xr.Dataset:
    """Group ``tempered``: (chain, temperature, draw)."""
    arrays = ladder.arrays
    n_replicates, n_draws, n = arrays["log_ratio"].shape
    return xr.Dataset(
        {name: (("chain", "draw", "temperature"), values) for name, values in arrays.items()},
        {
            "chain": np.arange(n_replicates),
            "draw": np.arange(n_draws),
            "temperature": np.arange(n),
            "beta": ("temperature", ladder.betas),
        },
    ).transpose("chain", "temperature", "draw")
