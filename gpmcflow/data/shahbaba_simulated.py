"""The simulated logistic regression of Shahbaba, Lan, Johnson & Neal (2014), section 4.1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.special import expit, ndtri

from gpmcflow.data.layout import Parts
from gpmcflow.data.synthetic import whole_number
from gpmcflow.errors import InputError, ResourceError

FEATURE_SD = np.repeat([5.0, 1.0, 0.2], [5, 5, 90])
AUTHORS_SEED = 2011
AUTHORS_N = 10_000
MAX_CASES = 1_000_000  # 0.8 GB an array


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
        if n > MAX_CASES:
            raise ResourceError(
                f"shahbaba-simulated: n is {n}, which needs {8e-7 * n:.1f} GB an array; allowed: "
                f"at most {MAX_CASES}; use fewer cases"
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
