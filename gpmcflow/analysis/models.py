"""The models of an analysis: covariances over columns of the file, a likelihood by the outcome."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from scipy.special import logit, ndtri

from gpmcflow.analysis.data import Data, Rows
from gpmcflow.covariances.correlated_group import correlation_of
from gpmcflow.covariances.expressions import Covariance, Leaf, Product, Sum
from gpmcflow.covariances.known_levels import KnownLevels
from gpmcflow.covariances.leaves import Constant, Linear, Periodic
from gpmcflow.data.codes import CategoryCode, Encoding, GroupCode, NumberCode
from gpmcflow.data.columns import term_names, yaml_text
from gpmcflow.data.outcome_kinds import KINDS
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.jobs.stated_models import MEAN, covariances_of, likelihood_of, priors_of
from gpmcflow.likelihoods import Ordinal, Softmax
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.multi_gp_model import MultiGPModel
from gpmcflow.models.own_units import with_constant
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.parameters.parameter import Parameter, Setting

# Settings that rows of the file or its levels replace once these are read.
OF_ROWS: dict[str, dict[str, Any]] = {
    "binomial": {"trials": 1},
    "beta_binomial": {"trials": 1},
    "ordinal": {"levels": 2},
    "zero_inflated": {"base": "negative_binomial"},
    "hurdle": {"base": "negative_binomial"},
}
CENTRED = (
    "gaussian",
    "heteroscedastic_gaussian",
    "student_t",
    "log_normal",
)  # of outcomes whose overall level is 0
MEAN_SD = 1.0  # of the prior of a free mean around the overall level, on the latent scale


def kind_of(likelihood: str | Mapping | None) -> str | None:
    """The kind of outcome that a likelihood of a config is for, None where none is stated."""
    name = next(iter(likelihood)) if isinstance(likelihood, Mapping) else likelihood
    return next((kind.name for kind in KINDS.values() if name in kind.likelihoods), None)


def known_of(encoding: Encoding) -> dict[str, Any]:
    """Graphs and correlations of the files beside the table, by their names."""
    files = encoding.known
    trees = {name: correlation_of(tuple(told)) for name, told in files.correlations.items()}
    return {name: tuple(map(tuple, pairs)) for name, pairs in files.graphs.items()} | trees


def model_statement(settings: Mapping, name: str, kind: str) -> dict[str, Any]:
    """A model as a problem of the config states it: covariance, likelihood and named hyperpriors."""
    stated = dict(settings["models"][name])
    own = stated.get("likelihood") or settings["likelihood"] or KINDS[kind].likelihoods[0]
    name, its = (own, {}) if isinstance(own, str) else next(iter(own.items()))
    of_rows = {} if "cutpoints" in its else OF_ROWS.get(name, {})
    stated["likelihood"] = {name: {**of_rows, **its}} if of_rows or its else name
    stated["priors"] = {**settings["priors"], **stated.get("priors", {})}
    return {**stated, "model": "joint"}


def build_model(settings: Mapping, name: str, data: Data, where: str) -> GPModel:
    """Model ``name`` of an analysis for its learning rows.

    Columns are those of the file: a covariance of one with categories takes all inputs made of it; with
    ``ard`` these have one length scale together, in a factor of its own. Without columns it takes all inputs.
    A period is in units of its column, days for dates, all else in units of the standardised inputs.
    With ``structure: basis`` the marks of missing cells are not among the inputs of a curve or a surface, but
    slopes of their own. ``auto`` is that of `GPModel`.

    Raises `InputError` for unknown columns, a likelihood that the outcome cannot have, a structure that does
    not fit, and a model without a free parameter.
    """
    kind, path = data.target.kind, f"{where}.models.{name}"
    statement = model_statement(settings, name, kind)
    likelihood = likelihood_of(statement, path)
    allowed = KINDS[kind].likelihoods
    if likelihood.name not in allowed:
        raise InputError(
            f"{path}.likelihood: found {likelihood.name} for an outcome that is {kind}; allowed: "
            f"{', '.join(allowed)}"
        )
    own = settings["models"][name].get("likelihood") or settings["likelihood"]
    its = (own.get(likelihood.name) or {}) if isinstance(own, Mapping) else {}
    columns = dict.fromkeys(("exposure", "trials", "event", "until"), "name of a column")
    for key, what in {**columns, "levels": "grades"}.items():
        if key in its:
            raise InputError(
                f"{path}.likelihood: found {key} among the settings of {likelihood.name}; allowed: the "
                f"{what} of the file, as {key} below data"
            )
    if isinstance(likelihood, Ordinal | Softmax):
        try:
            likelihood = replace(likelihood, levels=len(data.target.levels))
        except InputError as error:
            raise InputError(f"{path}.likelihood: {error}") from None
    structure = statement.get("structure", "auto")
    coded = marks_apart if structure == "basis" else over_inputs
    stated = covariances_of(statement, path, likelihood, known_of(data.encoding))
    covariances: Any = {name: coded(own, data.encoding, path) for name, own in stated.items()}
    covariance = covariances[MEAN]
    learning = data.learning
    level = overall_level(learning, likelihood.name)
    mean = statement.get("mean")
    if isinstance(likelihood, Softmax):
        if mean is not None:
            raise InputError(
                f"{path}.mean: found {mean!r}; the functions of classes have a mean of 0; leave it out, and "
                "write constant() in the covariance for classes of other sizes"
            )
        covariances[MEAN] = with_constant(covariance)
    elif mean is None:
        constant = any(isinstance(leaf, Constant) for leaf in covariance.leaves())
        free = likelihood.name not in CENTRED and not constant
        mean = Hyperprior("norm", {"loc": level, "scale": MEAN_SD}) if free else level
    elif isinstance(mean, str):
        priors = priors_of(statement, path)
        if mean not in priors:
            raise unknown_name(f"{path}.mean", mean, priors)
        mean = priors[mean]
    likelihood = likelihood.with_constants(**learning.constants(data.target))
    if len(covariances) == 1:  # of the only function, or the same for each
        covariances = covariances[MEAN]
    try:
        model = GPModel(learning.X, learning.y, covariances, likelihood, mean, structure=structure)
    except InputError as error:
        text, key = str(error).removeprefix("model: "), ""
        if text.startswith(("basis functions: ", "Kronecker grid: ")):
            key, text = (
                ".structure",
                text.replace('take structure="dense"', "write structure: dense"),
            )
        raise InputError(f"{path}{key}: {text}") from None
    if not model.dim:
        raise InputError(
            f"{path}: found a number for every parameter; allowed: one free parameter at least; leave a "
            "number out of the covariance, or the mean"
        )
    return model


def overall_level(rows: Rows, likelihood: str) -> float:
    """Latent value whose response is the mean outcome of the rows; 0 for those about a typical one."""
    if likelihood in CENTRED:
        return 0.0
    if likelihood == "gamma":
        return float(np.log(rows.y.mean()))
    if likelihood == "survival":  # the mean of exponential times, some of them censored
        times = rows.y * (rows.middle / rows.outcome)
        return float(np.log(times.sum() / np.count_nonzero(rows.unit)))
    if likelihood == "ordinal":  # where the first grade is as frequent as it was seen
        share = float((rows.outcome == 1.0).mean())
        least = 0.5 / len(rows.outcome)
        return -float(logit(np.clip(share, least, 1.0 - least)))
    unit = np.ones(len(rows.outcome)) if rows.unit is None else rows.unit
    rate = rows.outcome.sum() / unit.sum()
    if likelihood in KINDS["counts"].likelihoods:
        return float(np.log(max(rate, 0.5 / unit.sum())))
    share = float(np.clip(rate, 0.5 / unit.sum(), 1.0 - 0.5 / unit.sum()))
    return float(ndtri(share) if likelihood == "probit" else logit(share))


def marks_apart(covariance: Covariance, encoding: Encoding, where: str) -> Covariance:
    """As `over_inputs`, but marks of missing cells are slopes of their own in the sum, ``missing.sd``.

    An eigenfunction of a column that is 0 or 1 says no more than a slope, and multiplies the others' number.
    """
    covariance = over_inputs(covariance, encoding, where)
    marks = {code.inputs[-1] for code in encoding.codes if code.has_missing}
    linear, curved = set(), set()

    def replaced(part: Leaf) -> Leaf:
        own = [name for name in part.columns or () if name in marks]
        if part.smoothness is None:
            linear.update(own)
            return part
        curved.update(own)
        kept = tuple(name for name in part.columns if name not in own)
        return replace(part, columns=kept) if own and kept else part

    changed = covariance.with_leaves(map(replaced, covariance.leaves()))
    rest = tuple(name for name in encoding.names if name in curved - linear)
    return Sum(changed, Linear(columns=rest, name="missing")) if rest else changed


def over_inputs(covariance: Covariance, encoding: Encoding, where: str) -> Covariance:
    """The covariance with inputs in the place of columns of the file."""
    several = sum(bool(getattr(leaf, "ard", False)) for leaf in covariance.leaves()) > 1
    changed = (_leaf_over_inputs(leaf, encoding, where, several) for leaf in covariance.leaves())
    return covariance.with_leaves(changed)


def _leaf_over_inputs(leaf: Leaf, encoding: Encoding, where: str, several: bool) -> Covariance:
    """A term over inputs. Of ``several`` terms with factors by column, these are named by both."""
    if isinstance(leaf, Constant) or leaf.term == "white":
        return leaf
    columns = encoding.explaining if leaf.columns is None else [str(c) for c in leaf.columns]
    for column in columns:
        if column not in encoding.columns:
            raise unknown_name(f"{where}.covariance: column", column, encoding.columns)
    if leaf.term == "categorical":
        raise InputError(
            f"{where}.covariance: found categorical({', '.join(columns)}); columns of categories are inputs "
            "of any other covariance; write, say, squared_exponential(..) or group(..) of them"
        )
    if isinstance(leaf, KnownLevels):
        return _known_over_inputs(leaf, columns, encoding, where)
    if leaf.term == "group":
        for column in columns if leaf.columns else ():
            if isinstance(encoding.code(column), NumberCode):
                raise InputError(
                    f"{where}.covariance: found group({column}), of numbers or dates; allowed: a column of "
                    f"names; write groups: [{yaml_text(column)}] under data"
                )
        if leaf.columns is None:
            named = ", ".join(encoding.groups or columns)
            raise InputError(f"{where}.covariance: group() names no columns; name one of {named}")
    elif groups := [c for c in columns if isinstance(encoding.code(c), GroupCode)]:
        raise InputError(
            f"{where}.covariance: found {leaf.term}({groups[0]}), and data.groups has {groups[0]}; allowed: "
            f"group({groups[0]}) or areal({groups[0]}, graph=..); or name it under data.categorical instead"
        )
    elif not columns:
        raise InputError(
            f"{where}.covariance: found {leaf.term}(), and all columns are under data.groups; write "
            f"group({encoding.groups[0]}) + constant()"
        )
    if isinstance(leaf, Periodic):
        return _periodic_over_inputs(leaf, columns, encoding, where)
    groups = {
        column: tuple(encoding.inputs_of(column))
        for column in columns
        if isinstance(encoding.code(column), CategoryCode) and len(encoding.inputs_of(column)) > 1
    }
    names = {c: tuple(encoding.inputs_of(c)) for c in columns}
    alone = tuple(name for c in columns if c not in groups for name in names[c])
    ard = getattr(leaf, "ard", False) and getattr(leaf, leaf.scales or "", None) is None
    if not ard or not groups or (len(groups) == 1 and not alone):
        everything = tuple(name for c in columns for name in names[c])
        return replace(leaf, columns=everything, **({"ard": False} if ard and not alone else {}))
    factors: list[Covariance] = [replace(leaf, columns=alone)] if alone else []
    for column, name in term_names(list(groups)).items():
        own, inputs = f"{leaf.name or leaf.term}_{name}" if several else name, groups[column]
        plain = {"ard": False, "name": re.sub(r"\W+", "_", own)}
        if factors:
            plain["signal_sd"] = None
        factors.append(replace(leaf, columns=inputs, **plain))
    return reduce(Product, factors)


def _known_over_inputs(
    leaf: KnownLevels, columns: list[str], encoding: Encoding, where: str
) -> KnownLevels:
    """The term over the codes of its column, which stand for the levels' names in the file."""
    code = encoding.code(columns[0])
    if len(columns) > 1 or leaf.columns is None or not isinstance(code, GroupCode):
        raise InputError(
            f"{where}.covariance: found {leaf.term}({', '.join(columns)}, {leaf.table_name}=..); allowed: "
            f"one column of names; write groups: [{yaml_text(columns[0])}] under data"
        )
    names = dict.fromkeys([*map(str, code.levels), *sorted(leaf.known())])
    codes = {name: str(place) for place, name in enumerate(names)}
    return replace(leaf.renamed(codes), columns=tuple(encoding.inputs_of(columns[0])))


