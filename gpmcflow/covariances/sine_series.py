"""Sums of products of sines over 1 to 3 columns, and their adjoint, by recurrences: no matrix is held.

sin((j + 1) t) = 2 cos(t) sin(j t) - sin((j - 1) t), a tile of cases at a time, four terms of the last column
in a step; products of the other columns' functions are made for the tile. Rounding errors grow like
m / sin(t), and t stays away from 0 and pi.

Source: Clenshaw (1955), A note on the summation of Chebyshev series.
"""

from __future__ import annotations

import numpy as np

from gpmcflow.numerics.code_cache import compiled

TILE = 512  # cases: the vectors of a tile stay in the innermost cache


@compiled(fastmath={"contract"})
def _add(c, s, b, work, q, out):
    """out_i += q_i sum_j b_j sin(j t_i) of a tile: s = sin(t) times Clenshaw's sum, c = 2 cos(t)."""
    size, first, second = np.uint64(TILE), work[0], work[1]
    for i in range(size):
        first[i] = second[i] = 0.0
    j = b.size
    while j >= 4:
        b1, b2, b3, b4 = b[j - 1], b[j - 2], b[j - 3], b[j - 4]
        for i in range(size):
            u1, u2, r = first[i], second[i], c[i]
            u2 = b1 + r * u1 - u2
            u1 = b2 + r * u2 - u1
            u2 = b3 + r * u1 - u2
            first[i] = b4 + r * u2 - u1
            second[i] = u2
        j -= 4
    while j > 0:
        b1 = b[j - 1]
        for i in range(size):
            u1 = first[i]
            first[i] = b1 + c[i] * u1 - second[i]
            second[i] = u1
        j -= 1
    for i in range(size):
        out[i] += q[i] * s[i] * first[i]


@compiled(fastmath={"contract", "reassoc"})
def _sum(c, s, g, work, q, out):
    """out_j += sum_i g_i q_i sin(j t_i) of a tile."""
    size, before, now, m = np.uint64(TILE), work[0], work[1], out.size
    for i in range(size):
        before[i] = 0.0
        now[i] = g[i] * q[i] * s[i]
    j = 0
    while j + 4 <= m:
        s1 = s2 = s3 = s4 = 0.0
        for i in range(size):
            v0, v1, r = before[i], now[i], c[i]
            v2 = r * v1 - v0
            v3 = r * v2 - v1
            v4 = r * v3 - v2
            s1 += v1
            s2 += v2
            s3 += v3
            s4 += v4
            before[i] = v4
            now[i] = r * v4 - v3
        out[j] += s1
        out[j + 1] += s2
        out[j + 2] += s3
        out[j + 3] += s4
        j += 4
    while j < m:
        s1 = 0.0
        for i in range(size):
            v1 = now[i]
            s1 += v1
            now[i] = c[i] * v1 - before[i]
            before[i] = v1
        out[j] += s1
        j += 1


@compiled(fastmath={"contract"})
def _functions(C, S, sizes, base, Q):
    """Products of the functions of the first columns of a tile, times ``base``, into Q; their number.

    A recurrence is linear: that of a column starts from each product of those before it.
    """
    size, count = np.uint64(TILE), 1
    for i in range(size):
        Q[0, i] = base[i]
    for d in range(len(sizes)):
        c, s, m = C[d], S[d], sizes[d]
        for k in range(
            count - 1, -1, -1
        ):  # from behind: a product is read before it is written over
            start = Q[k].copy()
            for j in range(m):
                row = Q[k * m + j]
                if j == 0:
                    for i in range(size):
                        row[i] = s[i] * start[i]
                elif j == 1:
                    now = Q[k * m]
                    for i in range(size):
                        row[i] = c[i] * now[i]
                else:
                    now, before = Q[k * m + j - 1], Q[k * m + j - 2]
                    for i in range(size):
                        row[i] = c[i] * now[i] - before[i]
        count *= m
    return count


@compiled
def _add_all(C, S, sizes, b, out):
    last = sizes.size - 1
    work, Q, total = np.empty((2, TILE)), np.empty((b.size // sizes[last], TILE)), np.empty(TILE)
    one, m = np.ones(TILE), sizes[last]
    for k in range(C.shape[0]):
        total[:] = 0.0
        for j in range(_functions(C[k], S[k], sizes[:last], one, Q)):
            _add(C[k, last], S[k, last], b[j * m : (j + 1) * m], work, Q[j], total)
        for i in range(min(TILE, out.size - k * TILE)):
            out[k * TILE + i] += total[i]


@compiled
def _sum_all(C, S, sizes, g, out):
    last = sizes.size - 1
    work, Q, padded = np.empty((2, TILE)), np.empty((out.size // sizes[last], TILE)), np.zeros(TILE)
    one, m = np.ones(TILE), sizes[last]
    for k in range(C.shape[0]):
        for i in range(min(TILE, g.size - k * TILE)):  # behind the last case S is 0
            padded[i] = g[k * TILE + i]
        for j in range(_functions(C[k], S[k], sizes[:last], one, Q)):
            _sum(C[k, last], S[k, last], padded, work, Q[j], out[j * m : (j + 1) * m])


@compiled
def _tile(C, S, sizes, size):
    """All functions of a tile (size, functions)."""
    Q = np.empty((np.prod(sizes), TILE))
    _functions(C, S, sizes, np.ones(TILE), Q)
    return Q[:, :size].T.copy()


class SineSeries:
    """Functions prod_d sin(j_d t_di), j_d = 1, .. m_d, of n cases, the last column's fastest.

    ``angles`` (D, n) are t, ``factors`` (D, n) multiply the functions of each column: their norm, and 0 for
    cases that have none. 2 D n numbers are held.
    """

    def __init__(self, angles: np.ndarray, factors: np.ndarray, sizes: tuple[int, ...]) -> None:
        self._C, self._S = _tiles(2.0 * np.cos(angles)), _tiles(factors * np.sin(angles))
        self._sizes, self.size, self.n = np.array(sizes), int(np.prod(sizes)), angles.shape[1]

    def add(self, b: np.ndarray, out: np.ndarray) -> None:
        """Add their sum with coefficients b (size,) to ``out`` (n,)."""
        _add_all(self._C, self._S, self._sizes, np.ascontiguousarray(b), out)

    def pull_back(self, v: np.ndarray) -> np.ndarray:
        """Sums over the cases of each function times v (n,), (size,)."""
        out = np.zeros(self.size)
        _sum_all(self._C, self._S, self._sizes, np.ascontiguousarray(v), out)
        return out

    def tile(self, k: int, size: int) -> np.ndarray:
        """The functions at the first ``size`` cases of tile k, those from `TILE` k on (size, functions)."""
        return _tile(self._C[k], self._S[k], self._sizes, size)

    def matrix(self) -> np.ndarray:
        """All functions at all cases (n, functions)."""
        tiles = [
            self.tile(k, min(TILE, self.n - first))
            for k, first in enumerate(range(0, self.n, TILE))
        ]
        return np.concatenate(tiles) if tiles else np.empty((0, self.size))


def _tiles(values: np.ndarray) -> np.ndarray:
    """(D, n) as (tiles, D, TILE), 0 behind the last case."""
    D, n = values.shape
    padded = np.zeros((D, -(-n // TILE) * TILE))
    padded[:, :n] = values
    return np.ascontiguousarray(padded.reshape(D, -1, TILE).transpose(1, 0, 2))
