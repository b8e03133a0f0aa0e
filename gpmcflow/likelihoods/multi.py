"""What a likelihood of several latent functions a case offers."""

from __future__ import annotations

from abc import abstractmethod
from functools import cache
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp, ndtri

from gpmcflow.likelihoods.base import Likelihood

N_NODES = 64  # of averages over the functions of a case


class MultiLikelihood(Likelihood):
    """A likelihood of q latent functions, p(y | eta) = prod_i p(y_i | eta_1i, .., eta_qi).

    Predictors eta have shape (..., q, n), observations y have shape (n,). A subclass names its ``functions``
    and needs `derivatives`, `information_blocks`, `simulate`, `validate` unless y is any number, and
    `conditional_mean` or `class_probabilities` if responses are predicted. A `GPModel` gives each function a
    Gaussian process of its own.

    Attributes
    ----------
    functions:
        Names of the latent functions.
    same_prior:
        Whether all functions have one covariance and one set of hyperparameters.
    least_information:
        Of a site, where the average of `information` is less, or negative.
    indefinite:
        Whether `information_blocks` may have negative eigenvalues.
    noise_function:
        The function, if there is one, that is the log of the standard deviation of y about the first.

    Raises
    ------
    InputError:
        As `Likelihood`.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> likelihood = gp.HeteroscedasticGaussian()
    >>> likelihood.functions
    ('mean', 'log_sd')
    >>> value, slope = likelihood.log_density_and_gradient(np.zeros((2, 3)), np.ones(3))
    >>> slope.tolist()
    [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    """

    same_prior: ClassVar[bool] = False
    least_information: ClassVar[float] = 1e-6  #: of a site; an impossible class says nothing
    log_concave: ClassVar[bool] = False
    indefinite: ClassVar[bool] = False
    noise_function: ClassVar[str] = ""  #: the log of the standard deviation of y, which has units

    @abstractmethod
    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return log p(y_i | eta_i) (..., n) and its gradient by the functions (..., q, n)."""

    @abstractmethod
    def information_blocks(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the expected information of each case, or minus the Hessian of log p, (..., q, q, n)."""

    def case_log_density(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return log p(y_i | eta_i) (..., n), the first of `derivatives`."""
        return self.derivatives(eta, y)[0]

    def information(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the diagonal of `information_blocks`, (..., q, n)."""
        return np.einsum("...aan->...an", self.information_blocks(eta, y))

    def with_levels_of(self, y: Any) -> MultiLikelihood:
        """Return the likelihood with what it leaves to the observations, such as names of classes."""
        return self

    def default_means(self) -> dict[str, Any]:
        """Return what a model takes for the mean of each function where none is stated."""
        return dict.fromkeys(self.functions, 0.0)

    def nodes(self) -> np.ndarray:
        """Return points (node, q) over which a function of z ~ N(0, I) is averaged.

        They are a Sobol sequence and its mirror image, of variance 1.
        """
        return sobol_nodes(len(self.functions), N_NODES)

    def some_nodes(self, k: int, n: int) -> np.ndarray:
        """Return n of the nodes (n, q), in mirrored pairs; those of k = 0, 1, .. are all of them in turn."""
        pairs = n // 2
        places = (k + (N_NODES // 2) // pairs * np.arange(pairs)) % (N_NODES // 2)
        return self.nodes()[np.concatenate([places, places + N_NODES // 2])]

    def log_mean(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return log E p(y_i | eta_i), eta ~ N(mean, diag variance), arrays (..., q, n); by `nodes`."""
        terms = self.case_log_density(self.at_nodes(mean, variance), y)
        return logsumexp(terms, axis=0) - np.log(len(terms))

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return E[y], eta ~ N(mean, diag variance), arrays (..., q, n); by `nodes`."""
        return self.conditional_mean(self.at_nodes(mean, variance)).mean(0)

    def at_nodes(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Predictors at each node, (node, ..., q, n)."""
        z = self.nodes()
        z = z.reshape(len(z), *([1] * (np.ndim(mean) - 2)), z.shape[1], 1)
        return mean + np.sqrt(variance) * z


@cache
def sobol_nodes(q: int, n: int) -> np.ndarray:
    """Points (n, q) of N(0, I), a Sobol sequence and its mirror image, of variance 1."""
    from scipy.stats import qmc  # here: it takes long to load

    half = ndtri(qmc.Sobol(q, seed=0).random(n // 2))
    half /= np.sqrt(np.mean(half**2, axis=0))
    return np.concatenate([half, -half])
