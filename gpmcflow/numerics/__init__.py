"""Numerical routines that know no model: LAPACK from compiled loops, exponentials of whole buffers."""
