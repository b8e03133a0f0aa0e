"""A covariance expression on given inputs as a tape, and the buffers in which one chain evaluates it."""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
from numba import types
from scipy.spatial.distance import cdist

from gpmcflow.covariances import nodes
from gpmcflow.covariances import sweep as passes
from gpmcflow.covariances.expressions import Covariance, Leaf, Product, Sum
from gpmcflow.covariances.finite import is_finite
from gpmcflow.covariances.given import (
    add_given_slopes,
    given_diagonals,
    given_matrices,
)
from gpmcflow.errors import InputError
from gpmcflow.numerics.code_cache import compiled, compiled_callback

# The first compilation of the passes: once for an installation, announced, and out of what is timed.

log = logging.getLogger(__name__)
SLOW = 2.0  # seconds before a log line reports a compilation


@cache
def load_passes() -> None:
    """Load the compiled passes from disk; where they are not there, compile them, and say so in one line."""
    message = "gpmcflow: compiling the covariance loops, once for this installation (half a minute at most)"
    timer = threading.Timer(SLOW, lambda: log.warning(message))
    timer.daemon = True
    timer.start()
    try:
        table = np.full((1, nodes.WIDTH), -1)
        table[0, [nodes.KIND, nodes.N_SCALES, nodes.N_COLUMNS]] = nodes.ONE, 0, 0
        none, numbers, matrix = np.empty((0, 0, 0)), np.zeros(1), np.empty((1, 1))
        places, Z = np.empty(0, dtype=np.int64), np.empty((1, 1))
        passes.prepare(
            table, places, numbers, np.zeros(1, dtype=np.int64), np.empty((1, 1)), numbers, Z
        )
        passes.sweep(
            nodes.FILL, table, np.zeros((1, 2), dtype=np.int64), numbers, np.zeros(1, dtype=np.bool_), Z, Z,
            np.zeros(1, dtype=np.int64), 0.0, none, none, none, none, np.empty((0, 0)), 0.0, 0.0, matrix,
            np.empty(0),
        )  # fmt: skip
    finally:
        timer.cancel()


@cache
def _address(loop: Callable, *more: str) -> int:
    """Address of a leaf's loop, compiled once in a process; sums may be taken in another order."""
    pointers = types.void(*[types.CPointer(types.float64)] * 5)
    return int(compiled_callback(loop, pointers, fastmath={"contract", *more}).address)  # type: ignore[arg-type]


_NONE, _NO_MATRIX, _NO_SLOPES = np.empty((0, 0, 0)), np.empty((0, 0)), np.empty(0)
LARGEST_KEPT = 1000  # cases up to which reading K is cheaper than making it again
TILE = 32  # side of the squares in which a matrix is mirrored


class WritableArrays:
    """What comes from another process may be read-only, which compiled code takes for another type."""

    def __setstate__(self, state: dict) -> None:
        arrays = {k: v.copy() for k, v in state.items() if isinstance(v, np.ndarray)}
        self.__dict__.update(state | arrays)


