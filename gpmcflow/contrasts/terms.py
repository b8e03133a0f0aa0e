"""Terms of an additive covariance, f = sum_j f_j: their values at rows of their own, drawn jointly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag

from gpmcflow.approximations.conditional import BasisPredictor, Predictor, root_of
from gpmcflow.contrasts.latents import Setting
from gpmcflow.covariances.basis_design import BasisDesign
from gpmcflow.covariances.expressions import Covariance, Leaf, Sum, short_text
from gpmcflow.errors import InputError
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.linear_maps import solve
from gpmcflow.models.multi_gp_model import MultiGPModel


class Request(NamedTuple):
    """Rows at which a term is asked for; the same object for all draws."""

    term: int
    X: np.ndarray  #: coded (m, p)


class TermDraws(NamedTuple):
    """Values of the requests' rows one after another."""

    mean: np.ndarray  #: given the setting, (1, m) or one row for each draw
    values: np.ndarray  #: (draw, m)


def require_one_function(who: str, model: Any) -> None:
    """Raise `InputError` for a model of several latent functions, which are no sum."""
    if isinstance(model, MultiGPModel):
        raise InputError(
            f"{who}: the {model.likelihood.name} likelihood has several latent functions; take "
            'draws_at(draws, X, kind="latent", of=..), effects or contrast'
        )


def terms_of(model: GPModel) -> list[Covariance]:
    """Terms of the model's covariance."""
    whole = model.covariance
    return whole.operands() if isinstance(whole, Sum) else [whole]


def term_names(model: GPModel) -> list[str]:
    """A name for each term, such as matern32(age): its own if it has one; all different."""
    names: list[str] = []
    for term in terms_of(model):
        own = term.name if isinstance(term, Leaf) and term.name else short_text(term)
        again = sum(name == own or name.startswith(f"{own} #") for name in names)
        names.append(f"{own} #{again + 1}" if again else own)
    return names


def draw_terms(
    setting: Setting, requests: Sequence[Request], rng: np.random.Generator
) -> TermDraws:
    """Draws of f_j at the rows of each request, joint over all, at one setting of the hyperparameters.

    Given the latents f at the cases, the values of two terms at x and z have means k_j(x, X) K^-1 f and the
    covariance [j = l] k_j(x, z) - k_j(x, X) K^-1 k_l(X, z); where f is Gaussian its spread comes on top. With
    basis functions a term is the sum of its own ones.
    """
    predictor = setting.predictor
    if isinstance(predictor, BasisPredictor):
        return _of_basis(predictor, requests, rng, setting.n)
    if len(terms_of(setting.model)) == 1:  # on a grid, too
        mean, covariance = predictor.joint(np.concatenate([request.X for request in requests]))
        mean = mean - predictor.mean
    else:
        mean, covariance = _of_dense(predictor, requests)
    root = root_of(covariance)
    return TermDraws(mean, mean + rng.standard_normal((setting.n, root.shape[1])) @ root.T)


def _of_dense(predictor: Predictor, requests: Sequence[Request]) -> tuple[np.ndarray, np.ndarray]:
    """Means (draw, m) and covariance (m, m)."""
    model, full = predictor.model, predictor.covariance.full
    cross, own = [], []
    for term, X in requests:
        buffers = model.term_buffers(term)
        cross.append(buffers.cross(full, X))
        prior = buffers.cross(full, X, X)
        np.fill_diagonal(prior, buffers.diagonal(full, X))
        own.append(prior)
    q = solve(predictor.factor, np.concatenate(cross))
    covariance = block_diag(*own) - q @ q.T
    if predictor.added is not None:
        spread = predictor._spread(q)
        covariance += spread.T @ spread
    return predictor.coefficients @ q.T, covariance


def _of_basis(
    predictor: BasisPredictor, requests: Sequence[Request], rng: np.random.Generator, n: int
) -> TermDraws:
    basis = predictor.model.basis
    assert basis is not None
    means, weights = predictor.coefficients, predictor.weights(rng, n)
    mean, values = [], []
    for term, X in requests:
        design, of_term = predictor.designs.of(X), np.zeros(basis.size)
        for k in basis.terms[term]:
            of_term[basis.slices[k]] = predictor.scales[basis.slices[k]]
        mean.append(_products(design, of_term * means))
        drawn = _products(design, of_term * weights)
        own = [basis.blocks[k] for k in basis.terms[term]]
        for block, rows, at in design.unknown:
            if block in own:
                drawn[:, rows] += block.unknown_draws(predictor.full, at, rng, len(drawn))
        values.append(drawn)
    joined = np.concatenate(values, axis=1)
    return TermDraws(np.concatenate(mean, axis=1), np.broadcast_to(joined, (n, joined.shape[1])))


def _products(design: BasisDesign, coefficients: np.ndarray) -> np.ndarray:
    return np.array([design.multiply(row, np.empty(design.n)) for row in coefficients])
