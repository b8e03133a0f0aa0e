"""Rows against rows: differences and ratios of what is expected of them, with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from gpmcflow.approximations.predictive import units_of
from gpmcflow.contrasts.draws_at import outcome_attributes
from gpmcflow.contrasts.latents import N_DRAWS, draw_latents
from gpmcflow.contrasts.responses import of_kind, require_kind
from gpmcflow.contrasts.summaries import (
    compared,
    no_effect,
    require_interval,
    require_scale,
    summarised,
)
from gpmcflow.covariances.inputs import frame_of, row_labels
from gpmcflow.errors import InputError
from gpmcflow.models.gp_model import GPModel


def contrast(
    draws: Any,
    A: Any,
    B: Any,
    *,
    scale: str = "difference",
    kind: str = "mean",
    of: str | None = None,
    interval: float = 0.95,
    unseen: str = "error",
    n_draws: int = N_DRAWS,
    model: GPModel | None = None,
    seed: int = 0,
) -> xr.Dataset:
    """Compare rows A with rows B: what is expected of each, and how sure the difference is.

    Of joint posterior draws of mu = E[y | eta, theta] it is mu_A - mu_B, mu_A / mu_B, or the ratio of the
    odds mu / (1 - mu), row by row; means of counts are per unit of exposure, those of labels probabilities
    of +1.

    Parameters
    ----------
    draws:
        As of `draws_at`.
    A, B:
        Tables of as many rows, with the columns the model was made with; or one row against many. A dict of
        columns will do, such as ``{"age": 60, "drug": ["drug", "placebo"]}``.
    scale:
        "difference", "ratio" or "odds".
    kind:
        "mean", or "latent" for differences of eta, such as log rates.
    of:
        Of classes, the one whose probability the mean is; of several latent functions, which one.
    interval:
        Probability of the interval, between quantiles of equal tails.
    unseen, n_draws, model, seed:
        As of `draws_at`.

    Returns
    -------
    Variables mean, median, sd, low, high of the comparison, and probability, that of a difference above 0 or
    a ratio above 1, each (new_case); new_case has the index of the table with more rows.

    Raises
    ------
    InputError:
        For tables of other lengths, an unknown scale, and a ratio of values that may be negative.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(0.3, 1.0), gp.Gaussian(0.1))
    >>> top = gp.contrast(gp.approximate(model), [0.25, 0.5], [0.75])
    >>> top.probability.values
    array([1., 1.])
    >>> top[["low", "high"]].to_dataframe().round(1).to_numpy()
    array([[1.7, 2.1],
           [0.9, 1.3]])
    """
    require_kind("contrast", kind)
    require_scale("contrast", scale)
    require_interval("contrast", interval)
    if kind == "response" or (kind == "latent" and scale != "difference"):
        raise InputError(
            f'contrast: kind is {kind!r} with scale={scale!r}; allowed: kind="mean", or "latent" with '
            'scale="difference"'
        )
    sizes: list[int] = []

    def rows_of(own: GPModel) -> np.ndarray:
        frames = [frame_of(X, own.inputs) for X in (A, B)]
        sizes[:] = [len(frame) for frame in frames]
        if min(sizes) == 0 or (sizes[0] != sizes[1] and min(sizes) > 1):
            raise InputError(
                f"contrast: A has {sizes[0]} rows, B has {sizes[1]}; allowed: as many, or one row against "
                "many"
            )
        # coded together: a level not seen before is one level in both
        return own.new_inputs(pd.concat(frames, ignore_index=True), unseen)

    rng = np.random.default_rng(seed)
    _, drawn = draw_latents("contrast", draws, rows_of, model=model, n_draws=n_draws, rng=rng)
    values, attributes = [], {}
    for setting, eta in drawn:
        one = units_of(setting.likelihood, eta.shape[-1], "contrast", exposure=None, trials=None)
        means = of_kind(kind, setting.likelihood, eta, one, of=of)
        first, second = means[:, : sizes[0]], means[:, sizes[0] :]
        values.append(compared(first, second, scale, "contrast"))
        attributes = outcome_attributes(setting.model, kind)
    pairs = np.concatenate(values)
    table = summarised(
        pairs, ["new_case"], {"new_case": np.arange(pairs.shape[1])}, interval, no_effect(scale)
    )
    longer = A if sizes[0] >= sizes[1] else B
    return table.assign_coords(row_labels(longer, "new_case")).assign_attrs(
        scale=scale, **attributes
    )
