"""A model as people read it: the outcome and its terms in a line, then what is free."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from gpmcflow.covariances.expressions import Covariance, Product, Sum, short_text
from gpmcflow.covariances.leaves import Constant
from gpmcflow.parameters.parameter import own_units

if TYPE_CHECKING:
    from gpmcflow.models.gp_model import GPModel
    from gpmcflow.models.multi_gp_model import MultiGPModel


class _Free(NamedTuple):
    """A free parameter with the median and the central 95 % of its hyperprior, in its own units."""

    name: str
    median: str
    interval: str


def as_text(model: GPModel | MultiGPModel) -> str:
    """The model in lines."""
    lines = _lines(model)
    free = _free_of(model)
    if free:
        width = max(len(own.name) for own in free)
        lines.append("free parameters, with the median and the central 95 % of their hyperpriors:")
        lines += [f"  {own.name:{width}s}  {own.median} ({own.interval})" for own in free]
    return "\n".join(lines)


def as_html(model: GPModel | MultiGPModel) -> str:
    """The model as a table for notebooks."""
    head, *lines = (escape(line) for line in _lines(model))
    rows = "".join(
        f"<tr><td>{escape(own.name)}</td><td>{own.median}</td><td>{own.interval}</td></tr>"
        for own in _free_of(model)
    )
    table = (
        "<table><thead><tr><th>free parameter</th><th>prior median</th><th>central 95 %</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )
    return f"<p><b>{head}</b><br>{'<br>'.join(lines)}</p>{table if rows else ''}"


def _lines(model: GPModel | MultiGPModel) -> list[str]:
    outcome = model.outcome
    name = "y" if outcome is None else outcome.response
    likelihood = model.likelihood
    by_row = [own for own in likelihood.constants if getattr(likelihood, own, None) is not None]
    by_row = [own for own in by_row if getattr(getattr(likelihood, own), "shape", ())]
    known = f" with {', '.join(by_row)} of each row" if by_row else ""
    covariance: Any = model.covariance
    if isinstance(covariance, Mapping):
        texts = {function: with_numbers(own) for function, own in covariance.items()}
        shown = "; ".join(f"{function}: {text}" for function, text in texts.items())
        shown = shown if len(texts) > 1 else next(iter(texts.values()))
    else:
        shown = with_numbers(covariance)
    return [
        f"{name} ~ {shown}",
        f"{likelihood.name} likelihood{known}, {model.n_cases} rows, {model.structure_in_words}",
    ]


def with_numbers(covariance: Covariance, hidden: str = "") -> str:
    """As `short_text`, with the numbers that are fixed, such as ``2 * matern32(age, length_scale=3)``.

    Some amplitudes of factors are ``hidden``: those of "one", and "all" beside a free one, which they scale.
    """
    if isinstance(covariance, Product):
        hidden = "all" if hidden == "all" or covariance.free_scales() else "one"
    if isinstance(covariance, Sum | Product):
        return covariance.joined(partial(with_numbers, hidden=hidden))
    leaf: Any = covariance
    fixed = {
        parameter: value
        for parameter in leaf.parameters()
        if _is_fixed(value := getattr(leaf, parameter))
    }
    if isinstance(leaf, Constant) and fixed:
        return f"{fixed['signal_sd'] ** 2:.4g}"
    if hidden == "all" or (hidden and fixed.get(leaf.amplitude) == 1.0):
        fixed.pop(leaf.amplitude, None)
    if not fixed:
        return short_text(leaf)
    columns = [str(column) for column in leaf.columns or ()]
    shown = [f"{name}={_number(value)}" for name, value in fixed.items()]
    return f"{leaf.term}({', '.join([*columns, *shown])})"


def _is_fixed(value: Any) -> bool:
    parts = value if isinstance(value, tuple) else (value,)
    return all(isinstance(part, int | float) for part in parts)


def _number(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(f'{part:.4g}' for part in value)})"
    return f"{value:.4g}"


def _free_of(model: GPModel | MultiGPModel) -> list[_Free]:
    found = []
    kinds = [model.parameters.coordinates[place] for place in model.free]
    for name, prior, kind in zip(model.names, model.parameters.free_priors, kinds, strict=True):
        low, median, high = (own_units(prior.quantile(q), kind) for q in (0.025, 0.5, 0.975))
        found.append(_Free(name, f"{median:.3g}", f"{low:.3g} to {high:.3g}"))
    return found
