"""The Hamiltonian of a latent Gaussian model whose metric is the curvature of the log density."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.models.case_part import sites_density
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.linear_maps import pull_back, push_forward
from gpmcflow.models.tempered import Target
from gpmcflow.numerics import lapack
from gpmcflow.numerics.code_cache import compiled
from gpmcflow.numerics.lapack import ROUTINES
from gpmcflow.samplers.latent.generalised_leapfrog import FixedPointSolver, Solved

# Factorisations that every chain of a batch needs for itself, LAPACK called from compiled loops.


@compiled
def factor_case_matrices(routines, gram, root, slots, keep, factors, active, sizes, log_det):
    """Cholesky factors of B = I + D^(1/2) K D^(1/2), one for each chain, on its active rows.

    ``root`` (chain, n) is D^(1/2), ``gram`` is K (n, n). Chain p goes into ``factors[slots[p]]``, as
    the lower triangle in Fortran order. Rows with d_i K_ii below ``keep`` change nothing above
    rounding and are left out: ``active`` (slot, n) lists the others, ``sizes`` (slot,) counts them.
    ``log_det`` (chain,) receives log |B|, nan where B does not factorise.
    """
    n = gram.shape[0]
    for p in range(root.shape[0]):
        slot = slots[p]
        m = 0
        for i in range(n):
            if not root[p, i] * root[p, i] * gram[i, i] < keep:  # nan stays, and fails below
                active[slot, m] = i
                m += 1
        sizes[slot] = m
        rows = active[slot]
        matrix = factors[slot]
        for b in range(m):
            j = rows[b]
            scale = root[p, j]
            for a in range(b, m):
                i = rows[a]
                matrix[b, a] = scale * root[p, i] * gram[j, i]
            matrix[b, b] += 1.0
        log_det[p] = 2.0 * lapack.factorise_lower(routines, matrix[:m])


@compiled
def solve_case_matrices(routines, root, slots, factors, active, sizes, x, out):
    """D^(1/2) B^(-1) D^(1/2) x of each chain into ``out`` (chain, n), from `factor_case_matrices`."""
    work = np.empty(x.shape[1])
    for p in range(x.shape[0]):
        slot = slots[p]
        rows, m = active[slot], sizes[slot]
        for a in range(m):
            work[a] = root[p, rows[a]] * x[p, rows[a]]
        lapack.triangular_solve(routines, factors[slot], False, work[:m])
        lapack.triangular_solve(routines, factors[slot], True, work[:m])
        out[p] = 0.0
        for a in range(m):
            out[p, rows[a]] = root[p, rows[a]] * work[a]


@compiled
def case_inverse_diagonals(routines, slots, factors, active, sizes, out):
    """(B^(-1))_ii = |L_B^(-1) e_i|^2 of each chain into ``out`` (chain, n); 1 in inactive rows."""
    n = factors.shape[1]
    inverse = np.empty((n, n))
    for p in range(len(slots)):
        slot = slots[p]
        m = sizes[slot]
        for b in range(m):
            inverse[b, b:m] = factors[slot, b, b:m]
        lapack.call(routines[lapack.TRTRI], (lapack.LOWER, lapack.PLAIN, m, inverse, n, 0))
        out[p] = 1.0
        for b in range(m):
            total = 0.0
            for a in range(b, m):
                total += inverse[b, a] * inverse[b, a]
            out[p, active[slot, b]] = total


@compiled
def factor_coordinate_matrices(routines, design, root, slots, factors, log_det):
    """Cholesky factors of I + U' D U, one for each chain, lower triangles in Fortran order.

    ``design`` is U (n, d) in C order, ``root`` (chain, n) is D^(1/2).
    """
    n, d = design.shape
    scaled = np.empty((n, d))
    for p in range(root.shape[0]):
        for i in range(n):
            for j in range(d):
                scaled[i, j] = root[p, i] * design[i, j]
        matrix = factors[slots[p]]
        lapack.call(
            routines[lapack.SYRK],
            (lapack.LOWER, lapack.PLAIN, d, n, 1.0, scaled, d, 0.0, matrix, d),
        )
        for j in range(d):
            matrix[j, j] += 1.0
        log_det[p] = 2.0 * lapack.factorise_lower(routines, matrix)


@compiled
def solve_coordinate_matrices(routines, slots, factors, x):
    """(I + U' D U)^(-1) x of each chain, in place, from `factor_coordinate_matrices`."""
    for p in range(x.shape[0]):
        lapack.triangular_solve(routines, factors[slots[p]], False, x[p])
        lapack.triangular_solve(routines, factors[slots[p]], True, x[p])


@compiled
def coordinate_variances(routines, design, slots, factors, out):
    """(U (I + U' D U)^(-1) U')_ii = |L^(-1) u_i|^2 of each chain into ``out`` (chain, n)."""
    n, d = design.shape
    inverse = np.zeros((d, d))
    for p in range(len(slots)):
        for b in range(d):
            inverse[b, b:] = factors[slots[p], b, b:]
        lapack.call(routines[lapack.TRTRI], (lapack.LOWER, lapack.PLAIN, d, inverse, d, 0))
        image = np.dot(design, inverse)  # rows: L^(-1) u_i, the triangle being zero elsewhere
        for i in range(n):
            total = 0.0
            for j in range(d):
                total += image[i, j] * image[i, j]
            out[p, i] = total


# Factors of a curvature metric: among the cases, or among the coordinates, whichever are fewer.

NEGLIGIBLE = 1e-16  # d_i K_ii of a row that changes the metric by less than rounding


class _Space:
    """Products with U, shared by the two forms of the metric."""

    def __init__(self, model: LatentGaussianModel) -> None:
        self.model, self.triangular = model, model.design is None

    def push(self, vectors: np.ndarray) -> np.ndarray:
        """U v (chain, n)."""
        return push_forward(self.model.predictor_factor, vectors, self.triangular)

    def pull(self, values: np.ndarray) -> np.ndarray:
        """U' q (chain, d)."""
        return pull_back(self.model.predictor_factor, values, self.triangular)


class CaseFactors(_Space):
    """For n <= d: G^(-1) = I - U' D^(1/2) B^(-1) D^(1/2) U, B = I + D^(1/2) U U' D^(1/2) (n, n)."""

    def __init__(self, model: LatentGaussianModel, n_chains: int) -> None:
        super().__init__(model)
        n = model.n_cases
        self.gram = model.predictor_covariance
        self.factors = np.empty((n_chains, n, n))
        self.active = np.zeros((n_chains, n), dtype=np.int64)
        self.sizes = np.zeros(n_chains, dtype=np.int64)

    def factorise(self, root: np.ndarray, slot: np.ndarray) -> np.ndarray:
        """Factor B of each chain; log |B| = log |G|, (chain,)."""
        log_det = np.empty(len(root))
        factor_case_matrices(
            ROUTINES, self.gram, root, slot, NEGLIGIBLE, self.factors, self.active,
            self.sizes, log_det,
        )  # fmt: skip
        return log_det

    def trace(self, weight: np.ndarray, weight_slope: np.ndarray, slot: np.ndarray) -> np.ndarray:
        """t_i = (d'_i / d_i) [1 - (B^(-1))_ii]: exact where d_i is tiny, as the quotient cancels."""
        inverse = np.empty_like(weight)
        case_inverse_diagonals(ROUTINES, slot, self.factors, self.active, self.sizes, inverse)
        held = weight > 1e-300
        return np.where(held, weight_slope / np.where(held, weight, 1.0), 0.0) * (1.0 - inverse)

    def divide(self, momentum: np.ndarray, root: np.ndarray, slot: np.ndarray) -> np.ndarray:
        """G^(-1) p (chain, d)."""
        image = self.push(momentum)
        held = np.empty_like(image)
        solve_case_matrices(
            ROUTINES, root, slot, self.factors, self.active, self.sizes, image, held
        )
        return momentum - self.pull(held)


class CoordinateFactors(_Space):
    """For d < n: G (d, d) itself is factorised."""

    def __init__(self, model: LatentGaussianModel, n_chains: int) -> None:
        super().__init__(model)
        self.design = np.ascontiguousarray(model.predictor_factor)
        self.factors = np.empty((n_chains, model.dim, model.dim))

    def factorise(self, root: np.ndarray, slot: np.ndarray) -> np.ndarray:
        """Factor G of each chain; log |G|, (chain,)."""
        log_det = np.empty(len(root))
        factor_coordinate_matrices(ROUTINES, self.design, root, slot, self.factors, log_det)
        return log_det

    def trace(self, weight: np.ndarray, weight_slope: np.ndarray, slot: np.ndarray) -> np.ndarray:
        """t_i = d'_i |L^(-1) u_i|^2."""
        variance = np.empty_like(weight)
        coordinate_variances(ROUTINES, self.design, slot, self.factors, variance)
        return weight_slope * variance

    def divide(self, momentum: np.ndarray, root: np.ndarray, slot: np.ndarray) -> np.ndarray:
        """G^(-1) p (chain, d)."""
        out = np.array(momentum, order="C")
        solve_coordinate_matrices(ROUTINES, slot, self.factors, out)
        return out


STEP = 1e-5  # of the differences of an information


class Geometry(NamedTuple):
    """What depends on the position alone, one row a chain."""

    position: np.ndarray  #: xi (chain, d)
    predictor: np.ndarray  #: eta (chain, n)
    log_likelihood: np.ndarray  #: log p(y | eta) (chain,)
    residual: np.ndarray  #: r of the target (chain,)
    log_density: np.ndarray  #: -|xi|^2 / 2 + beta r (chain,)
    slope: np.ndarray  #: g_i, derivative of beta r by eta_i (chain, n)
    root: np.ndarray  #: square root of the metric's weight d_i (chain, n)
    weight_slope: np.ndarray  #: derivative of d_i by eta_i (chain, n)
    trace: np.ndarray  #: t_i = d'_i (U G^(-1) U')_ii (chain, n)
    log_det: np.ndarray  #: log |G| (chain,)
    slot: np.ndarray  #: where the chain's factor is kept (chain,)


class Kick(NamedTuple):
    """Momentum after half a step, its velocity at the old position."""

    momentum: np.ndarray  #: (chain, d)
    velocity: np.ndarray  #: (chain, d)


class Arrival(NamedTuple):
    """New position and the velocity there."""

    position: np.ndarray  #: (chain, d)
    velocity: np.ndarray  #: (chain, d)


class CurvatureSystem:
    """H = |xi|^2 / 2 - beta r(eta) + log |G| / 2 + p' G^(-1) p / 2, G = I + U' D U, in the prior's xi.

    eta = predictor_mean + U xi, and D = diag(d) is minus the second derivative of the tempered
    factors by eta_i, d_i = beta w_i + (1 - beta) tau_i with w_i = -d^2 log p(y_i | eta_i) and the
    sites tau of the reference: one form for every reference. Of a likelihood that is not log-concave
    w_i is its `Likelihood.information`, which is positive. With v = G^(-1) p, the velocity,

        dH/dp = v,   dH/dxi = xi - U' (g - t / 2 + d' (U v)^2 / 2),   t_i = d'_i (U G^(-1) U')_ii.

    G^(-1) takes the factor of B = I + D^(1/2) U U' D^(1/2) among the n cases for n <= d, and of G itself
    else. The second implicit equation would need that factor at every iterate x'; instead

        G(x') v' = p   is iterated as   v' <- v' - G(x)^(-1) [G(x') v' - p],   x' = x + eps (v + v') / 2,

    which has the same solution and costs products with K and the factor at hand: one Cholesky
    factorisation and one triangle inverse (for t) a step. Coordinates xi are a linear canonical map
    of f, in which trajectories are the same and K^(-1) never appears.

    ``refactorise`` takes the textbook's iteration for the second equation, with its factorisation at
    every iterate. Source: Paquet & Fraccaro (2018); Girolami & Calderhead (2011).
    """

    def __init__(self, target: Target, n_chains: int, refactorise: bool = False) -> None:
        base, self.model = target.base, target.model
        if not base.is_prior:
            raise InputError(
                "RMHMC: the target is not in the prior's coordinates; "
                "use target.in_coordinates(sampler.coordinates(target.base))"
            )
        self.target, self.refactorise = target, refactorise
        self.beta = target.beta_column()
        self.sites = -self.beta * target.precision  # that the path keeps beside the likelihood
        if np.min(self.sites, initial=0.0) < -1e-10 * (
            1.0 + np.max(np.abs(self.sites), initial=0.0)
        ):
            raise InputError(
                "RMHMC: a site of the reference has a negative precision on this path, so that the "
                "metric need not be positive; use the prior or an EP or Laplace fit as reference"
            )
        self.sites = np.maximum(self.sites, 0.0)
        few_cases = self.model.n_cases <= self.model.dim
        self.space = (CaseFactors if few_cases else CoordinateFactors)(self.model, n_chains)
        self.n_factorised = np.zeros(n_chains)
        self.n_passes = np.zeros(n_chains)

    def _of(self, values: Any, slot: np.ndarray) -> Any:
        """Settings of some chains, where they differ between chains."""
        return values[slot] if np.ndim(values) == 2 else values

    def _root(self, predictor: np.ndarray, slot: np.ndarray) -> np.ndarray:
        """Square root of d at predictors."""
        self.n_passes[slot] += 1.0
        likelihood, y = self.model.likelihood, self.model.y
        if likelihood.log_concave:
            information = -likelihood.derivatives(predictor, y)[2]
        else:
            information = likelihood.information(predictor, y)
        beta, sites = self._of(self.beta, slot), self._of(self.sites, slot)
        return np.sqrt(np.maximum(sites + beta * information, 0.0))

    def geometry(self, position: np.ndarray, slot: np.ndarray) -> Geometry:
        """Likelihood, metric, its factor and trace term at positions (chain, d)."""
        model, target = self.model, self.target
        predictor = model.predictor(position)
        value, first, second, third = model.likelihood.derivatives(predictor, model.y)
        information, information_slope = -second, -third
        if not model.likelihood.log_concave:
            information, information_slope = _expected(model, predictor)
        beta, sites = self._of(self.beta, slot), self._of(self.sites, slot)
        precision, shift = (self._of(a, slot) for a in (target.precision, target.shift))
        log_likelihood = value.sum(-1)
        residual = log_likelihood - sites_density(predictor, precision, shift)
        scale = beta[:, 0] if np.ndim(beta) else beta
        weight = np.maximum(sites + beta * information, 0.0)
        weight_slope = beta * information_slope
        root = np.sqrt(weight)
        log_det = self.space.factorise(root, slot)
        trace = self.space.trace(weight, weight_slope, slot)
        self.n_factorised[slot] += 2.0
        self.n_passes[slot] += 1.0
        return Geometry(
            position,
            predictor,
            log_likelihood,
            residual,
            scale * residual - 0.5 * np.einsum("ij,ij->i", position, position),
            beta * (first - shift + precision * predictor),
            root,
            weight_slope,
            trace,
            log_det,
            slot,
        )

    def draw_momentum(self, rng, geometry: Geometry) -> np.ndarray:
        """P ~ N(0, G) = omega_1 + U' D^(1/2) omega_2, without a factor of G."""
        first = rng.standard_normal((self.model.dim,))
        second = rng.standard_normal((self.model.n_cases,))
        return first + self.space.pull(geometry.root * second)

    def energy(self, geometry: Geometry, momentum: np.ndarray) -> np.ndarray:
        """H (chain,), without constants."""
        velocity = self.space.divide(momentum, geometry.root, geometry.slot)
        kinetic = 0.5 * np.einsum("ij,ij->i", momentum, velocity)
        return kinetic + 0.5 * geometry.log_det - geometry.log_density

    def half_kick(
        self, geometry: Geometry, momentum: np.ndarray, half: np.ndarray, solver: FixedPointSolver
    ) -> Solved:
        """Implicit half kick: p' = c + half U' [d' (U v)^2] / 2 with v = G^(-1) p'."""
        pulled = self.space.pull(geometry.slope - 0.5 * geometry.trace)
        known, scale = momentum - half * (geometry.position - pulled), 0.5 * half

        momenta = momentum.copy()  # of the velocity that each update returns

        def update(velocity: np.ndarray, rows: np.ndarray) -> np.ndarray:
            bent = geometry.weight_slope[rows] * self.space.push(velocity) ** 2
            momenta[rows] = known[rows] + scale[rows] * self.space.pull(bent)
            return self.space.divide(momenta[rows], geometry.root[rows], geometry.slot[rows])

        start = self.space.divide(momentum, geometry.root, geometry.slot)
        velocity, iterations, solved = solver(update, start)
        return Solved(Kick(momenta, velocity), iterations, solved)

    def drift(
        self, geometry: Geometry, kick: Kick, step_size: np.ndarray, solver: FixedPointSolver
    ) -> Solved:
        """Implicit drift: xi' = xi + step_size [G(xi)^(-1) p + G(xi')^(-1) p] / 2."""
        space, half = self.space, 0.5 * step_size
        drifted = geometry.predictor + half * space.push(kick.velocity)

        def corrected(velocity: np.ndarray, rows: np.ndarray) -> np.ndarray:
            pushed, slot = space.push(velocity), geometry.slot[rows]
            root = self._root(drifted[rows] + half[rows] * pushed, slot)
            error = velocity + space.pull(root**2 * pushed) - kick.momentum[rows]
            return velocity - space.divide(error, geometry.root[rows], slot)

        def refactorised(velocity: np.ndarray, rows: np.ndarray) -> np.ndarray:
            slot = geometry.slot[rows]
            root = self._root(drifted[rows] + half[rows] * space.push(velocity), slot)
            space.factorise(root, slot)
            self.n_factorised[slot] += 1.0
            return space.divide(kick.momentum[rows], root, slot)

        update = refactorised if self.refactorise else corrected
        velocity, iterations, solved = solver(update, kick.velocity)
        position = geometry.position + half * (kick.velocity + velocity)
        return Solved(Arrival(position, velocity), iterations, solved)

    def end_kick(
        self, geometry: Geometry, kick: Kick, arrival: Arrival, half: np.ndarray
    ) -> np.ndarray:
        """Explicit half kick at the new position."""
        velocity = arrival.velocity
        if self.refactorise:  # that of the last iteration need not be the one at the new position
            velocity = self.space.divide(kick.momentum, geometry.root, geometry.slot)
        bent = geometry.weight_slope * self.space.push(velocity) ** 2
        pulled = self.space.pull(geometry.slope - 0.5 * geometry.trace + 0.5 * bent)
        return kick.momentum - half * (geometry.position - pulled)


def _expected(model: LatentGaussianModel, predictor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Information of the factors and its derivative by eta, by central differences."""
    step = STEP * (1.0 + np.abs(predictor))
    low, here, high = (
        model.likelihood.information(predictor + shift, model.y) for shift in (-step, 0.0, step)
    )
    return here, (high - low) / (2.0 * step)
