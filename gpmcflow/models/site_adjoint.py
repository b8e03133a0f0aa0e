"""Site posterior of latents as a function of a covariance K, and the adjoint of all that, in compiled loops.

K = R + V'V = L L' (n, n), V (q, n) few functions or none, sites of precision omega_i^2 and mean gamma_i,
B = I + omega K omega, P = omega B^-1 omega. Unit normals z_1, z_2 give an exact draw of the latents' site
posterior by pathwise conditioning,

    v = L z_1,   a = omega B^-1 (omega (gamma - v) - z_2),   f = v + K a = L (z_1 + L'a),

and log Z = -gamma'P gamma / 2 - log|B| / 2 is the evidence of the sites. Matrices are (column, row): their
transposes are in Fortran order, and of symmetric ones the lower triangle counts. The dense route takes
8 n^3 / 3 flops for a gradient, whatever the number of hyperparameters.
"""

from __future__ import annotations

import numpy as np

from gpmcflow.numerics import lapack
from gpmcflow.numerics.code_cache import compiled

LARGEST_CORRECTION = 0.01  # of latents, whose rounding is not known to be corrected above it
TILE = 32  # side of the squares in which a matrix and its transpose are added


@compiled
def site_factor(routines, R, V, omega, B):
    """Factor of I + omega K omega, K = R + V'V, into ``B``; log of its determinant, nan where it fails."""
    n = omega.size
    for j in range(n):
        scale = omega[j]
        for i in range(j, n):
            B[j, i] = scale * omega[i] * R[j, i]
        B[j, j] += 1.0
    scaled = np.empty(V.shape)
    for k in range(V.shape[0]):
        for i in range(n):
            scaled[k, i] = V[k, i] * omega[i]
    return lapack.add_functions(B, lapack.factorise_lower(routines, B), scaled)


@compiled
def condition(routines, R, L, B, omega, gamma, z1, z2, a, alpha, whitened, f, V):
    """Log Z; fills the factor of B, a, alpha = P gamma, L^-1 f = z_1 + L'a, and f; nan where B fails."""
    n = omega.size
    log_det = site_factor(routines, R, V, omega, B)
    if not np.isfinite(log_det):
        return np.nan
    f[:] = z1
    lapack.triangular_product(routines, L, False, f)
    for i in range(n):
        a[i] = omega[i] * (gamma[i] - f[i]) - z2[i]
        alpha[i] = omega[i] * gamma[i]
    for x in (a, alpha):
        lapack.triangular_solve(routines, B, False, x)
        lapack.triangular_solve(routines, B, True, x)
        for i in range(n):
            x[i] *= omega[i]
    whitened[:] = a
    lapack.triangular_product(routines, L, True, whitened)
    for i in range(n):
        whitened[i] += z1[i]
    f[:] = whitened
    lapack.triangular_product(routines, L, False, f)
    if V.shape[0] > 0 and not _refine(routines, L, B, omega, gamma, z1, z2, a, whitened, f):
        return np.nan
    return -0.5 * np.dot(gamma, alpha) - log_det


@compiled
def _refine(routines, L, B, omega, gamma, z1, z2, a, whitened, f):
    """Correct a, x = z_1 + L'a and f for the rounding that large functions in L bring; False if too large.

    x solves (I + L' omega^2 L) x = z_1 + L' omega (omega gamma - z_2). Of the residual r of that the
    correction is r - L' omega B^-1 omega L r.
    """
    n = omega.size
    for i in range(n):
        a[i] = omega[i] * (omega[i] * (gamma[i] - f[i]) - z2[i])
    r = a.copy()
    lapack.triangular_product(routines, L, True, r)
    for i in range(n):
        r[i] += z1[i] - whitened[i]
    step = r.copy()
    lapack.triangular_product(routines, L, False, step)
    step *= omega
    lapack.triangular_solve(routines, B, False, step)
    lapack.triangular_solve(routines, B, True, step)
    step *= omega
    lapack.triangular_product(routines, L, True, step)
    for i in range(n):
        whitened[i] += r[i] - step[i]
    step[:] = f
    f[:] = whitened
    lapack.triangular_product(routines, L, False, f)
    for i in range(n):
        a[i] = omega[i] * (omega[i] * (gamma[i] - f[i]) - z2[i])
    return np.abs(f - step).max() < LARGEST_CORRECTION


@compiled
def pull_back(routines, L, B, omega, rho, adjoint, slope1, slope2):
    """Gradients by z_1 and z_2 of a function of f with gradient rho; and v-bar = rho - P K rho."""
    n = omega.size
    slope2[:] = rho
    lapack.triangular_product(routines, L, True, slope2)
    lapack.triangular_product(routines, L, False, slope2)
    for i in range(n):
        slope2[i] *= -omega[i]
    lapack.triangular_solve(routines, B, False, slope2)
    lapack.triangular_solve(routines, B, True, slope2)
    for i in range(n):
        adjoint[i] = rho[i] + omega[i] * slope2[i]
    slope1[:] = adjoint
    lapack.triangular_product(routines, L, True, slope1)


