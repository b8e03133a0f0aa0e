"""Models compared by their evidence: Bayes factors, probabilities, and what can be said of their order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import log_softmax

from gpmcflow.errors import InputError
from gpmcflow.execution import chain_generators

N_DRAWS = 4000  # of the log evidences, for intervals of probabilities
RESOLVED = 2.0  # joint standard errors
PREFERRED = 1.0  # nats
_WHERE = "compare_models"


class _Evidence(NamedTuple):
    value: float
    error: float
    df: float
    fit: float
    complexity: float
    alarm: str


def compare_models(
    evidences: Mapping[str, xr.DataTree],
    prior: Mapping[str, float] | None = None,
    *,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare models of the same data by their evidence, the best first.

    P_k = pi_k Z_k / sum_j pi_j Z_j, with 95 % intervals from draws of log Z about its estimates,
    Student's t or normal as their errors are. The evidence has the hyperpriors in it: a wider one costs.

    Parameters
    ----------
    evidences:
        Results of `model_evidence` by the names of the models, two or more.
    prior:
        Probability of each model before the data, by name, all equal by default; any positive numbers.
    seed:
        Of the draws for the intervals.

    Returns
    -------
    A table by model: log_evidence and standard_error; fit, the posterior mean of log p(y | f), and
    complexity, fit - log evidence; log_bayes_factor against the best and its bayes_factor_error; probability
    with low and high; verdict against the best: "best", "not resolved" below two joint errors, "no
    preference" below one nat, else "worse"; alarm.

    Raises
    ------
    InputError:
        For fewer than two models, estimates of different data, densities beside probabilities of y (a
        Gaussian beside a Poisson likelihood of counts), and wrong priors.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> likelihood = gp.Gaussian(0.1)
    >>> curves = {"smooth": gp.SquaredExponential(), "rough": gp.Matern12()}
    >>> runs = {
    ...     name: gp.model_evidence(gp.GPModel(x, np.sin(6.0 * x), curve, likelihood), n_draws=800)
    ...     for name, curve in curves.items()
    ... }
    >>> gp.compare_models(runs).index[0]
    'smooth'
    """
    estimates = _checked(evidences)
    weights = _prior(prior, estimates)
    table = pd.DataFrame.from_dict(
        {name: estimate._asdict() for name, estimate in estimates.items()}, orient="index"
    )
    values, errors = table["value"].to_numpy(), table["error"].to_numpy()
    best = int(np.argmax(values))
    log_factor = values - values[best]
    error = np.hypot(errors, errors[best])
    error[best] = 0.0
    rng = chain_generators(seed, "compare_models", chains=[0]).generator(0)
    df = table["df"].to_numpy()
    noise = np.where(
        np.isfinite(df),
        rng.standard_t(np.where(np.isfinite(df), df, 1.0), (N_DRAWS, len(df))),
        rng.standard_normal((N_DRAWS, len(df))),
    )
    drawn = np.exp(log_softmax(np.log(weights) + values + errors * noise, axis=-1))
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    columns = {
        "log_evidence": values,
        "standard_error": errors,
        "fit": table["fit"],
        "complexity": table["complexity"],
        "log_bayes_factor": log_factor,
        "bayes_factor_error": error,
        "probability": np.exp(log_softmax(np.log(weights) + values)),
        "low": low,
        "high": high,
        "verdict": [_verdict(k == best, -log_factor[k], error[k]) for k in range(len(values))],
        "alarm": table["alarm"],
    }
    compared = pd.DataFrame(columns, index=pd.Index(table.index, name="model"))
    return compared.sort_values("log_evidence", ascending=False, kind="stable")


def _verdict(best: bool, behind: float, error: float) -> str:
    if best:
        return "best"
    if behind < RESOLVED * error:
        return "not resolved"
    return "no preference" if behind < PREFERRED else "worse"


def _checked(evidences: Mapping[str, xr.DataTree]) -> dict[str, _Evidence]:
    if not isinstance(evidences, Mapping) or len(evidences) < 2:
        raise InputError(f"{_WHERE}: allowed: two models or more, as {{name: model_evidence(..)}}")
    first, checksum = "", None
    estimates = {}
    for name, tree in evidences.items():
        groups = getattr(tree, "children", {})
        if "evidence" not in groups or "complexity" not in tree["evidence"]:
            raise InputError(f"{_WHERE}: {name} is no result of model_evidence")
        own = tree.attrs.get("data_checksum")
        if checksum is None:
            first, checksum = name, own
        if own != checksum:
            raise InputError(
                f"{_WHERE}: {name} and {first} are of different outcomes, which cannot be compared; "
                "give both the same rows and the same coding of y"
            )
        densities, of_first = (each.attrs.get("n_densities") for each in (tree, evidences[first]))
        if None not in (densities, of_first) and densities != of_first:
            raise InputError(
                f"{_WHERE}: {name} has a density of y in {densities} cases and a probability in the others, "
                f"{first} a density in {of_first}; the two cannot be compared; give likelihoods of the same "
                "kind, all of counts or all of measurements, or times with the same events"
            )
        group = tree["evidence"].to_dataset()
        at = group.isel(estimator=0) if "estimator" in group.dims else group
        estimates[name] = _Evidence(
            float(at["log_evidence"]), float(at["standard_error"]), float(at["degrees_of_freedom"]),
            float(at["fit"]), float(at["complexity"]), str(at["alarm"].values),
        )  # fmt: skip
    return estimates


def _prior(prior: Mapping[str, float] | None, models: Mapping[str, _Evidence]) -> np.ndarray:
    if prior is None:
        return np.ones(len(models))
    if set(prior) != set(models):
        raise InputError(
            f"{_WHERE}: prior has {sorted(prior)}; allowed: a positive number for each of {sorted(models)}"
        )
    weights = np.array([float(prior[name]) for name in models])
    if not np.all(np.isfinite(weights) & (weights > 0.0)):
        raise InputError(f"{_WHERE}: prior is {dict(prior)}; allowed: positive numbers")
    return weights
