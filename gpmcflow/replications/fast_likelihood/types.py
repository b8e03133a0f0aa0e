"""The data set types of the fast-likelihood study and what a config makes of them. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass

ETA = 5.0  # of all types
LONG, SHORT = 2.0, 0.1
REAL_CASES = 442  # of scikit-learn's diabetes data
# Share of the cases of the real data that a stand-in takes, where the config states no size.
REAL_SHARES = {"sod": 1 / 3, "nystrom": 1 / 4, "tempered": (1 / 3, 1 / 6)}
LEAST_SIZE = 4

PAPER_METHODS = ("standard", "sod", "nystrom", "tempered")
LEVERS = ("nystrom_spaced", "student", "collapsed", "float32", "ordered", "rotated", "hmc")
UNTUNED = "standard_wide"  # standard slice sampling that needs no pilot
METHODS = (*PAPER_METHODS, *LEVERS, UNTUNED)
GRID = (1, 2, 4, 8)  # of r and s
RANKS = (10, 30, 50, 70, 95)  # per cent of the cases
GRID_METHODS = {f"sod_r{r}_s{s}": {"r": r, "s": s} for r in GRID for s in GRID if (r, s) != (1, 1)}
RANK_METHODS = {f"nystrom_m{share}": {"share": share} for share in RANKS}


@dataclass(frozen=True)
class DataType:
    """One row of the paper's Table 1, with the subset sizes of Table 2; None where it has no result."""

    p: int
    n: int
    scale: float
    ard: bool
    sod: int
    nystrom: int | None
    tempered: tuple[int, int] | None

    @property
    def rho(self) -> list[float]:
        """Length scales: one for all features, or rho_i = i times the scale."""
        return [self.scale * (k + 1) for k in range(self.p if self.ard else 1)]


TYPES = {
    1: DataType(1, 300, SHORT, False, 40, 30, (40, 20)),
    2: DataType(5, 300, SHORT, False, 150, None, (100, 50)),
    3: DataType(5, 300, SHORT, True, 100, None, (90, 45)),
    4: DataType(5, 300, LONG, False, 150, 120, (130, 65)),
    5: DataType(5, 300, LONG, True, 90, 80, (100, 50)),
    6: DataType(1, 900, SHORT, False, 60, 90, (60, 30)),
    7: DataType(5, 900, SHORT, False, 300, None, None),
    8: DataType(5, 900, SHORT, True, 100, None, None),
    9: DataType(5, 900, LONG, False, 100, 110, None),
    10: DataType(5, 900, LONG, True, 300, 90, None),
}


def fast_likelihood_types(study: dict) -> dict[str, dict]:
    """Return {name: settings} of the study's data set types, complete, with the methods each runs.

    Sizes that the config leaves out are the paper's, in proportion where n is another; a method whose
    stand-in has no size is not run, unless the config gives it one.
    """
    types = {}
    for name, stated in study["types"].items():
        data = stated["data"]
        kind = TYPES.get(data)
        n = stated["n"] or (kind.n if kind else REAL_CASES)
        sizes = _sizes(kind, n) | {k: v for k, v in stated["sizes"].items() if v is not None}
        wanted = stated["methods"] or study["methods"]
        methods = [m for m in METHODS if m in wanted and sizes.get(m.split("_")[0], True)]
        if stated["chain_grid"]:
            methods += GRID_METHODS
        if stated["ranks"]:
            methods += RANK_METHODS
        types[name] = {key: stated[key] for key in ("data", "noise", "constant", "prior", "more")}
        types[name] |= {key: stated[key] or study[key] for key in ("replicates", "iterations")}
        types[name] |= {"n": n, "sizes": sizes, "methods": methods, "pilot": study["pilot"]}
    return types


def data_sets(settings: dict) -> list[dict]:
    """Methods of each data set of a type, and whether they are timed.

    The first ones have all methods, and want a quiet machine; those beside them have the paper's alone,
    for their autocorrelation times, which no other work changes.
    """
    few = [method for method in settings["methods"] if method in PAPER_METHODS]
    first, beside = (
        {"methods": settings["methods"], "timed": True},
        {"methods": few, "timed": False},
    )
    return settings["replicates"] * [first] + settings["more"] * [beside]


def _sizes(kind: DataType | None, n: int) -> dict:
    """Sizes of the stand-ins for n cases: {sod: m, nystrom: m, tempered: [m_1, m_2]}; None for none."""
    if kind is None:
        shares, whole = REAL_SHARES, 1
    else:
        shares, whole = {name: getattr(kind, name) for name in REAL_SHARES}, kind.n

    def scaled(m: float) -> int:
        return max(LEAST_SIZE, round(m * n / whole))

    return {
        name: None if m is None else [scaled(k) for k in m] if isinstance(m, tuple) else scaled(m)
        for name, m in shares.items()
    }
