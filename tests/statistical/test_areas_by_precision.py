"""BYM2 on a lattice with islands against a sampler on the precision matrix that shares no code with it.

Riebler et al. (2016): f = c + s (sqrt(1 - phi) v + sqrt(phi) w), w an intrinsic autoregression that sums to 0
in each part of the map. Here (f, w) have a sparse precision, factorised as a band by SciPy.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from arviz_stats.base import array_stats
from scipy.linalg import cho_solve_banded, cholesky_banded, solve_banded
from scipy.special import expit
from scipy.stats import multivariate_normal

import gpmcflow as gp

SIDE, N_ISLANDS, N_CHAIN = 6, 2, 4
N_YEARS = 3  # rows of each area
NEWTON_STEPS = 6
N_DRAWS, N_PILOT = 10_000, 2_000


def edges():
    """Of the lattice, and of a chain of areas that is not joined to it."""
    at = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
    along = np.stack([at[:, 1:].ravel(), at[:, :-1].ravel()], -1).tolist()
    across = np.stack([at[1:].ravel(), at[:-1].ravel()], -1).tolist()
    first = SIDE * SIDE
    return [*along, *across, *((first + k, first + k + 1) for k in range(N_CHAIN - 1))]


N = SIDE * SIDE + N_CHAIN + N_ISLANDS
PARTS = [slice(0, SIDE * SIDE), slice(SIDE * SIDE, SIDE * SIDE + N_CHAIN)]
NAMES = [f"area {k:02d}" for k in range(N)]


def precision_of_neighbours():
    """Q (n, n), scaled in each part to a generalised inverse of geometric mean 1; 1 on islands."""
    Q = np.zeros((N, N))
    for i, j in edges():
        Q[[i, j], [j, i]] = -1.0
    Q -= np.diag(Q.sum(1))
    for part in PARTS:
        Q[part, part] *= np.exp(np.log(np.diag(np.linalg.pinv(Q[part, part]))).mean())
    Q[-N_ISLANDS:, -N_ISLANDS:] = np.eye(N_ISLANDS)
    return Q


class PrecisionSampler:
    """Metropolis over theta = (c, log s, logit phi), each step with new f and w, so that none is left behind.

    These come from the Gaussian at the mode given theta, under w's sums of 0, and the ratio of densities
    decides. x holds f_1, w_1, f_2, w_2, ..: a band.
    """

    def __init__(self, y, exposure):
        self.y, self.exposure, self.Q = y, exposure, precision_of_neighbours()
        self.width = 2 * max(abs(i - j) for i, j in edges())
        self.start = np.log((y + 0.5) / exposure)
        self.sums = np.zeros((2 * N, len(PARTS)))
        for k, part in enumerate(PARTS):
            self.sums[1::2, k][part] = 1.0

    def propose(self, rng, theta):
        """x, and the log density of theta and x less that of the proposal of x."""
        c, log_s, logit = theta
        s, phi = np.exp(log_s), expit(logit)
        a, r = 1.0 / (s * s * (1.0 - phi)), s * np.sqrt(phi)
        band = np.zeros((self.width + 1, 2 * N))
        band[0, 1::2] = np.diag(self.Q) + a * r * r
        band[1, 0::2] = -a * r
        for i, j in edges():
            band[2 * abs(i - j), 2 * min(i, j) + 1] = self.Q[i, j]
        f, b = self.start, np.empty(2 * N)
        for _ in range(NEWTON_STEPS):
            rate = self.exposure * np.exp(f)
            band[0, 0::2] = a + rate
            b[0::2], b[1::2] = a * c + self.y - rate + rate * f, -a * r * c
            L = cholesky_banded(band, lower=True)
            m = cho_solve_banded((L, True), b)
            f = m[0::2]
        V = cho_solve_banded((L, True), self.sums)
        S = self.sums.T @ V
        upper = np.zeros_like(L)
        for k in range(self.width + 1):
            upper[self.width - k, k:] = L[k, : 2 * N - k]
        x = m + solve_banded((0, self.width), upper, rng.standard_normal(2 * N))
        x -= V @ np.linalg.solve(S, self.sums.T @ x)
        gap = np.append(x - m, np.zeros(self.width))
        whitened = sum(row * gap[k : k + 2 * N] for k, row in enumerate(L))
        log_q = np.log(L[0]).sum() - 0.5 * whitened @ whitened
        log_q -= multivariate_normal(self.sums.T @ m, S).logpdf(np.zeros(len(PARTS)))
        f, w = x[0::2], x[1::2]
        gap = f - c - r * w
        log_p = 0.5 * N * np.log(a) - 0.5 * a * gap @ gap - 0.5 * w @ self.Q @ w
        log_p += self.y @ f - self.exposure @ np.exp(f)
        log_p -= 0.5 * (c * c + log_s * log_s + (logit / 1.5) ** 2)
        return f, log_p - log_q

    def run(self, rng, n, theta, scale):
        """Draws of theta (n, 3) and of f (n, N)."""
        thetas, fs = np.empty((n, 3)), np.empty((n, N))
        f, log_ratio = self.propose(rng, theta)
        for k in range(n):
            other = theta + scale @ rng.standard_normal(3)
            g, its = self.propose(rng, other)
            if np.log(rng.random()) < its - log_ratio:
                theta, f, log_ratio = other, g, its
            thetas[k], fs[k] = theta, f
        return thetas, fs


def data():
    """Counts of each area and year from the model, phi = 0.8."""
    rng, Q = np.random.default_rng(11), precision_of_neighbours()
    w = np.linalg.cholesky(np.linalg.pinv(Q) + 1e-9 * np.eye(N)) @ rng.standard_normal(N)
    f = 0.3 + 0.7 * (np.sqrt(0.2) * rng.standard_normal(N) + np.sqrt(0.8) * w)
    exposure = rng.uniform(0.5, 3.0, N * N_YEARS)
    place = np.tile(np.arange(N), N_YEARS)
    return place, exposure, rng.poisson(exposure * np.exp(f[place])) * 1.0


def summaries(theta, f):
    """Theta, its squares, predictors of a corner, an inner area, the chain and an island, and exceedances."""
    few = f[..., [0, SIDE + 2, N - N_ISLANDS - 1, N - 1]]
    return np.concatenate([theta, theta**2, few, few**2, few[..., [0, 3]] > 0.2], axis=-1)


def mean_and_error(values):
    """Of draws (chain, draw, k)."""
    ess = np.array([float(array_stats.ess(values[:, :, k])) for k in range(values.shape[2])])
    return values.mean((0, 1)), values.std((0, 1)) / np.sqrt(ess)


def test_draws_are_those_of_a_sampler_on_the_precision_matrix():
    place, exposure, y = data()
    pairs = [(NAMES[i], NAMES[j]) for i, j in edges()]
    model = gp.GPModel(
        pd.DataFrame({"area": np.array(NAMES)[place]}), y, gp.Areal(pairs, columns="area"),
        gp.Poisson(exposure), gp.Hyperprior("norm", {"loc": 0.0, "scale": 1.0}),
    )  # fmt: skip
    assert model.structure_in_words == f"basis (exact: {N} functions for {len(y)} cases)"
    draws = gp.sample(model, n_chains=4, n_draws=2000, seed=2)
    posterior = draws["posterior"].to_dataset()
    theta = np.stack(
        [
            posterior["mean"],
            np.log(posterior["signal_sd"]),
            np.log(posterior["mix"] / (1.0 - posterior["mix"])),
        ],
        axis=-1,
    )
    eta = draws["posterior_predictive"]["eta"].transpose("chain", "draw", "case").values
    kept = draws["posterior_predictive"]["draw"].values
    own = mean_and_error(summaries(theta[:, kept], eta[..., :N]))

    sampler = PrecisionSampler(*(np.bincount(place, v, N) for v in (y, exposure)))
    runs = []
    for chain in range(2):
        rng = np.random.default_rng([7, chain])
        first, _ = sampler.run(rng, N_PILOT, np.zeros(3), 0.3 * np.eye(3))
        spread = np.cov(first[N_PILOT // 4 :].T)
        runs.append(sampler.run(rng, N_DRAWS, first[-1], 1.3 * np.linalg.cholesky(spread)))
    theta, f = (np.stack(values) for values in zip(*runs, strict=True))
    other = mean_and_error(summaries(theta, f))
    gap = np.abs(own[0] - other[0]) / np.hypot(own[1], other[1])
    assert gap.max() < 3.0
    assert np.all(other[1] < 0.1 * summaries(theta, f).std((0, 1)))  # errors that can tell
