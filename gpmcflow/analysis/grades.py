"""Ordered grades: the probability of the upper ones, as one response, and that of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import xarray as xr

from gpmcflow.analysis.classes import ClassPredictor
from gpmcflow.analysis.data import Data
from gpmcflow.approximations.conditional import Conditional, Predictor
from gpmcflow.approximations.multi_prediction import MultiPredictor
from gpmcflow.likelihoods import Likelihood, Ordinal

PREFIX = "p_"  # of the columns of probabilities in tables of predictions


@dataclass(frozen=True, eq=False, repr=False)
class UpperGrades(Ordinal):
    """Two groups of grades, of one cutpoint: the response is the probability of the upper one."""

    name = "upper_grades"
    binary = True

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """P(upper | eta)."""
        return super().conditional_mean(eta) - 1.0

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """P(upper), averaged over eta ~ N(mean, variance)."""
        return self.class_probabilities(mean, variance)[1]


def response_of(likelihood: Likelihood, data: Data) -> Likelihood:
    """The likelihood whose response the page reports: of grades the two groups, else itself."""
    if not isinstance(likelihood, Ordinal):
        return likelihood
    assert likelihood.cutpoints is not None
    cut = float(likelihood.cutpoints[data.target.split - 2])
    return UpperGrades(link=likelihood.link, cutpoints=(cut,))


def response_eta(eta: Conditional, data: Data) -> Conditional:
    """The predictors with the likelihoods of `response_of`."""
    return eta._replace(likelihoods=[response_of(own, data) for own in eta.likelihoods])


def with_response(predictor: Predictor | MultiPredictor, data: Data) -> Predictor | ClassPredictor:
    """The predictor with the likelihood of `response_of`, or of the class that the page is of."""
    if isinstance(predictor, MultiPredictor):
        return ClassPredictor(predictor, data.target.split - 1)
    return replace(predictor, likelihood=response_of(predictor.likelihood, data))


def average_grades(predictor: Predictor, X: np.ndarray, g: int) -> np.ndarray:
    """Mean probability of each grade over rows of coded inputs X (g * rows, p) of each value, (grade, g)."""
    probabilities = predictor.moments(X).class_probabilities()
    assert probabilities is not None
    return probabilities.reshape(len(probabilities), g, -1).mean(-1)


def most_probable(group: xr.Dataset) -> np.ndarray:
    """The most probable grade of each row, 1, 2, .. (m,)."""
    return 1.0 + group["grade_probability"].values.argmax(0)


def probabilities(group: xr.Dataset, levels: tuple[str, ...], name: str) -> pd.DataFrame:
    """The most probable grade or class of each row, as column ``name``, and the probability of each."""
    table = pd.DataFrame({name: [levels[int(k) - 1] for k in most_probable(group)]})
    names = [PREFIX + level for level in levels]
    return table.assign(**dict(zip(names, group["grade_probability"].values, strict=True)))


def bands(
    shown: xr.DataTree, texts: Mapping[str, Sequence[str]], levels: tuple[str, ...]
) -> pd.DataFrame:
    """Mean probability of each grade (column, value, grade, probability) as columns are set to values.

    ``texts`` are the values of each column in words.
    """
    parts = []
    for column, values in texts.items():
        found = shown[f"grades/{column.replace('/', '_')}/probability"].values
        for grade, row in zip(levels, found, strict=True):
            own = {"column": column, "value": values, "grade": grade, "probability": row}
            parts.append(pd.DataFrame(own))
    names = ["column", "value", "grade", "probability"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=names)
