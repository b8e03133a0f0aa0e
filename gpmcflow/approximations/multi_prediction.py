"""Several latent functions at new inputs, and the responses they give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from gpmcflow.approximations.conditional import (
    BasisPredictor,
    Conditional,
    NewDesigns,
    Predictor,
    basis_predictor,
    latent_predictor,
    mean_of_draws,
)
from gpmcflow.approximations.multi_laplace import FunctionsFit
from gpmcflow.approximations.predictive import QUANTILES, units_product
from gpmcflow.likelihoods import MultiLikelihood
from gpmcflow.likelihoods.multi import N_NODES
from gpmcflow.models.latent_prior import CovarianceAt
from gpmcflow.models.multi_gp_model import MultiGPModel

N_SIMULATED = 4000  # responses drawn for their spread and quantiles
ENOUGH, FEWEST = 3200, 8  # nodes of all draws together, and of each


class MultiConditional(NamedTuple):
    """Predictors of each function at new inputs as a mixture of independent normals, one a draw."""

    mean: np.ndarray  #: (draw, q, m)
    variance: np.ndarray  #: (draw, q, m)
    likelihoods: Sequence[MultiLikelihood]  #: one for each draw, or one for all

    def rows(self) -> Iterator[tuple[MultiLikelihood, np.ndarray, np.ndarray]]:
        """Likelihood, mean and variance of each draw."""
        n = len(self.mean)
        own = list(self.likelihoods) * (n if len(self.likelihoods) == 1 else 1)
        return zip(own, self.mean, self.variance, strict=True)

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """log p(y_i) under the mixture, (m,)."""
        terms = [own.log_mean(y, mean, variance) for own, mean, variance in self.rows()]
        return logsumexp(terms, axis=0) - np.log(len(terms))

    def class_probabilities(self) -> np.ndarray:
        """P(y = each class) at each input, (class, m); many draws share out the nodes of the averages."""
        each, whole = int(np.clip(ENOUGH // len(self.mean), FEWEST, N_NODES)), 0.0
        for k, (own, mean, variance) in enumerate(self.rows()):
            whole = whole + own.class_probabilities(mean, variance, own.some_nodes(k, each))
        return whole / len(self.mean)

    def take(self, rows: slice) -> MultiConditional:
        """Those at some of the new inputs."""
        own = [likelihood.take(rows) for likelihood in self.likelihoods]
        return self._replace(
            mean=self.mean[..., rows], variance=self.variance[..., rows], likelihoods=own
        )

    def simulate(
        self, rng: np.random.Generator, n: int
    ) -> Iterator[tuple[MultiLikelihood, np.ndarray]]:
        """Draws of all functions (each, q, m) with their likelihood, at least ``n`` of each input in all."""
        each = -(-n // len(self.mean))
        for own, mean, variance in self.rows():
            yield own, mean + np.sqrt(variance) * rng.standard_normal((each, *mean.shape))

    def responses(self, rng: np.random.Generator) -> np.ndarray:
        """Simulated responses (draw, m)."""
        return np.concatenate(
            [own.simulate(rng, eta) for own, eta in self.simulate(rng, N_SIMULATED)]
        )


@dataclass(frozen=True, eq=False)
class MultiPredictor:
    """All functions at one setting of the hyperparameters, given draws of the latents.

    Given the latents at the cases functions are independent, each normal for each draw.
    """

    model: MultiGPModel
    likelihood: MultiLikelihood
    parts: Sequence[Predictor | BasisPredictor]

    @property
    def coefficients(self) -> np.ndarray:
        """Those of the first function: one row for each draw."""
        return self.parts[0].coefficients

    def moments(self, X_new: np.ndarray) -> MultiConditional:
        """Means and variances at each of the coded inputs (m, p)."""
        n = len(self.coefficients)
        mean, variance = np.empty((2, n, len(self.parts), len(X_new)))
        for functions, part in self._of_one_prior():
            own = part.moments(X_new)
            for made, values in ((mean, own.mean), (variance, own.variance)):
                made[:, functions] = values.reshape(len(functions), n, -1).swapaxes(0, 1)
        return MultiConditional(mean, variance, [self.likelihood])

    def draw(self, X_new: np.ndarray, rng: np.random.Generator, n: int) -> np.ndarray:
        """Joint draws (n, q, m) at coded inputs (m, p), of draws of the latents spread evenly."""
        own = self if n == len(self.coefficients) else self.of_draws(n)
        drawn = np.empty((n, len(self.parts), len(X_new)))
        for functions, part in own._of_one_prior():
            eta = part.draw(X_new, rng, n * len(functions))
            drawn[:, functions] = eta.reshape(len(functions), n, -1).swapaxes(0, 1)
        return drawn

    def _of_one_prior(self) -> Iterator[tuple[list[int], Predictor | BasisPredictor]]:
        """Functions of one prior, with a predictor that has their coefficients, one below the other."""
        for _, functions in self.model.own_parts():
            rows = np.concatenate([self.parts[c].coefficients for c in functions])
            yield list(functions), replace(self.parts[functions[0]], coefficients=rows)

    def of_draws(self, n: int) -> MultiPredictor:
        """The same with n draws of the latents, spread evenly over those there are, or these again."""
        rows = np.linspace(0, len(self.coefficients) - 1, n).astype(int)
        parts = [replace(part, coefficients=part.coefficients[rows]) for part in self.parts]
        return replace(self, parts=parts)


def multi_predictor(
    model: MultiGPModel, theta: np.ndarray, latents: np.ndarray, designs: dict[int, NewDesigns]
) -> MultiPredictor:
    """The predictor at theta (d,) given draws of the latents of all functions (draw, n_latents)."""
    rows, thetas = np.split(latents, model.splits, axis=1), model.thetas_of_parts(theta)
    parts: list[Any] = [None] * len(rows)
    for part, functions in model.own_parts():
        at = thetas[functions[0]]
        full, n = part.full(at), len(latents)
        stacked = np.concatenate([rows[c] for c in functions])  # one factor for all of them
        if part.basis:
            made = designs.setdefault(id(part), NewDesigns(part))
            every: Any = basis_predictor(made, full, stacked)
        else:
            every = latent_predictor(part, at, stacked + part.mean_at(full))
        for k, c in enumerate(functions):
            parts[c] = replace(every, coefficients=every.coefficients[k * n : (k + 1) * n])
    return MultiPredictor(model, model.likelihood_at(model.full(theta)), parts)


def fit_predictor(fit: FunctionsFit, n_draws: int) -> MultiPredictor:
    """The predictor of a fit, from draws of its Gaussian."""
    latents = fit.draw_latents(np.random.default_rng(0), n_draws)
    return multi_predictor(fit.model, fit.theta, latents, {})


def prior_multi_conditionals(
    model: MultiGPModel, X_new: Any, n_draws: int, unseen: str = "error"
) -> list[MultiConditional]:
    """Predictors at new inputs under the prior, at draws of free hyperparameters."""
    rng, coded, parts = np.random.default_rng(0), model.new_inputs(X_new, unseen), []
    for _ in range(n_draws if model.dim else 1):
        theta = model.draw_prior(rng)
        means, variances = [], []
        for part, at in zip(model.parts, model.thetas_of_parts(theta), strict=True):
            full = part.full(at)
            variances.append(CovarianceAt(part, full).diagonal(coded))
            means.append(np.full(len(coded), part.mean_at(full)))
        likelihood = model.likelihood_at(model.full(theta))
        parts.append(MultiConditional(np.array([means]), np.array([variances]), [likelihood]))
    return parts


def multi_predictive(
    eta: MultiConditional, response: np.ndarray, quantiles: Sequence[float] = QUANTILES
) -> xr.Dataset:
    """Latent functions and responses of a mixture of predictors: what `predict` returns.

    ``response`` (draw, m) are simulated responses, which classes have no use for.
    """
    n_functions, m = eta.mean.shape[1:]
    likelihood = eta.likelihoods[0]
    own = [Conditional(eta.mean[:, c], eta.variance[:, c], []) for c in range(n_functions)]
    spread = eta.variance.mean(0) + eta.mean.var(0)
    variables: dict[str, Any] = {
        "latent_mean": (("function", "new_case"), eta.mean.mean(0)),
        "latent_sd": (("function", "new_case"), np.sqrt(spread)),
        "latent_quantile": (
            ("quantile", "function", "new_case"),
            np.stack([part.quantiles(quantiles) for part in own], axis=1),
        ),
    }
    coords: dict[str, Any] = {
        "new_case": np.arange(m), "quantile": list(quantiles), "function": list(likelihood.functions),
    }  # fmt: skip
    if likelihood.classes:
        probabilities = eta.class_probabilities()
        names = np.array(list(likelihood.classes))
        variables["response_probability"] = (("class", "new_case"), probabilities)
        variables["response_class"] = ("new_case", names[probabilities.argmax(0)])
        coords["class"] = names
        return xr.Dataset(variables, coords)
    by_draw = np.array([each.mean_response(m_, v) for each, m_, v in eta.rows()])
    unbounded = likelihood.stated.log_link or likelihood.stated.exponential_mean
    mean = mean_of_draws(by_draw) if unbounded else by_draw.mean(0)
    has_mean, has_sd = (all(own.has_moment(k) for own in eta.likelihoods) for k in (1, 2))
    mean = np.where(has_mean, mean * units_product(likelihood), np.nan)
    levels = np.quantile(response, quantiles, axis=0, method="inverted_cdf")
    variables["response_mean"] = ("new_case", mean)
    variables["response_sd"] = (
        "new_case", np.where(np.isnan(mean) | (not has_sd), np.nan, response.std(0)),
    )  # fmt: skip
    variables["response_quantile"] = (("quantile", "new_case"), levels)
    return xr.Dataset(variables, coords)
