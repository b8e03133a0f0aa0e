"""Data of the fast-likelihood study: the paper's synthetic types, and a real regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.execution import chain_generators
from gpmcflow.execution.digest import array_digest
from gpmcflow.models.gp_regression import GPRegression
from gpmcflow.studies.fast_likelihood.types import ETA, TYPES

STUDY = "fast_likelihood"
WEAK_SD = 2.0
REAL_PRIOR_SD = 1.5
START_NOISE = 0.3  # of the responses' standard deviation


@dataclass(frozen=True, eq=False)
class Problem:
    """A model with its data, and the hyperparameters they come from (None for real data)."""

    model: GPRegression
    truth: np.ndarray | None

    @property
    def checksum(self) -> str:
        """SHA-256 of X and y."""
        return array_digest({"X": self.model.X, "y": self.model.y})

    @property
    def guess(self) -> np.ndarray:
        """A start that knows the data alone: their spread, and the typical distance between cases."""
        model = self.model
        first, second = np.triu_indices(min(model.n_cases, 200), 1)
        apart = np.abs(model.X[first] - model.X[second])
        ard = model.dim > 3
        if ard:
            rho = np.sqrt(model.n_features) * np.median(apart, axis=0)
        else:
            rho = np.median(np.sqrt((apart**2).sum(1)), keepdims=True)
        spread = model.y.std()
        return np.log(np.concatenate([[spread, START_NOISE * spread], np.maximum(rho, 1e-3)]))


def generator(seed: int, *key: str | int) -> np.random.Generator:
    """Random numbers of one purpose."""
    return chain_generators(seed, STUDY, *key, chains=[0]).generator(0)


def make_problem(settings: dict, replicate: int, seed: int, purpose: str = "data") -> Problem:
    """Return data set ``replicate`` of a type, with the model and its prior.

    Synthetic: covariates uniform on [0, 1]^p, y ~ N(0, C(theta)) at eta = 5 and the type's length
    scales. ``prior: centred`` is N(theta_j, 1) about the generating values, ``weak`` is N(0, 2^2).
    Real: a random choice of n cases of scikit-learn's diabetes data, features and response
    standardised, weak fixed priors. The stream is keyed by the type's data, so that types which
    differ in noise, constant or prior share inputs and disturbances.

    Source: Wang & Neal (2013), section 5, Table 1.
    """
    rng = generator(seed, purpose, str(settings["data"]), replicate)
    if settings["data"] == "diabetes":
        return _diabetes(settings, rng)
    kind = TYPES[settings["data"]]
    X = rng.random((settings["n"], kind.p))
    truth = np.log(np.array([ETA, settings["noise"], *kind.rho]))
    centred = settings["prior"] == "centred"
    model = GPRegression(
        X,
        np.zeros(settings["n"]),
        ard=kind.ard,
        constant=settings["constant"],
        prior_mean=truth if centred else 0.0,
        prior_sd=1.0 if centred else WEAK_SD,
    )
    return Problem(model.with_y(model.simulate(rng, truth)), truth)


def _diabetes(settings: dict, rng: np.random.Generator) -> Problem:
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True, scaled=False)
    chosen = np.sort(rng.permutation(len(y))[: settings["n"]])
    X, y = X[chosen], y[chosen]
    X, y = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    mean = np.array([0.0, np.log(0.5), 0.5 * np.log(2.0 * X.shape[1])])
    model = GPRegression(X, y, constant=1.0, prior_mean=mean, prior_sd=REAL_PRIOR_SD)
    return Problem(model, None)
