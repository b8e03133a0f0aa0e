"""Weights w ~ N(0, I) of basis functions under a Gaussian likelihood: factor, evidence and their adjoints.

The predictor is Phi beta, beta = s w, the data's part exp(r'beta - beta'G beta / 2). With S = diag(s) and
Q = I + S G S = C C', mu = Q^-1 S r: w = mu + C^-T z, log Z = -sum log C_ii + (S r)'mu / 2.

G has a block of k functions for each of L levels (`ArrowMatrix`). They come first in C = [[A, 0], [B, R]],
A of such blocks, too: O(L k^3 + L k r^2 + r^3) with r other weights.

Sources: Rasmussen & Williams (2006), section 2.1.2; Murray (2016) for the adjoint of a Cholesky factor.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.linalg import blas, lapack

from gpmcflow.covariances.basis_design import ArrowMatrix, BasisDesign, TipRows, by_level
from gpmcflow.covariances.level_products import products
from gpmcflow.numerics.code_cache import compiled
from gpmcflow.numerics.lapack import lower_inverse


class WeightPosterior:
    """N(w; mu, Q^-1) at scales s (m,), for G and r (m,).

    Attributes
    ----------
    mean, log_evidence, log_det:
        mu (m,), log Z and sum log C_ii; nan where Q does not factorise.
    """

    def __init__(self, G: ArrowMatrix, r: np.ndarray, s: np.ndarray) -> None:
        self.G, self.r, self.s = G, r, s
        self.mean, self.log_evidence, self.log_det = np.full(len(s), np.nan), np.nan, np.nan
        tips, rest = s[G.tips], s[G.rest]
        factors = _block_factors(tips, G.D)
        if factors is None:
            return
        self._A, self._inverse = factors
        self._B = by_level(self._inverse, rest[:, None] * G.E * tips)
        Q = rest[:, None] * G.F * rest
        Q.reshape(-1)[:: len(rest) + 1] += 1.0
        if len(tips):
            Q -= self._B @ self._B.T
        # the transpose of a symmetric matrix is in Fortran order
        self._R, info = lapack.dpotrf(Q.T, lower=1, clean=1, overwrite_a=1)
        if info:
            return
        self.log_det = float(np.log(np.diagonal(self._R)).sum())
        self.log_det += float(np.log(self._A.diagonal(axis1=1, axis2=2)).sum())
        whitened = self.solve(s * r)
        self.mean = self.solve(whitened, transposed=True)
        self.log_evidence = 0.5 * float(whitened @ whitened) - self.log_det

    @classmethod
    def of_factor(cls, W: np.ndarray, mean: np.ndarray, s: np.ndarray) -> WeightPosterior:
        """For moments and draws alone: mu, and W, upper triangular, W W' = Q, of sites too precise for G."""
        found = cls.__new__(cls)
        found.G, found.s, found.mean = ArrowMatrix.full(W), s, mean
        found._A = found._inverse = found.G.D
        found._B, found._R = found.G.E, np.asfortranarray(np.linalg.qr(W.T, mode="r").T)
        return found

    def solve(self, v: np.ndarray, transposed: bool = False) -> np.ndarray:
        """C^-1 v or C^-T v."""
        tips, rest, out = self.G.tips, self.G.rest, np.empty(len(v))
        if transposed:
            out[rest] = below = self._solve_rest(v[rest], 1)
            out[tips] = by_level(self._inverse, v[tips] - below @ self._B, transposed=True)
        else:
            out[tips] = above = by_level(self._inverse, v[tips])
            out[rest] = self._solve_rest(v[rest] - self._B @ above, 0)
        return out

    def _solve_rest(self, v: np.ndarray, trans: int) -> np.ndarray:
        return blas.dtrsv(self._R, v, lower=1, trans=trans) if len(v) else v

    def weights(self, z: np.ndarray) -> np.ndarray:
        """w = mu + C^-T z."""
        return self.mean + self.solve(z, transposed=True)

    def whitened(self, w: np.ndarray) -> np.ndarray:
        """z = C' (w - mu)."""
        return self.pull_back(w - self.mean)

    def pull_back(self, v: np.ndarray) -> np.ndarray:
        """C' v."""
        tips, rest, out = self.G.tips, self.G.rest, np.empty(len(v))
        out[tips] = by_level(self._A, v[tips], transposed=True) + v[rest] @ self._B
        if len(rest):
            out[rest] = blas.dtrmv(self._R, v[rest], lower=1, trans=1)
        return out

    def variances(self, design: BasisDesign) -> np.ndarray:
        """Variances (n,) of the predictors Phi beta at the rows of a design, |C^-1 S phi|^2 each."""
        variance = np.empty(design.n)
        for tile in self.whitened_rows(design):
            own = np.einsum("ij,ij->i", tile.tips, tile.tips)
            variance[tile.rows] = own + np.einsum("ij,ij->i", tile.rest, tile.rest)
        return variance

    def whitened_rows(self, design: BasisDesign) -> Iterator[TipRows]:
        """C^-1 S phi of the rows phi of a design of the same basis."""
        rest, (L, k, _) = self.s[self.G.rest], self._inverse.shape
        scales = self.s[self.G.tips].reshape(L, k, 1)
        inverse, B = scales * self._inverse.transpose(0, 2, 1), -self._B.T.reshape(L, k, len(rest))
        for rows, codes, own, functions in design.tip_rows(whole=not L):
            below = functions * rest
            if L:
                own = products(codes, own, inverse)
                below += products(codes, own, B)
            if len(rest):  # the transpose of rows is in Fortran order
                below = blas.dtrsm(1.0, self._R, below.T, lower=1, overwrite_b=1).T
            yield TipRows(rows, codes, own, below)

    def spread(self, design: BasisDesign) -> Iterator[tuple[slice, np.ndarray]]:
        """The same (b, m) in full: covariances of all rows are products of these."""
        tips = self.G.tips.reshape(self._A.shape[:2])
        for rows, codes, own, below in self.whitened_rows(design):
            block = np.zeros((len(below), len(self.s)))
            block[:, self.G.rest] = below
            if len(tips):
                known = np.flatnonzero(codes < len(self._A))
                block[known[:, None], tips[codes[known]]] = own[known]
            yield rows, block

    def scale_slopes(
        self,
        z: np.ndarray | None = None,
        slope_z: np.ndarray | None = None,
        solved: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Adjoint of s by log Z, plus g(w) at fixed z where its slopes are given, and (Q-bar o G) s.

        ``slope_z`` = C^-1 dg/dw and ``solved`` = C^-T slope_z. Uses up the factor. With T = C^-1,
        Q-bar = -T'H T / 2 - mu mu' / 2 - sym(q mu'), H = I + P + P', P the lower triangle of z slope_z' with
        half its diagonal. Of T'H T only what G is not zero at is computed.
        """
        G, s = self.G, self.s
        tips, rest, n = G.tips, G.rest, len(G.tips)
        T = lower_inverse(self._R, overwrite=True) if len(rest) else self._R
        above, levels = self._inverse, self._inverse.shape[:2]
        rows = np.empty((len(rest), len(s)))  # those of T below the blocks of tips
        rows[:, n:] = T
        if n and len(rest):
            product = by_level(above, self._B, transposed=True)
            rows[:, :n] = blas.dtrmm(-1.0, T, product.T, side=1, lower=1, trans_a=1).T
        H_above, H_rows, tilted = above, rows, 0.5 * self.mean
        of_tips = np.zeros(n)
        if z is not None:
            of_tips = by_level(above, slope_z[tips], transposed=True)
            before = np.append(of_tips, np.zeros(len(rest)))[None]
            (H_rows,) = _symmetric_sums(rows[None], z[None, rest], slope_z[None, rest], before)
            own, own_slopes = z[tips].reshape(levels), slope_z[tips].reshape(levels)
            H_above = _symmetric_sums(above, own, own_slopes, np.zeros(above.shape[::2]))
            tilted += solved
        inner = np.empty(len(s))
        if len(rest):
            found = blas.dtrmm(1.0, T, H_rows.T, side=1, lower=1).T
            found[:, :n] *= G.E
            found[:, n:] *= G.F
            inner[rest] = found @ np.append(s[tips], s[rest])
        if n:
            below, H_below = rows[:, :n], H_rows[:, :n]
            blocks = _blocks_of_levels(above, H_above, below, H_below)
            blocks *= G.D
            inner[tips] = by_level(blocks, s[tips])
            if len(rest):
                inner[tips] += s[rest] @ found[:, :n]
                if z is not None:
                    inner[tips] += of_tips * by_level(G.D, (z[rest] @ below) * s[tips])
        inner += self.mean * G.dot(tilted * s) + tilted * G.dot(self.mean * s)
        inner *= -0.5
        lever = self.mean if solved is None else self.mean + solved
        return 2.0 * inner + self.r * lever, inner


def _block_factors(tips: np.ndarray, D: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """A_l, lower triangular, A_l A_l' = I + S_l D_l S_l, and their inverses (L, k, k); None if one fails."""
    if D.shape[1] == 1:
        A = np.sqrt(1.0 + tips * tips * D.ravel())[:, None, None]
        return A, 1.0 / A
    s = tips.reshape(D.shape[:2])
    Q = D * s[:, :, None]
    Q *= s[:, None, :]
    Q.reshape(len(Q), -1)[:, :: D.shape[1] + 1] += 1.0
    try:
        A = np.linalg.cholesky(Q)
    except np.linalg.LinAlgError:
        return None
    return A, _inverses(A)


@compiled(fastmath={"contract"})
def _inverses(A):
    """Inverses of lower triangular A_l (L, k, k): rows i of X, A_ii x_i = e_i - sum_{j<i} A_ij x_j."""
    X = np.zeros(A.shape)
    for level in range(A.shape[0]):
        own, out = A[level], X[level]
        for i in range(A.shape[1]):
            row = out[i]
            for j in range(i):
                factor, above = own[i, j], out[j]
                for c in range(j + 1):
                    row[c] -= factor * above[c]
            for c in range(i):
                row[c] /= own[i, i]
            row[i] = 1.0 / own[i, i]
    return X


def _blocks_of_levels(
    above: np.ndarray, N_above: np.ndarray, below: np.ndarray, N_below: np.ndarray
) -> np.ndarray:
    """above_l' N_above_l + below_l' N_below_l of each level (L, k, k), those below (r, L k)."""
    L, k, _ = above.shape
    if k == 1:
        return above * N_above + np.einsum("ij,ij->j", below, N_below)[:, None, None]
    first, second = (each.reshape(-1, L, k).transpose(1, 2, 0) for each in (below, N_below))
    return above.transpose(0, 2, 1) @ N_above + first @ second.transpose(0, 2, 1)


@compiled(fastmath={"contract"})
def _symmetric_sums(rows, z, slopes, first):
    """(I + P + P') rows_l + z_l first_l', P the lower triangle of z_l slopes_l' with half its diagonal.

    rows (L, r, c), z and slopes (L, r), first (L, c).
    """
    n_levels, r, c = rows.shape
    out, sums = np.empty(rows.shape), np.empty(c)
    for level in range(n_levels):
        for j in range(c):
            sums[j] = first[level, j]
        for i in range(r):
            row, own, of_z, slope = rows[level, i], out[level, i], z[level, i], slopes[level, i]
            at = 1.0 + of_z * slope
            for j in range(c):
                own[j] = at * row[j] + of_z * sums[j]
                sums[j] += slope * row[j]
        sums[:] = 0.0
        for i in range(r - 1, -1, -1):
            row, own, of_z, slope = rows[level, i], out[level, i], z[level, i], slopes[level, i]
            for j in range(c):
                own[j] += slope * sums[j]
                sums[j] += of_z * row[j]
    return out
