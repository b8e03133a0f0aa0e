"""Predictors eta = f + c at new inputs, drawn jointly over the inputs, draw by draw of the posterior."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from gpmcflow.approximations.conditional import BasisPredictor, Predictor
from gpmcflow.approximations.draws import evenly_spaced
from gpmcflow.approximations.integrated import IntegratedApproximation
from gpmcflow.approximations.prediction import predictors
from gpmcflow.errors import InputError
from gpmcflow.execution import pin_blas
from gpmcflow.likelihoods import Likelihood
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.multi_gp_model import MultiGPModel

N_DRAWS = 400  # each needs a factorisation


class Place(NamedTuple):
    """Which draws of a source are used."""

    chain: np.ndarray
    draw: np.ndarray

    @property
    def size(self) -> int:
        """Number of draws."""
        return len(self.chain) * len(self.draw)

    def by_chain(self, values: np.ndarray) -> np.ndarray:
        """Values (chain * draw, ...) by chain and draw."""
        return values.reshape(len(self.chain), len(self.draw), *values.shape[1:])


class Setting(NamedTuple):
    """Draws at one setting of the hyperparameters."""

    rows: slice  #: of the draws
    predictor: Predictor | BasisPredictor
    model: GPModel

    @property
    def n(self) -> int:
        """Number of draws."""
        return self.rows.stop - self.rows.start

    @property
    def full(self) -> np.ndarray:
        """All coordinates of the model."""
        predictor = self.predictor
        if isinstance(predictor, BasisPredictor):
            return predictor.full
        return predictor.covariance.full

    @property
    def mean(self) -> float:
        """c, the mean of the process."""
        return self.model.mean_at(self.full)

    @property
    def likelihood(self) -> Likelihood:
        """The likelihood, with numbers for its parameters."""
        return self.predictor.likelihood


def settings_of(
    who: str, source: Any, model: GPModel | None, n_draws: int
) -> tuple[Place, Iterator[Setting]]:
    """The draws used of a source, spread evenly over each chain, and their settings in order.

    ``source`` is as of `predict`, but for a model alone. Of a fit ``n_draws`` are drawn. Raises `InputError`
    for other sources.
    """
    pin_blas()
    if not isinstance(n_draws, int | np.integer) or isinstance(n_draws, bool) or n_draws < 1:
        raise InputError(f"{who}: n_draws is {n_draws!r}; allowed: a whole number >= 1")
    if isinstance(source, GPModel | MultiGPModel):
        raise InputError(
            f"{who}: found a GPModel; allowed: draws of sample, such as gp.sample(model), or a fit"
        )
    if isinstance(source, IntegratedApproximation):
        return Place(np.arange(1), np.arange(n_draws)), _integrated(source, n_draws)
    if not isinstance(source, xr.DataTree):
        place = Place(np.arange(1), np.arange(n_draws))
    else:
        source = evenly_spaced(source, n_draws)
        place = _place(source)
    return place, _settings(predictors(source, model=model, n_draws=place.size), place.size)


def draw_latents(
    who: str,
    source: Any,
    X_of: Callable[[GPModel], np.ndarray],
    *,
    model: GPModel | None,
    n_draws: int,
    rng: np.random.Generator,
) -> tuple[Place, Iterator[tuple[Setting, np.ndarray]]]:
    """Joint draws of eta (draw, m) at the coded inputs that ``X_of`` gives for the model, by setting."""
    place, settings = settings_of(who, source, model, n_draws)

    def drawn() -> Iterator[tuple[Setting, np.ndarray]]:
        X = None
        for setting in settings:
            X = X_of(setting.model) if X is None else X
            yield setting, setting.predictor.draw(X, rng, setting.n)

    return place, drawn()


def _place(tree: xr.DataTree) -> Place:
    if "posterior" not in tree.children:
        return Place(np.arange(1), np.arange(1))  # which `predictors` refuses
    posterior = tree["posterior"]
    return Place(posterior["chain"].values, posterior["draw"].values)


def _integrated(source: IntegratedApproximation, n: int) -> Iterator[Setting]:
    """The settings of an integrated fit, which weigh the same, each with its share of n draws."""
    ends = np.linspace(0, n, len(source.theta) + 1).round().astype(int)
    for predictor, first, last in zip(source.predictors(), ends[:-1], ends[1:], strict=True):
        if last > first:
            yield Setting(slice(first, last), predictor, predictor.model)


def _settings(source: Any, n: int) -> Iterator[Setting]:
    """Predictors with the draws that they are of: all, of a single one."""
    source = iter(source)
    first = next(source)
    held = len(first.coefficients)
    second = next(source, None)
    if second is None:  # one setting of all draws, or of all latents
        yield Setting(slice(0, n), first, first.model)
        return
    yield Setting(slice(0, held), first, first.model)
    yield Setting(slice(held, 2 * held), second, second.model)
    for k, predictor in enumerate(source, 2):
        yield Setting(slice(k * held, (k + 1) * held), predictor, predictor.model)
