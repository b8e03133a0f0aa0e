"""Joint posterior draws at new inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.approximations.predictive import units_of
from gpmcflow.contrasts.latents import N_DRAWS, draw_latents
from gpmcflow.contrasts.responses import of_kind, require_kind
from gpmcflow.covariances.inputs import row_labels
from gpmcflow.models.gp_model import GPModel


def draws_at(
    draws: Any,
    X_new: Any,
    *,
    kind: str = "mean",
    of: str | None = None,
    exposure: Any = None,
    trials: Any = None,
    unseen: str = "error",
    n_draws: int = N_DRAWS,
    model: GPModel | None = None,
    seed: int = 0,
) -> xr.Dataset:
    """Draw the posterior at new inputs, jointly over the inputs.

    Each draw is one function at all inputs: given theta and the latents f at the cases, f_* ~ N(K_*n K_nn^-1
    f, K_** - K_*n K_nn^-1 K_n*); where f is integrated out, the same given y; of basis functions f_* = Phi_*
    (s w). So sums, differences and averages of a draw are draws of them.

    Parameters
    ----------
    draws:
        Draws of `sample` from a `GPModel`, or from its latents; or a fit of `approximate`.
    X_new:
        New inputs, (m, p) or a table with the columns the model was made with, in any order.
    kind:
        "latent" for eta = f + c, "mean" for E[y | eta, theta], "response" for new observations. The mean of
        labels is the probability of +1.
    of:
        Of classes, the one whose probability the mean is; of several latent functions, which one.
    exposure, trials:
        Of the new rows, as of `predict`.
    unseen:
        "new" takes a level that the model has not seen as different from all, the same in all rows that have
        it; else it is an error.
    n_draws:
        Most draws that are used, spread evenly over each chain: each setting of the hyperparameters costs a
        factorisation of n cases, and one of m rows. Of a fit, how many are drawn.
    model:
        The model of draws whose covariance or likelihood is written in Python.
    seed:
        Of the random numbers.

    Returns
    -------
    Variable ``kind`` (chain, draw, new_case); new_case has the index of a DataFrame as its coordinate.

    Raises
    ------
    InputError:
        For inputs that are not those of the model, an unknown kind, and a source that holds no draws.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(0.3, 1.0), gp.Gaussian(0.1))
    >>> curves = gp.draws_at(gp.approximate(model), [0.25, 0.3], kind="latent", n_draws=1000)
    >>> dict(curves.sizes)
    {'chain': 1, 'draw': 1000, 'new_case': 2}
    >>> float(curves.latent.diff("new_case").std().round(2))
    0.03
    """
    require_kind("draws_at", kind)
    rng = np.random.default_rng(seed)
    place, drawn = draw_latents(
        "draws_at",
        draws,
        lambda own: own.new_inputs(X_new, unseen),
        model=model,
        n_draws=n_draws,
        rng=rng,
    )
    values, attributes = [], {}
    for setting, eta in drawn:
        units = units_of(
            setting.likelihood, eta.shape[-1], "draws_at", exposure=exposure, trials=trials
        )
        values.append(of_kind(kind, setting.likelihood, eta, units, rng, of))
        attributes = outcome_attributes(setting.model, kind)
    by_chain = place.by_chain(np.concatenate(values))
    index = {"chain": place.chain, "draw": place.draw, "new_case": np.arange(by_chain.shape[-1])}
    drawn_values = xr.DataArray(by_chain, index, tuple(index), attrs=attributes)
    return xr.Dataset({kind: drawn_values}).assign_coords(row_labels(X_new, "new_case"))


def outcome_attributes(model: GPModel, kind: str) -> dict[str, str]:
    """What a variable is of, such as P(readmitted = yes), as far as the model knows."""
    if model.outcome is None or kind == "latent":
        return {}
    return {"long_name": model.outcome.response if kind == "mean" else model.outcome.name}
