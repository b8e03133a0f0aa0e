"""Models with known answers, shared by the tests of the core."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from math import asin, comb, log, pi

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from gpmcflow.approximations.expectation_propagation import (
    ExpectationPropagation,
    expectation_propagation,
)
from gpmcflow.approximations.laplace import Laplace, laplace
from gpmcflow.covariances.leaves import SquaredExponential
from gpmcflow.covariances.tape import load_passes
from gpmcflow.likelihoods import Likelihood, Logistic, Poisson, Probit
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from tests import tiers


def pytest_addoption(parser):
    group = parser.getgroup("gpmcflow")
    group.addoption("--all", action="store_true", help="run slow tests, too")
    group.addoption("--write-durations", metavar="CSV", help="write what each slow test takes")
    group.addoption("--time-limit", metavar="SECONDS", type=float, help="begin no test after them")


def pytest_configure(config):
    """Compile once, not in every worker, and not in a test; a thread of BLAS each, as workers share cores."""
    config.option.markexpr = tiers.mark_expression(config)
    if path := config.option.write_durations:
        complete = config.option.all and config.args == config.getini("testpaths")
        config.pluginmanager.register(tiers.Durations(path, complete))
    if (seconds := config.option.time_limit) is not None:
        config.pluginmanager.register(tiers.TimeLimit(seconds))
    if not hasattr(config, "workerinput"):
        load_passes()
    threadpool_limits(1, "blas")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what is slow before marks are selected, then put the longest files first."""
    slow = tiers.read_durations()
    for item in items:
        if item.nodeid in slow:
            item.add_marker("slow")
    yield
    place = tiers.longest_first(item.nodeid for item in items)
    items.sort(key=lambda item: place[item.nodeid.partition("::")[0]])


@pytest.fixture(autouse=True)
def no_word_while_waiting(monkeypatch):
    """A command that a busy machine makes slow says nothing of it."""
    monkeypatch.setattr("gpmcflow.cli.streams.FIRST_LINE", 1e6)


@pytest.fixture(autouse=True)
def no_figure_left_open():
    """No test meets the figures that another one, or an example, left to pyplot."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture
def quick_measurements(monkeypatch):
    """A forecast measures a single call of each kind, on a machine that does nothing else.

    Python starts in three seconds and takes 200 MB: returned as (seconds, bytes).
    """
    from gpmcflow.jobs import costs
    from gpmcflow.jobs import costs as timing
    from gpmcflow.pipeline import forecast

    start = (3.0, 200 * 2**20)
    for module in (forecast, costs):
        monkeypatch.setattr(module, "startup", lambda: start)
    monkeypatch.setattr(forecast, "share_of_core", lambda n_processes: 1.0)
    monkeypatch.setattr(timing, "ENOUGH", 0.0)
    return start


@pytest.fixture(scope="session")
def random_covariance():
    """A function: covariance (n, n) with random correlations and unequal variances near `size`."""

    def build(n: int, size: float = 1.0, seed: int = 0) -> np.ndarray:
        rng = np.random.default_rng([seed, n])
        raw = rng.standard_normal((n, n + 2))
        covariance = raw @ raw.T
        sd = np.sqrt(np.diag(covariance))
        scale = np.sqrt(size * rng.uniform(0.7, 1.3, n))
        return covariance / np.outer(sd, sd) * np.outer(scale, scale)

    return build


@pytest.fixture(scope="session")
def orthant_evidence():
    """A function: log Z of a probit GP with n <= 3 cases, from orthant probabilities."""

    def log_z(covariance: np.ndarray, y: np.ndarray) -> float:
        S = y[:, None] * (covariance + np.eye(len(y))) * y
        sd = np.sqrt(np.diag(S))
        rho = S / np.outer(sd, sd)
        pairs = [asin(rho[i, j]) for i in range(len(y)) for j in range(i)]
        return log({1: 0.5, 2: 0.25, 3: 0.125}[len(y)] + sum(pairs) / (pi * 2 ** (len(y) - 1)))

    return log_z


@pytest.fixture(scope="session")
def one_factor():
    """A function: probit model with K = I / 2 + 3/2 11', k of n labels positive, and its log Z."""

    def build(n: int, k: int) -> tuple[LatentGaussianModel, float]:
        y = np.where(np.arange(n) < k, 1.0, -1.0)
        model = LatentGaussianModel.from_covariance(0.5 * np.eye(n) + 1.5, Probit(), y)
        return model, -log((n + 1) * comb(n, k))

    return build


