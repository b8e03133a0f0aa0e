"""Tables that the made-up analyses share."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

VERSION = "0.2.0"
BASE = {
    "title": None,
    "version": VERSION,
    "checksum": "7c1e90ab42d5" + "0" * 52,
    "seed": 1,
    "seconds": 192.0,
    "quick": False,
    "share": False,
    "coordinates": [],
    "ids": [],
    "score_by": "held out",
    "separated": None,
}
RELEVANCE = ["column", "kind", "low", "high", "change", "change_low", "change_high", "chance"]


def counts_table(rng, n, rate):
    x, y = rng.uniform(0, 30, n), rng.uniform(0, 28, n)
    hours = rng.choice([0.5, 1, 1.5, 2, 3, 4], n)
    per_hour = rate(x, y)
    mean = per_hour * hours
    frame = pd.DataFrame(
        {
            **{"row": np.arange(2, n + 2), "outcome": rng.poisson(mean), "mean": mean},
            **{"sd": np.sqrt(mean), "unit": hours, "easting": x.round(1), "northing": y.round(1)},
            **{"hours": hours, "rate_q025": per_hour / 1.7, "rate_q975": per_hour * 1.7},
        }
    )
    for q in ("q025", "q25", "q50", "q75", "q975"):
        frame[q] = stats.poisson.ppf(float("0." + q[1:]), mean)
    for k in range(7):
        frame[f"p_{k}"] = stats.poisson.pmf(k, mean)
    frame["p_more"] = stats.poisson.sf(6, mean)
    return frame


def models_table(models, simple, base, likelihood, *, differences, loo_errors, quick, exact=False):
    lines = []
    for index, (name, can_do, evidence, elpd, elpd_se, score, error) in enumerate(models):
        lines.append(
            {
                **{"name": name, "role": "model", "can_do": can_do, "log_evidence": evidence},
                "likelihood": likelihood,
                "covariance": f"squared_exponential(ard={index == 0})",
                **{"log_evidence_se": 0.0 if exact else 0.1, "evidence_alarm": ""},
                "evidence_averaged": False,
                **{"elpd_loo": elpd, "elpd_loo_se": elpd_se},
                "loo_difference": elpd - models[0][3],
                **{"loo_difference_se": loo_errors[index], "loo_bad_share": 0.004},
                **{"test_score": score, "test_score_se": 0.035, "error": error},
                "error_se": np.nan if error > 10 else 0.04 * error,
                **{"chains": 4, "draws": 1000, "r_hat": 1.003 + 0.001 * index},
                **{
                    "ess_bulk": 1930 + 900 * index,
                    "ess_tail": 2210,
                    "acceptance": 0.83,
                    "ruled_out": False,
                },
                **{"quick_difference": quick, "seconds": 40.0 + 20 * index},
            }
        )
    for (name, score, error), role in ((simple, "simple"), (base, "base")):
        lines.append(
            {
                **{"name": name, "role": role, "test_score": score, "test_score_se": 0.03},
                **{"error": error, "error_se": np.nan if error > 10 else 0.05 * error},
            }
        )
    frame = pd.DataFrame(lines)
    pairs = [*differences[:-1], (0.0, 0.0), differences[-1]]
    below, its_error = pairs[-1]
    return frame.assign(
        difference=[d for d, _ in pairs],
        difference_se=[e for _, e in pairs],
        base_difference=[d - below for d, _ in pairs],
        base_difference_se=[np.hypot(e, its_error) for _, e in pairs],
        evidence_beyond=np.nan,
        evidence_limit=np.nan,
        unseen_difference=[d - below for d, _ in pairs],
        unseen_difference_se=[np.hypot(e, its_error) / 2 for _, e in pairs],
    )


def checks_table():
    return pd.DataFrame(
        [
            ("R-hat", "", 1.01, 1.006, False, "", "", ""),
            ("effective draws", "", 400, 1930, False, "", "", ""),
            ("Pareto k", "", 0.7, 0.41, False, "", "", ""),
            ("quick against exact", "", 0.05, 0.018, False, "", "", ""),
        ],
        columns=["check", "model", "limit", "worst", "alarm", "reason", "touches", "settle"],
    )


def effects_table(rows):
    return pd.DataFrame(rows, columns=["column", "value", "mean", "low", "high"])


def rug_table(rows):
    return pd.DataFrame(rows, columns=["column", "value", "outcome"])


def hyperparameters_table(parameters):
    rows = []
    for model, names in parameters.items():
        for index, name in enumerate(names):
            middle = 0.6 * 1.35**index
            width = 1.25 + 0.25 * index
            rows.append((model, name, 0.14, 1.0, 7.1, middle / width, middle, middle * width))
    return pd.DataFrame(
        rows,
        columns=[
            *("model", "parameter", "prior_q025", "prior_q50", "prior_q975"),
            *("q025", "q50", "q975"),
        ],
    )
