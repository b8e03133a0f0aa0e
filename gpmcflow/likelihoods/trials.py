"""What likelihoods of k of n share: whole numbers of trials, counts of at most all, and a logit link."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, gammaln

from gpmcflow.errors import InputError
from gpmcflow.likelihoods.base import Likelihood
from gpmcflow.likelihoods.counts import validate_counts
from gpmcflow.likelihoods.logistic import Logistic


class TrialsLikelihood(Likelihood):
    """Successes among N trials; N is a number, or one for each case, and sigma(eta) the mean of one trial."""

    constants = ("trials",)
    discrete = True
    standard_sites = "laplace"
    trials: int | np.ndarray

    def __post_init__(self) -> None:
        super().__post_init__()
        wrong = np.flatnonzero(self.trials != np.floor(self.trials))
        if wrong.size:
            raise InputError(
                f"{type(self).__name__} likelihood: trials is {np.ravel(self.trials)[wrong[0]]:g} in case "
                f"{wrong[0]}; allowed: whole numbers 1, 2, ..."
            )

    def validate(self, y: np.ndarray) -> None:
        """Raise `InputError` unless y holds counts, none above its trials."""
        super().validate(y)
        validate_counts(self.name, y)
        wrong = np.flatnonzero(y > self.trials)
        if wrong.size:
            i = wrong[0]
            raise InputError(
                f"{self.name} likelihood: y[{i}] is {y[i]:g} of "
                f"{np.broadcast_to(self.trials, y.shape)[i]:g} trials; allowed: at most all"
            )

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """Probability of success sigma(eta), the mean of one trial."""
        return expit(eta)

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Probability of success, as of logistic data."""
        return Logistic().mean_response(mean, variance)

    def _log_choices(self, y: np.ndarray) -> np.ndarray:
        return gammaln(self.trials + 1.0) - gammaln(y + 1.0) - gammaln(self.trials - y + 1.0)