@compiled
def function_squares(routines, L, B, V, omega, alpha, p, z, x):
    """v' K-bar v of each row of V (q,), K-bar as in `covariance_adjoint`, from factors L and B, x = L^-1 f.

    (v'alpha)^2 / 2 - |B^-1/2 omega v|^2 / 2 + (u'p) u'(x - z) + u'Phi(p z')u with u = L^-1 v, whose length is
    at most 1 however large v is: K-bar itself has few digits for that.
    """
    squares = np.empty(V.shape[0])
    for k in range(V.shape[0]):
        v = V[k]
        u, h = v.copy(), omega * v
        lapack.triangular_solve(routines, L, False, u)
        lapack.triangular_solve(routines, B, False, h)
        below = inner = 0.0
        for i in range(v.size):
            inner += u[i] * p[i] * (below + 0.5 * z[i] * u[i])
            below += z[i] * u[i]
        explained = np.dot(v, alpha) ** 2 - np.dot(h, h)
        squares[k] = 0.5 * explained + np.dot(u, p) * np.dot(u, x - z) + inner
    return squares


@compiled(fastmath={"contract"})
def _rank_one_triangles(inverse, p, z, out):
    """Sum of Phi(p z') L^-1 over rows p and z, from L^-1, Phi the lower triangle with half its diagonal.

    By sums down each column, of two columns at once: neither sum waits for the other.
    """
    n = p.shape[1]
    for j in range(0, n, 2):
        last = j + 1 == n
        here, there = out[j], out[n - 1 if last else j + 1]
        of_here, of_there = inverse[j], inverse[n - 1 if last else j + 1]
        here[:j] = 0.0
        if not last:
            there[: j + 1] = 0.0
        for c in range(p.shape[0]):
            p_c, z_c = p[c], z[c]
            total, total_there = z_c[j] * of_here[j], 0.0
            entry = p_c[j] * (0.5 * total)
            here[j] = entry if c == 0 else here[j] + entry
            for i in range(j + 1, n):
                term, term_there = z_c[i] * of_here[i], z_c[i] * of_there[i]
                entry = p_c[i] * (total + 0.5 * term)
                entry_there = p_c[i] * (total_there + 0.5 * term_there)
                here[i] = entry if c == 0 else here[i] + entry
                there[i] = entry_there if c == 0 else there[i] + entry_there
                total += term
                total_there += term_there


@compiled(fastmath={"contract", "reassoc"})
def _assemble(K, out, S, omega, alpha, a, adjoint):
    """K-bar, lower triangle, over B^-1 in ``out``; S is L^-T Phi(p z') L^-1. Returns sum_ij K-bar_ij K_ij."""
    n, inner, on_diagonal = omega.size, 0.0, 0.0
    mirrored = np.empty((TILE, TILE))  # a square of the transpose, whose rows are contiguous
    for low in range(0, n, TILE):
        size = np.uint64(min(TILE, n - low))
        for left in range(0, low + 1, TILE):
            width = min(TILE, n - left)
            for i in range(size):
                for j in range(np.uint64(width)):
                    mirrored[j, i] = S[np.uint64(low) + i, np.uint64(left) + j]
            for j in range(left, left + width):
                alpha_j, omega_j, a_j, adjoint_j = alpha[j], omega[j], a[j], adjoint[j]
                row, column, top = np.uint64(j), np.uint64(j - left), np.uint64(low)
                for k in range(np.uint64(max(j - low, 0)), size):
                    i = top + k
                    value = alpha_j * alpha[i] - omega_j * omega[i] * out[row, i]
                    value += adjoint_j * a[i] + a_j * adjoint[i] + S[row, i] + mirrored[column, k]
                    value *= 0.5
                    out[row, i] = value
                    inner += value * K[row, i]
    for j in range(n):
        on_diagonal += out[j, j] * K[j, j]
    return 2.0 * inner - on_diagonal


@compiled
def covariance_adjoint(routines, K, inverse, B, S, omega, alpha, a, adjoint, p, z1):
    """K-bar, summed over functions (m,) of one K, into ``B[0]``; ``B`` (m, n, n) comes as factors of B.

    ``inverse`` is L^-1, vectors are (m, n). Returns sum_ij K-bar_ij K_ij, and the derivative by a mean c of
    all cases: sum_i alpha_i + v-bar_i.

    K-bar = (alpha alpha' - P) / 2 + sym(v-bar a') + sym(L^-T Phi(p z_1') L^-1) is the derivative by K of
    log Z plus a function of f, p = L'v-bar; the last term is that of the Cholesky factor.
    """
    _rank_one_triangles(inverse, p, z1, S)
    lapack.triangular_products(routines, inverse, True, 1.0, S)
    inner = by_mean = 0.0
    for c in range(omega.shape[0]):
        lapack.invert_factored(routines, B[c])
        for i in range(omega.shape[1]):
            by_mean += alpha[c, i] + adjoint[c, i]
        inner += _assemble(K, B[c], S, omega[c], alpha[c], a[c], adjoint[c])
        if c > 0:
            B[0] += B[c]
        elif omega.shape[0] > 1:
            S[:] = 0.0  # once for all
    return inner, by_mean
