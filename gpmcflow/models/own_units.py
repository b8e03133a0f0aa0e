"""Default hyperpriors in the units of a frame's columns and of its outcome, and where the level lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gpmcflow.covariances.binding import bind
from gpmcflow.covariances.expressions import Covariance, Leaf, Product, Sum, short_text
from gpmcflow.covariances.inputs import Inputs
from gpmcflow.covariances.leaves import Categorical, Constant, Linear, Periodic, Polynomial
from gpmcflow.likelihoods import Likelihood, Survival
from gpmcflow.parameters.hyperpriors import Hyperprior, default_hyperprior
from gpmcflow.parameters.parameter import Entry, Parameter, own_units

_LARGEST_ETA = 30.0


def likelihood_in_units(made: Likelihood, width: float) -> Likelihood:
    """Default hyperpriors of widths of y about eta in units of y."""
    changed: Any = made
    for name in made.in_units_of_y:
        prior = default_hyperprior(made.name, name)
        value = getattr(made, name)
        if prior is not None and isinstance(value, Hyperprior) and value == prior:
            changed = replace(changed, **{name: _times(prior, width)})
    return changed


def _times(prior: Hyperprior, factor: float) -> Hyperprior:
    """The default hyperprior, normal in the log, of a parameter in units that are ``factor`` of its own."""
    shifted = dict(prior.parameters)
    shifted["loc"] += float(np.log(factor))
    return Hyperprior(prior.distribution, shifted, prior.scale)


def default_mean(made: Likelihood, y: np.ndarray, width: float, covariance: Covariance) -> Any:
    """N(c_0, width^2), c_0 where the mean response is that of y; c_0 itself beside a `Constant`."""
    level = _level(made, y)
    if has_constant(covariance):
        return level
    return Hyperprior("norm", {"loc": level, "scale": width})


def has_constant(covariance: Covariance) -> bool:
    """Whether a term is a `Constant`."""
    terms = covariance.operands() if isinstance(covariance, Sum) else [covariance]
    return any(isinstance(term, Constant) for term in terms)


def with_constant(covariance: Covariance) -> Covariance:
    """The same with a constant term of sd 1, which lets classes differ in size, unless it has one."""
    return covariance if has_constant(covariance) else covariance + Constant(1.0)


def named_by_columns(covariance: Covariance) -> Covariance:
    """The same, where leaves of one kind without a name are called by it and their columns."""
    kinds = [leaf.term for leaf in covariance.leaves() if leaf.name is None]
    wanted = [short_text(leaf) for leaf in covariance.leaves()]

    def named(leaf: Leaf) -> Leaf:
        own = short_text(leaf)
        repeats = leaf.name is None and kinds.count(leaf.term) > 1
        return replace(leaf, name=own) if repeats and wanted.count(own) == 1 else leaf

    return _mapped(covariance, named)


def vanishes(covariance: Covariance, inputs: Inputs) -> bool:
    """Whether some row has no prior variance: all terms are slopes, and the row is at their centres."""
    completed, places = bind(covariance, inputs)
    bound, everywhere = iter(places), np.ones(len(inputs.values), dtype=bool)
    for term in completed.operands() if isinstance(completed, Sum) else [completed]:
        gone = np.zeros_like(everywhere)
        for leaf in term.leaves():
            columns = list(next(bound))
            if isinstance(leaf, Linear) and not (isinstance(term, Product) and _has_sum(term)):
                gone |= np.all(inputs.values[:, columns] == 0.0, axis=1)
        everywhere &= gone
    return bool(everywhere.any())


def _has_sum(term: Product) -> bool:
    return any(isinstance(factor, Sum) for factor in term.operands())


def _median(entry: Entry) -> float:
    """A parameter in its own units at the median of its hyperprior."""
    setting = entry.setting.value if isinstance(entry.setting, Parameter) else entry.setting
    if isinstance(setting, Hyperprior):
        return float(own_units(setting.quantile(0.5), entry.coordinate))
    return float(setting)


def _level(made: Likelihood, y: np.ndarray) -> float:
    """Latent value whose response is the average of y."""
    if isinstance(made, Survival):
        ended = np.asarray(1.0 if made.event is None else made.event) == 1.0
        return float(np.log(y.sum() / max(np.broadcast_to(ended, y.shape).sum(), 1.0)))
    if made.in_units_of_y:
        return float(np.mean(made.to_eta(y)))
    units = 1.0
    for name in ("exposure", "trials"):
        if name in made.constants:
            units = np.broadcast_to(np.asarray(getattr(made, name), dtype=float), y.shape)
            made = made.with_constants(**{name: np.ones(1)})
    n = float(np.sum(np.ones(len(y)) * units))
    average = float(np.mean(y > 0.0)) if made.binary else float(np.sum(y)) / n
    least = 0.5 / n
    if made.binary or not (made.counts or made.log_link):
        average = float(np.clip(average, least, max(1.0 - least, least)))
    at = made.with_values([_median(entry) for entry in made.entries()])
    low, high = -_LARGEST_ETA, _LARGEST_ETA
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = float(at.conditional_mean(np.full(1, middle))[0]) < max(average, least)
        low, high = (middle, high) if below else (low, middle)
    return 0.5 * (low + high)


def centred(inputs: Inputs, covariance: Covariance) -> Inputs:
    """Columns of slopes about their mean, so that the intercept is that of an average row.

    Those of a slope in a product stay as they are: a slope of each group would have its intercept elsewhere.
    """
    bound, places = bind(covariance, inputs)
    pairs = list(zip(bound.leaves(), places, strict=True))
    slopes = {k for leaf, own in pairs if isinstance(leaf, Linear | Polynomial) for k in own}
    terms = bound.operands() if isinstance(bound, Sum) else [bound]
    alone = [isinstance(term, Leaf) for term in terms for _ in term.leaves()]
    others = {
        k for (leaf, own), is_term in zip(pairs, alone, strict=True) for k in own
        if leaf.term not in _SHIFT_INVARIANT or (isinstance(leaf, Linear | Polynomial) and not is_term)
    }  # fmt: skip
    values = inputs.values.copy()
    centres = []
    for k in sorted(slopes - others):
        centre = float(values[:, k].mean())
        values[:, k] -= centre
        centres.append((inputs.names[k], centre))
    return inputs._replace(values=values, centres=tuple(centres))


_SHIFT_INVARIANT = (
    "squared_exponential", "matern12", "matern32", "matern52", "rational_quadratic", "periodic", "linear",
    "polynomial",
)  # fmt: skip


def covariance_in_units(covariance: Covariance, inputs: Inputs, width: float) -> Covariance:
    """Default hyperpriors of what is left out, for columns and latent values in their own units."""
    completed, places = bind(covariance, inputs)
    spread = np.std(inputs.values, axis=0)
    spread[~(spread > 0.0)] = 1.0
    changed = iter(
        [
            _leaf_in_units(stated, done, spread[list(own)], width)
            for stated, done, own in zip(
                covariance.leaves(), completed.leaves(), places, strict=True
            )
        ]
    )
    return _mapped(completed, lambda leaf: next(changed))


def _mapped(covariance: Covariance, change: Callable[[Leaf], Leaf]) -> Covariance:
    if isinstance(covariance, Sum | Product):
        left = _mapped(covariance.left, change)
        return type(covariance)(left, _mapped(covariance.right, change))
    assert isinstance(covariance, Leaf)
    return change(covariance)


def _leaf_in_units(stated: Leaf, done: Leaf, spread: np.ndarray, width: float) -> Leaf:
    root = 1.0 / getattr(done, "degree", 1)
    typical = float(np.sqrt(np.mean(spread**2))) if len(spread) else 1.0
    per_column = getattr(done, "ard", False) and len(spread) > 1
    changes: dict[str, Any] = {}
    for parameter in done.parameters():
        value: Any = getattr(done, parameter)
        if getattr(stated, parameter) is not None:
            continue
        if parameter == "length_scale" and not isinstance(done, Categorical | Periodic):
            factors: Any = spread if per_column else typical
        elif parameter == "sd":
            carries = isinstance(value, Hyperprior)
            factors = (width**root if carries else 1.0) / (spread if per_column else typical)
        elif parameter in ("signal_sd", "offset") and isinstance(value, Hyperprior):
            factors = width**root
        else:
            continue
        scaled = [
            _times(value, f) if isinstance(value, Hyperprior) else value * f
            for f in np.atleast_1d(factors).tolist()
        ]
        changes[parameter] = tuple(scaled) if np.ndim(factors) else scaled[0]
    return replace(done, **changes) if changes else done
