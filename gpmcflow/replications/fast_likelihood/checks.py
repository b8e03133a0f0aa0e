"""Claims in words that one computation settles: Nystrom's two forms, and noise that differs by case."""

from __future__ import annotations

import numpy as np
from scipy.stats import multivariate_normal

from gpmcflow.approximations.stand_ins import JITTER, Nystrom
from gpmcflow.likelihoods import Gaussian
from gpmcflow.models.gp_model import GPModel
from gpmcflow.replications.fast_likelihood.methods import Bench

CASES = 60  # the checks need no more
COLUMNS = 12


def algebra_checks(bench: Bench) -> dict[str, float]:
    """Numbers behind claims 2 and 6, from the first cases of a data set.

    ``forms``: largest difference between Nystrom's matrix by eigenvectors of K_mm (eqs. 40-41) and by
    its Cholesky factor (42), over the largest entry. ``not_orthonormal``: largest entry of B'B - I of
    the eigenvectors' extension: far from 0, so that eq. 37 cannot take them. ``general_noise``:
    difference of the low-rank log likelihood with noise variances that differ from case to case (32,
    38) from dense algebra.
    """
    problem = bench.problem
    few = problem.model.take(np.arange(min(CASES, problem.model.n_cases)))
    theta = problem.guess
    columns = np.arange(min(COLUMNS, few.n_cases - 1))
    full = few.full(theta)
    K = few.cross_covariance(full, few.X)
    core, cross = K[np.ix_(columns, columns)], K[:, columns]
    core = core + 1e-6 * np.trace(core) / len(core) * np.eye(len(core))  # both forms take the same
    values, vectors = np.linalg.eigh(core)
    n, m = cross.shape
    extended = np.sqrt(m / n) * (cross @ vectors) / values
    by_eigen = (extended * (values * n / m)) @ extended.T
    B = np.linalg.solve(np.linalg.cholesky(core), cross.T).T
    forms = np.abs(by_eigen - B @ B.T).max() / np.abs(K).max()
    gram = extended.T @ extended
    noise = np.exp(theta[1]) * np.sqrt(np.linspace(0.5, 2.0, few.n_cases))
    general = GPModel(few.X, few.y, few.covariance, Gaussian(noise), jitter=0.0)
    at = full[np.sort(few.free)[:-1]]  # all but the noise level, in the order of a `GPModel`
    stand_in = Nystrom(general, columns, constant="inside")
    core = K[np.ix_(columns, columns)]
    core = core + JITTER * np.trace(core) / len(core) * np.eye(len(core))
    C = K[:, columns] @ np.linalg.solve(core, K[columns]) + np.diag(noise**2)
    difference = abs(
        stand_in.log_likelihood(at) - multivariate_normal(np.zeros(len(C)), C).logpdf(few.y)
    )
    return {
        "forms": float(forms),
        "not_orthonormal": float(np.abs(gram - np.eye(m)).max()),
        "general_noise": float(difference),
    }
