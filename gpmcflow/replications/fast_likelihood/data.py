"""Data of the fast-likelihood study: the paper's synthetic types, and a real regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.covariances.leaves import Constant, SquaredExponential
from gpmcflow.execution import chain_generators
from gpmcflow.execution.digest import array_digest
from gpmcflow.likelihoods import Gaussian
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.regression_density import RegressionDensity
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.parameters.space import ParameterSpace
from gpmcflow.replications.fast_likelihood.types import ETA, TYPES

STUDY = "fast_likelihood"
WEAK_SD = 2.0
REAL_PRIOR_SD = 1.5
LOG_ROOT_2 = 0.5 * np.log(2.0)
START_NOISE = 0.3  # of the responses' standard deviation


class PaperParameters(ParameterSpace):
    """Those of a `GPModel` with theta = (log eta, log sigma, log rho_1, ..), as the paper has them.

    The model's own theta, (log l_1, .., log signal_sd, log noise_sd), in another order, with rho = sqrt(2) l.
    So all draws, names and results are in the paper's terms.
    """

    def __init__(self, own: ParameterSpace) -> None:
        vars(self).update(vars(own))
        *lengths, eta, sigma = own.free_priors
        self.free_priors = (eta, sigma, *(_moved(prior, LOG_ROOT_2) for prior in lengths))
        self.free = np.roll(own.free, 2)
        many = len(lengths) > 1
        rho = [f"log_rho_{k + 1}" if many else "log_rho" for k in range(len(lengths))]
        self.names = ("log_eta", "log_sigma", *rho)

    def full(self, theta: np.ndarray) -> np.ndarray:
        """Coordinates of all parameters of the model (size,) of theta (d,)."""
        return super().full(theta - LOG_ROOT_2 * (np.arange(len(theta)) > 1))


class PaperModel(GPModel):
    """C_ij = c^2 + eta^2 exp(-sum_k (x_ik - x_jk)^2 / rho_k^2) + sigma^2 [i = j]; see `PaperParameters`.

    Source: Wang & Neal (2013), eqs. 22-24.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "parameters", PaperParameters(self.parameters))


def _moved(prior: Hyperprior, by: float) -> Hyperprior:
    return Hyperprior("norm", {**prior.parameters, "loc": prior.parameters["loc"] + by})


def paper_model(
    X: np.ndarray, y: np.ndarray, constant: float, mean: np.ndarray, sd: float, ard: bool = False
) -> PaperModel:
    """Model with theta ~ N(mean, sd^2), mean (d,); ``constant`` c may be 0."""
    eta, sigma, *rho = (Hyperprior("norm", {"loc": m, "scale": sd}) for m in mean)
    lengths = [_moved(prior, -LOG_ROOT_2) for prior in rho]
    covariance = SquaredExponential(lengths if ard else lengths[0], eta)
    covariance = covariance + Constant(constant) if constant else covariance
    return PaperModel(X, y, covariance, Gaussian(sigma), jitter=0.0, structure="dense")


@dataclass(frozen=True, eq=False)
class Problem:
    """A model with its data, and the hyperparameters they come from (None for real data)."""

    model: PaperModel
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
            rho = np.sqrt(model.X.shape[1]) * np.median(apart, axis=0)
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
    model = paper_model(
        X,
        np.zeros(settings["n"]),
        settings["constant"],
        truth if centred else np.zeros(len(truth)),
        1.0 if centred else WEAK_SD,
        kind.ard,
    )
    y = RegressionDensity(model).draw_responses(rng, truth)
    return Problem(model.with_y(y), truth)


def _diabetes(settings: dict, rng: np.random.Generator) -> Problem:
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True, scaled=False)
    chosen = np.sort(rng.permutation(len(y))[: settings["n"]])
    X, y = X[chosen], y[chosen]
    X, y = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    mean = np.array([0.0, np.log(0.5), 0.5 * np.log(2.0 * X.shape[1])])
    return Problem(paper_model(X, y, 1.0, mean, REAL_PRIOR_SD), None)
