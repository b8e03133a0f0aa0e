"""Synthetic Gaussian process regression of Murray & Adams (2010): known latents, noise and length scales."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gpmcflow.data.layout import Parts
from gpmcflow.data.synthetic import draw_latent, whole_number
from gpmcflow.errors import InputError


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
