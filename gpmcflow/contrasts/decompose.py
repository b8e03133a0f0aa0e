"""The posterior of each term of an additive model."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.contrasts.latents import N_DRAWS, settings_of
from gpmcflow.contrasts.summaries import require_interval, summarised
from gpmcflow.contrasts.terms import Request, draw_terms, require_one_function, term_names, terms_of
from gpmcflow.covariances.inputs import row_labels
from gpmcflow.models.gp_model import GPModel


def decompose(
    draws: Any,
    X_new: Any,
    *,
    summary: bool = True,
    interval: float = 0.95,
    unseen: str = "error",
    n_draws: int = N_DRAWS,
    model: GPModel | None = None,
    seed: int = 0,
) -> xr.Dataset:
    """Split the latent function into the terms of its covariance.

    With k = sum_j k_j the function is f = sum_j f_j; given the latents at the cases E[f_j(x)] = k_j(x, X)
    K^-1 f. The mean c of the model is a term of its own, "mean". All are on the scale of the link.

    Parameters
    ----------
    draws, X_new, unseen, n_draws, model, seed:
        As of `draws_at`.
    summary:
        Whether to return summaries, or else the draws.
    interval:
        Probability of the interval, between quantiles of equal tails.

    Returns
    -------
    Variables mean, median, sd, low, high (term, new_case), where means sum to latent_mean of `predict` from
    the same draws; or latent (chain, draw, term, new_case), whose sum over terms is a draw of eta. Terms are
    named like ``matern32(age)``, or by their ``name``.

    Raises
    ------
    InputError:
        As `draws_at`.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> curve = gp.Periodic(1.0, 1.0, period=0.25) + gp.Linear(sd=2.0)
    >>> fit = gp.approximate(gp.GPModel(x, 3.0 * x, curve, gp.Gaussian(0.1)))
    >>> parts = gp.decompose(fit, [0.5, 1.0])
    >>> list(parts.term.values)
    ['periodic()', 'linear()', 'mean']
    >>> whole = gp.predict(fit, [0.5, 1.0]).latent_mean
    >>> bool(np.allclose(parts["mean"].sum("term"), whole))
    True
    """
    require_interval("decompose", interval)
    rng = np.random.default_rng(seed)
    place, settings = settings_of("decompose", draws, model, n_draws)
    requests: list[Request] = []
    names: list[str] = []
    means, values = [], []
    for setting in settings:
        if not requests:
            require_one_function("decompose", setting.model)
            X = setting.model.new_inputs(X_new, unseen)
            requests = [Request(k, X) for k in range(len(terms_of(setting.model)))]
            names = [*term_names(setting.model), "mean"]
        drawn, shape = draw_terms(setting, requests, rng), (len(requests), len(X))
        c = np.full((setting.n, 1, len(X)), setting.mean)
        mean = np.broadcast_to(drawn.mean, (setting.n, drawn.mean.shape[1]))
        means.append(np.concatenate([mean.reshape(-1, *shape), c], axis=1))
        values.append(np.concatenate([drawn.values.reshape(-1, *shape), c], axis=1))
    coords = {"term": np.array(names, dtype=object), "new_case": np.arange(len(X))}
    if summary:
        table = summarised(np.concatenate(values), list(coords), coords, interval)
        table["mean"] = (tuple(coords), np.concatenate(means).mean(0))
    else:
        by_chain = place.by_chain(np.concatenate(values))
        index = {"chain": place.chain, "draw": place.draw, **coords}
        table = xr.Dataset({"latent": (tuple(index), by_chain)}, index)
    return table.assign_coords(row_labels(X_new, "new_case"))
