"""Synthetic Gaussian process classification data whose latent values are known."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import ndtr
from threadpoolctl import threadpool_limits

from gpmcflow.data.layout import Parts
from gpmcflow.errors import InputError, NumericalError, ResourceError

MAX_CASES = 20_000  # covariance and factor: 6.4 GB
JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6)  # relative to the signal variance; the first that works


def synthetic_gpc(
    _files: Sequence[Path] = (),
    *,
    n: int = 100,
    n_test: int = 0,
    n_features: int = 2,
    log_length_scale: float = 0.0,
    log_signal_sd: float = 1.0,
    seed: int = 0,
) -> Parts:
    """Draw inputs, a Gaussian process and probit labels.

    x_i ~ N(0, I), f ~ GP(0, k) with k(x, x') = s^2 exp(-|x - x'|^2 / (2 l^2)), y_i = +1 with
    probability Phi(f_i), else -1 (Rasmussen & Williams 2006, sections 3.3 and 4.2), where
    l = exp(log_length_scale) and s = exp(log_signal_sd). Training and test cases share one f.
    Attribute `jitter` is what was added to the diagonal of the covariance to factorise it, 0
    where nothing was needed.

    Raises InputError for a wrong option, ResourceError for more than 20000 cases, NumericalError
    where no jitter up to 1e-6 s^2 helps.
    """
    n = whole_number("synthetic-gpc: n", n, 2)
    n_features = whole_number("synthetic-gpc: n_features", n_features, 1)
    n_test = whole_number("synthetic-gpc: n_test", n_test, 0)
    seed = whole_number("synthetic-gpc: seed", seed, 0)
    length_scale = scale_of("synthetic-gpc: log_length_scale", log_length_scale)
    signal_sd = scale_of("synthetic-gpc: log_signal_sd", log_signal_sd)
    if n + n_test > MAX_CASES:
        raise ResourceError(
            f"synthetic-gpc: n + n_test is {n + n_test}, which needs "
            f"{16 * (n + n_test) ** 2 / 1e9:.0f} GB; allowed: at most {MAX_CASES}; use fewer cases"
        )
    # One stream each, so that another length scale or signal keeps the inputs.
    of_inputs, of_latent, of_labels = (
        np.random.default_rng(sequence) for sequence in np.random.SeedSequence(seed).spawn(3)
    )
    X = of_inputs.standard_normal((n + n_test, n_features))
    latent, jitter = draw_latent(X / length_scale, signal_sd, of_latent, "synthetic-gpc")
    y = np.where(of_labels.random(n + n_test) < ndtr(latent), 1.0, -1.0)
    has_test = n_test > 0
    return Parts(
        X=X[:n],
        y=y[:n],
        latent=latent[:n],
        X_test=X[n:] if has_test else None,
        y_test=y[n:] if has_test else None,
        latent_test=latent[n:] if has_test else None,
        features=[f"x{j}" for j in range(1, n_features + 1)],
        label_coding="+1 with probability Phi(latent), else -1",
        preprocessing="none",
        attrs={
            "seed": seed,
            "log_length_scale": float(log_length_scale),
            "log_signal_sd": float(log_signal_sd),
            "jitter": jitter,
        },
    )


def draw_latent(
    scaled: np.ndarray, signal_sd: float, rng: np.random.Generator, where: str
) -> tuple[np.ndarray, float]:
    """Return f ~ N(0, K) at inputs over their length scales, (n, p), and the jitter it took.

    Raises NumericalError, `where` starting its message, where no jitter up to 1e-6 s^2 helps.
    """
    covariance = signal_sd**2 * np.exp(-0.5 * cdist(scaled, scaled, "sqeuclidean"))
    white = rng.standard_normal(len(scaled))
    with threadpool_limits(1):  # the bits of a factor depend on the number of threads
        for relative in JITTERS:
            jitter = relative * signal_sd**2
            try:
                factor = np.linalg.cholesky(covariance + jitter * np.eye(len(scaled)))
            except np.linalg.LinAlgError:
                continue
            return factor @ white, jitter
    raise NumericalError(
        f"{where}: covariance of {len(scaled)} cases is not positive definite even with jitter "
        f"{JITTERS[-1]:g} of the signal variance; use a shorter length scale or more features"
    )


def whole_number(where: str, value: int, least: int) -> int:
    """Return `value` as an int; raise InputError, naming the option `where`, if below `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        raise InputError(f"{where} is {value!r}; allowed: a whole number, {least} or more")
    return number


def scale_of(where: str, value: float) -> float:
    """Return exp(value) of a finite number within what a double can square, named `where`."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not abs(number) <= 300:
        raise InputError(f"{where} is {value!r}; allowed: a number between -300 and 300")
    return math.exp(number)
