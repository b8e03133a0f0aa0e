"""Read the real data sets: one function each, from verified files to `Parts`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from gpmcflow.data.layout import Parts, permutation, standardise
from gpmcflow.data.simulated import draw_latent, scale_of, whole_number

# Point patterns as counts in bins, with the events themselves: coal mining, redwoods, a simulated one.

# Days between explosions in British coal mines with ten or more deaths, 1851-03-15 to 1962-03-22.
COAL_INTERVALS = """
157 123 2 124 12 4 10 216 80 12 33 66 232 826 40 12 29 190 97 65 186 23 92 197 431 16 154 95 25 19 78
202 36 110 276 16 88 225 53 17 538 187 34 101 41 139 42 1 250 80 3 324 56 31 96 70 41 93 24 91 143 16
27 144 45 6 208 29 112 43 193 134 420 95 125 34 127 218 2 0 378 36 15 31 215 11 137 4 15 72 96 124 50
120 203 176 55 93 59 315 59 61 1 13 189 345 20 81 286 114 108 188 233 28 22 61 78 99 326 275 54 217
113 32 388 151 361 312 354 307 275 78 17 1205 644 467 871 48 123 456 498 49 131 182 255 194 224 566
462 228 806 517 1643 54 326 1312 348 745 217 120 275 20 66 292 4 368 307 336 19 329 330 312 536 145
75 364 37 19 156 47 129 1630 29 217 7 18 1358 2366 952 632
"""
TEN_COUNTS = (3, 5, 4, 2, 0, 0, 1, 0, 2, 6)


def coal(_files: Sequence[Path] = (), *, bin_days: int = 365) -> Parts:
    """Coal-mining disasters, counted in bins of ``bin_days`` days from the day of the first one on.

    191 events over 40550 days; x = (middle day of the bin - first day) / 40549, so that events go from
    0 to 1. With 365 days there are 112 bins, the last one of 35 days only, with 50 days 811.

    Source: Jarrett (1979); bins as in Murray & Adams (2010) and their public code.
    """
    width = whole_number("coal: bin_days", bin_days, 1)
    days = np.concatenate([[0], np.cumsum([int(v) for v in COAL_INTERVALS.split()])])
    last = int(days[-1])
    starts = np.arange(0, last + 1, width)
    ends = np.minimum(starts + width, last + 1)  # the day after the last one of each bin
    counts = np.bincount(days // width, minlength=len(starts))
    centres = 0.5 * (starts + ends - 1)
    return Parts(
        X=(centres / last)[:, None],
        y=counts,
        features=["time"],
        label_coding=f"disasters in a bin of {width} days",
        preprocessing=f"time in units of {last} days from 1851-03-15 on",
        coords={"event_time": ("event", days / last)},
    )


def redwood(files: Sequence[Path], *, side: int = 25) -> Parts:
    """Redwood seedlings and saplings in the unit square, counted in ``side`` x ``side`` equal cells.

    Cells come row by row, the first coordinate being the slow one; X holds their centres.

    Source: Strauss (1975); cells as in Murray & Adams (2010).
    """
    m = whole_number("redwood: side", side, 2)
    separator = "," if files[0].suffix == ".csv" else r"\s+"
    header = 0 if files[0].suffix == ".csv" else None
    events = pd.read_csv(files[0], sep=separator, header=header).to_numpy(float)
    cells = np.minimum((events * m).astype(int), m - 1)
    counts = np.bincount(cells[:, 0] * m + cells[:, 1], minlength=m * m)
    centres = (np.arange(m) + 0.5) / m
    return Parts(
        X=np.stack(np.meshgrid(centres, centres, indexing="ij"), axis=-1).reshape(-1, 2),
        y=counts,
        features=["x", "y"],
        label_coding=f"trees in a cell of {m} x {m}",
        preprocessing="window rescaled to the unit square upstream",
        coords={"event_x": ("event", events[:, 0]), "event_y": ("event", events[:, 1])},
    )


def ten_counts(_files: Sequence[Path] = ()) -> Parts:
    """Ten made-up counts at equally spaced times, small enough for exact answers by quadrature."""
    return Parts(
        X=np.linspace(0.0, 1.0, len(TEN_COUNTS))[:, None],
        y=np.array(TEN_COUNTS),
        features=["time"],
        label_coding="counts, made up",
        preprocessing="none",
    )


def simulated_cox(
    _files: Sequence[Path] = (),
    *,
    n: int = 60,
    log_length_scale: float = -2.0,
    log_signal_sd: float = 0.0,
    log_rate: float = 1.0,
    seed: int = 0,
) -> Parts:
    """Draw a log-Gaussian Cox process on [0, 1], counted in ``n`` equal bins.

    f ~ GP(0, s^2 exp(-(x - x')^2 / (2 l^2))) at the centres, with l = exp(log_length_scale) and
    s = exp(log_signal_sd); a bin has Poisson(exp(f + log_rate)) events, uniform within it.

    Raises InputError for a wrong option.
    """
    n = whole_number("simulated-cox: n", n, 2)
    seed = whole_number("simulated-cox: seed", seed, 0)
    length = scale_of("simulated-cox: log_length_scale", log_length_scale)
    signal = scale_of("simulated-cox: log_signal_sd", log_signal_sd)
    rate = scale_of("simulated-cox: log_rate", log_rate)
    of_latent, of_counts, of_events = (
        np.random.default_rng(sequence) for sequence in np.random.SeedSequence(seed).spawn(3)
    )
    X = ((np.arange(n) + 0.5) / n)[:, None]
    latent, jitter = draw_latent(X / length, signal, of_latent, "simulated-cox")
    counts = of_counts.poisson(rate * np.exp(latent))
    events = (np.repeat(np.arange(n), counts) + of_events.random(counts.sum())) / n
    return Parts(
        X=X,
        y=counts,
        latent=latent,
        features=["time"],
        label_coding="events in a bin",
        preprocessing="none",
        coords={"event_time": ("event", np.sort(events))},
        attrs={
            "seed": seed,
            "log_length_scale": float(log_length_scale),
            "log_signal_sd": float(log_signal_sd),
            "log_rate": float(log_rate),
            "jitter": jitter,
        },
    )


# Read the real data sets: one function each, from verified files to `Parts`.
#
# Each takes the paths of its files in the order of its catalogue entry.

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
