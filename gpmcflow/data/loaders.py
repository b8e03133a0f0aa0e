"""Read the real data sets: one function each, from verified files to `Parts`.

Each takes the paths of its files in the order of its catalogue entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from gpmcflow.data.layout import Parts, permutation, standardise

SOILS = {
    1: "red soil",
    2: "cotton crop",
    3: "grey soil",
    4: "damp grey soil",
    5: "vegetation stubble",
    7: "very damp grey soil",
}
CHESS_ATTRIBUTES = (  # in the order of the file's columns
    "bkblk bknwy bkon8 bkona bkspr bkxbq bkxcr bkxwp blxwp bxqsq cntxt dsopp dwipd hdchk katri "
    "mulch qxmsq r2ar8 reskd reskr rimmx rkxwp rxmsq simpl skach skewr skrxp spcop stlmt thrsk "
    "wkcti wkna8 wknck wkovl wkpos wtoeg"
)
SONAR_SEED = 1988  # year of the paper; fixes the split
STANDARDISED = "features standardised by the training mean and n-1 standard deviation"


def digits_3v5(_files: Sequence[Path]) -> Parts:
    """Threes against fives of the 8 x 8 digits that come with scikit-learn; needs no file.

    Pixels 0..16 go to [-1, 1]. Of the 365 threes and fives, in scikit-learn's order and counted
    from 0, every third one (0, 3, 6, ...) is a test case: 243 training, 122 test cases.
    """
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)
    keep = np.isin(digits, (3, 5))
    X, y = pixels[keep] / 8.0 - 1.0, _sign(digits[keep] == 3)
    test = np.arange(len(X)) % 3 == 0
    return Parts(
        X=X[~test],
        y=y[~test],
        X_test=X[test],
        y_test=y[test],
        features=_pixel_names(8),
        label_coding="+1 = digit 3, -1 = digit 5",
        preprocessing="pixels 0..16 scaled to -1..1; test cases: every third of the threes and "
        "fives in scikit-learn's order, from the first on",
    )


def usps_3v5(files: Sequence[Path]) -> Parts:
    """Threes against fives of the resampled USPS digits (Rasmussen & Williams 2006, ch. 3).

    16 x 16 pixels in [-1, 1], row by row; 767 training, 773 test cases. Read from
    `usps3vs5.mat`, which has the same training cases, there is no test set.
    """
    common = {"features": _pixel_names(16), "label_coding": "+1 = digit 3, -1 = digit 5"}
    if files[0].suffix == ".mat":
        from scipy.io import loadmat

        content = loadmat(files[0])
        return Parts(
            X=content["usps3vs5_data"],
            y=content["usps3vs5_labels"].ravel(),
            preprocessing="none; no test set: usps3vs5.mat holds the 767 training cases alone",
            **common,
        )
    with np.load(files[0], allow_pickle=False) as content:
        return Parts(
            X=content["x_train"],
            y=content["y_train"],
            X_test=content["x_test"],
            y_test=content["y_test"],
            preprocessing="none; the training and test cases of Rasmussen and Williams, the test "
            "cases not in their order",
            **common,
        )


def ionosphere(files: Sequence[Path], *, keep_constant: bool = False) -> Parts:
    """Radar returns, good against bad; column 2, which is 0 throughout, is left out unless asked for."""
    table = pd.read_csv(files[0], header=None)
    X, y = table.iloc[:, :34].to_numpy(float), _sign(table[34] == "g")
    names = [f"{part}_{pulse:02d}" for pulse in range(1, 18) for part in ("real", "imaginary")]
    columns = "all 34 columns, column 2 (imaginary_01) constant"
    if not keep_constant:
        X = np.delete(X, 1, axis=1)
        del names[1]
        columns = "constant column 2 (imaginary_01) dropped"
    return Parts(
        X=X[:200],
        y=y[:200],
        X_test=X[200:],
        y_test=y[200:],
        features=names,
        label_coding="+1 = g (good), -1 = b (bad)",
        preprocessing=f"{columns}, no scaling; split of the "
        "repository: rows 1-200 training, 201-351 test",
    )


def sonar(files: Sequence[Path]) -> Parts:
    """Sonar echoes, mines against rocks; shuffled (fixed), first 104 training, last 104 test."""
    table = pd.read_csv(files[0], header=None)
    order = permutation(SONAR_SEED, len(table))
    X = table.iloc[:, :60].to_numpy(float)[order]
    y = _sign(table[60] == "M")[order]
    return Parts(
        X=X[:104],
        y=y[:104],
        X_test=X[104:],
        y_test=y[104:],
        features=[f"energy_{band:02d}" for band in range(1, 61)],
        label_coding="+1 = M (mine), -1 = R (rock)",
        preprocessing=f"no scaling; rows shuffled with seed {SONAR_SEED}, then the first 104 "
        "training, the last 104 test",
    )


def pima(files: Sequence[Path]) -> Parts:
    """Diabetes among Pima women, Ripley's split of the complete cases: 200 and 332."""
    train, test = (pd.read_csv(path, sep=r"\s+") for path in files)
    names = ["npreg", "glu", "bp", "skin", "bmi", "ped", "age"]
    X, X_test = standardise(
        "pima", names, train[names].to_numpy(float), test[names].to_numpy(float)
    )
    return Parts(
        X=X,
        y=_sign(train["type"] == "Yes"),
        X_test=X_test,
        y_test=_sign(test["type"] == "Yes"),
        features=names,
        label_coding="+1 = Yes (diabetic), -1 = No",
        preprocessing=f"{STANDARDISED}; Ripley's split of the complete cases",
    )


