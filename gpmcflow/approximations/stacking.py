"""Leave-one-out scores of draws, and weights of models by them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from gpmcflow.approximations.draws import evenly_spaced, read_draws
from gpmcflow.approximations.integrated import IntegratedApproximation
from gpmcflow.approximations.leave_one_out import (
    LeaveOneOut,
    at_theta,
    how,
    over_draws,
    over_function_draws,
    over_latents,
    over_settings,
)
from gpmcflow.diagnostics.importance_weights import BAD_K
from gpmcflow.errors import InputError
from gpmcflow.execution import pin_blas
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.multi_gp_model import MultiGPModel

log = logging.getLogger(__name__)
N_DRAWS = 100  # each needs a fit
_ALL = 10**9  # draws of what is thinned already
_STEPS, _ENOUGH = 10_000, 1e-10


def leave_one_out(
    draws: xr.DataTree | IntegratedApproximation,
    *,
    n_draws: int = N_DRAWS,
    model: GPModel | None = None,
) -> xr.Dataset:
    """Score a model by how well it predicts each case from all others.

    elpd_i = log p(y_i | y_-i), averaged over the posterior of the hyperparameters by Pareto-smoothed
    importance sampling with the latent of the case integrated out: exactly for regressions with Gaussian
    noise, else with weights by the draws of the latents, or by the cavities of EP or Laplace's method.

    Sources: Vehtari, Gelman & Gabry (2017); Vehtari et al. (2016).

    Parameters
    ----------
    draws:
        Draws of `sample` from a `GPModel`, or a fit of `approximate` with ``integrated``.
    n_draws:
        Most draws that are used, spread evenly over each chain: each needs a fit. At fixed hyperparameters
        all draws are used, which share one fit.
    model:
        The model of draws whose covariance or likelihood is written in Python.

    Returns
    -------
    Variables elpd and pareto_k (case). Attributes elpd, its sum, and standard_error; by, how latents were
    left out ("exact", by "draws", "EP" or "Laplace"); ep_difference, the largest difference from EP's value
    of a case where it is by draws, else nan; n_bad, of cases with k above 0.7, where elpd is not to be
    trusted (with a warning).

    Raises
    ------
    InputError:
        For draws that do not tell their model, or hold no hyperparameters that can be averaged over.
    NumericalError:
        Where the fit converges at none of the draws.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(0.3, 1.0), gp.Gaussian(0.1))
    >>> scores = gp.leave_one_out(gp.sample(model, n_draws=50, n_chains=1))
    >>> round(scores.attrs["elpd"], 2), scores.attrs["by"]
    (4.88, 'exact')
    """
    pin_blas()
    if isinstance(draws, IntegratedApproximation):
        return _scores(over_settings(draws))
    if not isinstance(draws, xr.DataTree):
        raise InputError(
            f"leave_one_out: found {type(draws).__name__}; allowed: draws of sample, such as "
            "gp.sample(model), or gp.approximate(model, integrated=True)"
        )
    if not isinstance(n_draws, int | np.integer) or isinstance(n_draws, bool) or n_draws < 1:
        raise InputError(f"leave_one_out: n_draws is {n_draws!r}; allowed: a whole number >= 1")
    free = "posterior" in draws.children and "theta" in draws["posterior"]
    tree = evenly_spaced(draws, n_draws) if free else draws
    drawn_of, thetas, eta = read_draws("leave_one_out", tree, model, _ALL)
    n_chains = tree["posterior"].sizes["chain"]
    if isinstance(drawn_of, MultiGPModel):
        if eta is None:
            raise InputError(
                "leave_one_out: these draws hold no latents; sample with keep_latents=True"
            )
        rows = thetas.reshape(n_chains, -1, drawn_of.dim)
        found = over_function_draws(drawn_of, rows, eta.reshape(*rows.shape[:2], -1))
    else:
        latents = None
        if eta is not None and not (drawn_of.basis or drawn_of.likelihood.conjugate):
            c = np.array([[drawn_of.mean_at(drawn_of.full(theta))] for theta in thetas])
            latents = drawn_of.at_cases(eta - c).reshape(n_chains, -1, drawn_of.n_cases)
        if free:
            found = over_draws(drawn_of, thetas.reshape(n_chains, -1, drawn_of.dim), latents)
        elif latents is not None:
            found = over_latents(drawn_of, thetas[0], latents)
        else:
            found = LeaveOneOut(
                at_theta(drawn_of, thetas[0]), np.zeros(drawn_of.n_cases), how(drawn_of)
            )
    return _scores(found)


def _scores(found: LeaveOneOut) -> xr.Dataset:
    """Scores by case, and of all; a warning where some are not to be trusted."""
    elpd, n_bad = found.log_density, int((found.pareto_k > BAD_K).sum())
    if n_bad:
        log.warning(
            "leave_one_out: %d of %d cases have a Pareto k above %g, so that their scores may be wrong; take "
            "more draws (n_draws), or look at these cases", n_bad, len(elpd), BAD_K,
        )  # fmt: skip
    attributes = {
        "elpd": float(elpd.sum()),
        "standard_error": float(np.sqrt(len(elpd) * elpd.var())),
        "by": found.by,
        "ep_difference": found.ep_difference,
        "n_bad": n_bad,
    }
    variables = {"elpd": ("case", elpd), "pareto_k": ("case", found.pareto_k)}
    return xr.Dataset(variables, {"case": np.arange(len(elpd))}, attributes)


def stacking_weights(runs: Mapping[str, Any], *, n_draws: int = N_DRAWS) -> dict[str, float]:
    """Weights of models whose averaged predictions score best when each case is left out.

    They maximise sum_i log sum_k w_k p_k(y_i | y_-i) over w_k >= 0 that sum to 1.

    Source: Yao et al. (2018).

    Parameters
    ----------
    runs:
        Draws of `sample`, or results of `leave_one_out`, by the names of their models.
    n_draws:
        As of `leave_one_out`.

    Returns
    -------
    {name: weight}.

    Raises
    ------
    InputError:
        For fewer than two models, and models of other cases.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> curves = {"smooth": gp.SquaredExponential(0.3, 1.0), "flat": gp.Constant(1.0)}
    >>> runs = {
    ...     name: gp.sample(gp.GPModel(x, np.sin(6.0 * x), k, gp.Gaussian(0.1)), n_draws=50, n_chains=1)
    ...     for name, k in curves.items()
    ... }
    >>> {name: round(weight, 2) for name, weight in gp.stacking_weights(runs).items()}
    {'smooth': 1.0, 'flat': 0.0}
    """
    if not isinstance(runs, dict) or len(runs) < 2:
        raise InputError("stacking_weights: allowed: two models or more, as {name: draws}")
    scores = {
        name: run if isinstance(run, xr.Dataset) else leave_one_out(run, n_draws=n_draws)
        for name, run in runs.items()
    }
    sizes = {name: own.sizes["case"] for name, own in scores.items()}
    if len(set(sizes.values())) > 1:
        raise InputError(f"stacking_weights: models of {sizes} cases; allowed: of the same ones")
    log_p = np.array([own["elpd"].values for own in scores.values()])
    p = np.exp(log_p - log_p.max(0))
    w = np.full(len(p), 1.0 / len(p))
    for _ in range(_STEPS):  # EM, which increases the score at each step
        before, w = w, w * (p / (w @ p)).mean(1)
        w /= w.sum()
        if np.abs(w - before).max() < _ENOUGH:
            break
    return dict(zip(scores, w.tolist(), strict=True))


def run_weights(runs: dict[str, Any], weights: Any) -> dict[str, float]:
    """Weights of several models that sum to 1, in the order of ``runs``."""
    if isinstance(weights, str):
        if weights != "stacking":
            raise InputError(
                f'predict: weights is {weights!r}; allowed: "stacking", a number for each model, or the '
                "table of gp.compare_models(..) for weights by their evidence"
            )
        return stacking_weights(runs)
    if isinstance(weights, pd.DataFrame) and "probability" in weights:
        weights = weights["probability"].to_dict()
    if not isinstance(weights, Mapping) or set(weights) != set(runs):
        given = sorted(weights) if isinstance(weights, Mapping) else weights
        raise InputError(
            f"predict: weights are {given!r}; allowed: a number for each of {sorted(runs)}"
        )
    values = np.array([float(weights[name]) for name in runs])
    if not np.all(np.isfinite(values) & (values >= 0.0)) or not values.sum() > 0.0:
        raise InputError(f"predict: weights are {dict(weights)}; allowed: numbers >= 0, not all 0")
    return dict(zip(runs, (values / values.sum()).tolist(), strict=True))
