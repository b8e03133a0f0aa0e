"""Cheap stand-ins for a log density: low-rank covariances, and the log posterior of some of the cases."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import blas, eigh, lapack

from gpmcflow.covariances.leaves import White
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.execution.digest import array_digest
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.latent_prior import CovarianceAt
from gpmcflow.models.marginal_likelihood import (
    LARGEST,
    MarginalLikelihood,
    noise_variances,
    require_gaussian,
    scaled_sum,
)
from gpmcflow.models.regression_density import ModelDensity, RegressionDensity

# Likelihoods of y ~ N(0, B B' + D) with B (n, m) and D diagonal: what the low-rank stand-ins share.

LOG_2PI = np.log(2.0 * np.pi)


def low_rank_log_density(
    y: np.ndarray,
    noise: np.ndarray,
    B: np.ndarray,
    inverse_core: np.ndarray | None = None,
    core_log_det: float = 0.0,
) -> float:
    """log N(y; 0, B S B' + D), D = diag(noise) (n,), in O(n m^2).

    B is (n, m) in Fortran order and is overwritten by D^-1/2 B; ``inverse_core`` S^-1 (m, m), lower
    triangle, the identity if None, is overwritten; ``core_log_det`` is log det S. With
    G = S^-1 + B'D^-1 B: the quadratic form is y'D^-1 y - |L_G^-1 B'D^-1 y|^2, and
    log det = log det G + log det S + sum log d_i. Returns -inf where G is not positive definite.

    Source: Wang & Neal (2013), eqs. 32-38.
    """
    root = np.sqrt(noise)
    z = y / root
    B /= root[:, None]
    if inverse_core is None:
        G = blas.dsyrk(1.0, B, trans=1, lower=1)
        G[np.diag_indices_from(G)] += 1.0
    else:
        G = blas.dsyrk(1.0, B, beta=1.0, c=inverse_core, trans=1, lower=1, overwrite_c=1)
    L, info = lapack.dpotrf(G, lower=1, clean=0, overwrite_a=1)
    if info:
        return -np.inf
    v = lapack.dtrtrs(L, B.T @ z, lower=1)[0]
    log_det = 2.0 * (np.log(np.diagonal(L)).sum() + np.log(root).sum()) + core_log_det
    return float(-0.5 * (z @ z - v @ v + log_det + len(y) * LOG_2PI))


def array_text(**arrays: np.ndarray) -> str:
    """Short text that tells arrays apart, for a repr."""
    return array_digest(arrays)[:12]


# Eigen-exact: the covariance of its leading eigenpairs. A reference: dearer than what it replaces.


class EigenExact(ModelDensity):
    """Stand-in for a regression's log posterior with the m leading eigenpairs of its covariance.

    log N(y; c, sum_i s_i b_i b_i' + D) + log p_h(theta). With noise d and r = y - c:
    r'C^-1 r = r'r / d - sum_i s_i (b_i'r)^2 / (d (s_i + d)), and
    log det C = sum_i log(s_i + d) + (n - m) log d. Noise that differs between cases is scaled out
    first: the eigenpairs are those of D^-1/2 K D^-1/2. Called with theta (d,), it returns a number.

    The best approximation of its rank, and of no use as a stand-in: the eigenvalues cost some ten
    Cholesky factorisations.

    Source: Wang & Neal (2013), section 4.2, eqs. 36-37.

    Parameters
    ----------
    model:
        A `GPModel` with Gaussian noise.
    m:
        Number of eigenpairs, from 1 to n.

    Raises
    ------
    InputError:
        For another likelihood, and m out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(), gp.Gaussian(0.1))
    >>> theta = model.theta_of({"length_scale": 0.5, "signal_sd": 1.0})
    >>> exact = gp.RegressionDensity(model)(theta)
    >>> [f"{abs(gp.EigenExact(model, m)(theta) - exact):.2f}" for m in (2, 4, 8)]
    ['56.17', '0.08', '0.00']
    """

    def __init__(self, model: GPModel, m: int) -> None:
        super().__init__(model)
        if not 1 <= m <= model.n_cases:
            raise InputError(
                f"EigenExact: m is {m}; allowed: 1 to the number of cases, {model.n_cases}"
            )
        self.m = int(m)

    def __repr__(self) -> str:
        return f"EigenExact(m={self.m})"

    def workspace(self) -> MarginalLikelihood:
        """A new work space, with all of K."""
        return MarginalLikelihood(self.model, apart=False)

    def log_likelihood(self, theta: np.ndarray) -> float:
        """Approximate log likelihood at theta (d,); -inf where it fails."""
        model, full = self.model, self.model.full(theta)
        terms, n = self.work.terms(full), model.n_cases
        if terms is None:
            return -np.inf
        noise = np.full(n, noise_variances(model, full))
        K, root = np.zeros((n, n)), np.sqrt(noise)
        scaled_sum(self.work.E, terms.factor, terms.constant, np.zeros(n), K)
        K /= np.outer(root, root)
        if not np.all(np.isfinite(K)):
            return -np.inf
        values, vectors = eigh(K.T, subset_by_index=(n - self.m, n - 1))
        values = np.maximum(values, 0.0)
        z = (model.eta_y - model.mean_at(full)) / root
        quadratic = z @ z - (values / (values + 1.0)) @ (vectors.T @ z) ** 2
        log_det = np.log1p(values).sum() + np.log(noise).sum()
        return float(-0.5 * (quadratic + log_det + n * LOG_2PI)) + model.log_jacobian


# Subset of data: the log posterior of some of the cases as a stand-in for that of all.


class SubsetOfData(RegressionDensity):
    """Stand-in for a regression's log posterior: that of some of its cases, O(m^3) instead of O(n^3).

    log N(y_I; c, C_II) + log p_h(theta) for the cases I. As a density of theta it is broader than the
    posterior, having seen less. Called with theta (d,), it returns a number.

    Source: Wang & Neal (2013), section 4.1, eq. 31 (y there is y_I).

    Parameters
    ----------
    model:
        A `GPModel` with Gaussian noise.
    cases:
        I, m different whole numbers from 0 to n - 1, two or more.

    Raises
    ------
    InputError:
        For another likelihood, and for cases that repeat (C_II without noise would be singular), do not
        exist, or are fewer than two.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(), gp.Gaussian(0.1))
    >>> stand_in = gp.SubsetOfData(model, cases=[0, 2, 4, 6])
    >>> exact = gp.RegressionDensity(model.take(np.array([0, 2, 4, 6])))
    >>> stand_in(np.zeros(2)) == exact(np.zeros(2))
    True
    """

    def __init__(self, model: GPModel, cases: Sequence[int] | np.ndarray) -> None:
        require_gaussian(model, "SubsetOfData")
        self.cases = checked_cases(cases, model.n_cases, "SubsetOfData")
        super().__init__(model.take(self.cases))


def nested_subsets(
    n_cases: int, sizes: Sequence[int], rng: np.random.Generator
) -> list[np.ndarray]:
    """Return the first m cases of one random permutation for each size m: each set holds the smaller ones.

    Layers of tempered transitions whose subsets are nested differ by what the larger one adds, not by
    two independent choices. Raises `InputError` for a size below 2 or above n.
    """
    for m in sizes:
        _require_size(m, n_cases, "nested_subsets")
    order = rng.permutation(n_cases)
    return [order[:m].copy() for m in sizes]


def checked_cases(cases: Sequence[int] | np.ndarray, n_cases: int, where: str) -> np.ndarray:
    """Cases as an integer array (m,), or `InputError`."""
    chosen = np.asarray(cases)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
        raise InputError(
            f"{where}: cases is {chosen.dtype} of shape {chosen.shape}; allowed: a list of integers"
        )
    _require_size(len(chosen), n_cases, where)
    if chosen.min() < 0 or chosen.max() >= n_cases:
        raise InputError(
            f"{where}: cases range over {chosen.min()} to {chosen.max()}; allowed: 0 to {n_cases - 1}"
        )
    values, counts = np.unique(chosen, return_counts=True)
    if counts.max() > 1:
        raise InputError(
            f"{where}: case {values[counts.argmax()]} is in the subset {counts.max()} times; "
            "allowed: once; draw without replacement"
        )
    return chosen.astype(np.int64)


def _require_size(m: int, n_cases: int, where: str) -> None:
    if not 2 <= m <= n_cases:
        raise InputError(
            f"{where}: m is {m}; allowed: 2 to the number of cases, {n_cases}; take a smaller m"
            if m > n_cases
            else f"{where}: m is {m}; allowed: 2 to {n_cases}"
        )


# Nystrom-Cholesky: a low-rank covariance from m columns of the exact one.

JITTER = 1e-8  # of the mean variance of the columns: a constant of the stand-in, never of the exact density
CONSTANTS = ("exact", "inside")
FORMS = ("factored", "normal")


class Nystrom(ModelDensity):
    """Stand-in for a regression's log posterior with a covariance of low rank, from m of its columns.

    log N(y; c, K_nm (K_mm + e I)^-1 K_mn + D) + log p_h(theta), e = 1e-8 tr(K_mm) / m. D is the noise with
    what each case has for itself in K: white terms and jitter. Called with theta (d,), it returns a number.

    Choose the columns by `gpmcflow.approximations.stand_ins.farthest_point_cases`: with random ones the
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