class Tape(WritableArrays):
    """A bound expression as a table of whole numbers; see `gpmcflow.covariances.sweep`.

    ``columns`` are the places of each leaf's columns in X (n, p), ``places`` those of its parameters in the
    vector of all coordinates (logs of positive parameters), of which ``free`` says which are sampled.
    """

    def __init__(
        self,
        covariance: Covariance,
        columns: Sequence[tuple[int, ...]],
        places: Sequence[np.ndarray],
        free: np.ndarray,
        X: np.ndarray,
    ) -> None:
        self.X, self.Xt = X, np.array(X.T, order="C")  # writable, as compiled code knows it
        self.centre = 0.5 * (X.min(0) + X.max(0))
        self.leaves, self.leaf_columns, self.leaf_places = covariance.leaves(), columns, places
        self.free = np.ascontiguousarray(free, dtype=np.bool_)
        rows: list[list[int]] = []
        of_rows: list[int] = []
        self.n_slots = self.n_given = 0
        self._add(covariance, iter(zip(columns, places, strict=True)), rows, of_rows)
        self.table = np.array(rows, dtype=np.int64)
        self.finite = is_finite(covariance)
        self._mark(len(rows) - 1)
        self.columns = np.array(of_rows, dtype=np.int64)

    def _add(self, covariance: Any, bound: Iterator, rows: list, of_rows: list) -> int:
        row = [-1] * nodes.WIDTH
        if isinstance(covariance, (Sum, Product)):
            row[nodes.LEFT] = self._add(covariance.left, bound, rows, of_rows)
            row[nodes.RIGHT] = self._add(covariance.right, bound, rows, of_rows)
            row[nodes.KIND] = nodes.SUM if isinstance(covariance, Sum) else nodes.PRODUCT
        else:
            columns, places = next(bound)
            self._add_leaf(covariance, columns, [int(place) for place in places], row, of_rows)
        rows.append(row)
        return len(rows) - 1

    def _add_leaf(
        self, leaf: Leaf, columns: tuple, places: list[int], row: list, of_rows: list
    ) -> None:
        amplitude = places.pop() if leaf.has_amplitude else -1
        extra = places.pop() if leaf.extra else -1
        if leaf.scales and any(place != places[0] + k for k, place in enumerate(places)):
            raise InputError(
                f"{type(leaf).__name__}: some of its length scales are shared with another term; share all "
                "of them in the same order, or write a product of one covariance a column"
            )
        row[nodes.KIND], row[nodes.N_COLUMNS], row[nodes.ROW] = (
            leaf.kind,
            len(columns),
            len(of_rows),
        )
        row[nodes.SCALE], row[nodes.N_SCALES] = (places[0], len(places)) if leaf.scales else (-1, 0)
        row[nodes.EXTRA], row[nodes.AMPLITUDE] = extra, amplitude
        row[nodes.DEGREE] = getattr(leaf, "degree", -1)
        row[nodes.ARGUMENT] = leaf.slopes_need_argument
        of_rows += columns * 3 if leaf.kind == nodes.PHASES else columns
        if leaf.kind == nodes.GIVEN:
            row[nodes.SLOT], self.n_given = self.n_given, self.n_given + 1
        elif leaf.kind == nodes.DISTANCES and len(columns) > nodes.DIRECT:
            row[nodes.SLOT], self.n_slots = self.n_slots, self.n_slots + 1

    def _mark(self, node: int) -> bool:
        """Give the jitter to the terms below a node that need it; whether the node is of few functions.

        A term of few functions needs none beside others: its own size says nothing of theirs.
        """
        row = self.table[node]
        if row[nodes.KIND] == nodes.SUM:
            few = [self._mark(row[nodes.LEFT]), self._mark(row[nodes.RIGHT])]
            return all(few)
        if self._few(node):
            return True
        row[nodes.JITTER] = 1
        return False

    def _few(self, node: int) -> bool:
        row = self.table[node]
        if row[nodes.KIND] in (nodes.SUM, nodes.PRODUCT):
            return self._few(row[nodes.LEFT]) and self._few(row[nodes.RIGHT])
        return bool(row[nodes.KIND] in (nodes.ONE, nodes.INNER_PRODUCTS))

    def centred(self) -> Tape:
        """The same expression about the centres of the columns: of few functions, the part that varies."""
        other = copy.copy(self)
        other.X = self.X - self.centre
        other.Xt, other.centre = np.array(other.X.T, order="C"), np.zeros_like(self.centre)
        return other

    @cached_property
    def loops(self) -> np.ndarray:
        """Addresses of each node's loops in this process, 0 where it has none, (n, 2)."""
        found = np.zeros((len(self.table), 2), dtype=np.int64)
        has_argument = self.table[:, nodes.KIND] <= nodes.MISMATCHES
        leaves = iter(self.leaves)
        for k in np.flatnonzero(self.table[:, nodes.KIND] < nodes.SUM):
            leaf = next(leaves)
            if has_argument[k]:
                found[k] = _address(leaf.values_loop), _address(leaf.slopes_loop, "reassoc")
        return found

    def __getstate__(self) -> dict:
        return {key: value for key, value in self.__dict__.items() if key != "loops"}

    @property
    def n_cases(self) -> int:
        """Number n of cases."""
        return len(self.X)

    @cached_property
    def common_scale(self) -> int | None:
        """Place of a parameter whose square multiplies the whole expression, or None: a free one first."""
        used = np.concatenate(self.leaf_places)
        scales = [s for s in self._scales(len(self.table) - 1) if np.count_nonzero(used == s) == 1]
        return min(scales, key=lambda place: not self.free[place], default=None)

    def _scales(self, node: int) -> list[int]:
        row = self.table[node]
        if row[nodes.KIND] == nodes.PRODUCT:
            return self._scales(row[nodes.LEFT]) + self._scales(row[nodes.RIGHT])
        leaf = row[nodes.KIND] < nodes.SUM and row[nodes.AMPLITUDE] >= 0
        return [int(row[nodes.AMPLITUDE])] if leaf else []

    def moved_leaf(self, place: int) -> tuple[int, int] | None:
        """(node, column of X) whose length scale alone this place is, of a leaf with a slot; else None."""
        t = self.table
        first, count = t[:, nodes.SCALE], t[:, nodes.N_SCALES]
        owners = np.flatnonzero((first >= 0) & (first <= place) & (place < first + count))
        others = np.count_nonzero(t[:, [nodes.EXTRA, nodes.AMPLITUDE]] == place)
        if len(owners) != 1 or others or t[owners[0], nodes.SLOT] < 0 or count[owners[0]] == 1:
            return None
        node = int(owners[0])
        return node, int(self.columns[t[node, nodes.ROW] + place - first[node]])


