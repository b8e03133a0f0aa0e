"""Time of an RMHMC leapfrog step: over its bare LAPACK and BLAS calls, and against other routes.

    GPMCFLOW_DATA=folder python benchmarks/rmhmc.py [--rounds 7]

One BLAS thread, one particle, n = 767: the USPS classifier at settings A and B, or a synthetic process
of that size without the data. All rows of a problem are timed in turn, round by round, and ratios are
medians of the ratios of each round. The bare calls are those of one step, counted by running it.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from contextlib import contextmanager
from functools import partial

import numpy as np
from scipy.linalg import blas, lapack

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.covariances.leaves import SquaredExponential
from gpmcflow.data import load_dataset
from gpmcflow.execution import pin_blas
from gpmcflow.likelihoods import Probit
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers.latent import (
    curvature_metric as metric_factors,
)
from gpmcflow.samplers.latent import (
    generalised_leapfrog as fixed_point,
)
from gpmcflow.samplers.latent.curvature_metric import Arrival, CurvatureSystem
from gpmcflow.samplers.latent.generalised_leapfrog import FixedPointSolver, Solved, integrate

SETTINGS = {"A": (4.85, 5.1, 0.05), "B": (4.85, 2.55, 0.3)}  # log length, log sd, step size
N_STEPS, PAPER_ITERATIONS = 4, 6
SLOT = np.zeros(1, dtype=int)


class PcgSystem(CurvatureSystem):
    """The drift with an inner solver: G(x') v = p by conjugate gradients, preconditioned by G(x)."""

    def drift(self, geometry, kick, step_size, solver):
        """Solve for the velocity at the new position."""
        space, half, slot = self.space, 0.5 * step_size, geometry.slot
        drifted = geometry.predictor + half * space.push(kick.velocity)
        stop = 1e-10 * np.abs(kick.momentum).max()

        def update(velocity, rows):
            weight = self._root(drifted + half * space.push(velocity), slot) ** 2
            x = velocity
            r = kick.momentum - x - space.pull(weight * space.push(x))
            z = space.divide(r, geometry.root, slot)
            p, rz = z, float((r * z).sum())
            for _ in range(50):
                if np.abs(r).max() < stop:
                    break
                q = p + space.pull(weight * space.push(p))
                alpha = rz / float((p * q).sum())
                x, r = x + alpha * p, r - alpha * q
                z = space.divide(r, geometry.root, slot)
                rz, old = float((r * z).sum()), rz
                p = z + (rz / old) * p
            return x

        velocity, iterations, solved = solver(update, kick.velocity)
        position = geometry.position + half * (kick.velocity + velocity)
        return Solved(Arrival(position, velocity), iterations, solved)


@contextmanager
def replaced(module, name, value):
    """A module's attribute set to another value for a while."""
    kept = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, kept)


def problems():
    """Name, model and step size of each."""
    if os.environ.get("GPMCFLOW_DATA"):
        data = load_dataset("usps-3v5")
        X, y, label = data["X"].values, data["y"].values, "USPS"
        settings = SETTINGS
    else:
        rng = np.random.default_rng(0)
        X, label = rng.normal(size=(767, 8)), "synthetic"
        y = np.where(X[:, 0] + 0.5 * rng.normal(size=767) > 0, 1.0, -1.0)
        settings = {"(l = 3, s = 2)": (np.log(3.0), np.log(2.0), 0.2)}
    for name, (length, sd, step) in settings.items():
        covariance = SquaredExponential(np.exp(length), np.exp(sd))
        yield f"{label} {name}", GPModel(X, y, covariance, Probit()).at(), step


def start(target, position, kind=CurvatureSystem, **settings):
    """System, geometry and momentum at a position."""
    system = kind(target, 1, **settings)
    geometry = system.geometry(position, SLOT)
    momentum = system.draw_momentum(Normals(), geometry)
    return system, geometry, momentum


def timed(target, position, step, check=True, kind=CurvatureSystem, **settings):
    """Seconds of one step of a trajectory, and the trajectory."""
    system, geometry, momentum = start(target, position, kind, **settings)
    steps = np.full((1, 1), step)
    began = time.perf_counter()
    end = integrate(system, geometry, momentum, steps, N_STEPS, FixedPointSolver(), check)
    seconds = (time.perf_counter() - began) / N_STEPS
    if not end.solved.all():
        raise SystemExit("the trajectory of the benchmark has an unsolved step; take a shorter one")
    return seconds, end


