"""Log likelihoods of one chain for compiled loops; values agree with `gpmcflow.likelihoods`."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from scipy.special import gammaln

from gpmcflow.errors import InputError
from gpmcflow.likelihoods import Gaussian, Likelihood, Logistic, Poisson, Probit
from gpmcflow.likelihoods.probit import _erfcx

_GAUSSIAN, _LOGISTIC, _PROBIT, _POISSON = range(4)


class LikelihoodCode(NamedTuple):
    """A likelihood and its data as numbers."""

    kind: int
    scale: float  #: 1 / noise variance of Gaussian data
    shift: float  #: log exposure of counts
    constant: float  #: terms that do not depend on f
    y: np.ndarray  #: (n,)


def likelihood_code(likelihood: Likelihood, y: np.ndarray) -> LikelihoodCode:
    """Numbers of one of the package's four likelihoods; `InputError` for any other."""
    n = len(y)
    if isinstance(likelihood, Gaussian):
        constant = -n * (np.log(likelihood.noise_sd) + 0.5 * np.log(2.0 * np.pi))
        return LikelihoodCode(_GAUSSIAN, likelihood.noise_sd**-2.0, 0.0, float(constant), y)
    if isinstance(likelihood, Poisson):
        constant = -float(gammaln(y + 1.0).sum())
        return LikelihoodCode(_POISSON, 1.0, float(np.log(likelihood.exposure)), constant, y)
    for kind, family in ((_LOGISTIC, Logistic), (_PROBIT, Probit)):
        if isinstance(likelihood, family):
            return LikelihoodCode(kind, 1.0, 0.0, 0.0, y)
    raise InputError(
        f"compiled samplers: likelihood {likelihood!r}; allowed: gaussian, logistic, probit, poisson"
    )


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def log_likelihood(code, f, offset):
    """Sum of log p(y_i | f_i + offset); -inf where a rate overflows."""
    kind, scale, shift, constant, y = code
    total, c = 0.0, offset + shift
    if kind == _GAUSSIAN:
        for i in range(f.size):
            r = y[i] - f[i] - offset
            total -= 0.5 * scale * r * r
    elif kind == _LOGISTIC:
        for i in range(f.size):
            z = y[i] * (f[i] + offset)
            total += min(z, 0.0) - np.log1p(np.exp(-abs(z)))
    elif kind == _PROBIT:
        for i in range(f.size):
            z = y[i] * (f[i] + offset)
            half = 0.5 * _erfcx(abs(z) * 0.7071067811865476)
            if z < 0.0:
                total += np.log(half) - 0.5 * z * z
            else:
                total += np.log1p(-half * np.exp(-0.5 * z * z))
    else:
        for i in range(f.size):
            eta = f[i] + c
            total += y[i] * eta - np.exp(eta)
    return total + constant


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def elliptical_updates(rng, code, offset, f, value, draws, proposal):
    """Elliptical slice updates of f in place, one for each row of ``draws`` (k, n) ~ N(0, Sigma).

    Returns log p(y | f + offset) and the number of evaluations; see `samplers.elliptical_slice`. The
    generator is the chain's own.
    """
    n_evaluations = 0
    for k in range(draws.shape[0]):
        nu = draws[k]
        level = value - rng.standard_exponential()
        angle = 2.0 * np.pi * rng.random()
        low, high = angle - 2.0 * np.pi, angle
        for _ in range(500):  # by then the bracket is 0 at double precision: f stays
            cosine, sine = np.cos(angle), np.sin(angle)
            for i in range(f.size):
                proposal[i] = f[i] * cosine + nu[i] * sine
            found = log_likelihood(code, proposal, offset)
            n_evaluations += 1
            if found > level:
                f[:] = proposal
                value = found
                break
            if angle < 0.0:
                low = angle
            else:
                high = angle
            angle = low + (high - low) * rng.random()
    return value, n_evaluations