class CovarianceBuffers:
    """Work space of one chain for the passes over a tape. ``full`` is the vector of all coordinates."""

    def __init__(self, tape: Tape, jitter: float = 0.0) -> None:
        load_passes()
        self.tape, self.jitter = tape, jitter
        n = tape.n_cases
        self._Z = np.empty((len(tape.columns) + 1, n))
        t, n_nodes = tape.table, len(tape.table)
        self._of_new = np.full(n_nodes, nodes.FRESH)  # sources for inputs that are not the cases
        scaled = (t[:, nodes.SLOT] >= 0) & (t[:, nodes.N_SCALES] == 1)
        self._fresh = np.where(scaled, nodes.SCALED, nodes.FRESH)
        self._kept = np.where(scaled, nodes.SCALED, nodes.KEPT)
        self._unscaled = np.flatnonzero(scaled & (t[:, nodes.KIND] != nodes.GIVEN)).tolist()
        #: whether `fill_from` changes distances that are kept, so that rounding piles up
        self.drifts = bool(np.any((t[:, nodes.SLOT] >= 0) & (t[:, nodes.N_SCALES] > 1)))
        self._alone = OwnJitter(tape, jitter) if jitter > 0.0 and tape.finite else None

    @cached_property
    def _slots(self) -> np.ndarray:
        return np.empty((self.tape.n_slots, self.tape.n_cases, self.tape.n_cases))

    @cached_property
    def _given(self) -> np.ndarray:
        return np.empty((self.tape.n_given, self.tape.n_cases, self.tape.n_cases))

    def fill(self, full: np.ndarray, K: np.ndarray) -> float:
        """K with its jitter into the lower triangle of ``K`` (column, row); its trace.

        The jitter is that share of the diagonal of those terms that are not of few functions; where all
        are, it is `OwnJitter`.
        """
        trace = self._fill(full, self._fresh, 0.0, self._slots, K)
        if self._alone is None:
            return trace
        added = self._alone.variance(full)
        K.reshape(-1)[:: len(K) + 1] += added
        return trace + len(K) * added

    def matrix(self, full: np.ndarray) -> np.ndarray:
        """K with its jitter, both triangles (n, n)."""
        K = np.empty((self.tape.n_cases, self.tape.n_cases))
        self.fill(full, K)
        return symmetric(K)

    def fill_from(
        self,
        other: CovarianceBuffers,
        full: np.ndarray,
        before: np.ndarray,
        place: int,
        K: np.ndarray,
    ) -> float:
        """As `fill`, where only the coordinate at ``place`` differs from ``before``, that of ``other``.

        One length scale of a leaf that keeps its distances changes them by O(1) a pair.
        """
        moved = self.tape.moved_leaf(place)
        if moved is None:
            return self.fill(full, K)
        node, column = moved
        self._Z[-1] = self.tape.Xt[column]
        source = self._kept.copy()
        source[node] = nodes.MOVED
        change = float(np.exp(-2.0 * full[place]) - np.exp(-2.0 * before[place]))
        return self._fill(full, source, change, other._slots, K)

    def _fill(self, full, source, change, old, K) -> float:
        table, tape = self.tape.table, self.tape
        while self._unscaled:  # squared distances of leaves with one length scale for many columns
            node = table[self._unscaled.pop()]
            first, p = node[nodes.ROW], node[nodes.N_COLUMNS]
            rows = tape.X[:, tape.columns[first : first + p]]
            self._slots[node[nodes.SLOT]] = cdist(rows, rows, "sqeuclidean")
        self._prepare(full, tape.Xt, self._Z, self._fresh)
        if tape.n_given:
            self._given[:] = given_matrices(tape, full, tape.X, tape.X)
        return self._sweep(
            nodes.FILL, full, self._Z, self._Z, source, K,
            change=change, old=old, slots=self._slots, given=self._given, jitter=self.jitter,
        )  # fmt: skip

    def adjoint(
        self, full: np.ndarray, S: np.ndarray, shift: float = 0.0, K: np.ndarray | None = None
    ) -> np.ndarray:
        """sum_ij (S + shift I)_ij dK_ij / d full_k of all coordinates, K being what was filled last.

        Of S (column, row), symmetric, the lower triangle counts. Coordinates that are fixed may be left at 0.
        Given K, as it was filled, the values of a single leaf are not computed again.
        """
        slopes, twins = np.zeros(len(full)), np.empty_like(self._given)
        K = _NO_MATRIX if K is None or len(K) > LARGEST_KEPT else K
        self._sweep(
            nodes.ADJOINT, full, self._Z, self._Z, self._kept, S, old=self._slots, given=self._given,
            twins=twins, K=K, jitter=self.jitter, shift=shift, slopes=slopes,
        )  # fmt: skip
        if self.tape.n_given:
            add_given_slopes(self.tape, full, twins, slopes)
        return slopes if self._alone is None else slopes + self._alone.adjoint(full, S, shift)

    def cross(self, full: np.ndarray, X_new: np.ndarray, X: np.ndarray | None = None) -> np.ndarray:
        """Covariances of latents at new inputs (m, p) with those at X, or at the cases, (m, n); no jitter."""
        tape = self.tape
        X = tape.X if X is None else X
        Z, Z_new = self._prepared(full, X), self._prepared(full, X_new)
        given = given_matrices(tape, full, X, X_new)
        out = np.empty((len(X_new), len(X)))
        self._sweep(nodes.CROSS, full, Z, Z_new, self._of_new, out, given=given)
        return out

    def diagonal(self, full: np.ndarray, X_new: np.ndarray) -> np.ndarray:
        """Prior variances of latents at new inputs (m, p), with jitter, (m,)."""
        Z = self._prepared(full, X_new)
        out = np.empty((1, len(X_new)))
        given = given_diagonals(self.tape, full, X_new)
        self._sweep(nodes.DIAGONAL, full, Z, Z, self._of_new, out, given=given, jitter=self.jitter)
        return out[0] if self._alone is None else out[0] + self._alone.variance(full)

    def _prepared(self, full: np.ndarray, X: np.ndarray) -> np.ndarray:
        Z = np.empty((len(self.tape.columns), len(X)))
        self._prepare(full, np.array(X.T, order="C"), Z, self._of_new)
        return Z

    def _prepare(self, full, Xt, Z, source) -> None:
        passes.prepare(self.tape.table, self.tape.columns, full, source, Xt, self.tape.centre, Z)

    def _sweep(
        self, mode, full, Z, Z_new, source, matrix, *, change=0.0, old=_NONE, slots=_NONE, given=_NONE,
        twins=_NONE, K=_NO_MATRIX, jitter=0.0, shift=0.0, slopes=_NO_SLOPES,
    ) -> float:  # fmt: skip
        return passes.sweep(
            mode, self.tape.table, self.tape.loops, full, self.tape.free, Z, Z_new, source, change, old,
            slots, given, twins, K, jitter, shift, matrix, slopes,
        )  # fmt: skip


