"""Binomial likelihood with logit link: k successes of n trials."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from gpmcflow.likelihoods.base import CompiledValue
from gpmcflow.likelihoods.tilted_loops import FactorLoop
from gpmcflow.likelihoods.trials import TrialsLikelihood


def _value(head, f, y, constants, phi):  # constants are trials
    offset, total = head[1], 0.0
    for i in range(int(head[0])):
        z, n = f[i] + offset, constants[i]
        total += y[i] * min(z, 0.0) - (n - y[i]) * max(z, 0.0) - n * np.log1p(np.exp(-abs(z)))
    head[2] = total


def _factors(head, eta, out, y, constants, phi):
    m, i = int(head[0]), int(head[1])
    count, n = y[i], constants[i]
    for k in range(m):
        z = eta[k]
        e = np.exp(-abs(z))
        less, more = e / (1.0 + e), 1.0 / (1.0 + e)
        p, q = (more, less) if z >= 0.0 else (less, more)
        second = -n * p * q
        out[k] = count * min(z, 0.0) - (n - count) * max(z, 0.0) - n * np.log1p(e)
        out[m + k] = count * q - (n - count) * p
        out[2 * m + k] = second
        out[3 * m + k] = second * (q - p)


@dataclass(frozen=True, eq=False, repr=False)
class Binomial(TrialsLikelihood):
    """Binomial likelihood with logit link: y successes of N trials.

    log p = log C(N, y) + y log p + (N - y) log q, p = 1 / (1 + exp(-eta)), q = 1 - p.

    Attributes
    ----------
    trials:
        N, a whole number >= 1, or one for each case (n,).

    Raises
    ------
    InputError:
        For trials that are not whole and positive; in a model, for y that are not counts of at most N.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> likelihood = gp.Binomial(trials=4)
    >>> round(likelihood.log_density(np.zeros(1), np.array([1.0])).item(), 4)  # log (4 / 16)
    -1.3863
    """

    trials: int | np.ndarray

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Log p, y q - (N - y) p, -N p q, -N p q (q - p)."""
        p, q, rest = expit(eta), expit(-eta), self.trials - y
        value = self._log_choices(y) - y * np.logaddexp(0.0, -eta) - rest * np.logaddexp(0.0, eta)
        second = -self.trials * p * q
        return value, y * q - rest * p, second, second * (q - p)

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Successes of N trials with probability sigma(eta)."""
        return rng.binomial(np.asarray(self.trials, int), expit(eta)).astype(np.float64)

    def compiled(self, y: np.ndarray) -> CompiledValue:
        """Trials are constants."""
        trials = np.full((1, len(y)), self.trials)
        return CompiledValue(_value, trials, np.empty(0), float(np.sum(self._log_choices(y))))

    def factor_loop(self, y: np.ndarray) -> FactorLoop:
        """As `compiled`."""
        trials = np.full((1, len(y)), self.trials)
        return FactorLoop(_factors, trials, np.empty(0), self._log_choices(y))
