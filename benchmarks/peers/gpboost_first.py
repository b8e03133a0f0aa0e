"""Fits of GPBoost to the files of `first_answer.py`, and log densities of the rows held out by gpmcflow.

    python gpboost_first.py patients|birds|machine      # in a folder with <name>.csv and rows_<name>.csv

In an environment of its own (environment.sh gpboost). Inputs are those of mgcv.R: a Gaussian process of all
numbers with a length scale each, beside linear terms of them and of the categories; of places a surface. Of
the smoothnesses 3/2, 5/2 and infinity that of the highest marginal likelihood counts, and `CHOSEN` holds it:
``--search`` prints all three.
"""

import sys

import gpboost
import numpy as np
import pandas as pd
from scipy.stats import nbinom, norm

CHOSEN = {"patients": 2.5, "birds": np.inf, "machine": np.inf}
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(41)


def table(name):
    """Learning rows and those held out: numbers, linear terms, outcome, log of the exposure."""
    d = pd.read_csv(f"{name}.csv", na_values=[""], keep_default_na=False)
    use = pd.read_csv(f"rows_{name}.csv")
    offset = np.zeros(len(d))
    if name == "patients":
        for column in ("bmi", "creatinine"):
            d[column] = d[column].fillna(d[column].median())
        d["day"] = pd.to_datetime(d["admitted"]).astype("int64") / 86400e9
        y = (d["readmitted"] == "yes").astype(float)
        names = [
            "day",
            "age",
            "bmi",
            "creatinine",
            "systolic",
            "prior_admissions",
            "length_of_stay",
        ]
        linear = pd.get_dummies(d[["ward", "smoker"]], drop_first=True).astype(float)
    elif name == "birds":
        y, names, linear = (
            d["count"].astype(float),
            ["easting", "northing"],
            pd.DataFrame(index=d.index),
        )
        offset = np.log(d["hours"].to_numpy())
    else:
        y, linear = d["vibration"], pd.DataFrame(index=d.index)
        names = ["speed", "load", "tool_age", "coolant", "feed", "pressure", "humidity", "batch_no"]
    at = {kind: use["row"][use["use"] == kind].to_numpy() - 2 for kind in ("learning", "held out")}
    numbers = d[names].astype(float)
    first = numbers.iloc[at["learning"]]
    numbers = ((numbers - first.mean()) / first.std()).to_numpy()
    fixed = np.column_stack([np.ones(len(d)), linear, *([numbers] if name != "birds" else [])])
    rows = [
        (
            numbers[k],
            fixed[k],
            y.to_numpy(float)[k],
            offset[k],
            use["row"][use["use"] == kind].to_numpy(),
        )
        for kind, k in at.items()
    ]
    return rows[0], rows[1]


def fitted(name, learning, smoothness):
    """The model at the maximum of its marginal likelihood."""
    numbers, fixed, y, offset, _ = learning
    kind = {"patients": "bernoulli_logit", "birds": "negative_binomial", "machine": "gaussian"}[
        name
    ]
    shape = "matern" if np.isfinite(smoothness) else "gaussian"
    ard = "" if name == "birds" else "_ard"
    model = gpboost.GPModel(
        likelihood=kind, gp_coords=numbers, cov_function=shape + ard,
        cov_fct_shape=smoothness if np.isfinite(smoothness) else 1.5,
    )  # fmt: skip
    return model.fit(y=y, X=fixed, offset=offset if name == "birds" else None)


def densities(name, model, new):
    """Log density of each row held out."""
    numbers, fixed, y, offset, _ = new
    asked = {"gp_coords_pred": numbers, "X_pred": fixed, "predict_var": True}
    if name == "birds":
        asked["offset_pred"] = offset
    if name == "machine":
        found = model.predict(**asked, predict_response=True)
        return norm.logpdf(y, found["mu"], np.sqrt(found["var"]))
    if name == "patients":
        p = model.predict(**asked, predict_response=True)["mu"]
        return np.log(np.where(y > 0, p, 1.0 - p))
    found = model.predict(**asked, predict_response=False)
    size = float(np.ravel(model.get_aux_pars(format_pandas=False))[0])
    mean = np.exp(found["mu"][:, None] + np.sqrt(found["var"])[:, None] * NODES)
    each = nbinom.pmf(y[:, None], size, size / (size + mean))
    return np.log(each @ WEIGHTS / WEIGHTS.sum())


def main():
    """Fit, predict, write; or search."""
    name = sys.argv[1]
    learning, new = table(name)
    if "--search" in sys.argv:
        for smoothness in (1.5, 2.5, np.inf):
            model = fitted(name, learning, smoothness)
            score = densities(name, model, new).mean()
            print(
                smoothness, "negative log likelihood", model.get_current_neg_log_likelihood(), score
            )
        return
    found = densities(name, fitted(name, learning, CHOSEN[name]), new)
    pd.DataFrame({"row": new[-1], "log_density": found}).to_csv(f"gpboost_{name}.csv", index=False)


if __name__ == "__main__":
    main()
