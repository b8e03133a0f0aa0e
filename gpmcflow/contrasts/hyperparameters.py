"""What the data teach of each hyperparameter: its quantiles before and after them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from gpmcflow.models.gp_model import GPModel
from gpmcflow.parameters.parameter import own_units

_LEVELS = {"q025": 0.025, "q50": 0.5, "q975": 0.975}
COLUMNS = ("parameter", *(f"prior_{name}" for name in _LEVELS), *_LEVELS)


def prior_and_posterior(
    model: GPModel, posterior: Mapping[str, Any], units: Mapping[str, float] | None = None
) -> pd.DataFrame:
    """Median and 95 % interval of each free parameter before the data (prior) and after (posterior).

    ``posterior`` holds draws by name in the parameters' own units, ``units`` factors from these to those of
    the table.
    """
    levels, rows = np.array(list(_LEVELS.values())), []
    for k, name in enumerate(model.names):
        prior = np.asarray(model.parameters.free_priors[k].quantile(levels))
        prior = own_units(prior, model.parameters.coordinates[model.free[k]])
        after = np.quantile(np.asarray(posterior[name.replace("/", "_")]), levels)
        unit = (units or {}).get(name, 1.0)
        rows.append((name, *(prior * unit), *(after * unit)))
    return pd.DataFrame(rows, columns=list(COLUMNS))
