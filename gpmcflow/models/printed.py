"""A model as people read it: the outcome and its terms in a line, then what is free."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from gpmcflow.covariances.expressions import short_text
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
        texts = {function: short_text(own) for function, own in covariance.items()}
        shown = "; ".join(f"{function}: {text}" for function, text in texts.items())
        shown = shown if len(texts) > 1 else next(iter(texts.values()))
    else:
        shown = short_text(covariance)
    return [
        f"{name} ~ {shown}",
        f"{likelihood.name} likelihood{known}, {model.n_cases} rows, {model.structure_in_words}",
    ]


def _free_of(model: GPModel | MultiGPModel) -> list[_Free]:
    found = []
    kinds = [model.parameters.coordinates[place] for place in model.free]
    for name, prior, kind in zip(model.names, model.parameters.free_priors, kinds, strict=True):
        low, median, high = (own_units(prior.quantile(q), kind) for q in (0.025, 0.5, 0.975))
        found.append(_Free(name, f"{median:.3g}", f"{low:.3g} to {high:.3g}"))
    return found
