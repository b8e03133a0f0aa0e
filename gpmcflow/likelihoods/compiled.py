"""Log likelihoods of one chain for compiled loops; values agree with `gpmcflow.likelihoods`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import types
from numba.core.ccallback import CFunc
from numba.extending import overload

from gpmcflow.likelihoods.base import Likelihood
from gpmcflow.numerics.code_cache import compiled, compiled_callback
from gpmcflow.numerics.lapack import call

_SIGNATURE = types.void(*[types.CPointer(types.float64)] * 5)


@cache
def _compiled(loop: Callable) -> CFunc:
    """Compile a likelihood's own loop, once in a process."""
    return compiled_callback(loop, _SIGNATURE, fastmath={"contract"})


class LikelihoodCode(NamedTuple):
    """A likelihood and its data as numbers; see `CompiledValue`."""

    address: int  #: of the likelihood's own loop: compiled code that calls it can be kept on disk
    y: np.ndarray  #: (n,)
    constants: np.ndarray  #: (k, n)
    phi: np.ndarray
    constant: float


class PythonCode(NamedTuple):
    """A likelihood without a compiled form, and its data."""

    likelihood: Likelihood
    y: np.ndarray

    def value(self, f: np.ndarray, offset: float) -> float:
        """Log p(y | f + offset)."""
        value = float(self.likelihood.log_density((f + offset)[None], self.y)[0])
        return -np.inf if np.isnan(value) else value


class TemperedCode(NamedTuple):
    """beta (log p(y | eta) - sum_i (nu_i eta_i - tau_i eta_i^2 / 2)), eta = mean + the first n of f.

    What follows them in f is moved along, nothing else.
    """

    likelihood: LikelihoodCode | PythonCode
    mean: np.ndarray  #: (n,)
    precision: np.ndarray  #: tau (n,)
    shift: np.ndarray  #: nu (n,)
    beta: float

    def value(self, f: np.ndarray, offset: float) -> float:
        """The tempered value; ``offset`` has no use."""
        return _tempered(self, f, None)


def likelihood_code(likelihood: Likelihood, y: np.ndarray) -> LikelihoodCode | PythonCode:
    """Numbers for compiled loops, or the likelihood itself where it has no compiled form."""
    form = likelihood.compiled(y)
    if form is None:
        return PythonCode(likelihood, y)
    loop, constants, phi, constant = form
    constants = np.ascontiguousarray(constants, dtype=np.float64)
    return LikelihoodCode(_compiled(loop).address, y, constants, phi, float(constant))


def log_likelihood(code: LikelihoodCode | PythonCode, f: np.ndarray, offset: float) -> float:
    """Sum of log p(y_i | f_i + offset); -inf where a rate overflows."""
    return _loop(_log_likelihood, code)(code, f, offset)


def elliptical_updates(
    rng: np.random.Generator,
    code: LikelihoodCode | PythonCode | TemperedCode,
    offset: float,
    f: np.ndarray,
    value: float,
    draws: np.ndarray,
    proposal: np.ndarray,
) -> tuple[float, int]:
    """Elliptical slice updates of f in place, one for each row of ``draws`` (k, n) ~ N(0, Sigma).

    With nu a row and the level l = log L(f) - E, E ~ Exp(1): an angle a ~ U(0, 2 pi) on the bracket
    [a - 2 pi, a], f' = f cos a + nu sin a, until log L(f') > l; each failure becomes the end of the bracket
    on its side of 0.

    Returns log L(f) = log p(y | f + offset), or what a `TemperedCode` says, and the number of evaluations.
    The generator is the chain's own. ``value`` is log L at f, ``proposal`` (n,) a work array.

    Source: Murray, Adams & MacKay (2010); Murray & Adams (2010), section 2.2.
    """
    return _loop(_updates, code)(rng, code, offset, f, value, draws, proposal)


def _loop(compiled: Callable, code: LikelihoodCode | PythonCode | TemperedCode) -> Callable:
    """A loop, or the same in Python."""
    own = code.likelihood if isinstance(code, TemperedCode) else code
    return compiled.py_func if isinstance(own, PythonCode) else compiled


def _evaluate(code, f, head):
    return code.value(f, head[1])


def _tempered(code, f, head):
    if code.beta == 0.0:  # the reference itself: no 0 * inf
        return 0.0
    eta = f[: code.mean.size] + code.mean
    sites = np.sum(code.shift * eta - 0.5 * code.precision * eta * eta)
    return code.beta * (_evaluate(code.likelihood, eta, np.array([eta.size, 0.0, 0.0])) - sites)


@overload(_evaluate)
def _evaluate_tempered(code, f, head):
    return _tempered if code.instance_class is TemperedCode else None


@overload(_evaluate, inline="always")
def _evaluate_compiled(code, f, head):
    if code.instance_class is not LikelihoodCode:
        return None

    def evaluate(code, f, head):
        call(code.address, (head, f, code.y, code.constants, code.phi))
        return head[2] + code.constant

    return evaluate


@compiled
def _log_likelihood(code, f, offset):
    return _evaluate(code, f, np.array([f.size, offset, 0.0]))


@compiled(fastmath={"contract"})
def _rotate(f, nu, angle, proposal):
    cosine, sine = np.cos(angle), np.sin(angle)
    for i in range(f.size):
        proposal[i] = f[i] * cosine + nu[i] * sine


@compiled(fastmath={"contract"})
def _updates(rng, code, offset, f, value, draws, proposal):
    head = np.array([f.size, offset, 0.0])
    n_evaluations = 0
    for k in range(draws.shape[0]):
        level = value - rng.standard_exponential()
        angle = 2.0 * np.pi * rng.random()
        low, high = angle - 2.0 * np.pi, angle
        for _ in range(500):  # by then the bracket is 0 at double precision: f stays
            _rotate(f, draws[k], angle, proposal)
            proposed = _evaluate(code, proposal, head)
            n_evaluations += 1
            if proposed > level:
                f[:] = proposal
                value = proposed
                break
            if angle < 0.0:
                low = angle
            else:
                high = angle
            angle = low + (high - low) * rng.random()
    return value, n_evaluations
