"""HMC and RMHMC on a mixture of three correlated Gaussians: Figure 1 of the evidence study."""

from __future__ import annotations

import numpy as np
import xarray as xr

from gpmcflow.errors import NumericalError
from gpmcflow.jobs.job import Job
from gpmcflow.replications.rmhmc_ais.gaussian_mixture import GaussianMixture
from gpmcflow.replications.rmhmc_ais.mixture_metric import MixtureSystem, travel
from gpmcflow.samplers.latent.generalised_leapfrog import FixedPointSolver
from gpmcflow.storage import standard_attributes, with_attributes

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
