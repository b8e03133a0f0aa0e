"""The path from a Gaussian that a pilot fitted to the joint posterior of hyperparameters and latents."""

from __future__ import annotations

import numpy as np

from gpmcflow.models.collapsed_density import density_of
from gpmcflow.models.gp_model import GPModel
from gpmcflow.samplers.adaptation.joint_pilot import Stage, site_factor
from gpmcflow.samplers.joint.split_dynamics import SplitState, SplitTarget


class JointPath:
    """Densities N(q; 0, I) e^(beta u(q)) of q = (y, z), from beta = 0 to the posterior at beta = 1.

    u = rest + C, so that p(y) = E[e^u] over q ~ N(0, I): x = mu + A y are the hyperparameters in normal
    coordinates, z makes an exact draw of the latents under frozen sites, `SplitTarget`. The sites are those
    that the pilot fitted: weaker ones, in which it moves, overlap less with the posterior. Any is exact.

    Parameters
    ----------
    model:
        A `GPModel`.
    stage:
        The last stage of a pilot.
    """

    def __init__(self, model: GPModel, stage: Stage) -> None:
        sites = stage.frame.sites.scaled(1.0 / site_factor(model))
        self.target = SplitTarget(density_of(model, sites), stage.frame._replace(sites=sites))
        self.constant = self.target.log_constant()
        self.size = self.target.dim + self.target.density.n_z

    def log_ratio(self, state: SplitState) -> float:
        """u at a state."""
        return state.rest + self.constant

    def reference(self, rng: np.random.Generator) -> float:
        """u at a draw of N(0, I)."""
        return self.target.rest(rng.standard_normal(self.size)) + self.constant

    def posterior(self, rng: np.random.Generator, x: np.ndarray, latents: np.ndarray) -> float:
        """u at the q of a draw of the posterior, x (d,) with latents u."""
        return self.target.rest(self.target.position(rng, x, latents)) + self.constant
