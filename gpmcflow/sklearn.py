"""Gaussian processes as estimators of scikit-learn, for its pipelines, cross-validation and searches."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
import xarray as xr
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from gpmcflow.approximations.approximate import approximate
from gpmcflow.approximations.prediction import predict
from gpmcflow.covariances.basis_functions import BasisFunctions
from gpmcflow.covariances.expressions import Covariance
from gpmcflow.errors import InputError
from gpmcflow.likelihoods import Likelihood, Softmax
from gpmcflow.models.gp_model import GPModel
from gpmcflow.samplers.sampling import sample


class _Estimator(BaseEstimator):
    """What the estimators share: a `GPModel.from_frame` of their columns, approximated or sampled."""

    def __init__(
        self,
        covariance: Covariance | str = "squared_exponential()",
        likelihood: Likelihood | str | None = None,
        *,
        structure: str | BasisFunctions = "auto",
        exact: bool = False,
        n_draws: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.covariance = covariance
        self.likelihood = likelihood
        self.structure = structure
        self.exact = exact
        self.n_draws = n_draws
        self.random_state = random_state

    def _rows(self, X: Any, reset: bool) -> pd.DataFrame:
        """Rows as a frame: of a DataFrame its columns, words among them, of an array x1, x2, .."""
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if reset and len(X) < 2:
                raise ValueError(f"X has {len(X)} sample(s); allowed: 2 or more")
            return X.reset_index(drop=True)
        values = validate_data(self, X, reset=reset, dtype=np.float64, ensure_min_samples=1 + reset)
        return pd.DataFrame(values, columns=[f"x{k + 1}" for k in range(values.shape[1])])

    def _fit(self, X: Any, y: np.ndarray, of_classes: Likelihood | None = None) -> Self:
        rows = self._rows(X, reset=True)
        if len(y) != len(rows):
            raise ValueError(f"X has {len(rows)} samples, y {len(y)}; allowed: as many")
        name = "y"
        while name in rows.columns:
            name += "_"
        frame = rows.assign(**{name: y})
        likelihood = self._default_likelihood if self.likelihood is None else self.likelihood
        if of_classes is not None:
            if self.likelihood not in (None, "softmax") and not isinstance(
                self.likelihood, Softmax
            ):
                raise InputError(
                    f"GPClassifier: likelihood is {self.likelihood!r} for {len(self.classes_)} classes; "
                    'allowed: None, or "softmax"'
                )
            likelihood = of_classes
        self.model_ = GPModel.from_frame(
            frame, name, self.covariance, likelihood, structure=self.structure
        )
        self.fit_: Any = None
        if self.exact:
            seed = int(check_random_state(self.random_state).randint(2**31))
            self.fit_ = sample(self.model_, n_draws=self.n_draws, seed=seed)
        else:
            self.fit_ = approximate(self.model_)
        return self

    def _predicted(self, X: Any) -> xr.Dataset:
        check_is_fitted(self)
        return predict(self.fit_, self._rows(X, reset=False), unseen="new")


class GPRegressor(RegressorMixin, _Estimator):
    """Gaussian-process regression, approximate by default.

    Hyperparameters that the covariance leaves out have default hyperpriors in the units of the columns and of
    y. With ``exact=False`` they are at the maximum of the evidence, else integrated over by Monte Carlo.

    Parameters
    ----------
    covariance:
        Text such as ``"matern32(age) + group(ward)"``, or an expression. Columns are those of a DataFrame,
        or x1, x2, ... of an array.
    likelihood:
        A name, such as "student_t", or a likelihood; by default Gaussian noise of unknown size.
    structure:
        As of `GPModel`.
    exact:
        Whether hyperparameters and latent values are drawn by `sample`.
    n_draws:
        Draws of each of four chains where ``exact``.
    random_state:
        Seed of these draws, or a generator of scikit-learn.

    Attributes
    ----------
    model_:
        The `GPModel`.
    fit_:
        What `approximate` or `sample` gave: for `predict`, `contrast` and all others.

    Raises
    ------
    InputError:
        As `GPModel.from_frame`.

    Examples
    --------
    >>> import numpy as np
    >>> from gpmcflow.sklearn import GPRegressor
    >>> x = np.linspace(0.0, 6.0, 30)[:, None]
    >>> fitted = GPRegressor("matern52()").fit(x, np.sin(x.ravel()))
    >>> fitted.predict([[1.5]]).round(2)
    array([1.])
    """

    _default_likelihood = "gaussian"

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model to rows X (n, p) and outcomes y (n,).

        Returns
        -------
        The estimator.
        """
        y = _numbers(X, y)
        return self._fit(X, y)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the mean of the outcome at rows X (m, p).

        Returns
        -------
        Means (m,); with ``return_std`` their standard deviations (m,), noise included, too.
        """
        predicted = self._predicted(X)
        mean = predicted["response_mean"].values
        return (mean, predicted["response_sd"].values) if return_std else mean


class GPCountRegressor(GPRegressor):
    """Gaussian-process regression of counts 0, 1, 2, ..: by default negative binomial, with a log link.

    Parameters, attributes and errors are those of `GPRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from gpmcflow.sklearn import GPCountRegressor
    >>> x = np.repeat(np.linspace(-1.0, 1.0, 20), 5)[:, None]
    >>> y = np.random.default_rng(0).poisson(np.exp(1.0 + x.ravel()))
    >>> fitted = GPCountRegressor("linear()", "poisson").fit(x, y)
    >>> bool(6.0 < fitted.predict([[1.0]])[0] < 9.0)  # made with 7.4
    True
    """

    _default_likelihood = "negative_binomial"


class GPClassifier(ClassifierMixin, _Estimator):
    """Gaussian-process classification, approximate by default.

    Parameters and attributes are those of `GPRegressor`; the likelihood of two classes is "logistic" or
    "probit", that of more is `Softmax`. ``classes_`` holds the labels in order; of two the second is +1 of
    the model.

    Raises
    ------
    InputError:
        As `GPModel.from_frame`.

    Examples
    --------
    >>> import numpy as np
    >>> from gpmcflow.sklearn import GPClassifier
    >>> x = np.linspace(-2.0, 2.0, 40)[:, None]
    >>> fitted = GPClassifier().fit(x, np.where(x.ravel() > 0.1, "high", "low"))
    >>> fitted.predict([[-1.0], [1.0]]).tolist()
    ['low', 'high']
    >>> fitted.classes_.tolist()
    ['high', 'low']
    """

    _default_likelihood = "logistic"

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model to rows X (n, p) and labels y (n,) of two kinds or more.

        Returns
        -------
        The estimator.
        """
        y = _column(X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("y has one class; allowed: two or more")
        if len(self.classes_) == 2:
            return self._fit(X, 2.0 * codes - 1.0)
        names = np.array([f"{code:0{len(str(len(self.classes_)))}d}" for code in codes])
        return self._fit(X, names, Softmax(tuple(np.unique(names).tolist())))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict the probability of each class at rows X (m, p).

        Returns
        -------
        Probabilities (m, class), in the order of ``classes_``.
        """
        predicted = self._predicted(X)
        if len(self.classes_) > 2:
            p = predicted["response_probability"].values.T
            return p / p.sum(1, keepdims=True)
        p = predicted["response_mean"].values
        return np.column_stack([1.0 - p, p])

    def predict(self, X: Any) -> np.ndarray:
        """Predict the more probable class at rows X (m, p).

        Returns
        -------
        Labels (m,).
        """
        most = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[most]


def _column(X: Any, y: Any) -> np.ndarray:
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    return column_or_1d(y, warn=True)


def _numbers(X: Any, y: Any) -> np.ndarray:
    y = np.asarray(_column(X, y))
    if y.dtype.kind == "c":
        raise ValueError("Complex data not supported")
    try:
        y = y.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError("y holds other than numbers; give numbers") from None
    if not np.isfinite(y).all():
        raise ValueError("Input y contains NaN or infinity.")
    return y
