"""A covariance expression meets the columns of inputs: defaults, places of columns, names of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpmcflow.covariances import nodes
from gpmcflow.covariances.expressions import Covariance, Leaf, Product, Sum
from gpmcflow.covariances.inputs import Inputs
from gpmcflow.errors import InputError
from gpmcflow.parameters.parameter import Entry


def bind(covariance: Covariance, inputs: Inputs) -> tuple[Covariance, list[tuple[int, ...]]]:
    """The expression with its defaults, and the places of each leaf's columns.

    Raises `InputError` for unknown columns, words in a column of numbers, and two free amplitudes in a
    product.
    """
    covariance = covariance.with_defaults()
    _refuse_scales(covariance)
    leaves = covariance.leaves()
    places = [_places(leaf, inputs) for leaf in leaves]
    bound = [leaf.bound_to(inputs, own) for leaf, own in zip(leaves, places, strict=True)]
    return covariance.with_leaves(iter(bound)), places


def with_all_levels(inputs: Inputs, covariance: Covariance) -> Inputs:
    """Inputs whose columns of words have the levels, too, that only the covariance knows of."""
    levels = dict(inputs.levels)
    for leaf in covariance.leaves():
        columns: Any = leaf.columns or ()
        for place in (inputs.place(column, type(leaf).__name__) for column in columns):
            name = inputs.names[place]
            if name in levels:
                levels[name] = (*levels[name], *leaf.more_levels(levels[name]))
    return inputs._replace(levels=levels)


def _places(leaf: Leaf, inputs: Inputs) -> tuple[int, ...]:
    who = type(leaf).__name__
    if leaf.kind in (nodes.ONE, nodes.SAME_CASE):
        if leaf.columns is not None:
            raise InputError(f"{who}: columns {leaf.columns}; allowed: none, as it has no inputs")
        return ()
    if leaf.columns is None:
        places = inputs.numeric
        if leaf.levels_allowed or not places:
            raise InputError(f"{who}: no columns are named; name one of {', '.join(inputs.names)}")
    else:
        places = tuple(inputs.place(column, who) for column in leaf.columns)
        if len(set(places)) < len(places):
            raise InputError(f"{who}: columns {leaf.columns} name one twice; name each once")
    for place in places:
        name = inputs.names[place]
        if name in inputs.levels and not leaf.levels_allowed:
            raise InputError(
                f"{who}: column {name!r} holds words ({', '.join(inputs.levels[name][:3])}, ..); allowed: in "
                "categorical and group only"
            )
    if leaf.n_columns not in (None, len(places)):
        raise InputError(f"{who}: {len(places)} columns; allowed: one; name it by columns=")
    return places


def _refuse_scales(covariance: Covariance) -> None:
    if not isinstance(covariance, (Sum, Product)):
        return
    if isinstance(covariance, Product):
        scales = [s for s in (f.free_scales() for f in covariance.operands()) if s]
        if len(scales) > 1:
            raise InputError(
                f"covariance: the amplitudes of {scales[0][0]} and {scales[1][0]} are both free in one "
                "product, and cannot be told apart; give one of them a number"
            )
    _refuse_scales(covariance.left)
    _refuse_scales(covariance.right)


def leaf_entries(
    covariance: Covariance, columns: Sequence[tuple[int, ...]], names: Sequence[str]
) -> list[tuple[str, tuple[Entry, ...]]]:
    """(name of the term, parameters) of each leaf.

    The term is the leaf's ``name``, else that of its kind, numbered where it repeats, and empty where there
    is one leaf.
    """
    leaves = covariance.leaves()
    kinds = [leaf.term for leaf in leaves if leaf.name is None]
    counts: dict[str, int] = {}
    groups = []
    for leaf, places in zip(leaves, columns, strict=True):
        term = leaf.name
        if term is None:
            counts[leaf.term] = counts.get(leaf.term, 0) + 1
            term = f"{leaf.term}_{counts[leaf.term]}" if kinds.count(leaf.term) > 1 else leaf.term
            term = "" if len(leaves) == 1 else term
        groups.append((term, leaf.entries([names[k] for k in places])))
    return groups
