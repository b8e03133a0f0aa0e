"""Three made-up files as people have them, and new rows for each; the same bytes every time.

python examples/own_data/make_data.py [folder]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd


def patients(rng: np.random.Generator, n: int, first: int, *, with_outcome: bool) -> pd.DataFrame:
    """Hospital stays with missing cells: creatinine and past admissions matter, most columns do not."""
    creatinine = np.exp(rng.normal(4.45, 0.32, n)).round()
    past = rng.poisson(0.9, n)
    ward = rng.choice(["medicine", "surgery", "cardiology", "neurology"], n, p=[0.4, 0.3, 0.2, 0.1])
    smoker = rng.choice(["no", "former", "yes"], n, p=[0.5, 0.3, 0.2])
    days = pd.to_timedelta(rng.integers(0, 720, n), unit="D")
    table = pd.DataFrame(
        {
            "patient_id": [f"P-{first + k:04d}" for k in range(n)],
            "admitted": (pd.Timestamp("2023-01-02") + days).strftime("%Y-%m-%d"),
            "hospital": "St. Anna",
            "age": rng.normal(62, 14, n).clip(18, 98).round().astype(int),
            "bmi": rng.normal(27, 4.5, n).clip(15, 50).round(1),
            "creatinine": creatinine.astype(int),
            "systolic": rng.normal(135, 18, n).round().astype(int),
            "prior_admissions": past,
            "length_of_stay": rng.gamma(2, 3, n).round(1) + 1,
            "ward": ward,
            "smoker": smoker,
        }
    )
    eta = 1.3 * np.tanh((creatinine - 92) / 25) + 0.55 * np.minimum(past, 4) - 0.9
    eta += 0.4 * (ward == "surgery") + 0.35 * (smoker == "former")
    table["readmitted"] = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-eta)), "yes", "no")
    table = table.astype(object)
    for column, share in (("bmi", 0.03), ("creatinine", 0.07), ("readmitted", 0.02)):
        table.loc[rng.choice(n, round(share * n), replace=False), column] = ""
    return table if with_outcome else table.drop(columns="readmitted")


def birds(rng: np.random.Generator, n: int, *, with_outcome: bool) -> pd.DataFrame:
    """Counts of visits of different length: a map with three centres."""
    east, north = rng.uniform(0, 30, n).round(2), rng.uniform(0, 28, n).round(2)
    hours = rng.choice([0.5, 1, 1.5, 2, 3, 4], n)
    rate = 0.5 + sum(
        height * np.exp(-(((east - x) / a) ** 2) - ((north - y) / b) ** 2)
        for height, x, y, a, b in ((2.6, 8, 20, 4, 3.5), (2.4, 7, 9, 5, 3), (1.5, 22, 15, 4, 4))
    )
    table = pd.DataFrame({"easting": east, "northing": north, "hours": hours})
    return table.assign(count=rng.poisson(rate * hours)) if with_outcome else table


def machine(rng: np.random.Generator, n: int, *, with_outcome: bool) -> pd.DataFrame:
    """Vibration of a machine: a peak in speed, a threshold in tool age, three columns without influence."""
    table = pd.DataFrame(
        {
            "speed": rng.uniform(800, 3200, n).round(),
            "load": rng.uniform(5, 40, n).round(1),
            "tool_age": rng.uniform(0, 120, n).round(),
            "coolant": rng.normal(32, 8, n).round(1),
            "feed": rng.uniform(0.05, 0.45, n).round(3),
            "pressure": rng.normal(6, 0.5, n).round(2),
            "humidity": rng.uniform(20, 80, n).round(),
            "batch_no": rng.integers(1, 30, n),
        }
    )
    vibration = (
        2.2
        + 1.3 * np.exp(-(((table["speed"] - 2030) / 420) ** 2))
        + 0.03 * table["load"]
        + 0.8 / (1.0 + np.exp(-(table["tool_age"] - 75) / 10))
        - 0.012 * (table["coolant"] - 32)
        + 0.7 * table["feed"]
        + rng.normal(0, 0.34, n)
    )
    return table.assign(vibration=vibration.round(3)) if with_outcome else table


def main(folder: Path) -> None:
    """Write the six files."""
    rng = np.random.default_rng(2026)
    new = patients(np.random.default_rng(2027), 40, 601, with_outcome=False)
    new.loc[[4, 21], "ward"] = "geriatrics"  # not in the first file
    new.loc[7, "creatinine"] = 612  # far outside
    tables = {
        "patients": patients(rng, 600, 1, with_outcome=True),
        "new_patients": new,
        "birds": birds(rng, 400, with_outcome=True),
        "next_season": birds(rng, 120, with_outcome=False),
        "machine": machine(rng, 1500, with_outcome=True),
        "plan": machine(rng, 200, with_outcome=False),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent))
