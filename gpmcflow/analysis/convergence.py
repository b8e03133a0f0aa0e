"""Whether chains agree and how many draws they are worth, over all parameters."""

from __future__ import annotations

import numpy as np
import xarray as xr

from gpmcflow.diagnostics.convergence import rhat_limit
from gpmcflow.samplers.variables import LATENT_NAMES

GROUP = "convergence"  # of draws that are stored: what is read there need not be computed again
NOT_ANNEALED = "not annealed"  # begins the alarm of an evidence that is EP's own
FEWEST_EFFECTIVE = 400.0  # of the worst parameter: 100 for each of four chains


def parameters(draws: xr.DataTree) -> xr.Dataset:
    """Draws of the parameters in their own units."""
    posterior = draws["posterior"].to_dataset()
    return posterior.drop_vars([name for name in ("theta", *LATENT_NAMES) if name in posterior])


def convergence(draws: xr.DataTree) -> dict[str, float]:
    """R-hat and smallest effective sizes, in the bulk and in the tails, over the parameters.

    R-hat is that of the parameter which is farthest above its limit, or nearest below: `rhat_limit`.
    """
    if GROUP in draws.children:
        return {name: float(value) for name, value in draws[GROUP].data_vars.items()}
    import arviz_stats  # here: it takes long to load

    own = parameters(draws).load()

    def over(values: xr.Dataset) -> list[float]:
        return [float(value) for value in values.data_vars.values()]

    limits = [rhat_limit(own[name].values, len(own)) for name in own.data_vars]
    pairs = zip(over(arviz_stats.rhat(own)), limits, strict=True)

    def excess(pair: tuple[float, float]) -> float:
        return np.nan_to_num((pair[0] - 1.0) / (pair[1] - 1.0), nan=np.inf)

    r_hat, limit = max(pairs, key=excess)
    return {
        "r_hat": r_hat,
        "r_hat_limit": limit,
        "ess_bulk": min(over(arviz_stats.ess(own, method="bulk"))),
        "ess_tail": min(over(arviz_stats.ess(own, method="tail"))),
    }


def converged(draws: xr.DataTree) -> bool:
    """Whether the worst parameter is within the limit of R-hat, and has effective draws enough."""
    worst = convergence(draws)
    effective = min(worst["ess_bulk"], worst["ess_tail"])
    return effective >= FEWEST_EFFECTIVE and worst["r_hat"] <= worst["r_hat_limit"]
