"""Kinds of nodes of a covariance expression, columns of the table they stand in, and kinds of passes."""

from __future__ import annotations

# Kinds of nodes. A leaf of one of the first four has an argument, which its own loops turn into values:
# squared scaled distances, inner products of scaled inputs, 4 sin^2 of the scaled distance over l^2, and
# twice the sum of 1 / l over the columns whose levels differ.
(
    DISTANCES, INNER_PRODUCTS, PHASES, MISMATCHES, ONE, SAME_CASE, SAME_LEVELS, GIVEN, SUM, PRODUCT,
) = range(10)  # fmt: skip
# Columns of the table. Places are those of parameters; -1 where there is none. JITTER is 1 where a node's
# diagonal has the jitter, ARGUMENT where the slopes of a leaf are computed from its argument.
(
    KIND, LEFT, RIGHT, SCALE, N_SCALES, N_COLUMNS, ROW, AMPLITUDE, EXTRA, DEGREE, ARGUMENT, SLOT, JITTER,
) = range(13)  # fmt: skip
WIDTH = 13
VALUES, SLOPES = range(2)  # loops of a leaf
# The numbers that a leaf's loops are called with: how many values, the log of the parameter that is neither
# a scale nor the amplitude, the degree, a switch (1: values leave v alone; slopes include that parameter's);
# and the slopes of the scale and of that parameter, which they return.
SIZE, OWN, POWER, SWITCH, SCALE_SLOPE, OWN_SLOPE = range(6)
HEAD = 6
FILL, ADJOINT, CROSS, DIAGONAL = range(4)
PANEL = 2048  # numbers in a buffer
DIRECT = 4  # columns of a leaf up to which distances are summed again wherever they are needed
# Where a leaf's distances come from: the inputs, its slot, its slot plus a change, its slot over l^2.
FRESH, KEPT, MOVED, SCALED = range(4)
