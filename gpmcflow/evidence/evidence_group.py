"""What the evidence groups and the attributes of all routes have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.execution import array_digest
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers.latent.protocol import LatentSampler
from gpmcflow.storage import standard_attributes


def transition_columns(draws: xr.Dataset, n_moves: Any = None) -> dict[str, float]:
    """Costs (sums) and shares of failures (means over transitions) of a group with `STATISTICS`.

    Where there was no transition the acceptance rate is nan; ``n_moves`` weighs the entries that
    stand for several.
    """
    acceptance = draws["acceptance_rate"].values
    weight = np.where(np.isnan(acceptance), 0.0, 1.0 if n_moves is None else n_moves)
    total = weight.sum()

    def share(values: np.ndarray) -> float:
        return float((weight * values).sum() / total) if total else 0.0

    return {
        "n_gradient": float(np.nansum(draws["n_gradient"].values)),
        "n_factorisation": float(np.nansum(draws["n_factorisation"].values)),
        "acceptance_rate": share(np.nan_to_num(acceptance)) if total else np.nan,
        "diverging": share(np.nan_to_num(draws["diverging"].values)),
        "unsolved": share(np.nan_to_num(draws["unsolved"].values)),
    }


def run_attributes(path: TemperedPath, sampler: LatentSampler, seed: int, key: tuple) -> dict:
    """Attributes of a result file: settings, seed, checksum of the labels."""
    settings = {
        "sampler": repr(sampler),
        "likelihood": repr(path.model.likelihood),
        "key": list(key),
    }
    return standard_attributes(
        settings=settings,
        seed=seed,
        data_checksum=array_digest({"y": path.model.y}),
        jitter=path.model.jitter,
    )
