"""Nystrom-Cholesky: a low-rank covariance from m columns of the exact one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import blas, lapack

from gpmcflow.approximations.low_rank import array_text, low_rank_log_density
from gpmcflow.approximations.subset_of_data import checked_cases
from gpmcflow.covariances.leaves import White
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.latent_prior import CovarianceAt
from gpmcflow.models.marginal_likelihood import LARGEST, noise_variances
from gpmcflow.models.regression_density import ModelDensity

JITTER = 1e-8  # of the mean variance of the columns: a constant of the stand-in, never of the exact density
CONSTANTS = ("exact", "inside")
FORMS = ("factored", "normal")


class Nystrom(ModelDensity):
    """Stand-in for a regression's log posterior with a covariance of low rank, from m of its columns.

    log N(y; c, K_nm (K_mm + e I)^-1 K_mn + D) + log p_h(theta), e = 1e-8 tr(K_mm) / m. D is the noise with
    what each case has for itself in K: white terms and jitter. Called with theta (d,), it returns a number.

    Choose the columns by `gpmcflow.approximations.nystrom.farthest_point_cases`: with random ones the
    stand-in can miss whole regions of the inputs, and the sampler stands still.

    Source: Wang & Neal (2013), section 4.2, eqs. 38-42.

    Parameters
    ----------
    model:
        A `GPModel` with Gaussian noise.
    columns:
        m different cases, whole numbers from 0 to n - 1, two or more.
    constant:
        Where K is constants and one other term, "exact" takes the columns of that term and appends a column
        for the constants, so that they are not approximated; "inside" takes those of K, as the paper does.
    form:
        "factored" makes B = K_nm L^-T, K_mm + e I = LL'; "normal" factorises K_mm + e I + K_mn D^-1 K_nm
        instead: n m^2 operations fewer, less well conditioned (1e-5 rather than 1e-9 in a log likelihood).
        Both are fixed functions of theta, which is all that the samplers ask.

    Raises
    ------
    InputError:
        For another likelihood, for columns that repeat, do not exist, or are fewer than two, and unknown
        settings.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(), gp.Gaussian(0.1))
    >>> theta = model.theta_of({"length_scale": 0.5, "signal_sd": 1.0})
    >>> exact = gp.RegressionDensity(model)(theta)
    >>> [f"{abs(gp.Nystrom(model, range(0, 8, step))(theta) - exact):.2f}" for step in (4, 2, 1)]
    ['73.10', '1.37', '0.00']
    """

    def __init__(
        self,
        model: GPModel,
        columns: Sequence[int] | np.ndarray,
        *,
        constant: str = "exact",
        form: str = "factored",
    ) -> None:
        super().__init__(model)
        if constant not in CONSTANTS:
            raise unknown_name("Nystrom: constant", constant, CONSTANTS)
        if form not in FORMS:
            raise unknown_name("Nystrom: form", form, FORMS)
        self.columns = checked_cases(columns, model.n_cases, "Nystrom")
        self.constant, self.form = constant, form
        self._white = [
            int(places[-1])
            for leaf, places in zip(model.leaves, model._places, strict=True)
            if isinstance(leaf, White)
        ]

    def __repr__(self) -> str:
        columns = array_text(columns=self.columns)
        chosen = f"m={len(self.columns)}, columns={columns}"
        return f"Nystrom({chosen}, constant={self.constant!r}, form={self.form!r})"

    def workspace(self) -> tuple:
        """What `GPModel.scaled_covariance` says."""
        return self.model.scaled_covariance()

    def log_likelihood(self, theta: np.ndarray) -> float:
        """Approximate log likelihood at theta (d,); -inf where it fails."""
        model, m, (_, scale, constants, buffers) = self.model, len(self.columns), self.work
        full = model.full(theta)
        if not model.in_range(full, LARGEST):
            return -np.inf
        inner = full
        if scale is not None:  # constants are apart
            inner = full.copy()
            inner[scale] = 0.0
        variance = float(np.exp(2.0 * full[constants]).sum())
        append = self.constant == "exact" and variance > 0.0
        rows = np.empty((m + append, model.n_cases))  # B', so that B is in Fortran order
        K = rows[:m]
        K[:] = buffers.cross(inner, model.X[self.columns])
        if scale is not None:
            K *= np.exp(2.0 * full[scale])
        if append:
            rows[m] = np.sqrt(variance)
        else:
            K += variance
        core = np.asfortranarray(K[:, self.columns])
        core[np.diag_indices(m)] += JITTER * core.trace() / m
        noise = np.full(model.n_cases, noise_variances(model, full)) + self._own_variances(full)
        residual = model.eta_y - model.mean_at(full)
        if self.form == "normal":
            factor, info = lapack.dpotrf(core, lower=1, clean=0)
            if info:
                return -np.inf
            whole = np.eye(m + append, order="F")
            whole[:m, :m] = core
            log_det = -2.0 * np.log(np.diagonal(factor)).sum()
            value = low_rank_log_density(residual, noise, rows.T, whole, log_det)
            return value + model.log_jacobian
        factor, info = lapack.dpotrf(core, lower=1, clean=0, overwrite_a=1)
        if info:
            return -np.inf
        B = rows[:m].T
        blas.dtrsm(1.0, factor, B, side=1, lower=1, trans_a=1, overwrite_b=1)
        return low_rank_log_density(residual, noise, rows.T) + model.log_jacobian

    def _own_variances(self, full: np.ndarray) -> np.ndarray | float:
        """White terms of K, and jitter: what `CovarianceBuffers.cross` leaves out."""
        model = self.model
        if not self._white and model.epsilon == 0.0:
            return 0.0
        smooth = full.copy()
        smooth[self._white] = -LARGEST
        shared = CovarianceAt(model, smooth).diagonal(model.X)
        return model.prior_variance(full, model.X) - shared


def farthest_point_cases(X: np.ndarray, m: int, scales: np.ndarray | float = 1.0) -> np.ndarray:
    """m cases, each the one farthest from those chosen before: they fill the space of the inputs.

    Distances are between the rows of X (n, p) divided by ``scales`` (p,), e.g. length scales. The
    first case is the one nearest to the mean; ties go to the lowest case. Deterministic, O(n m p).
    """
    X = np.asarray(X, dtype=np.float64)
    X = (X[:, None] if X.ndim == 1 else X) / scales
    _require_count(len(X), m)
    chosen = [int(((X - X.mean(0)) ** 2).sum(1).argmin())]
    nearest = ((X - X[chosen[0]]) ** 2).sum(1)
    nearest[chosen] = -1.0
    for _ in range(m - 1):
        chosen.append(int(nearest.argmax()))
        np.minimum(nearest, ((X - X[chosen[-1]]) ** 2).sum(1), out=nearest)
        nearest[chosen] = -1.0
    return np.array(chosen)


def _require_count(n_cases: int, m: int) -> None:
    if not 2 <= m <= n_cases:
        raise InputError(
            f"Nystrom: m is {m}; allowed: 2 to the number of cases, {n_cases}; take another m"
        )
