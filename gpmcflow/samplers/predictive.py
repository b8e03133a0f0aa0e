"""Groups that ArviZ's functions ask for: pointwise log likelihoods, replicates, draws of the prior."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy.linalg import solve_triangular

from gpmcflow.errors import NumericalError
from gpmcflow.execution import chain_generators
from gpmcflow.likelihoods import Likelihood
from gpmcflow.models.basis_regression import CollapsedBasisDensity
from gpmcflow.models.collapsed_density import CollapsedDensity
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.multi_gp_model import MultiGPModel
from gpmcflow.samplers.variables import by_function, dims_of, in_own_units, latent_coords

MOST_NUMBERS = 4e6  # of a pointwise array: 32 MB
MOST_WORK = 1e10  # n^3 of all draws whose latents have to be drawn: seconds
LEAST_DRAWS = 20  # of a pointwise array, however large
N_PRIOR = 100  # draws of the prior
LEAST_PRIOR = 20  # of a large model
Draws = Mapping[str, np.ndarray]
Replicate = tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]


class Predictive(ABC):
    """What a model says of its observations, given draws by name."""

    @property
    @abstractmethod
    def y(self) -> np.ndarray:
        """Observations (n,)."""

    @property
    @abstractmethod
    def coords(self) -> dict[str, np.ndarray]:
        """Of the arrays of a draw."""

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of the latent functions where predictors have a dimension of them, (.., q, n)."""
        return ()

    @property
    @abstractmethod
    def needed(self) -> tuple[str, ...]:
        """Arrays of a draw that predictors are made of; none where they cannot be."""

    @property
    @abstractmethod
    def prior_names(self) -> tuple[str, ...]:
        """Variables that have a prior density of their own."""

    @property
    def work(self) -> float:
        """Cost of the predictors of a draw."""
        return 0.0

    @property
    @abstractmethod
    def prior_work(self) -> float:
        """Cost of a draw of the prior."""

    @abstractmethod
    def predictors(
        self, rng: np.random.Generator, draws: Draws
    ) -> Iterator[tuple[Likelihood, np.ndarray]]:
        """Likelihoods with predictors eta (k, n) of draws in a row, given arrays (draw, ...)."""

    @abstractmethod
    def log_prior(self, draws: Draws) -> np.ndarray:
        """Log prior densities of ``prior_names`` (name, draw), given arrays (draw, ...)."""

    @abstractmethod
    def draw_prior(self, rng: np.random.Generator) -> Replicate:
        """Variables of group ``posterior`` drawn from the prior, with observations and predictor (n,)."""

    def pointwise(self, seed: int, key: tuple, chain: int, draws: Draws) -> np.ndarray:
        """log p(y_i | eta_i, theta), replicates of y, and eta of each function, (2 + q, draw, n)."""
        rng = chain_generators(seed, *key, "predictive", chains=[chain]).generator(0)
        rows = [
            np.stack([
                likelihood.derivatives(eta, self.y)[0], likelihood.simulate(rng, eta),
                *([eta] if not self.functions else np.moveaxis(eta, -2, 0)),
            ])
            for likelihood, eta in self.predictors(rng, draws)
        ]  # fmt: skip
        return np.concatenate(rows, axis=1)


