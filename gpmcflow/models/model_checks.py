"""What a `GPModel` cannot be, and what it had better not be."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpmcflow.covariances.expressions import Covariance, Leaf, Sum
from gpmcflow.covariances.leaves import Constant, White
from gpmcflow.errors import InputError
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.parameters.parameter import Parameter

if TYPE_CHECKING:
    from gpmcflow.models.gp_model import GPModel

log = logging.getLogger(__name__)
FAR = 3.0  # times what hyperpriors allow


def refuse_degenerate(
    model: GPModel, prior_variance: np.ndarray, columns: Sequence[tuple[int, ...]]
) -> None:
    """Raise `InputError` for a case without prior variance, and for duplicate inputs that need a jitter.

    ``prior_variance`` (n,) is that at the median of the hyperpriors, ``columns`` those of each leaf.
    """
    zero = np.flatnonzero(~(prior_variance > 0.0))
    if zero.size:
        raise InputError(
            f"model: the prior variance of case {zero[0]} is {prior_variance[zero[0]]:g}; add Constant() or "
            "White() to the covariance"
        )
    noisy = model.likelihood.conjugate or any(isinstance(k, White) for k in model.leaves)
    if model.jitter == 0.0 and not noisy and not model.basis:
        used = sorted({column for of_leaf in columns for column in of_leaf})
        _refuse_duplicates(model.X[:, used] if used else np.zeros((model.n_cases, 1)))


def warn_left_out(model: GPModel, columns: Sequence[tuple[int, ...]]) -> None:
    """Say which columns of words no term uses where a term takes all columns of numbers."""
    pairs = list(zip(model.leaves, columns, strict=True))
    takes_all = next((leaf for leaf, places in pairs if leaf.columns is None and places), None)
    used = {place for _, places in pairs for place in places}
    words = [name for k, name in enumerate(model.inputs.names) if k not in used]
    if takes_all is not None and words:
        log.warning(
            "model: %s takes the columns that hold numbers; left out, as they hold words: %s; add a term "
            "such as Categorical(columns=%r), or drop them",
            type(takes_all).__name__, ", ".join(words), words[0],
        )  # fmt: skip


def warn_unidentified(covariance: Covariance, free_mean: bool, free_noise: bool) -> None:
    """Say so where parameters can hardly be told apart, or a posterior has several modes."""
    terms = covariance.operands() if isinstance(covariance, Sum) else [covariance]
    alone = {type(term) for term in terms if isinstance(term, Leaf) and term.free_scales()}
    if free_mean and Constant in alone:
        log.warning("model: a free mean beside a free Constant are two names of one thing; fix one")
    if free_noise and White in alone:
        log.warning("model: free White beside free noise are two names of one thing; fix one")
    for leaf in covariance.leaves():
        period = getattr(leaf, "period", None)
        period = period.value if isinstance(period, Parameter) else period
        if isinstance(period, Hyperprior) and period.width > np.log(2.0):
            log.warning(
                "model: the period of %s is free over more than a factor of 2, where posteriors have several "
                "modes; fix it, or narrow its hyperprior", leaf.name or leaf.term,
            )  # fmt: skip


def warn_units(model: GPModel) -> None:
    """Say so where the size of y is far from all that hyperpriors allow.

    The size is the root mean square of y - c, c the nearest mean; the hyperpriors' ends are their central
    99.8 %: it may be as large as all amplitudes and the noise together, and as small as the noise.
    """
    widths = model.likelihood.in_units_of_y
    if not widths or not model.dim or model.basis:
        return
    ends = []
    for share in (0.001, 0.999):
        theta = [float(prior.quantile(share)) for prior in model.parameters.free_priors]
        full = model.full(np.array(theta))
        likelihood = model.likelihood_at(full)
        noise = sum(np.square(likelihood.number(name)) for name in widths)
        total = model.prior_variance(full, model.X) + noise
        ends.append((model.mean_at(full), *(float(np.sqrt(np.mean(v))) for v in (noise, total))))
    (low, least, _), (high, _, most) = ends
    c = float(np.clip(np.mean(model.eta_y), low, high))
    size = float(np.sqrt(np.mean((model.eta_y - c) ** 2)))
    if size > FAR * most or 0.0 < size < least / FAR:
        of = model.likelihood.eta_of
        remedy = "standardise y" if of == "y" else "divide y by a typical value, give a mean"
        log.warning(
            "model: %s differs from the mean %.3g by %.2g on average, and the hyperpriors allow %.2g to "
            "%.2g; %s, or state hyperpriors in its units", of, c, size, least, most, remedy,
        )  # fmt: skip


def _refuse_duplicates(X: np.ndarray) -> None:
    order = np.lexsort(X.T)
    same = np.flatnonzero(np.all(X[order[1:]] == X[order[:-1]], axis=1))
    if same.size:
        pair = sorted((int(order[same[0]]), int(order[same[0] + 1])))
        raise InputError(
            f"model: cases {pair[0]} and {pair[1]} have the same inputs and jitter is 0; give a positive "
            "jitter, or drop one"
        )
