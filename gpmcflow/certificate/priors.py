"""Whether hyperpriors matter for the user's own data: how far its posterior moves with their power.

Of p(theta)^a p(f | theta) p(y | f)^b at a = b = 1: how far the distribution of a quantity moves with log2 a
(the hyperpriors), and with log2 b (the data), by importance weights of the draws at 0.99 and 1.01.
Hyperpriors are densities of the coordinates that are sampled, such as the log of a length scale; quantities
are in these, too. `arviz_stats.psense` measures the same, and smooths the weights, which are close to equal;
the few settings of a quick answer give it too few different ones.

Source: Kallioinen, Paananen, Buerkner & Vehtari (2024), "Detecting and diagnosing prior and likelihood
sensitivity with power-scaling", Statistics and Computing 34:57.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy.special import softmax

from gpmcflow.certificate.fits import Draws, Fit, fitted_draws, n_chains, quantity_names
from gpmcflow.errors import NumericalError
from gpmcflow.execution import ChainGenerators, text_digest
from gpmcflow.models.gp_model import GPModel

N_OWN = 4000  # draws that are looked at, evenly spaced: of fewer the sensitivities are too noisy
SENSITIVE = 0.05  # a normal distribution that moves by 0.24 sds per doubling of the power
POWERS = (0.99, 1.01)
ABOUT = ("own_mean", "own_sd", "prior_sensitivity", "likelihood_sensitivity")


@dataclass(frozen=True, eq=False)
class OwnDataProgram:
    """One chain of one draw: the fit of the model's own observations, and what moves with the priors."""

    model: GPModel
    fit: Fit | None
    seed: int
    key: tuple[str | int, ...]

    def digest(self) -> str:
        """SHA-256 of all that decides the numbers, beside the random streams."""
        fit = "approximate" if self.fit is None else self.fit.digest()
        return text_digest(self.model.digest(), fit, str(N_OWN))

    def outputs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """A number for each quantity; nan where the fit fails."""
        return {name: ((len(quantity_names(self.model)),), "<f8") for name in ABOUT}

    def start(self, rng: ChainGenerators) -> dict[str, np.ndarray]:
        """Nothing is carried on."""
        return {"none": np.zeros(len(rng))}

    def advance(
        self, rng: ChainGenerators, carry: dict, start: int, stop: int
    ) -> tuple[dict, dict]:
        """The fit."""
        values = np.full((len(ABOUT), len(quantity_names(self.model))), np.nan)
        try:
            draws, tree = fitted_draws(
                self.model, self.fit, rng.generator(0), self.seed, (*self.key, "fit"), N_OWN
            )
        except NumericalError:
            pass
        else:
            each = draws.quantities(self.model, points=False)
            found = (each.mean(0), each.std(0), *sensitivities(self.model, draws, n_chains(tree)))
            values = np.array(found)
        return carry, {name: own[None, None] for name, own in zip(ABOUT, values, strict=True)}


def sensitivities(model: GPModel, draws: Draws, chains: int) -> tuple[np.ndarray, np.ndarray]:
    """How far quantities (quantity,) move with the power of the hyperpriors, and of the likelihood."""
    import arviz_stats  # noqa: F401  (here, as it takes long to load: it gives data sets their azstats)

    def by_chain(values: np.ndarray) -> xr.DataArray:
        own = values.reshape(chains, -1, *values.shape[1:])
        return xr.DataArray(own, dims=("chain", "draw", "quantity")[: own.ndim])

    quantities = by_chain(draws.quantities(model, points=False))

    def moved(log_density: np.ndarray) -> np.ndarray:
        low, high = (by_chain(softmax((power - 1.0) * log_density)) for power in POWERS)
        weights = {"lower_w": low, "upper_w": high}
        powers = {"lower_alpha": POWERS[0], "upper_alpha": POWERS[1]}
        with np.errstate(invalid="ignore"):  # of a quantity that stands still
            found = quantities.azstats.power_scale_sense(**weights, **powers)
        return np.nan_to_num(found.values)

    log_prior = np.array([model.log_prior(theta) for theta in draws.theta])
    return moved(log_prior), moved(draws.log_likelihood)


def moved_by(prior: float, data: float) -> str:
    """Which of both move a quantity with these sensitivities; nothing where no fit tells."""
    if not np.isfinite(prior + data):
        return ""
    if prior >= SENSITIVE:
        return "prior and data" if data >= SENSITIVE else "prior"
    return "data" if data >= SENSITIVE else "neither"
