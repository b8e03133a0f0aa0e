"""Whether chains agree and how many draws they are worth, over all parameters."""

from __future__ import annotations

import xarray as xr

from gpmcflow.samplers.results import LARGEST_RHAT

NOT_ANNEALED = "not annealed"  # begins the alarm of an evidence that is EP's own
FEWEST_EFFECTIVE = 400.0  # of the worst parameter: 100 for each of four chains


def parameters(draws: xr.DataTree) -> xr.Dataset:
    """Draws of the parameters in their own units."""
    posterior = draws["posterior"].to_dataset()
    return posterior.drop_vars(
        [name for name in ("theta", "latent", "weight") if name in posterior]
    )


def convergence(draws: xr.DataTree) -> dict[str, float]:
    """Largest R-hat and smallest effective sizes, in the bulk and in the tails, over the parameters."""
    import arviz_stats

    own = parameters(draws).load()

    def over(values: xr.Dataset) -> list[float]:
        return [float(value) for value in values.data_vars.values()]

    return {
        "r_hat": max(over(arviz_stats.rhat(own))),
        "ess_bulk": min(over(arviz_stats.ess(own, method="bulk"))),
        "ess_tail": min(over(arviz_stats.ess(own, method="tail"))),
    }


def converged(draws: xr.DataTree) -> bool:
    """Whether the worst parameter is within the limits of Vehtari et al. (2021)."""
    worst = convergence(draws)
    effective = min(worst["ess_bulk"], worst["ess_tail"])
    return worst["r_hat"] <= LARGEST_RHAT and effective >= FEWEST_EFFECTIVE
