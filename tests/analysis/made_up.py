"""Files of three finished analyses, made up but consistent: patients, birds, machine."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from .made_up_tables import (
    BASE,
    RELEVANCE,
    checks_table,
    counts_table,
    effects_table,
    hyperparameters_table,
    models_table,
    rug_table,
)


def patients():
    """Binary outcome, nine columns used, held-out and new rows."""
    rng = np.random.default_rng(1)
    n = 118
    logit = rng.normal(-0.3, 1.1, n)
    p = 1 / (1 + np.exp(-logit))
    test = pd.DataFrame(
        {
            "row": np.sort(rng.choice(600, n, False)) + 2,
            "outcome": (rng.random(n) < p).astype(int),
            **{"mean": p, "sd": 0.1, "probability": p, "unit": 1},
        }
    )
    for q in ("q025", "q25", "q50", "q75", "q975"):
        test[q] = 1 / (1 + np.exp(-(logit + 0.5 * stats.norm.ppf(float("0." + q[1:])))))
    new = test.head(40).drop(columns="outcome").assign(row=np.arange(2, 42))
    new.insert(1, "patient_id", [f"P-{601 + k:04d}" for k in range(40)])
    new["note"] = ""
    new.loc[[4, 21], "note"] = 'ward "geriatrics" was not seen: treated as unknown'
    new["creatinine"] = rng.integers(44, 160, 40).astype(str)
    new["prior_admissions"] = rng.poisson(0.9, 40)
    new["ward"] = rng.choice(["medicine", "surgery", "cardiology"], 40)
    relevance = pd.DataFrame(
        [
            ("creatinine", "number", "57", "131", 0.34, 0.20, 0.46, 1e-4),
            ("prior_admissions", "number", "0", "3", 0.28, 0.17, 0.39, 1e-4),
            ("ward", "category", "medicine", "surgery", 0.085, 0.01, 0.16, 0.004),
            ("smoker", "category", "no", "former", 0.078, -0.012, 0.16, 0.08),
            ("bmi", "number", "21.6", "32.6", -0.05, -0.15, 0.04, 0.4),
            ("systolic", "number", "112", "158", 0.025, -0.08, 0.13, 0.8),
            ("age", "number", "44", "80", 0.022, -0.05, 0.095, 0.5),
            ("admitted", "date", "2023-03-14", "2024-10-19", 0.01, -0.055, 0.075, 0.9),
            ("length_of_stay", "number", "2.5", "13", -0.004, -0.07, 0.06, 0.9),
        ],
        columns=RELEVANCE,
    ).assign(straight=np.nan)
    effects, rug = [], []
    for column, grid in (
        ("creatinine", np.linspace(42, 176, 40)),
        ("prior_admissions", np.arange(6)),
        ("ward", ["medicine", "surgery", "cardiology", "neurology"]),
        ("smoker", ["no", "former", "yes"]),
    ):
        x = np.arange(len(grid)) / (len(grid) - 1)
        slope = 0.45 if column in ("creatinine", "prior_admissions") else 0.08
        mean = 0.33 + slope * x**2
        half = 0.05 + 0.12 * (x - 0.4) ** 2
        effects += [
            (column, value, m, m - h, m + h) for value, m, h in zip(grid, mean, half, strict=True)
        ]
        values = rng.choice(grid, 300)
        if column == "creatinine":
            values = np.exp(rng.normal(4.45, 0.32, 300)).clip(42, 176).round()
        rug += [(column, value, int(rng.random() < 0.43)) for value in values]
    models = models_table(
        [
            ("relevance", "curves, own weight for each column", -283.4, -269.8, 8.5, -0.581, 32),
            ("smooth", "curves, all columns alike", -291.4, -274.0, 8.2, -0.574, 36),
            ("plain", "straight lines", -294.3, -277.3, 8.1, -0.575, 34),
        ],
        ("logistic regression", -0.577, 34),
        ("base rate", -0.687, 52),
        "probit",
        differences=[(-0.004, 0.018), (0.003, 0.015), (0.002, 0.008), (-0.110, 0.035)],
        loo_errors=[0, 2.1, 2.2],
        quick=0.018,
    )
    columns = pd.DataFrame(
        [
            ("patient_id", "600 different texts", "dropped: an id"),
            ("hospital", "always the same", "dropped: constant"),
            ("admitted", "dates, 2023-01-02 to 2024-12-30", "days since the first"),
            ("creatinine", "number, 41 cells missing", "middle value, and a column “missing”"),
            ("bmi", "number, 17 cells missing", "middle value, and a column “missing”"),
            *((c, "number, complete", "as it is") for c in ("age", "systolic", "length_of_stay")),
            ("prior_admissions", "whole number, complete", "as it is"),
            ("ward", "4 categories", "one column each"),
            ("smoker", "3 categories", "one column each"),
            ("readmitted", "yes, no", "the outcome; yes counts as 1"),
        ],
        columns=["column", "found", "done"],
    )
    info = {
        **BASE,
        **{"name": "patients", "csv": "patients.csv", "new_csv": "new_patients.csv"},
        "yaml": "patients.yaml",
        "target": {
            **{"name": "readmitted", "kind": "binary", "positive": "yes", "negative": "no"},
            **{"unit": None, "unit_text": None},
        },
        **{"n_rows": 600, "n_learning": 470, "n_used": 588, "n_test": 118},
        "uses": {"learning": 470, "held out": 118, "no outcome": 12},
        **{"base": 0.43, "shown": "relevance", "ids": ["patient_id"]},
        "shown_columns": ["creatinine", "prior_admissions", "ward"],
    }
    parameters = [f"length_scale[{c}]" for c in relevance["column"][:9]] + ["variance"]
    return info, {
        **{"columns": columns, "models": models, "predictions_test": test, "predictions_new": new},
        **{"relevance": relevance, "effects": effects_table(effects), "rug": rug_table(rug)},
        "hyperparameters": hyperparameters_table({"relevance": parameters, "smooth": ["variance"]}),
        "checks": checks_table(),
    }


def birds():
    """Counts with hours as exposure and two coordinates."""
    rng = np.random.default_rng(2)

    def rate(x, y):
        return (
            0.5
            + 2.6 * np.exp(-(((x - 8) / 4) ** 2) - ((y - 20) / 3.5) ** 2)
            + 2.3 * np.exp(-(((x - 7) / 5) ** 2) - ((y - 9) / 3) ** 2)
            + 1.1 * np.exp(-(((x - 22) / 4) ** 2) - ((y - 15) / 4) ** 2)
        )

    x, y = np.meshgrid(np.linspace(0, 30, 41), np.linspace(0, 28, 39))
    mean = rate(x, y)
    factor = 1.5 + 1.3 * ((x - 14) / 15) ** 2 * ((y - 14) / 14) ** 2 + 0.35 * (x / 30) ** 2
    grid = pd.DataFrame(
        {
            **{
                "x": x.ravel(),
                "y": y.ravel(),
                "mean": mean.ravel(),
                "low": (mean / factor).ravel(),
            },
            **{"high": (mean * factor).ravel(), "factor": factor.ravel()},
        }
    )
    points = pd.DataFrame({"x": rng.uniform(0, 30, 320), "y": rng.uniform(0, 28, 320)})
    points["outcome"] = rng.poisson(rate(points["x"], points["y"]))
    test = counts_table(rng, 80, rate).drop(columns=["easting", "northing"])
    new = counts_table(rng, 120, rate).drop(columns="outcome")
    new["note"] = ""
    models = models_table(
        [
            ("map", "any smooth map", -483.5, -451.2, 12.0, -1.64, 1.19),
            ("round", "the same, equal reach in all directions", -485.4, -454.4, 12.1, -1.65, 1.21),
            ("trend", "a slope", -518.7, -498.0, 14.0, -1.84, 1.36),
        ],
        ("Poisson regression", -1.845, 1.36),
        ("base rate", -1.82, 1.24),
        "poisson",
        differences=[(0.205, 0.088), (0.195, 0.085), (0.005, 0.01), (0.03, 0.05)],
        loo_errors=[0, 2.0, 9.0],
        quick=0.06,
    )
    models.loc[1, ["evidence_alarm", "log_evidence_se"]] = ["two ways differ by 0.9", 0.5]
    checks = checks_table()
    checks.loc[len(checks)] = [
        *("evidence, alarms", "round", 0, 1, True, "two ways differ by 0.9"),
        "only the odds of map against round, marked as not resolved",
        "gpmcflow run birds.yaml --only round --effort 4",
    ]
    columns = pd.DataFrame(
        [
            ("easting", "number, complete", "coordinate"),
            ("northing", "number, complete", "coordinate"),
            ("hours", "number, 0.5 to 4", "exposure: twice the hours, twice the count expected"),
            ("count", "whole numbers, 0 to 10", "the outcome, as a count"),
        ],
        columns=["column", "found", "done"],
    )
    info = {
        **BASE,
        **{"name": "birds", "csv": "birds.csv", "new_csv": "next_season.csv", "yaml": "birds.yaml"},
        "title": "Where are the birds?",
        "target": {
            **{"name": "count", "kind": "counts", "positive": None, "negative": None},
            **{"unit": "hours", "unit_text": "hour"},
        },
        **{"n_rows": 400, "n_learning": 320, "n_used": 400, "n_test": 80},
        **{"base": 1.07, "shown": "map"},
        "map_average": 1.07,
        "uses": {"learning": 320, "held out": 80},
        **{
            "coordinates": ["easting", "northing"],
            "shown_columns": ["easting", "northing", "hours"],
        },
        "units": {"easting": "km", "northing": "km"},
    }
    reach = pd.DataFrame(
        [("easting", 8.5, 4.5, 16.0), ("northing", 4.8, 2.9, 8.0)],
        columns=["direction", "distance", "low", "high"],
    )
    relevance = pd.DataFrame(
        [("easting, northing", "place", "28, 2", "8, 20", 3.1, 2.2, 4.4, 5e-5)], columns=RELEVANCE
    ).assign(straight=np.nan)
    return info, {
        **{"columns": columns, "models": models, "predictions_test": test, "predictions_new": new},
        "relevance": relevance,
        **{"map": grid, "points": points, "reach": reach, "checks": checks},
        "hyperparameters": hyperparameters_table({"map": ["variance", "length_scale[easting]"]}),
    }


def machine():
    """Real outcome, eight columns, unknown noise."""
    rng = np.random.default_rng(3)
    n = 300
    mean = rng.gamma(18, 0.16, n) + 1.6
    test = pd.DataFrame({"row": np.sort(rng.choice(1500, n, False)) + 2, "mean": mean})
    test["sd"] = 0.35
    test["outcome"] = rng.normal(mean, 0.35)
    for q in ("q025", "q25", "q50", "q75", "q975"):
        test[q] = mean + 0.35 * stats.norm.ppf(float("0." + q[1:]))
    new = test.head(200).drop(columns="outcome").assign(row=np.arange(2, 202), note="")
    new.loc[new.index[:14], "note"] = "speed 3300 is above 800 to 3199 seen in learning"
    for column, low, high in (("speed", 800, 3200), ("load", 5, 40), ("tool_age", 0, 120)):
        new[column] = np.round(rng.uniform(low, high, 200))
    relevance = pd.DataFrame(
        [
            ("speed", "number", "1030", "2940", 1.41, 1.33, 1.49, 5e-5),
            ("load", "number", "8.4", "36", 0.82, 0.77, 0.88, 5e-5),
            ("tool_age", "number", "13", "108", 0.80, 0.74, 0.86, 5e-5),
            ("coolant", "number", "21", "43", 0.28, 0.23, 0.34, 5e-5),
            ("feed", "number", "0.091", "0.41", 0.20, 0.15, 0.26, 5e-5),
            ("pressure", "number", "5.4", "6.6", 0.03, 0.003, 0.06, 0.05),
            ("humidity", "number", "26", "74", 0.025, 0.002, 0.06, 0.1),
            ("batch_no", "number", "3", "27", 0.02, 0.001, 0.05, 0.4),
        ],
        columns=RELEVANCE,
    ).assign(straight=np.nan)
    curves = {
        "speed": (800, 3200, lambda x: 4.2 + 1.3 * np.exp(-(((x - 2030) / 420) ** 2))),
        "load": (5, 40, lambda x: 3.9 + 0.03 * x),
        "tool_age": (0, 120, lambda x: 4.1 + 0.8 / (1 + np.exp(-(x - 75) / 10))),
        "coolant": (15, 48, lambda x: 4.4 - 0.002 * (x - 32) ** 2),
    }
    effects, rug = [], []
    for column, (low, high, curve) in curves.items():
        grid = np.linspace(low, high, 50)
        effects += [(column, x, curve(x), curve(x) - 0.05, curve(x) + 0.05) for x in grid]
        values = rng.uniform(low, high, 300)
        rug += [(column, round(x, 1), curve(x) + rng.normal(0, 0.6)) for x in values]
    models = models_table(
        [
            ("relevance", "curves that may bend sharply", -849.3, -492.0, 24, -0.386, 0.356),
            ("very_smooth", "gentle curves only", -855.7, -494.0, 24, -0.388, 0.356),
            ("one_length", "curves, all columns alike", -1304.7, -984.0, 23, -0.777, 0.525),
            ("plain", "straight lines", -1427.4, -1080.0, 24, -0.882, 0.585),
        ],
        ("linear regression", -0.882, 0.585),
        ("base rate", -1.105, 0.732),
        "gaussian",
        differences=[(0.496, 0.055), (0.494, 0.055), (0.105, 0.028), (0.0, 0.001), (-0.223, 0.038)],
        loo_errors=[0, 1.6, 20, 25],
        quick=0.03,
        exact=True,
    )
    columns = pd.DataFrame(
        [(c, "number, complete", "as it is") for c in relevance["column"]]
        + [("vibration", "number, complete", "the outcome")],
        columns=["column", "found", "done"],
    )
    info = {
        **BASE,
        **{"name": "machine", "csv": "machine.csv", "new_csv": "plan.csv", "yaml": "machine.yaml"},
        "title": "When does the machine vibrate?",
        "target": {
            **{"name": "vibration", "kind": "real", "positive": None, "negative": None},
            **{"unit": None, "unit_text": None},
        },
        **{"n_rows": 1500, "n_learning": 1200, "n_used": 1500, "n_test": 300},
        **{"base": 4.42, "shown": "relevance"},
        "uses": {"learning": 1200, "held out": 300},
        "shown_columns": ["speed", "load", "tool_age"],
        "units": {"vibration": "mm/s", "speed": "rpm"},
    }
    parameters = [f"length_scale[{c}]" for c in relevance["column"]] + ["variance", "noise"]
    return info, {
        **{"columns": columns, "models": models, "predictions_test": test, "predictions_new": new},
        **{"relevance": relevance, "effects": effects_table(effects), "rug": rug_table(rug)},
        "hyperparameters": hyperparameters_table({"relevance": parameters}),
        "checks": checks_table(),
    }


MADE = {"patients": patients, "birds": birds, "machine": machine}