class OwnJitter:
    """eps v I: the jitter of a covariance of few functions alone, which is singular.

    v is the mean of its diagonal about the centre of the inputs: what varies, wherever they lie. Methods are
    those of `CovarianceBuffers`.
    """

    drifts = False

    def __init__(self, tape: Tape, jitter: float) -> None:
        self.tape, self.jitter = tape, jitter
        self._centred = CovarianceBuffers(tape.centred())

    def variance(self, full: np.ndarray) -> float:
        """eps v."""
        if self.jitter == 0.0:
            return 0.0
        return self.jitter * float(self._centred.diagonal(full, self._centred.tape.X).mean())

    def fill(self, full: np.ndarray, K: np.ndarray) -> float:
        """eps v I into ``K``; its trace."""
        K[:], variance = 0.0, self.variance(full)
        K.reshape(-1)[:: len(K) + 1] = variance
        return len(K) * variance

    def matrix(self, full: np.ndarray) -> np.ndarray:
        """eps v I (n, n)."""
        return self.variance(full) * np.eye(self.tape.n_cases)

    def fill_from(
        self, other: OwnJitter, full: np.ndarray, before: np.ndarray, place: int, K: np.ndarray
    ) -> float:
        """As `fill`."""
        return self.fill(full, K)

    def adjoint(
        self, full: np.ndarray, S: np.ndarray, shift: float = 0.0, K: np.ndarray | None = None
    ) -> np.ndarray:
        """eps (mean S_ii + shift) sum_i dv_i / d full_k, v_i the diagonal about the centre."""
        if self.jitter == 0.0:
            return np.zeros(len(full))
        n = len(S)
        weights = np.diag(np.full(n, self.jitter * (float(S.trace()) / n + shift)))
        self._centred.fill(full, np.empty((n, n)))
        return self._centred.adjoint(full, weights)

    def cross(self, full: np.ndarray, X_new: np.ndarray, X: np.ndarray | None = None) -> np.ndarray:
        """Zeros (m, n)."""
        return np.zeros((len(X_new), self.tape.n_cases if X is None else len(X)))

    def diagonal(self, full: np.ndarray, X_new: np.ndarray) -> np.ndarray:
        """eps v at new inputs (m, p), (m,)."""
        return np.full(len(X_new), self.variance(full))


@compiled
def symmetric(K):
    """The symmetric matrix (n, n) whose lower triangle (column, row) is that of ``K``, in C order."""
    n = K.shape[0]
    whole = np.empty((n, n))
    for low in range(0, n, TILE):
        for left in range(0, low + 1, TILE):
            for j in range(left, min(left + TILE, n)):
                for i in range(max(low, j), min(low + TILE, n)):
                    whole[j, i] = whole[i, j] = K[j, i]
    return whole