@pytest.fixture(scope="session")
def glm():
    """A function: small model of any likelihood with a design, a prior mean and correlated theta."""

    def build(
        likelihood: Likelihood | None = None, n: int = 12, d: int = 5, seed: int = 3
    ) -> LatentGaussianModel:
        likelihood = likelihood or Logistic()
        rng = np.random.default_rng(seed)
        design = rng.standard_normal((n, d)) / np.sqrt(d)
        raw = rng.standard_normal((d, d))
        covariance = raw @ raw.T / d + 0.5 * np.eye(d)
        mean = rng.uniform(-0.6, 0.6, d)
        theta = mean + np.linalg.cholesky(covariance) @ rng.standard_normal(d)
        y = likelihood.simulate(rng, design @ theta)
        return LatentGaussianModel.from_covariance(
            covariance, likelihood, y, mean=mean, design=design
        )

    return build


@pytest.fixture(scope="session")
def gp():
    """A function: small GP of any likelihood, inputs in the plane, prior mean not zero."""

    def build(
        likelihood: Likelihood | None = None, n: int = 12, seed: int = 5, signal_sd: float = 1.6
    ) -> LatentGaussianModel:
        likelihood = likelihood or Probit()
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n, 2))
        covariance = SquaredExponential(length_scale=(0.9, 1.7), signal_sd=signal_sd)
        K = covariance(X) + 0.02 * np.eye(n)  # well enough conditioned for dense formulas
        mean = 0.4
        f = mean + np.linalg.cholesky(K) @ rng.standard_normal(n)
        y = likelihood.simulate(rng, f)
        return LatentGaussianModel.from_covariance(K, likelihood, y, mean=mean)

    return build


@pytest.fixture(scope="session")
def models(gp, glm):
    """Small models by name: A = I and A != I, prior mean not zero, settings off their defaults."""
    return {
        "probit": gp(Probit()),
        "poisson": gp(Poisson(exposure=2.5), signal_sd=0.8),
        "logistic": glm(Logistic()),
    }


@dataclass(frozen=True)
class UspsFit:
    """Fits of the USPS benchmark at one setting, with the table's values."""

    model: LatentGaussianModel
    laplace: Laplace
    ep: ExpectationPropagation
    X_test: np.ndarray
    y_test: np.ndarray
    published: dict


# (log length scale, log signal sd): log Z_LA, log Z_EP, correction up to cumulants 3, 4 and 6, and
# test errors of EP: the reference table of the method's description, recomputed there.
USPS_TABLE = {
    "A": ((4.85, 5.1), -111.0012, -106.0892, (0.2500, 0.2723, 0.2734), 28),
    "B": ((4.85, 2.55), -149.5101, -149.3969, (0.0212, 0.0215, 0.0215), 32),
    "C": ((2.85, 2.35), -98.9644, -94.8910, (0.2549, 0.2763, 0.2775), 23),
    "D": ((2.6, 4.1), -119.4766, -90.2832, (0.3948, 0.4377, 0.4413), 21),
}


@pytest.fixture(scope="session")
def usps():
    """A function: fits at setting A, B, C or D; skips without the real data."""
    if not os.environ.get("GPMCFLOW_DATA"):
        pytest.skip(
            "GPMCFLOW_DATA does not name the folder of real data sets (USPS is not shipped)"
        )
    from gpmcflow.data import load_dataset

    data = load_dataset("usps-3v5")
    found: dict[str, UspsFit] = {}

    def fit(setting: str) -> UspsFit:
        if setting not in found:
            (log_length, log_sd), laplace_value, ep_value, correction, errors = USPS_TABLE[setting]
            covariance = SquaredExponential(np.exp(log_length), np.exp(log_sd))
            model = GPModel(data["X"], data["y"].values, covariance, Probit()).at()
            published = {
                "laplace": laplace_value,
                "ep": ep_value,
                "correction": correction,
                "errors": errors,
            }
            found[setting] = UspsFit(
                model,
                laplace(model),
                expectation_propagation(model),
                data["X_test"].values,
                data["y_test"].values,
                published,
            )
        return found[setting]

    return fit
