"""The log evidence of a model at fixed hyperparameters, by any route."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from gpmcflow.approximations.expectation_propagation import as_sites
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.evidence import alarms
from gpmcflow.evidence.annealing import anneal
from gpmcflow.evidence.importance_sampling import importance_sampling
from gpmcflow.evidence.parallel_tempering import temper
from gpmcflow.evidence.schedule import Schedule, make_ladder
from gpmcflow.evidence.sequential_monte_carlo import resample_move
from gpmcflow.execution import Execution
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers import LATENT_SAMPLERS, make_sampler
from gpmcflow.samplers.adaptation.pilot import find_pilot
from gpmcflow.samplers.adaptation.step_sizes import TuningSettings
from gpmcflow.samplers.latent.protocol import LatentSampler

MOST_GROWTH = 64  # times the first run
LARGEST_STEP = 16  # times the run before
MARGIN = 1.2  # of the variance that a longer run aims at


class Route(NamedTuple):
    """A run along a frozen schedule, how long a ladder suits it, and what makes it more precise."""

    run: Callable[..., xr.DataTree]
    n_temperatures: int
    grows: str


ROUTES = {
    "annealing": Route(anneal, 100, "n_particles"),
    "parallel_tempering": Route(temper, 12, "n_draws"),
    "sequential_monte_carlo": Route(resample_move, 20, "n_particles"),
}


def log_evidence(
    model: Any,
    route: str = "annealing",
    sampler: str | LatentSampler = "preconditioned_split_hmc",
    *,
    ladder: str = "adaptive",
    n_temperatures: int | None = None,
    coordinates: str = "reference",
    target_error: float | None = None,
    tuning: TuningSettings | None = None,
    seed: int = 0,
    key: tuple[str | int, ...] = (),
    execution: Execution | None = None,
    **run: Any,
) -> xr.DataTree:
    """Estimate log p(y), the latents integrated out, at fixed hyperparameters.

    Parameters
    ----------
    model:
        A fit of `approximate` or its ``sites``, from which annealing starts and importance sampling draws; or
        a `GPModel` without free parameters or a `LatentGaussianModel`, which stand for their EP fit.
    route:
        "annealing" (annealed importance sampling), "parallel_tempering", "sequential_monte_carlo", or
        "importance_sampling", which takes no sampler and no ladder.
    sampler:
        Of latents, or its name. A pilot from the reference to the posterior finds its step sizes, which are
        then frozen: estimates stay unbiased.
    ladder, n_temperatures:
        Inverse temperatures: "adaptive" (equal distances of the pilot), "geometric", "linear" or "power", and
        their number above 0, by default 100, 12 or 20 by route.
    coordinates:
        "reference", or "mode": standardised by the curvature at the mode of each temperature, what annealing
        from a prior needs.
    target_error:
        Largest standard error, in nats, of the estimators: where it is larger, a new run with more particles
        (tempering and importance sampling: draws) takes the place of the first, and so on up to 64 times as
        many, after which the alarm says so. None takes one run.
    tuning:
        How the pilot tunes.
    seed, key, execution:
        As in `sample`.
    run:
        Further settings of the route. Annealing: ``n_particles``, ``store_latents``, and ``reverse_from``
        (n_particles, d), draws of the posterior from which it goes back to the reference, for an upper bound.
        Tempering: ``n_replicates``, ``n_draws``, ``n_warmup``, ``store_latents``. Sequential Monte Carlo:
        ``n_particles``, ``n_moves``, ``waste_free``, ``n_replicates``, and ``effective_fraction``, with which
        each replicate chooses its own ladder of at most ``max_stages``. Importance sampling: ``n_draws``.

    Returns
    -------
    Group ``evidence`` with log_evidence and standard_error (in nats), effective_size, costs and ``alarm``, a
    text that is empty where nothing speaks against the estimate; and the group of the run.

    Raises
    ------
    InputError:
        For a model with free parameters, and for unknown routes and settings.
    NumericalError:
        Where EP does not converge, or a pilot or an adaptive ladder does not reach the posterior.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(0.3, 1.0), gp.StudentT(0.3, 4.0))
    >>> run = gp.log_evidence(model, "importance_sampling", n_draws=500)
    >>> run.evidence["log_evidence"].dims
    ('estimator',)
    >>> annealed = gp.log_evidence(gp.approximate(model), n_temperatures=5, n_particles=32)
    >>> apart = annealed.evidence["log_evidence"] - run.evidence["log_evidence"].sel(estimator="plain")
    >>> bool(abs(apart) < 0.1)
    True
    """
    if route not in (*ROUTES, "importance_sampling"):
        raise unknown_name("log_evidence: route", route, (*ROUTES, "importance_sampling"))
    function = ROUTES[route].run if route in ROUTES else importance_sampling
    settings = [p.name for p in signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name in run:
        if name not in settings:
            raise unknown_name(f"log_evidence: setting of {route}", name, settings)
    if isinstance(model, GPModel):
        if model.dim:
            raise InputError(
                f"log_evidence: {', '.join(model.names)} are free; give approximate(model), the fit at the "
                "maximum of its evidence, or model.at(theta)"
            )
        model = model.at()
    path = TemperedPath(as_sites(model, "log_evidence"))
    if target_error is not None:
        _check_target(target_error, run)
    streams = {"seed": seed, "key": tuple(key), "execution": Execution.of(execution)}
    if route == "importance_sampling":
        return _until(
            partial(importance_sampling, path.reference), "n_draws", target_error, run, streams
        )
    chosen = make_sampler(sampler) if isinstance(sampler, str) else sampler
    if not isinstance(chosen, LatentSampler):
        raise InputError(
            f"log_evidence: sampler is {chosen!r}; allowed: samplers of latents, such as HMC(), and the "
            f"names {', '.join(LATENT_SAMPLERS)}"
        )
    folder = Execution.of(execution).state_dir
    pilot = find_pilot(path, chosen, coordinates, tuning, seed=seed, key=key, state_dir=folder)
    betas = pilot.betas
    if run.get("effective_fraction") is None:
        length = ROUTES[route].n_temperatures if n_temperatures is None else n_temperatures
        betas = make_ladder(ladder, length, pilot)
    estimate = partial(ROUTES[route].run, path, chosen, Schedule.from_pilot(pilot, path, betas))
    tree = _until(estimate, ROUTES[route].grows, target_error, run, streams)
    if "evidence" in tree.children:
        tree["evidence/n_gradient_pilot"] = float(pilot.n_gradient)
    return tree


def _until(
    estimate: Callable[..., xr.DataTree],
    count: str,
    target_error: float | None,
    run: dict[str, Any],
    streams: dict[str, Any],
) -> xr.DataTree:
    """An estimate, made anew with a larger ``count`` until its standard error is the target's."""
    tree = estimate(**run, **streams)
    if target_error is None:
        return tree
    first = grown = run.get(count, signature(estimate).parameters[count].default)
    while not (error := float(tree["evidence/standard_error"].max(skipna=False))) <= target_error:
        if grown >= MOST_GROWTH * first:
            short = (
                f"the standard error is {error:.2g} with {count} = {grown}, above {target_error:g}"
            )
            before = str(tree["evidence/alarm"].item())
            tree["evidence/alarm"] = alarms.join([before] * bool(before), [short])
            break
        wanted = MARGIN * (error / target_error) ** 2 if np.isfinite(error) else LARGEST_STEP
        grown = int(min(np.clip(np.ceil(wanted), 2, LARGEST_STEP) * grown, MOST_GROWTH * first))
        own = {
            "seed": streams["seed"],
            "key": (*streams["key"], count, grown),
            "execution": streams["execution"].inside(f"{count}-{grown}"),
        }
        tree = estimate(**{**run, count: grown}, **own)
    return tree


def _check_target(target_error: float, run: dict[str, Any]) -> None:
    if not target_error > 0.0:
        raise InputError(
            f"log_evidence: target_error is {target_error!r}; allowed: a positive number, or None"
        )
    if run.get("reverse_from") is not None:
        raise InputError(
            "log_evidence: target_error cannot add particles to the given ones of reverse_from; leave out "
            "one of them"
        )
