"""Sites at the mode of the weights of basis functions, by Newton's method: O(n m^2) a step."""

from __future__ import annotations

import numpy as np

from gpmcflow.errors import NumericalError
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.models.weight_posterior import WeightPosterior

TOLERANCE = 0.05  # nats of a step; the next is far smaller, and any positive sites are exact
ROUNDING = 1e-10  # of the objective
LEAST_PRECISION = 1e-10  # of the largest one, which is in units of y^-2
MAX_STEPS = 50


def basis_sites(model: GPModel, theta: np.ndarray, start: FrozenSites | None = None) -> FrozenSites:
    """Curvature and slope of the log likelihood at the mode of the weights at theta (d,).

    The mode of sum_i l_i(h_i) - |w|^2 / 2, h = Phi (s w) + c, by Newton's method with a line search: a step
    goes to the mean under sites of the majorising precision. ``start``: sites whose mean it begins at. The
    precisions are the likelihood's `information`, positive also where it is not log-concave.

    Raises `NumericalError` where no step ascends, or they do not end.
    """
    full = model.full(theta)
    y, c, likelihood = model.y, model.mean_at(full), model.likelihood_at(full)
    design, (s, _) = model.basis_design, model.basis.scales(full)
    h, trial_h = np.empty(model.n_cases), np.empty(model.n_cases)

    def newton(sites: FrozenSites) -> np.ndarray:
        r = design.pull_back(sites.shift - c * sites.precision)
        mean = WeightPosterior(design.gram(sites.precision), r, s).mean
        if not np.all(np.isfinite(mean)):
            raise NumericalError(
                f"basis sites: the weights' precision does not factorise at {full.tolist()}; take narrower "
                "hyperpriors"
            )
        return mean

    def objective(w: np.ndarray, out: np.ndarray) -> tuple[float, np.ndarray]:
        design.multiply(s * w, out)
        out += c
        value, slope = likelihood.log_density_and_gradient(out, y)
        return float(value) - 0.5 * float(w @ w), slope

    w = np.zeros(model.n_latents) if start is None else newton(start)
    with np.errstate(all="ignore"):
        value, slope = objective(w, h)
        if start is not None and not np.isfinite(value):
            w = np.zeros(model.n_latents)
            value, slope = objective(w, h)
        for _ in range(MAX_STEPS):
            precision = positive(likelihood.majorising_precision(h, y))
            direction, step = newton(FrozenSites(precision, slope + precision * h)) - w, 1.0
            while True:
                trial, trial_slope = objective(w + step * direction, trial_h)
                if trial >= value - ROUNDING * (1.0 + abs(value)):
                    break
                step *= 0.5
                if step < 1e-10:
                    raise NumericalError(
                        "basis sites: no ascent to the mode of the weights; check the data for values the "
                        "likelihood cannot have"
                    )
            gain, w = trial - value, w + step * direction
            value, slope, h, trial_h = trial, trial_slope, trial_h, h
            if gain < TOLERANCE and step == 1.0:
                precision = positive(likelihood.information(h, y))
                return FrozenSites(precision, slope + precision * h)
    raise NumericalError(
        f"basis sites: Newton's method has not converged after {MAX_STEPS} steps; rescale the inputs or the "
        "hyperparameters"
    )


def positive(precision: np.ndarray) -> np.ndarray:
    """Precisions (n,) that are zero but for rounding, raised to a share of the largest."""
    return np.maximum(precision, LEAST_PRECISION * precision.max() or LEAST_PRECISION)
