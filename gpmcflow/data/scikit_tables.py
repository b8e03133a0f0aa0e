"""Tables that come with scikit-learn, in natural units, as a CSV file has them: for trying things out."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from gpmcflow.errors import unknown_name


def _breast_cancer() -> pd.DataFrame:
    """Cell nuclei of 569 breast tumours; diagnosis malignant or benign."""
    from sklearn import datasets  # here: it takes long to load

    bunch = datasets.load_breast_cancer(as_frame=True)
    words = [str(name) for name in bunch.target_names]
    return bunch.data.assign(diagnosis=[words[code] for code in bunch.target])


def _diabetes() -> pd.DataFrame:
    """442 patients with ten measurements; progression of the disease after a year."""
    from sklearn import datasets  # here: it takes long to load

    bunch = datasets.load_diabetes(as_frame=True, scaled=False)
    names = {
        "bp": "blood_pressure", "s1": "total_cholesterol", "s2": "ldl", "s3": "hdl",
        "s4": "cholesterol_ratio", "s5": "log_triglycerides", "s6": "glucose",
    }  # fmt: skip
    table = bunch.data.rename(columns=names)
    table["sex"] = table["sex"].map({1.0: "group 1", 2.0: "group 2"})
    return table.assign(progression=bunch.target)


TABLES: dict[str, Callable[[], pd.DataFrame]] = {
    "breast-cancer": _breast_cancer,
    "diabetes": _diabetes,
}


def scikit_table(name: str) -> pd.DataFrame:
    """The table of that name. Raises `InputError` for an unknown one."""
    if name not in TABLES:
        raise unknown_name("table", name, TABLES)
    return TABLES[name]()
