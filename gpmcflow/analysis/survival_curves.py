"""What share of rows lasts longer than a time: as a model predicts it, and as it was seen."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import xarray as xr

from gpmcflow.analysis.data import Data
from gpmcflow.analysis.effects import Effect, Sweep
from gpmcflow.approximations.conditional import Predictor
from gpmcflow.approximations.multi_prediction import MultiPredictor
from gpmcflow.contrasts.reported import ReportedFunctions
from gpmcflow.data.times import last_of
from gpmcflow.likelihoods import Survival
from gpmcflow.numerics.product_limit import share_lasting

N_TIMES = 40
ALL_ROWS = "all rows"
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)


def times_of(data: Data) -> np.ndarray:
    """Times up to the longest of the learning rows, in natural units."""
    return np.linspace(0.0, float(last_of(*data.learning.ends).max()), N_TIMES + 1)[1:]


def average_survival(
    predictor: Predictor | MultiPredictor, X: np.ndarray, g: int, times: np.ndarray
) -> np.ndarray:
    """Mean over rows of coded inputs X (g * rows, p) of the probability to last longer (time, g)."""
    if isinstance(predictor, MultiPredictor):
        of_functions = ReportedFunctions(predictor, None).lasting(X, times)
        return of_functions.reshape(len(times), g, -1).mean(-1)
    eta, likelihood = predictor.moments(X), predictor.likelihood
    assert isinstance(likelihood, Survival)
    longer = np.zeros((len(times), len(X)))
    for node, weight in zip(_NODES, _WEIGHTS / _WEIGHTS.sum(), strict=True):
        at = eta.mean + node * np.sqrt(eta.variance)
        for part in at:
            longer += weight * np.exp(likelihood.log_survival(part, times[:, None])) / len(at)
    return longer.reshape(len(times), g, -1).mean(-1)


def curves_of(
    shown: xr.DataTree, effects: Mapping[str, tuple[Sweep, Effect]], texts: Mapping, data: Data
) -> pd.DataFrame | None:
    """Shares (of, time, longer): at the two ends of the strongest column, and of all rows as seen.

    ``texts`` are the values of columns in words, by column.
    """
    column = next((name for name, (sweep, _) in effects.items() if sweep.kind != "place"), None)
    if column is None:
        return None
    longer = shown[f"survival/{column.replace('/', '_')}/longer"]
    parts = [
        pd.DataFrame({"of": texts[column][end], "time": longer["time"], "longer": longer[:, place]})
        for end, place in enumerate(effects[column][1].places)
    ]
    ends, share = share_lasting(*data.learning.ends)
    seen = {
        "time": [0.0, *ends, times_of(data)[-1]],
        "longer": [1.0, *share, share.min(initial=1.0)],
    }
    start = pd.DataFrame({"of": [texts[column][0], texts[column][1]], "time": 0.0, "longer": 1.0})
    return pd.concat([start, *parts, pd.DataFrame({"of": ALL_ROWS, **seen})], ignore_index=True)