def count_calls(target, position, step) -> tuple[Counter, int]:
    """LAPACK and BLAS calls of one trajectory by kind, and the active rows of its start."""
    calls, compiled = Counter(), metric_factors.compiled
    system, geometry, momentum = start(target, position)

    def counting(function, *kinds):
        def wrapped(*arguments, **options):
            calls.update(kinds)
            return function(*arguments, **options)

        return wrapped

    space, model = system.space, system.model
    space.pull, space.push = counting(space.pull, "trmm"), counting(space.push, "trmm")
    names = ("factor_case_matrices", "case_inverse_diagonals", "solve_case_matrices")
    kinds = (("potrf",), ("trtri",), ("trsv", "trsv"))
    kept = {name: getattr(compiled, name) for name in names}
    predictor = model.predictor
    try:
        for name, kind in zip(names, kinds, strict=True):
            setattr(compiled, name, counting(kept[name], *kind))
        object.__setattr__(model, "predictor", counting(predictor, "trmm"))
        integrate(system, geometry, momentum, np.full((1, 1), step), N_STEPS, FixedPointSolver())
    finally:
        for name, function in kept.items():
            setattr(compiled, name, function)
        object.__delattr__(model, "predictor")
    return calls, int(system.space.sizes[0])


class Bare:
    """One call of each kind, on arrays of the sizes of a step."""

    def __init__(self, model, m, root):
        self.K, self.L = model.predictor_covariance, model.predictor_factor
        B = np.eye(model.n_cases) + root[:, None] * self.K * root
        order = np.argsort(-(root**2) * np.diag(self.K))[:m]
        self.B = np.asfortranarray(B[np.ix_(order, order)])
        self.factor = lapack.dpotrf(self.B, lower=1)[0]
        self.v, self.x = np.ones(m), np.ones((1, model.n_cases))

    def seconds(self) -> dict[str, float]:
        """Of one call of each kind."""
        work, triangle = self.B.copy(order="F"), self.factor.copy(order="F")
        calls = {
            "potrf": lambda: lapack.dpotrf(work, lower=1, clean=0, overwrite_a=1),
            "trtri": lambda: lapack.dtrtri(triangle, lower=1, overwrite_c=1),
            "trsv": lambda: blas.dtrsv(self.factor, self.v, lower=1),
            "trmm": lambda: blas.dtrmm(1.0, self.L, self.x.T, lower=1),
        }
        found = {}
        for name, call in calls.items():
            repeats = 1 if name in ("potrf", "trtri") else 10
            began = time.perf_counter()
            for _ in range(repeats):
                call()
            found[name] = (time.perf_counter() - began) / repeats
        return found


def explicit_metric(K, weight):
    """Lower triangle of G^{-1} = K - Y' Y with Y = L_B^{-1} D^{1/2} K: Cholesky, TRSM, SYRK."""
    root = np.sqrt(np.maximum(weight, 1e-30))  # denormal numbers would slow it down further
    B = root[:, None] * K * root
    B.flat[:: len(B) + 1] += 1.0
    L = lapack.dpotrf(np.asfortranarray(B), lower=1, clean=0, overwrite_a=1)[0]
    Y = blas.dtrsm(1.0, L, np.asfortranarray(root[:, None] * K), lower=1, overwrite_b=1)
    out = blas.dsyrk(-1.0, Y, beta=1.0, c=np.array(K, order="F"), trans=1, lower=1, overwrite_c=1)
    return out


def seconds_of(call) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def draw_with_factor(model, geometry, normals):
    """Momentum from a Cholesky factor of G = I + L' D L."""
    scaled = np.asfortranarray(model.predictor_factor * geometry.root[0][:, None])
    G = blas.dsyrk(1.0, scaled, trans=1, lower=1)
    G.flat[:: len(G) + 1] += 1.0
    return lapack.dpotrf(G, lower=1, clean=1, overwrite_a=1)[0] @ normals


def measure(name, model, step, rounds) -> None:
    """All rows of one problem, from the prior and from EP."""
    q = expectation_propagation(model).sites
    prior = GaussianSites.prior(model)
    position = q.to_whitened(np.random.default_rng(1).standard_normal((1, model.dim)))
    compare(
        f"{name}, from the prior, beta = 1", TemperedPath(prior).target(1.0), position, step, rounds
    )
    path = TemperedPath(q, prior)
    compare(
        f"{name}, from EP, beta = 0.5", path.target(0.5), position, step, rounds, 0.5 * q.precision
    )