@dataclass(frozen=True)
class ModelPredictive(Predictive):
    """Of a `GPModel`: draws of theta, with or without latents.

    Without them latents are drawn exactly given theta where noise is Gaussian; a row is nan where the
    covariance does not factorise.
    """

    model: GPModel | MultiGPModel
    has_latents: bool

    @property
    def y(self) -> np.ndarray:
        """Observations (n,)."""
        return self.model.y

    @property
    def functions(self) -> tuple[str, ...]:
        """Those of a `MultiGPModel`."""
        return self.model.functions if isinstance(self.model, MultiGPModel) else ()

    @property
    def coords(self) -> dict[str, np.ndarray]:
        """Of theta and the latents."""
        return {"theta_dim": np.array(self.model.names), **latent_coords(self.model)}

    @property
    def needed(self) -> tuple[str, ...]:
        """theta, and latents if they are kept."""
        if self.has_latents:
            return "theta", self.model.latent_variable
        return ("theta",) if self.model.likelihood.conjugate else ()

    @property
    def prior_names(self) -> tuple[str, ...]:
        """Free parameters."""
        return tuple(name.replace("/", "_") for name in self.model.names)

    @property
    def work(self) -> float:
        """Of factorisations, where latents have to be drawn."""
        return 0.0 if self.has_latents else float(self.model.n_latents) ** 3

    @property
    def prior_work(self) -> float:
        """Of a dense factorisation."""
        model = self.model
        return 0.0 if model.basis or model.kronecker else float(model.n_latents) ** 3

    def predictors(
        self, rng: np.random.Generator, draws: Draws
    ) -> Iterator[tuple[Likelihood, np.ndarray]]:
        """One draw at a time."""
        model = self.model
        collapsed = CollapsedBasisDensity if model.basis else CollapsedDensity
        density = None if self.has_latents else collapsed(model)
        for k, theta in enumerate(draws["theta"]):
            if density is None:
                latents = draws[model.latent_variable][k].reshape(model.n_latents)
            else:
                try:
                    latents, *_ = density.draw_latents(rng, theta)
                except NumericalError:
                    latents = np.full(model.n_latents, np.nan)
            yield model.likelihood_at(model.full(theta)), model.predictor(theta, latents)[None]

    def log_prior(self, draws: Draws) -> np.ndarray:
        """By the coordinates that are sampled."""
        columns = zip(self.model.parameters.free_priors, draws["theta"].T, strict=True)
        return np.array([[prior.log_density(x) for x in values] for prior, values in columns])

    def draw_prior(self, rng: np.random.Generator) -> Replicate:
        """theta, parameters in their own units, and latents."""
        model = self.model
        theta = model.draw_prior(rng)
        latents, y = model.simulate(rng, theta)
        own = {n: v[0, 0] for n, v in in_own_units(model, theta[None, None]).items()}
        named = {model.latent_variable: by_function(model, latents)}
        return own | named, y, model.predictor(theta, latents)


@dataclass(frozen=True)
class LatentPredictive(Predictive):
    """Of a `LatentGaussianModel`: draws of its latents."""

    model: LatentGaussianModel
    prior_names = ("latent",)
    prior_work = 0.0

    @property
    def y(self) -> np.ndarray:
        """Observations (n,)."""
        return self.model.y

    @property
    def coords(self) -> dict[str, np.ndarray]:
        """Of the latents."""
        return {"latent_dim": np.arange(self.model.dim)}

    @property
    def needed(self) -> tuple[str, ...]:
        """Latents."""
        return ("latent",)

    def predictors(
        self, rng: np.random.Generator, draws: Draws
    ) -> Iterator[tuple[Likelihood, np.ndarray]]:
        """All draws at once."""
        yield self.model.likelihood, self._predictor(draws["latent"])

    def log_prior(self, draws: Draws) -> np.ndarray:
        """Of all latents together."""
        L, gap = self.model.cholesky, draws["latent"] - self.model.mean
        z = solve_triangular(L, gap.T, lower=True, check_finite=False)
        constant = float(np.log(np.diagonal(L)).sum()) + 0.5 * len(L) * np.log(2.0 * np.pi)
        return -0.5 * np.einsum("ij,ij->j", z, z)[None] - constant

    def draw_prior(self, rng: np.random.Generator) -> Replicate:
        """Latents."""
        model = self.model
        latent = model.mean + model.cholesky @ rng.standard_normal(model.dim)
        eta = self._predictor(latent)
        return {"latent": latent}, model.likelihood.simulate(rng, eta), eta

    def _predictor(self, latent: np.ndarray) -> np.ndarray:
        design = self.model.design
        return (latent if design is None else latent @ design.T) + self.model.offset


