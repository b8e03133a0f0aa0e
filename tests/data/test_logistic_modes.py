"""The mode of a logistic regression on each data set, to all digits that are known.

One number wrong in a file, a label or the scaling moves them. Values from an independent
implementation of Shahbaba, Lan, Johnson & Neal (2014); prior N(0, 5^2) on the intercept and slopes.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from gpmcflow.data import load_dataset

# name -> minus log posterior and log likelihood at the mode (no constants), sum of squared slopes,
# intercept, first and second slope
MODES = {
    "statlog-cotton": (116.385859, -114.956126, 32.754788, -6.223493, 0.866040, -1.398026),
    "ctg": (137.021847, -134.859038, 31.469779, -8.756179, 2.324841, -1.474922),
    "chess": (267.764608, -237.162971, 1530.059765, -0.148676, 3.990340, 3.802027),
    "shahbaba-simulated": (1360.066151, -1357.725005, 116.550394, -0.711997, -0.017656, -0.188204),
}


def mode(X: np.ndarray, y: np.ndarray, prior_sd: float = 5.0) -> tuple[np.ndarray, float]:
    """Return the mode (intercept, slopes) and the log likelihood there, by damped Newton steps."""
    signed = y[:, None] * np.column_stack([np.ones(len(X)), X])
    theta, eye = np.zeros(signed.shape[1]), np.eye(signed.shape[1]) / prior_sd**2

    def potential(theta):
        return np.logaddexp(0, -signed @ theta).sum() + theta @ eye @ theta / 2

    step = np.ones(1)
    while np.linalg.norm(step) > 1e-10:
        p = expit(-signed @ theta)
        hessian = signed.T @ (signed * (p * (1 - p))[:, None]) + eye
        step = cho_solve(cho_factor(hessian), eye @ theta - signed.T @ p)
        while potential(theta - step) > potential(theta) and np.linalg.norm(step) > 1e-10:
            step = step / 2
        theta = theta - step
    return theta, -np.logaddexp(0, -signed @ theta).sum()


@pytest.mark.parametrize("name", MODES)
def test_mode(request, name):
    if name != "shahbaba-simulated":
        request.getfixturevalue("data_folder")  # skips where there is none
    dataset = load_dataset(name)
    theta, log_likelihood = mode(dataset.X.values, dataset.y.values)
    found = (
        theta @ theta / 50 - log_likelihood,
        log_likelihood,
        theta[1:] @ theta[1:],
        *theta[:3],
    )
    np.testing.assert_allclose(found, MODES[name], rtol=0, atol=5.1e-7)
