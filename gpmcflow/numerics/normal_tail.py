"""Tail of the normal distribution in arithmetic that a compiler turns into vector instructions."""

from __future__ import annotations

import numba
import numpy as np

SQRT_HALF = 0.7071067811865476
SQRT_2_OVER_PI = 0.7978845608028654
INV_SQRT_2PI = 0.3989422804014327
HALF_LOG_2PI = 0.9189385332046727
# (1 + 2x) erfcx(x) as a polynomial in (x - 3.75) / (x + 3.75), x >= 0: the Chebyshev interpolant
# computed with 40 digits and expanded; relative error below 1e-15. One branch-free polynomial lets
# the compiler use vector instructions, which scipy.special.erfcx cannot.
_ERFCX = np.array([
    1.2375126308378275, -0.14024059858554697, 0.0035854154854644293, 0.0822767384901452,
    -0.10880393014174886, 0.09230432116037748, -0.05869339858963677, 0.028362277418956406,
    -0.009746579558029276, 0.0017556258528952954, 0.0002937136655913448, -0.0002901540805408417,
    5.164909889268241e-05, 2.238423915508223e-05, -1.1444146237700524e-05, -9.73559896736775e-07,
    1.751637648849062e-06, -5.7218230603224086e-08, -2.5866850716155884e-07, 2.3263508708859124e-08,
    3.8675334242222354e-08, -3.744210080962018e-09, -5.1739902140113095e-09, 3.1114333809799254e-10,
    4.2514714447963895e-10,
])  # fmt: skip


@numba.njit(inline="always", error_model="numpy")
def erfcx(x: float) -> float:
    """exp(x^2) erfc(x), x >= 0."""
    t = (x - 3.75) / (x + 3.75)
    p = _ERFCX[-1]
    for k in range(_ERFCX.size - 2, -1, -1):
        p = p * t + _ERFCX[k]
    return p / (1.0 + 2.0 * x)


@numba.njit(error_model="numpy")
def mills_excess(a: float) -> tuple[float, float, float]:
    """h(a) - a = 1 / (a + 2 / (a + 3 / ..)), h the hazard, a >= 3; the fractions that begin with 2 and 3."""
    first = second = third = 0.0
    for k in range(60, 0, -1):
        first, second, third = k / (a + first), first, second
    return first, second, third