def predictive_groups(
    predictive: Predictive | None, draws: Mapping[str, Any], seed: int, key: tuple
) -> dict[str, xr.Dataset]:
    """Groups ``log_likelihood``, ``posterior_predictive``, ``log_prior``, ``prior``, ``prior_predictive``.

    ``draws`` are arrays (chain, draw, ...) by name; of Dask arrays the groups are lazy, but for the prior.
    Pointwise arrays of more than `MOST_NUMBERS` are those of evenly spaced draws, under their numbers.
    """
    if predictive is None:
        return {}
    n_chains, n_draws = next(iter(draws.values())).shape[:2]
    chains, names = np.arange(n_chains), predictive.prior_names
    log_prior = _by_chain(
        [(predictive.log_prior, ({n: v[k] for n, v in draws.items()},)) for k in range(n_chains)],
        (len(names), n_draws),
    )
    columns = {name: (("chain", "draw"), log_prior[:, k]) for k, name in enumerate(names)}
    rng = chain_generators(seed, *key, "prior", chains=[0]).generator(0)
    groups = _prior_groups(predictive, rng)
    groups["log_prior"] = xr.Dataset(columns, {"chain": chains, "draw": np.arange(n_draws)})
    if not predictive.needed:
        return groups
    kept = _kept(predictive, n_chains, n_draws)
    calls = [
        (predictive.pointwise, (seed, key, k, {n: draws[n][k, kept] for n in predictive.needed}))
        for k in range(n_chains)
    ]
    n_rows = 2 + max(1, len(predictive.functions))
    arrays = _by_chain(calls, (n_rows, len(kept), len(predictive.y)))
    value, y = ((("chain", "draw", "case"), arrays[:, k]) for k in range(2))
    eta: Any = (("chain", "draw", "case"), arrays[:, 2])
    index = {"chain": chains, "draw": kept, "case": np.arange(len(predictive.y))}
    if predictive.functions:
        eta = ("chain", "function", "draw", "case"), arrays[:, 2:]
        index["function"] = np.array(predictive.functions)
    groups["log_likelihood"] = xr.Dataset({"y": value}, index)
    groups["posterior_predictive"] = xr.Dataset({"y": y, "eta": eta}, index)
    return groups


def _most_draws(predictive: Predictive, work: float, least: int) -> float:
    """Draws whose arrays by case are neither large nor dear, and no fewer than ``least``."""
    most = MOST_NUMBERS / len(predictive.y)
    return max(least, min(most, MOST_WORK / work) if work else most)


def _kept(predictive: Predictive, n_chains: int, n_draws: int) -> np.ndarray:
    """Numbers of the draws of each chain that pointwise arrays hold."""
    most = _most_draws(predictive, predictive.work, LEAST_DRAWS)
    step = int(np.ceil(n_chains * n_draws / most))
    return np.arange(0, n_draws, step)


def _by_chain(calls: list[tuple[Any, tuple]], shape: tuple[int, ...]) -> Any:
    """Arrays of a shape that calls return, stacked: at once, or lazily if any is given a Dask array."""
    inputs = (value for _, arguments in calls for value in arguments[-1].values())
    if not any(hasattr(value, "dask") for value in inputs):
        return np.stack([function(*arguments) for function, arguments in calls])
    import dask.array as da
    from dask import delayed

    rows = (delayed(function, pure=False)(*arguments) for function, arguments in calls)
    return da.stack([da.from_delayed(row, shape, float) for row in rows])


def _prior_groups(predictive: Predictive, rng: np.random.Generator) -> dict[str, xr.Dataset]:
    """Draws of the prior; those whose covariance does not factorise are left out, and counted."""
    rows: list[Replicate] = []
    n = int(min(N_PRIOR, _most_draws(predictive, predictive.prior_work, LEAST_PRIOR)))
    for _ in range(n):
        try:
            rows.append(predictive.draw_prior(rng))
        except (NumericalError, ValueError, ArithmeticError):  # a rate too large to draw from
            continue
    if not rows:
        return {}
    coords = predictive.coords
    index = {"chain": [0], "draw": np.arange(len(rows))}
    variables = {
        name: (("chain", "draw", *dims_of(name, np.ndim(value))), stacked[None])
        for name, value in rows[0][0].items()
        for stacked in [np.stack([row[0][name] for row in rows])]
    }
    of_eta = ("function", "case") if predictive.functions else ("case",)
    replicates = {
        name: (("chain", "draw", *dims), np.stack([row[k] for row in rows])[None])
        for k, name, dims in ((1, "y", ("case",)), (2, "eta", of_eta))
    }
    cases = {"case": np.arange(len(predictive.y))}
    if predictive.functions:
        cases["function"] = np.array(predictive.functions)
    failed = {"failed": n - len(rows)}
    return {
        "prior": xr.Dataset(variables, index | coords, failed),
        "prior_predictive": xr.Dataset(replicates, index | cases, failed),
    }
