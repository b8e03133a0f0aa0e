"""Kinds of nodes of a covariance expression, columns of the table they stand in, and kinds of passes."""

from __future__ import annotations

# Nodes. Those up to CATEGORICAL are exp(-argument / 2) times a polynomial of the argument.
(
    SQUARED_EXPONENTIAL, MATERN12, MATERN32, MATERN52, RATIONAL_QUADRATIC, PERIODIC, CATEGORICAL,
    POLYNOMIAL, CONSTANT, WHITE, GROUP, GIVEN, SUM, PRODUCT,
) = range(14)  # fmt: skip
# Columns of the table. Places are those of parameters; -1 where there is none. JITTER is 1 where a node's
# diagonal has the jitter.
(
    CODE, LEFT, RIGHT, SCALE, N_SCALES, N_COLUMNS, ROW, AMPLITUDE, EXTRA, DEGREE, SLOT, JITTER,
) = range(12)  # fmt: skip
WIDTH = 12
FILL, ADJOINT, CROSS, DIAGONAL = range(4)
PANEL = 2048  # numbers in a buffer
DIRECT = 4  # columns of a leaf up to which distances are summed again wherever they are needed
# Where a leaf's distances come from: the inputs, its slot, its slot plus a change, its slot over l^2.
FRESH, KEPT, MOVED, SCALED = range(4)
