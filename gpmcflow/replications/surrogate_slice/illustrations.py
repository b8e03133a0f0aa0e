"""Illustrations of the surrogate-slice paper (Figures 1 and 2), by the samplers' own representations."""

from __future__ import annotations

import numpy as np
import xarray as xr

from gpmcflow.covariances.leaves import SquaredExponential
from gpmcflow.jobs.job import Job
from gpmcflow.likelihoods import Gaussian
from gpmcflow.models.gp_model import GPModel
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.replications.surrogate_slice.settings import STUDY
from gpmcflow.samplers.joint.representations import representation
from gpmcflow.samplers.joint.workspace import JointWorkspace
from gpmcflow.storage import standard_attributes, with_attributes

LENGTHS = (0.1, 0.5, 2.0)  # of figure 1
N_GRID, N_LENGTHS, RANGE = 100, 1000, (-2.0, 1.0)  # cases, length scales and decades of figure 1
CURRENT, PROPOSED = 0.3, 1.5  # length scales of figure 2
N_CASES, NOISE_SD, N_BURN = 40, 0.3, 200
JITTER = 1e-6
METHODS = ("prior-white", "surr-site")


def illustrate_job(job: Job) -> xr.DataTree:
    """`illustrate` with the seed of a job."""
    return illustrate(seed=job.seed)


def illustrate(seed: int) -> xr.DataTree:
    """Data of Figures 1 and 2.

    Group ``whitened`` (length; x): f_l = L_l nu for one draw nu of unit normals, as prior-white moves f; and
    p(log l' | f_l), proportional to N(f_l; 0, Sigma_l') on an even grid of log l' and summing to 1, as fixed
    sees it. Group ``proposals`` (x; method): noisy observations of a function, latents f at l = 0.3 drawn
    given them, and the latents that prior-white and surr-site propose at l' = 1.5. sigma_f = 1.

    Source: Murray & Adams (2010), figures 1 and 2.
    """
    tree = xr.DataTree.from_dict({"whitened": _whitened(seed), "proposals": _proposals(seed)})
    attributes = standard_attributes(
        settings={"study": STUDY}, seed=seed, data_checksum="simulated", dataset="illustrations"
    )
    return with_attributes(tree, attributes)


def _model(x: np.ndarray, y: np.ndarray, noise_sd: float) -> GPModel:
    """Regression with one unknown, the log length scale, of even density over the range of figure 1."""
    prior = Hyperprior.log_uniform(*(10.0**power for power in RANGE))
    return GPModel(x, y, SquaredExponential(prior, 1.0), Gaussian(noise_sd), jitter=JITTER)


def _moved(workspace: JointWorkspace, length: float) -> np.ndarray:
    """Latents at another length scale, with what the representation froze."""
    full = workspace.model.full(np.log([length]))
    workspace.accept(workspace.propose(full, None))
    return workspace.point.f.copy()


def _whitened(seed: int) -> xr.Dataset:
    rng = np.random.default_rng([seed, 1])
    x = np.linspace(0.0, 1.0, N_GRID)
    model = _model(x, np.zeros(N_GRID), 1.0)
    workspace = JointWorkspace(model, representation("prior-white"))
    start = np.log(LENGTHS[:1])
    workspace.start(
        start, model.filled_factor(model.full(start)).multiply(rng.standard_normal(N_GRID))
    )
    workspace.begin_sweep(rng)
    latents = np.stack([_moved(workspace, length) for length in LENGTHS])
    grid = np.logspace(*RANGE, N_LENGTHS)
    seen = [_seen(model, length, f, grid) for length, f in zip(LENGTHS, latents, strict=True)]
    return xr.Dataset(
        {"latent": (("length", "x"), latents), "density": (("length", "other_length"), seen)},
        {"length": list(LENGTHS), "x": x, "other_length": grid},
    )


def _seen(model: GPModel, length: float, f: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """p(log l' | f) on a grid, summing to 1: the density fixed leaves to theta."""
    workspace = JointWorkspace(model, representation("fixed"))
    workspace.start(np.log([length]), f)
    workspace.begin_sweep(np.random.default_rng(0))  # fixed draws nothing
    phi = np.array([workspace.propose(model.full(np.log([other])), None) for other in grid])
    weights = np.exp(phi - phi.max())
    return weights / weights.sum()


def _proposals(seed: int) -> xr.Dataset:
    rng = np.random.default_rng([seed, 2])
    x = np.linspace(0.0, 1.0, N_CASES)
    model = _model(x, np.zeros(N_CASES), NOISE_SD)
    theta = np.log([CURRENT])
    _, y = model.simulate(rng, theta)
    model = model.with_y(y)
    current = JointWorkspace(model, representation("prior-white"))
    current.start(theta, np.zeros(N_CASES))
    current.update_latents(rng, N_BURN)
    f = current.point.f.copy()
    proposed = []
    for name in METHODS:
        workspace = JointWorkspace(model, representation(name))
        workspace.start(theta, f)
        workspace.begin_sweep(rng)
        proposed.append(_moved(workspace, PROPOSED))
    return xr.Dataset(
        {
            "y": ("x", y),
            "current": ("x", f),
            "proposed": (("method", "x"), np.stack(proposed)),
            "noise_sd": NOISE_SD,
            "lengths": ("state", [CURRENT, PROPOSED]),
        },
        {"x": x, "method": list(METHODS), "state": ["current", "proposed"]},
    )