def compare(name, target, position, step, rounds, first_stage=None) -> None:
    """Time everything in turn; ``first_stage`` are the sites of the two-stage route's first metric."""
    model = target.model
    calls, active = count_calls(target, position, step)
    system, geometry, _ = start(target, position)
    weight, K = geometry.root[0] ** 2, model.predictor_covariance
    bare = Bare(model, active, geometry.root[0])
    normals = np.random.default_rng(2).standard_normal(model.n_cases)
    run = partial(timed, target, position, step)
    plain = (fixed_point, "_combine", lambda images, residuals: images[-1])
    routes = {
        "ours": run,
        "no step taken back": partial(run, check=False),
        "that, no Anderson": under(plain, partial(run, check=False)),
        "refactorise, Anderson": partial(run, check=False, refactorise=True),
        "refactorise, no Anderson": under(plain, partial(run, check=False, refactorise=True)),
        "conjugate gradients": partial(run, check=False, kind=PcgSystem),
        "every row active": under((metric_factors, "NEGLIGIBLE", 0.0), run),
    }
    stages = [K] if first_stage is None else [K, symmetric(explicit_metric(K, first_stage))]
    weights = [weight] if first_stage is None else [first_stage, weight]
    times, ends = {route: [] for route in routes}, {}
    bares, metrics, draws = [], [], []
    for _ in range(rounds):
        for route, call in routes.items():
            seconds, ends[route] = call()
            times[route].append(seconds)
        each = bare.seconds()
        bares.append(sum(each[kind] * count for kind, count in calls.items()) / N_STEPS)
        pairs = zip(stages, weights, strict=True)
        metrics.append([seconds_of(partial(explicit_metric, V, d)) for V, d in pairs])
        two = seconds_of(partial(system.draw_momentum, Normals(), geometry))
        one = seconds_of(partial(draw_with_factor, model, geometry, normals))
        draws.append((two, one))
    title = f"{name}: {active} of {model.n_cases} rows active"
    report(title, calls, times, bares, metrics, draws, ends)


def under(replacement, call):
    """Return the call, to be made with a module's attribute replaced."""

    def wrapped():
        with replaced(*replacement):
            return call()

    return wrapped


def symmetric(lower):
    """Whole matrix from its lower triangle."""
    return np.tril(lower) + np.tril(lower, -1).T


class Normals:
    """A random source of one chain that starts anew each time."""

    def __init__(self):
        self.rng = np.random.default_rng(5)

    def standard_normal(self, size):
        """Normals (1, *size)."""
        return self.rng.standard_normal((1, *size))


def report(title, calls, times, bares, metrics, draws, ends) -> None:
    """Rows of one problem: milliseconds a step, and the ratio to ours (or as the row says)."""
    ours = np.array(times["ours"])
    per_step = ", ".join(f"{count / N_STEPS:g} {kind}" for kind, count in sorted(calls.items()))
    print(f"\n{title}; bare calls of a step: {per_step}\n")
    print("| route | ms a step | ratio | iterations of kick, drift |")
    print("| --- | --- | --- | --- |")
    ratio = np.median(ours / np.array(bares))
    print(f"| bare calls | {1e3 * np.median(bares):.1f} | ours over them {ratio:.2f} | |")
    for route, seconds in times.items():
        end = ends[route]
        counts = [c[0] / N_STEPS for c in (end.kick_iterations, end.drift_iterations)]
        over = np.median(np.array(seconds) / ours)
        print(
            f"| {route} | {1e3 * np.median(seconds):.1f} | over ours {over:.2f} | "
            f"{counts[0]:.1f}, {counts[1]:.1f} |"
        )
    metrics = np.array(metrics)
    labels = ("one stage", "two stages, the first kept", "two stages")
    totals = [metrics[:, 0]] if metrics.shape[1] == 1 else [None, metrics[:, 1], metrics.sum(1)]
    for label, each in zip(labels, totals, strict=False):
        if each is not None:
            total = (PAPER_ITERATIONS + 1) * each
            print(
                f"| explicit inverses, {label}, {PAPER_ITERATIONS} iterations | "
                f"{1e3 * np.median(total):.0f} | over ours {np.median(total / ours):.1f} | |"
            )
    two, one = np.array(draws).T
    print(
        f"| momentum by two draws | {1e3 * np.median(two):.2f} | "
        f"by a factor of G {np.median(one / two):.0f} times that | |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    pin_blas()
    for name, model, step in problems():
        measure(name, model, step, options.rounds)


if __name__ == "__main__":
    main()
