"""What likelihoods of positive responses share: a log link, and one line where y is not positive."""

from __future__ import annotations

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.likelihoods.base import Likelihood


class PositiveLikelihood(Likelihood):
    """Responses above 0 whose mean is exp(eta) times what is the same for all eta."""

    log_link = True
    eta_of = "log y"

    def validate(self, y: np.ndarray) -> None:
        """Raise `InputError` unless all y are positive and finite."""
        super().validate(y)
        wrong = np.flatnonzero(~((y > 0.0) & (y < np.inf)))
        if wrong.size:
            raise InputError(
                f"{self.name} likelihood: y[{wrong[0]}] is {y[wrong[0]]:g}; allowed: numbers above 0; leave "
                "such cases out, or take gaussian or student_t"
            )