def _periodic_over_inputs(
    leaf: Periodic, columns: list[str], encoding: Encoding, where: str
) -> Periodic:
    """The term over the input of its column, whose mark of missing cells has no period."""
    code = encoding.code(columns[0])
    if len(columns) > 1 or not isinstance(code, NumberCode):
        raise InputError(
            f"{where}.covariance: found periodic({', '.join(columns)}); allowed: one column of numbers "
            "or dates"
        )
    period = _divided(leaf.period, code.scale)
    return replace(leaf, columns=(code.inputs[0],), period=period)


def _divided(setting: Any, scale: float) -> Setting:
    """A setting of h as one of h / scale."""
    if isinstance(setting, Parameter):
        return replace(setting, value=_divided(setting.value, scale))
    return setting.divided(scale) if isinstance(setting, Hyperprior) else setting / scale


def units_of_parameters(model: GPModel, encoding: Encoding) -> dict[str, float]:
    """Units, by name, of the free parameters that are stated in those of a column: periods."""
    names, units = dict(zip(model.free.tolist(), model.names, strict=True)), {}
    for part, places in zip(*functions_of(model), strict=True):
        for group, leaf in enumerate(part.leaves):
            if isinstance(leaf, Periodic):
                own = part.parameters.places(group)[leaf.parameters().index("period")]
                if places[own] in names:
                    units[names[places[own]]] = encoding.code(str(leaf.columns[0])).scale
    return units


def functions_of(model: Any) -> tuple[list[GPModel], list[np.ndarray]]:
    """The models of a model's functions, and where in ``full`` the parameters of each are."""
    if isinstance(model, MultiGPModel):
        return model.parts, model.part_places
    return [model], [np.arange(len(model.parameters.all_names))]
