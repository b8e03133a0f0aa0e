"""A cheap model with a free hyperparameter, and samplers of it: a right one, and three with a mistake."""

from __future__ import annotations

import numpy as np

import gpmcflow as gp

SIZES = {"n_chains": 1, "n_draws": 300}


def counts() -> gp.GPModel:
    amplitude = gp.Hyperprior("norm", {"loc": 0.0, "scale": 0.7})
    covariance = gp.SquaredExponential(0.5, amplitude)
    return gp.GPModel(np.linspace(0.0, 1.0, 5), np.ones(5), covariance, gp.Poisson())


class AcceptsAlways(gp.MetropolisUpdate):
    """Whatever is proposed."""

    def _update(self, rng, chain, group, widths):
        (place,) = (chain.free[k] for k in group)
        full = chain.point.full.copy()
        full[place] += widths[group][0] * rng.standard_normal()
        chain.accept(chain.propose(full, place))
        return 1.0


class ForgetsJacobian(gp.MetropolisUpdate):
    """The prior of log s is taken for one of s: its density is divided by s."""

    def _update(self, rng, chain, group, widths):
        (place,) = (chain.free[k] for k in group)
        full = chain.point.full.copy()
        step = widths[group][0] * rng.standard_normal()
        before = chain.log_prior(place, full[place])
        full[place] += step
        after, current = chain.log_prior(place, full[place]), chain.phi
        phi = chain.propose(full, place)
        if np.log(rng.random()) < phi - current + after - before - step:
            chain.accept(phi)
        return 1.0


RIGHT = gp.SurrogateSlice("surr-site", gp.SliceUpdate(), n_elliptical=10)
MUTANTS = {
    "accepts always": gp.SurrogateSlice("prior-white", AcceptsAlways(scale=0.2), n_elliptical=10),
    "forgets a Jacobian": gp.SurrogateSlice(
        "surr-site", ForgetsJacobian(scale=0.3), n_elliptical=10
    ),
    "latents stand still": gp.SurrogateSlice("fixed", gp.SliceUpdate(), n_elliptical=0),
}
