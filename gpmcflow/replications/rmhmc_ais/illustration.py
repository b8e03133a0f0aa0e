"""The illustration of the RMHMC-AIS paper: annealing on a mixture of Gaussians with its metric."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from gpmcflow.errors import NumericalError
from gpmcflow.jobs.job import Job
from gpmcflow.samplers.latent.generalised_leapfrog import FixedPointSolver, Solved, integrate
from gpmcflow.storage import standard_attributes, with_attributes

# Mixtures of Gaussians: a density that is not log-concave, with everything in closed form.


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    """p(x) = sum_k w_k N(x; mu_k, Sigma_k) in d dimensions.

    Attributes
    ----------
    weights:
        w (k,), positive, of sum 1.
    means, covariances:
        mu (k, d) and Sigma (k, d, d), positive definite.
    """

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    @property
    def dim(self) -> int:
        """Number d of dimensions."""
        return self.means.shape[1]

    @cached_property
    def _cholesky(self) -> np.ndarray:
        return np.linalg.cholesky(self.covariances)

    @cached_property
    def precisions(self) -> np.ndarray:
        """P_k, inverses of the covariances (k, d, d)."""
        inverse = np.linalg.inv(self._cholesky)
        return inverse.transpose(0, 2, 1) @ inverse

    def evaluate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log density (n,), responsibilities r (n, k) and a_k = P_k (x - mu_k) (n, k, d) at x (n, d)."""
        away = x[:, None, :] - self.means
        pull = np.einsum("kij,nkj->nki", self.precisions, away)
        log_det = 2.0 * np.log(np.einsum("kii->ki", self._cholesky)).sum(1)
        constant = np.log(self.weights) - 0.5 * (log_det + self.dim * np.log(2.0 * np.pi))
        shares = constant - 0.5 * np.einsum("nki,nki->nk", away, pull)
        log_density = logsumexp(shares, axis=1)
        return log_density, np.exp(shares - log_density[:, None]), pull

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Log p(x) for x (n, d), shape (n,)."""
        return self.evaluate(x)[0]

    def responsibilities(self, x: np.ndarray) -> np.ndarray:
        """r_k(x) = w_k N(x; mu_k, Sigma_k) / p(x), shape (n, k)."""
        return self.evaluate(x)[1]

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Gradient of log p: -sum_k r_k a_k, shape (n, d)."""
        _, r, pull = self.evaluate(x)
        return -np.einsum("nk,nki->ni", r, pull)

    def simulate(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent draws (n, d)."""
        which = rng.choice(len(self.weights), size=n, p=self.weights)
        normals = rng.standard_normal((n, self.dim))
        return self.means[which] + np.einsum("nij,nj->ni", self._cholesky[which], normals)


# Hamiltonians on a mixture of Gaussians, with a metric that is not a Hessian, and with none.


class Geometry(NamedTuple):
    """What depends on the position alone, one row a chain."""

    position: np.ndarray  #: x (chain, d)
    log_density: np.ndarray  #: (chain,)
    explicit: np.ndarray  #: -grad log p + tr(G^{-1} dG) / 2 (chain, d)
    metric: np.ndarray  #: G (chain, d, d)
    inverse: np.ndarray  #: G^{-1} (chain, d, d)
    slopes: np.ndarray  #: dG / dx_i in [:, i] (chain, d, d, d)
    log_det: np.ndarray  #: log |G| (chain,)
    slot: np.ndarray  #: number of the chain (chain,)


class Kick(NamedTuple):
    """Momentum after half a step and its velocity at the old position."""

    momentum: np.ndarray  #: (chain, d)
    velocity: np.ndarray  #: (chain, d)


class Arrival(NamedTuple):
    """New position."""

    position: np.ndarray  #: (chain, d)


class MixtureSystem:
    """H = -log p(x) + log |G(x)| / 2 + p' G(x)^(-1) p / 2 with G(x) = sum_k r_k(x) P_k.

    A mixture is not log-concave, so that its Hessian is no metric; the precisions P_k of the
    components weighted by their responsibilities r_k(x) are. With v = G^(-1) p,

        dH/dx_i = -d log p / dx_i + tr(G^(-1) dG/dx_i) / 2 - v' (dG/dx_i) v / 2,
        dG/dx_i = sum_k (dr_k/dx_i) P_k,   grad r_k = r_k (-P_k (x - mu_k) - grad log p).

    The implicit equations are solved as they stand, for p' and for x'. ``flat`` puts G = I in place
    of that metric: then the generalised leapfrog method is the ordinary one and the sampler HMC.
    """

    def __init__(self, mixture: GaussianMixture, flat: bool = False) -> None:
        self.mixture, self.flat = mixture, flat

    def geometry(self, position: np.ndarray, slot: np.ndarray) -> Geometry:
        """Density, metric and its derivatives at positions (chain, d)."""
        log_density, r, pull = self.mixture.evaluate(position)
        gradient = -np.einsum("nk,nki->ni", r, pull)
        n, d = position.shape
        if self.flat:
            one, none = np.broadcast_to(np.eye(d), (n, d, d)), np.zeros((n, d, d, d))
            return Geometry(position, log_density, -gradient, one, one, none, np.zeros(n), slot)
        metric = np.einsum("nk,kij->nij", r, self.mixture.precisions)
        r_slopes = r[:, :, None] * (-pull - gradient[:, None, :])
        slopes = np.einsum("nki,kab->niab", r_slopes, self.mixture.precisions)
        inverse = np.linalg.inv(metric)
        trace = np.einsum("nab,niba->ni", inverse, slopes)
        log_det = np.linalg.slogdet(metric)[1]
        explicit = 0.5 * trace - gradient
        return Geometry(position, log_density, explicit, metric, inverse, slopes, log_det, slot)

    def draw_momentum(self, normals: np.ndarray, geometry: Geometry) -> np.ndarray:
        """P ~ N(0, G) from standard normals (chain, d)."""
        return np.einsum("nij,nj->ni", np.linalg.cholesky(geometry.metric), normals)

    def energy(self, geometry: Geometry, momentum: np.ndarray) -> np.ndarray:
        """H (chain,), without constants."""
        kinetic = 0.5 * np.einsum("ni,nij,nj->n", momentum, geometry.inverse, momentum)
        return kinetic + 0.5 * geometry.log_det - geometry.log_density

    def force(self, geometry: Geometry, momentum: np.ndarray) -> np.ndarray:
        """dH/dx (chain, d)."""
        v = np.einsum("nij,nj->ni", geometry.inverse, momentum)
        return geometry.explicit - 0.5 * np.einsum("na,niab,nb->ni", v, geometry.slopes, v)

    def half_kick(
        self, geometry: Geometry, momentum: np.ndarray, half: np.ndarray, solver: FixedPointSolver
    ) -> Solved:
        """P' = p - half dH/dx(x, p')."""

        def update(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
            here = Geometry(*(field[rows] for field in geometry))
            return momentum[rows] - half[rows] * self.force(here, values)

        kicked, iterations, solved = solver(update, momentum)
        velocity = np.einsum("nij,nj->ni", geometry.inverse, kicked)
        return Solved(Kick(kicked, velocity), iterations, solved)

    def drift(
        self, geometry: Geometry, kick: Kick, step_size: np.ndarray, solver: FixedPointSolver
    ) -> Solved:
        """X' = x + step_size [G(x)^(-1) p' + G(x')^(-1) p'] / 2."""
        half = 0.5 * step_size
        known = geometry.position + half * kick.velocity

        def update(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
            return known[rows] + half[rows] * self._velocity(values, kick.momentum[rows])

        start = known + half * kick.velocity
        position, iterations, solved = solver(update, start)
        return Solved(Arrival(position), iterations, solved)

    def _velocity(self, position: np.ndarray, momentum: np.ndarray) -> np.ndarray:
        """G(x)^(-1) p."""
        if self.flat:
            return momentum
        r = self.mixture.responsibilities(position)
        metric = np.einsum("nk,kij->nij", r, self.mixture.precisions)
        return np.linalg.solve(metric, momentum[:, :, None])[:, :, 0]

    def end_kick(
        self, geometry: Geometry, kick: Kick, arrival: Arrival, half: np.ndarray
    ) -> np.ndarray:
        """Explicit half kick at the new position."""
        return kick.momentum - half * self.force(geometry, kick.momentum)


class Travel(NamedTuple):
    """Trajectories of a batch, at their start and after each step."""

    position: np.ndarray  #: (chain, n_steps + 1, d)
    momentum: np.ndarray  #: (chain, n_steps + 1, d)
    acceptance_rate: np.ndarray  #: were that the end, (chain, n_steps + 1); zero once unsolved
    solved: np.ndarray  #: (chain, n_steps + 1) bool


def travel(
    system: MixtureSystem,
    position: np.ndarray,
    normals: np.ndarray,
    step_size: float,
    n_steps: int,
    solver: FixedPointSolver,
) -> Travel:
    """Trajectories from positions (chain, d) with momenta made of standard normals (chain, d)."""
    here = system.geometry(position, np.arange(len(position)))
    momentum = system.draw_momentum(normals, here)
    before, steps = system.energy(here, momentum), np.full((len(position), 1), step_size)
    alive = np.ones(len(position), bool)
    states = [(position, momentum, np.ones(len(position)), alive)]
    for _ in range(n_steps):
        with np.errstate(over="ignore", invalid="ignore"):
            end = integrate(system, here, momentum, steps, 1, solver)
            error = system.energy(end.geometry, end.momentum) - before
        here, momentum, alive = end.geometry, end.momentum, alive & end.solved
        usable = alive & np.isfinite(error)
        rate = np.where(usable, np.exp(-np.maximum(np.where(usable, error, 0.0), 0.0)), 0.0)
        states.append((here.position, momentum, rate, alive))
    return Travel(*(np.stack(column, axis=1) for column in zip(*states, strict=True)))


# HMC and RMHMC on a mixture of three correlated Gaussians: Figure 1 of the evidence study.

STUDY = "rmhmc_ais"
MEANS = np.array([[-2.0, -2.0], [0.0, 1.0], [3.0, 1.0]])
WEIGHTS = np.array([0.4, 0.3, 0.3])
SCALES = ((1.5, 1.5, 0.95), (1.0, 2.0, -0.9), (1.5, 1.0, 0.9))  # two deviations, correlation
STEP_SIZE, N_STEPS = 0.3, 20
START, NORMALS = np.array([[-3.4, -3.0]]), np.array([[-0.5, 1.8]])  # both leave the first mode
N_STARTS, N_TUNING = 200, 2000
HMC_ACCEPTANCE = 0.7
SOLVER = FixedPointSolver(1e-10, 100)
METHODS = ("hmc", "rmhmc")


def three_gaussians() -> GaussianMixture:
    """Return the mixture of the illustration."""
    covariances = [[[a * a, c * a * b], [c * a * b, b * b]] for a, b, c in SCALES]
    return GaussianMixture(WEIGHTS, MEANS, np.array(covariances))


def illustrate_job(job: Job) -> tuple[xr.DataTree, dict]:
    """`illustrate` with the seed of a job."""
    return illustrate(seed=job.seed)


def illustrate(*, seed: int) -> tuple[xr.DataTree, dict]:
    """Data of Figure 1, group ``mixture`` (method: hmc, rmhmc).

    One trajectory of each method from the same start with the same standard normals; and, over 200
    exact draws of the mixture as starts, acceptance, squared jump (acceptance times squared distance)
    and whether equations were not solved, of one transition each, had it ended after 0, 1, .., 20
    steps. RMHMC takes 20 steps of 0.3, HMC with mass matrix I as many of the size that gives it an
    acceptance of 0.7, found by bisection over 2000 other draws. In units of the metric 20 steps are a
    time of 6, about the period 2 pi of a Gaussian whose precision is the metric. Source: Paquet &
    Fraccaro (2018), Figure 1, whose parameters are lost.
    """
    mixture = three_gaussians()
    systems = {"hmc": MixtureSystem(mixture, flat=True), "rmhmc": MixtureSystem(mixture)}
    tuning, runs = (np.random.default_rng([seed, k]) for k in range(2))
    steps = {"hmc": tuned_step(systems["hmc"], tuning), "rmhmc": STEP_SIZE}
    starts = mixture.simulate(runs, N_STARTS)
    kicks = runs.standard_normal(starts.shape)
    paths, rates, jumps, unsolved = [], [], [], []
    for method, system in systems.items():
        one = travel(system, START, NORMALS, steps[method], N_STEPS, SOLVER)
        if not one.solved.all():
            raise NumericalError(
                "illustration: the shown trajectory has an unsolved step; change START"
            )
        ends = travel(system, starts, kicks, steps[method], N_STEPS, SOLVER)
        away = ((ends.position - starts[:, None]) ** 2).sum(2)
        paths.append(one.position[0])
        rates.append(ends.acceptance_rate)
        jumps.append(ends.acceptance_rate * away)
        unsolved.append(~ends.solved)
    by_step = ("method", "chain", "step")
    data = xr.Dataset(
        {
            "trajectory": (("method", "step", "coordinate"), np.stack(paths)),
            "acceptance_rate": (by_step, np.stack(rates)),
            "squared_jump": (by_step, np.stack(jumps)),
            "unsolved": (by_step, np.stack(unsolved).astype(np.int8)),
            "step_size": ("method", np.array([steps[m] for m in METHODS])),
            "weight": ("component", mixture.weights),
            "mean": (("component", "coordinate"), mixture.means),
            "covariance": (("component", "coordinate", "other"), mixture.covariances),
        },
        {
            "method": list(METHODS),
            "step": np.arange(N_STEPS + 1),
            "chain": np.arange(N_STARTS),
            "coordinate": ["x_1", "x_2"],
            "other": ["x_1", "x_2"],
            "component": np.arange(3),
        },
    )
    attributes = standard_attributes(
        settings={"study": STUDY}, seed=seed, data_checksum="simulated", dataset="mixture"
    )
    tree = with_attributes(xr.DataTree.from_dict({"mixture": data}), attributes)
    return tree, {"seconds": {}}


def tuned_step(system: MixtureSystem, rng: np.random.Generator) -> float:
    """Step size with a mean acceptance of 0.7 over exact draws, by bisection on its logarithm."""
    starts = system.mixture.simulate(rng, N_TUNING)
    normals = rng.standard_normal(starts.shape)
    low, high = 0.02, 2.0
    for _ in range(12):
        middle = np.sqrt(low * high)
        ends = travel(system, starts, normals, middle, N_STEPS, SOLVER)
        rate = ends.acceptance_rate[:, -1].mean()
        low, high = (middle, high) if rate > HMC_ACCEPTANCE else (low, middle)
    return float(np.sqrt(low * high))
