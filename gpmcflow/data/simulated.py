"""Simulated data sets: GP classification and regression with known latents, and a logistic regression."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.special import expit, ndtr, ndtri
from threadpoolctl import threadpool_limits

from gpmcflow.data.layout import Parts
from gpmcflow.errors import InputError, NumericalError, ResourceError

# Synthetic Gaussian process classification data whose latent values are known.

MOST_CASES = 20_000  # covariance and factor: 6.4 GB
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
    if n + n_test > MOST_CASES:
        raise ResourceError(
            f"synthetic-gpc: n + n_test is {n + n_test}, which needs "
            f"{16 * (n + n_test) ** 2 / 1e9:.0f} GB; allowed: at most {MOST_CASES}; use fewer cases"
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
    from scipy.spatial.distance import cdist  # takes long to load

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


# Synthetic Gaussian process regression of Murray & Adams (2010): known latents, noise and length scales.


def synthetic_regression(
    _files: Sequence[Path] = (),
    *,
    n: int = 200,
    n_features: int = 10,
    noise_sd: float = 0.3,
    least_length: float = 0.1,
    largest_length: float = 10.0**0.5,
    seed: int = 0,
) -> Parts:
    """Draw inputs uniform in the unit cube, a Gaussian process of unit variance and noisy responses.

    l_d ~ U(0, largest_length), f ~ GP(0, exp(-sum_d (x_d - x'_d)^2 / (2 l_d^2))), y = f + noise_sd e.
    Length scales are drawn until all of them are above ``least_length``, the bound that hyperpriors
    usually have: about 27 % of the paper's data sets with ten features have one below 0.1.

    Raises InputError for a wrong option. Source: Murray & Adams (2010), section 5.
    """
    n = whole_number("synthetic-regression: n", n, 2)
    p = whole_number("synthetic-regression: n_features", n_features, 1)
    seed = whole_number("synthetic-regression: seed", seed, 0)
    if not (np.isfinite(noise_sd) and noise_sd > 0):
        raise InputError(
            f"synthetic-regression: noise_sd is {noise_sd!r}; allowed: a positive number"
        )
    if not 0.0 <= least_length <= 0.5 * largest_length < np.inf:
        raise InputError(
            f"synthetic-regression: least_length is {least_length!r} with largest_length "
            f"{largest_length!r}; allowed: from 0 to half of it"
        )
    of_lengths, of_inputs, of_latent, of_noise = (
        np.random.default_rng(sequence) for sequence in np.random.SeedSequence(seed).spawn(4)
    )
    draws = 1
    lengths = largest_length * of_lengths.random(p)
    while lengths.min() <= least_length:
        lengths = largest_length * of_lengths.random(p)
        draws += 1
    X = of_inputs.random((n, p))
    latent, jitter = draw_latent(X / lengths, 1.0, of_latent, "synthetic-regression")
    return Parts(
        X=X,
        y=latent + noise_sd * of_noise.standard_normal(n),
        latent=latent,
        features=[f"x{j}" for j in range(1, p + 1)],
        label_coding="responses",
        preprocessing="none",
        attrs={
            "seed": seed,
            "noise_sd": float(noise_sd),
            "length_scales": " ".join(f"{v:.17g}" for v in lengths),
            "draws_of_length_scales": draws,
            "jitter": jitter,
        },
    )


# The simulated logistic regression of Shahbaba, Lan, Johnson & Neal (2014), section 4.1.

FEATURE_SD = np.repeat([5.0, 1.0, 0.2], [5, 5, 90])
AUTHORS_SEED = 2011
AUTHORS_N = 10_000
MOST_ROWS = 1_000_000  # 0.8 GB an array


def shahbaba_simulated(
    _files: Sequence[Path] = (), *, n: int = AUTHORS_N, seed: int | None = None
) -> Parts:
    """Draw the inputs and labels of a logistic regression with 100 features.

    x_ij ~ N(0, s_j^2) with s_j = 5 for j = 1..5, 1 for j = 6..10, 0.2 for j = 11..100; alpha and
    beta_j ~ N(0, 1); y_i = +1 with probability 1 / (1 + exp(-alpha - x_i' beta)), else -1
    (section 4.1). Features are not standardised. Attribute `true_intercept` is alpha, coordinate
    `true_slope` (feature) is beta.

    With `seed` None these are the first `n` cases of the authors' own data, rebuilt from the
    random numbers that their R script draws; with a whole number a fresh draw by NumPy's PCG64,
    whose first cases do not depend on `n`.

    Raises InputError for a wrong option, or more cases than the authors have and no seed,
    ResourceError for more than a million cases.
    """
    n = whole_number("shahbaba-simulated: n", n, 2)
    if seed is None:
        if n > AUTHORS_N:
            raise InputError(
                f"shahbaba-simulated: n is {n} with no seed; allowed: at most {AUTHORS_N}, the "
                "size of the authors' data; give a seed for a fresh draw"
            )
        theta, X, positive = _authors_draw()
        origin = {"seed": AUTHORS_SEED, "generator": "MT19937, seeded and used as R does"}
    else:
        seed = whole_number("shahbaba-simulated: seed", seed, 0)
        if n > MOST_ROWS:
            raise ResourceError(
                f"shahbaba-simulated: n is {n}, which needs {8e-7 * n:.1f} GB an array; allowed: "
                f"at most {MOST_ROWS}; use fewer cases"
            )
        theta, X, positive = _fresh_draw(n, seed)
        origin = {"seed": seed, "generator": "PCG64"}
    return Parts(
        X=X[:n],
        y=np.where(positive[:n], 1.0, -1.0),
        features=[f"x{j}" for j in range(1, len(FEATURE_SD) + 1)],
        label_coding="+1 with probability 1 / (1 + exp(-true_intercept - x' true_slope)), else -1",
        preprocessing="none",
        coords={"true_slope": ("feature", theta[1:])},
        attrs={**origin, "true_intercept": float(theta[0])},
    )


def _fresh_draw(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the parameters (alpha, beta), the inputs, and which labels are positive."""
    of_parameters, of_inputs, of_labels = (
        np.random.default_rng(sequence) for sequence in np.random.SeedSequence(seed).spawn(3)
    )
    theta = of_parameters.standard_normal(1 + len(FEATURE_SD))
    X = of_inputs.standard_normal((n, len(FEATURE_SD))) * FEATURE_SD
    return theta, X, of_labels.random(n) < expit(theta[0] + X @ theta[1:])


def _authors_draw() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the same from R's stream: parameters, inputs column by column, labels case by case."""
    stream = _r_stream(AUTHORS_SEED)
    theta = _normals(stream, 1 + len(FEATURE_SD))
    X = _normals(stream, AUTHORS_N * len(FEATURE_SD)).reshape((AUTHORS_N, -1), order="F")
    X = X * FEATURE_SD
    return theta, X, _labels(stream, theta[0] + X @ theta[1:])


def _labels(stream: np.random.RandomState, latent: np.ndarray) -> np.ndarray:
    """Return which labels are positive, with probability 1 / (1 + exp(-latent)).

    R's binomial generator inverts the distribution function of the rarer outcome, and draws no
    number where the outcome is certain.
    """
    odds = np.exp(latent)
    probability = odds / (1 + odds)
    positive = probability == 1
    drawn = ~positive
    p, u = probability[drawn], _uniforms(stream, int(drawn.sum()))
    positive[drawn] = np.where(p <= 0.5, u >= 1 - p, u < p)
    return positive


def _r_stream(seed: int) -> np.random.RandomState:
    """Return MT19937 in the state that R's `set.seed(seed)` leaves it in.

    R fills the state from a linear congruential generator: 50 steps to warm up, one output that
    it overwrites, then the 624 words.
    """
    words, x = [], seed
    for _ in range(50 + 1 + 624):
        x = (69069 * x + 1) % 2**32
        words.append(x)
    stream = np.random.RandomState()
    stream.set_state(("MT19937", np.array(words[51:], dtype=np.uint32), 624))
    return stream


def _uniforms(stream: np.random.RandomState, size: int) -> np.ndarray:
    """Return uniform numbers as R makes them, one 32-bit word each."""
    return stream.randint(0, 2**32, size=size, dtype=np.uint32) * 2.3283064365386963e-10


def _normals(stream: np.random.RandomState, size: int) -> np.ndarray:
    """Return standard normals by R's inversion: one from two uniforms, u1 giving 27 bits."""
    first, second = _uniforms(stream, 2 * size).reshape(size, 2).T
    return ndtri((np.floor(2**27 * first) + second) / 2**27)
