"""Modes of the hyperparameters in results: where they are, what they weigh, and which chains saw them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import xarray as xr

from gpmcflow.approximations.mixture import Mixture, fit_mixture, log_weights
from gpmcflow.errors import NumericalError
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.regression_density import NormalDensity
from gpmcflow.samplers.variables import in_own_units

log = logging.getLogger(__name__)
WEIGHED = 1000  # draws of the mixture that tell the masses
LEAST_MASS = 0.01  # of a mode that every chain should visit
LEAST_TOLD = 0.005  # mass of a mode that words name
MOST_TOLD, LEAST_APART = 3, 0.4  # parameters that words name, and how far apart modes have them
EXPECTED = 5.0  # visits of a chain below which none may be chance
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class StartingModes(NamedTuple):
    """Modes that chains start in, those of most mass first."""

    theta: np.ndarray  #: (K, d)
    mass: np.ndarray  #: share of the posterior (K,)

    def of_chains(self, n_chains: int) -> np.ndarray:
        """The mode (n_chains,) that each chain starts in: one in each mode, then as many as it has mass."""
        counts = np.zeros(len(self.mass))
        chosen = []
        for k in range(n_chains):
            wanted = self.mass * (k + 1) - counts
            chosen.append(k if k < len(counts) else int(wanted.argmax()))
            counts[chosen[-1]] += 1
        return np.array(chosen)


class Modes(NamedTuple):
    """A mixture at the modes of a posterior, and weighted draws of it that tell how good it is."""

    mixture: Mixture
    log_weights: np.ndarray  #: (1000,)
    masses: np.ndarray  #: share of the posterior by component (K,)

    def starting(self, model: GPModel) -> StartingModes:
        """Those of more than 1 % of the posterior, or the heaviest."""
        order = np.argsort(-self.masses, kind="stable")
        order = order[self.masses[order] > min(LEAST_MASS, 0.5 * self.masses.max())]
        theta = model.parameters.normal.theta(self.mixture.locations[order])[0]
        return StartingModes(theta, self.masses[order])


def search_modes(model: GPModel, rng: np.random.Generator) -> Modes:
    """The modes of a regression's hyperparameters. Raises `NumericalError` where none is found."""
    density = NormalDensity(model)
    _, mixture = fit_mixture(density, rng)
    x = mixture.draw(rng, WEIGHED)
    weights = log_weights(density, mixture, x)
    return Modes(mixture, weights, mixture.shares_of(x, weights))


def modes_or_warning(model: GPModel, rng: np.random.Generator) -> Modes | None:
    """As `search_modes`; None where no mode is found, with a warning."""
    try:
        return search_modes(model, rng)
    except NumericalError as error:
        log.warning("the search for modes failed: %s", error)
        return None


def modes_of_chains(
    model: GPModel, theta: np.ndarray, mixture: Mixture, masses: np.ndarray | None = None
) -> tuple[xr.Dataset, list[str]]:
    """Group ``modes`` of a regression beside chains theta (chain, draw, d), and what the chains missed.

    ``masses`` (K,) are shares of the posterior by component; None for chains that drew from the mixture,
    whose own visits tell them.
    """
    visits = visits_of(model, mixture, theta)
    masses = visits.sum(0) / visits.sum() if masses is None else masses
    return modes_group(model, mixture, masses, visits), missed_by_chains(masses, visits)


def modes_group(
    model: GPModel, mixture: Mixture, masses: np.ndarray, visits: np.ndarray | None = None
) -> xr.Dataset:
    """Group ``modes``, the heaviest first: each parameter at the mode, mass (mode), visits (chain, mode).

    ``masses`` (K,) are shares of the posterior by component, ``visits`` (chain, K) counts of draws.
    """
    order = np.argsort(-masses, kind="stable")
    theta = np.array([model.parameters.normal.theta(x)[0] for x in mixture.locations[order]])
    variables = {
        name: (("mode", "theta_dim") if values.ndim == 3 else ("mode",), values[0])
        for name, values in in_own_units(model, theta[None]).items()
    }
    columns: dict[str, tuple] = {"mass": (("mode",), masses[order])}
    coords = {"mode": np.arange(len(order)), "theta_dim": np.array(model.names)}
    if visits is not None:
        columns["visits"] = (("chain", "mode"), visits[:, order])
        coords["chain"] = np.arange(len(visits))
    words = in_words(masses[order], theta, {name: variables[name][1] for name in variables})
    return xr.Dataset(variables | columns, coords, {"in_words": words})


def in_words(masses: np.ndarray, theta: np.ndarray, values: Mapping[str, np.ndarray]) -> str:
    """Such as "two explanations: 92 % with length_scale 1.05, noise_sd 0.56; 8 % with length_scale 0.17, ..".

    ``masses`` (K,) in falling order, coordinates theta (K, d), and ``values`` (K,) of each parameter in its
    own units. Named are those that differ between the modes: at most three, the farthest apart in theta.
    Modes of less than half a percent are left out.
    """
    n = int((masses >= LEAST_TOLD).sum())
    if n < 2:
        return "one explanation"
    count = _NUMBERS[n] if n < len(_NUMBERS) else str(n)
    apart = np.ptp(theta[:n], axis=0)
    places = sorted(np.argsort(-apart, kind="stable")[:MOST_TOLD])
    names = [name for name in values if name != "theta"]
    told = [names[k] for k in places if apart[k] >= LEAST_APART]
    each = []
    for k in range(n):
        at = ", ".join(f"{name} {values[name][k]:.3g}" for name in told)
        each.append(f"{100 * masses[k]:.0f} %{' with ' if at else ''}{at}")
    return f"{count} explanations: {'; '.join(each)}"


def visits_of(model: GPModel, mixture: Mixture, theta: np.ndarray) -> np.ndarray:
    """Draws (chain, K) of each chain nearest to each mode, theta (chain, draw, d)."""
    x = model.parameters.to_normal(theta)
    n_modes = len(mixture.masses)
    return np.array([np.bincount(mixture.nearest(rows), minlength=n_modes) for rows in x])


def missed_by_chains(masses: np.ndarray, visits: np.ndarray) -> list[str]:
    """A chain that never visits a mode of more than 1 % of the posterior, by ``visits`` (chain, K).

    Chains too short for five expected visits are not judged.
    """
    n_draws = visits.sum(1, keepdims=True)
    expected = np.maximum(EXPECTED / n_draws, LEAST_MASS)
    missed = (visits == 0) & (masses > expected)
    messages = []
    for k in np.flatnonzero(missed.any(0)):
        chains = np.flatnonzero(missed[:, k])
        which = f"chain{'s' if len(chains) > 1 else ''} {', '.join(map(str, chains))}"
        messages.append(f"{which} never visit{'' if len(chains) > 1 else 's'} a mode that has "
                        f"{100 * masses[k]:.0f} % of the posterior")  # fmt: skip
    return messages