def crabs(files: Sequence[Path]) -> Parts:
    """Sex of 200 Leptograpsus crabs from five lengths in mm; no test set."""
    table = pd.read_csv(files[0], sep=r"\s+")
    names = ["FL", "RW", "CL", "CW", "BD"]
    X, _ = standardise("crabs", names, table[names].to_numpy(float))
    return Parts(
        X=X,
        y=_sign(table["sex"] == "M"),
        features=names,
        label_coding="+1 = M (male), -1 = F (female)",
        preprocessing=f"{STANDARDISED}; sp and index are not used; no test set",
    )


def statlog_cotton(files: Sequence[Path]) -> Parts:
    """Cotton crop (class 2) against every other soil of the Statlog satellite image, `sat.trn`.

    The task of Shahbaba et al. (2014), section 4.2; vegetation stubble counts as soil.
    """
    X, classes, names = _statlog("statlog-cotton", files[0])
    return Parts(
        X=X,
        y=_sign(classes == 2),
        features=names,
        label_coding="+1 = class 2 (cotton crop), -1 = classes 1, 3, 4, 5, 7",
        preprocessing=f"{STANDARDISED}; sat.trn alone, no test set",
    )


def statlog(files: Sequence[Path]) -> Parts:
    """All six classes of the Statlog satellite image, `sat.trn`; `y` holds class codes 0..5."""
    X, classes, names = _statlog("statlog", files[0])
    values, codes = np.unique(classes, return_inverse=True)
    return Parts(
        X=X,
        y=codes,
        features=names,
        label_coding=", ".join(
            f"{code} = class {value} ({SOILS[value]})" for code, value in enumerate(values)
        ),
        preprocessing=f"{STANDARDISED}; sat.trn alone, no test set",
    )


def ctg(files: Sequence[Path]) -> Parts:
    """Fetal state from 21 features of a cardiotocogram: pathologic against normal and suspect.

    Column CLASS, which nearly tells the state, is not used. Width is Max - Min in every row, so
    the standardised features have rank 20. Read from `CTG.txt` the features are the same, rounded
    to 9 decimals.
    """
    table = pd.read_csv(files[0], sep="\t" if files[0].suffix == ".txt" else ",")
    names = table.columns[:21].tolist()
    X, _ = standardise("ctg", names, table[names].to_numpy(float))
    return Parts(
        X=X,
        y=_sign(table["NSP"] == 3),
        features=names,
        label_coding="+1 = NSP 3 (pathologic), -1 = NSP 1, 2 (normal, suspect)",
        preprocessing=f"{STANDARDISED}; AC..DP per second; CLASS is not used; no test set",
    )


def chess(files: Sequence[Path]) -> Parts:
    """King and rook against king and pawn: white can win or not, from 36 attributes of the board.

    Each attribute is one column, the alphabetical rank of its level from 0 on (so katri, with
    levels b, n, w, is 0, 1, 2), as in Shahbaba et al. (2014).
    """
    table = pd.read_csv(files[0], header=None, dtype=str, na_filter=False)
    ranks = [np.unique(table[j].to_numpy(object), return_inverse=True)[1] for j in range(36)]
    return Parts(
        X=np.column_stack(ranks),
        y=_sign(table[36] == "won"),
        features=CHESS_ATTRIBUTES.split(),
        label_coding="+1 = won, -1 = nowin (white)",
        preprocessing="levels coded 0, 1 (, 2) in alphabetical order, no scaling; no test set",
    )


def breast_cancer(_files: Sequence[Path]) -> Parts:
    """Malignant against benign tumours, the set that comes with scikit-learn; needs no file."""
    from sklearn.datasets import load_breast_cancer

    content = load_breast_cancer()
    names = content.feature_names.tolist()
    X, _ = standardise("breast-cancer", names, content.data)
    return Parts(
        X=X,
        y=_sign(content.target_names[content.target] == "malignant"),
        features=names,
        label_coding="+1 = malignant, -1 = benign",
        preprocessing=f"{STANDARDISED}; no test set",
    )


def _statlog(where: str, path: Path) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return the standardised features, the classes 1..5 and 7, and the names of the features."""
    values = pd.read_csv(path, sep=r"\s+", header=None).to_numpy()
    names = [f"pixel_{pixel}_band_{band}" for pixel in range(1, 10) for band in range(1, 5)]
    X, _ = standardise(where, names, values[:, :36].astype(float))
    return X, values[:, 36], names


def _sign(positive: np.ndarray | pd.Series) -> np.ndarray:
    """Return +1 where true and -1 where false."""
    return np.where(np.asarray(positive), 1.0, -1.0)


def _pixel_names(side: int) -> list[str]:
    return [f"pixel_{row:02d}_{column:02d}" for row in range(side) for column in range(side)]
