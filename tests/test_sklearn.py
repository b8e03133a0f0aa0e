"""Estimators of scikit-learn: its own checks, and the same numbers as the models behind them."""

from __future__ import annotations

import doctest
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import gpmcflow as gp
from gpmcflow.errors import InputError
from gpmcflow.sklearn import GPClassifier, GPCountRegressor, GPRegressor

RNG = np.random.default_rng(8)
X = RNG.uniform(-2.0, 2.0, (40, 2))
REAL = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.standard_normal(40)
LABELS = np.where(X[:, 0] + 0.5 * RNG.standard_normal(40) > 0.0, "well", "ill")
# Their outcomes are no counts; what they check is the same for all three.
NO_COUNTS = {
    "check_n_features_in_after_fitting", "check_regressors_train", "check_regressor_data_not_an_array",
    "check_regressors_no_decision_function", "check_fit_idempotent", "check_fit_check_is_fitted",
    "check_n_features_in",
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [GPRegressor, GPClassifier, GPCountRegressor])
def test_checks_of_scikit_learn(kind):
    results = check_estimator(kind("linear()"), on_fail=None, on_skip=None)
    failed = {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"}
    assert len(results) > 45
    assert set(failed) <= (NO_COUNTS if kind is GPCountRegressor else set())
    assert all("allowed: counts" in message for message in failed.values())


def test_predictions_are_those_of_the_model():
    fitted = GPRegressor("matern52(x1) + linear(x2)").fit(X, REAL)
    frame = pd.DataFrame(X, columns=["x1", "x2"]).assign(y=REAL)
    model = gp.GPModel.from_frame(frame, "y", "matern52(x1) + linear(x2)")
    expected = gp.predict(gp.approximate(model), frame.iloc[:5])
    mean, sd = fitted.predict(X[:5], return_std=True)
    np.testing.assert_array_equal(mean, expected.response_mean)
    np.testing.assert_array_equal(sd, expected.response_sd)


def test_probabilities_are_in_the_order_of_the_classes():
    fitted = GPClassifier("linear()").fit(X, LABELS)
    p = fitted.predict_proba([[2.0, 0.0], [-2.0, 0.0]])
    np.testing.assert_allclose(p.sum(1), 1.0)
    assert list(fitted.classes_) == ["ill", "well"]
    assert p[0, 1] > 0.8
    assert p[1, 0] > 0.8
    assert list(fitted.predict([[2.0, 0.0], [-2.0, 0.0]])) == ["well", "ill"]


def test_three_classes_have_probabilities_of_the_softmax():
    y = np.array([10, 2, 33])[np.digitize(X[:, 0], [-0.7, 0.7])]
    fitted = GPClassifier("linear(x1)").fit(X, y)
    assert fitted.classes_.tolist() == [2, 10, 33]
    p = fitted.predict_proba([[-2.0, 0.0], [0.0, 0.0], [2.0, 0.0]])
    np.testing.assert_allclose(p.sum(1), 1.0)
    assert fitted.predict([[-2.0, 0.0], [0.0, 0.0], [2.0, 0.0]]).tolist() == [10, 2, 33]
    frame = pd.DataFrame(X, columns=["x1", "x2"]).assign(y=y.astype(str))
    model = gp.GPModel.from_frame(frame, "y", "linear(x1)", gp.Softmax(("2", "10", "33")))
    expected = gp.predict(gp.approximate(model), frame.iloc[:3]).response_probability.values.T
    np.testing.assert_allclose(fitted.predict_proba(X[:3]), expected, atol=1e-9)
    with pytest.raises(InputError, match="for 3 classes"):
        GPClassifier("linear(x1)", "probit").fit(X, y)
    with pytest.raises(ValueError, match="one class"):
        GPClassifier("linear(x1)").fit(X, np.ones(40))


def test_words_of_a_frame_and_a_group_that_was_not_seen():
    frame = pd.DataFrame({"dose": X[:, 0], "ward": RNG.choice(list("pq"), 40)})
    counts = RNG.poisson(np.exp(0.5 * frame["dose"] + (frame["ward"] == "p")))
    fitted = GPCountRegressor("linear(dose) + group(ward)", "poisson").fit(frame, counts)
    new = pd.DataFrame({"dose": [0.0, 0.0, 0.0], "ward": ["p", "q", "r"]})
    p, q, unseen = fitted.predict(new)
    assert p > q
    assert np.isfinite(unseen)


def test_a_score_is_that_of_a_loop_by_hand():
    folds = KFold(4, shuffle=True, random_state=1)
    estimator = GPRegressor("squared_exponential(x1)")
    by_hand = [clone(estimator).fit(X[a], REAL[a]).score(X[b], REAL[b]) for a, b in folds.split(X)]
    np.testing.assert_array_equal(cross_val_score(estimator, X, REAL, cv=folds), by_hand)
    assert np.mean(by_hand) > 0.8


def test_in_a_pipeline_a_search_and_a_file():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), GPRegressor()),
        {"gpregressor__covariance": ["linear()", "squared_exponential(ard=True)"]}, cv=3,
    ).fit(X, REAL)  # fmt: skip
    assert search.best_params_["gpregressor__covariance"] == "squared_exponential(ard=True)"
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.predict(X[:4]), search.predict(X[:4]))


def test_exact_draws_follow_the_seed():
    first, second = (
        GPRegressor("linear()", exact=True, n_draws=50, random_state=3).fit(X, REAL)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.predict(X[:3]), second.predict(X[:3]))
    assert "posterior" in first.fit_.children
    assert gp.sklearn.GPRegressor is GPRegressor


def test_examples_of_the_docstrings():
    found = doctest.testmod(gp.sklearn)
    assert found.attempted > 8
    assert found.failed == 0
