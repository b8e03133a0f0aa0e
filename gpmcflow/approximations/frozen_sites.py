"""Gaussian sites for a joint sampler, fitted once at given hyperparameters and then frozen."""

from __future__ import annotations

import numpy as np

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.models.joint_gradient import FrozenSites, scales_with_amplitude
from gpmcflow.models.joint_model import JointModel
from gpmcflow.models.latent_gaussian import LatentGaussianModel

TOLERANCE = 1e-6  # any positive sites are exact; these decide how well the sampler mixes


def frozen_sites(model: JointModel, theta: np.ndarray) -> FrozenSites:
    """Sites of expectation propagation at theta (d,), in the units of `FrozenSites`.

    Raises `NumericalError` where the covariance does not factorise or the fit does not converge.
    """
    _, sd, offset = model.hyperparameters(theta)
    L = np.asfortranarray(sd * model.filled_factor(theta).dense())
    mean = np.full(model.n_cases, offset)
    latent = LatentGaussianModel(model.likelihood, model.y, mean, L)
    sites = expectation_propagation(latent, tolerance=TOLERANCE).sites
    if scales_with_amplitude(model):
        return FrozenSites(sites.precision * sd**2, sites.shift * sd)
    return FrozenSites(sites.precision, sites.shift)
