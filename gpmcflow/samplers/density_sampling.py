"""Chains of a log density's samplers as an ArviZ DataTree, with what each iteration cost."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.errors import InputError
from gpmcflow.execution import array_digest, pin_blas, run, text_digest
from gpmcflow.models.log_density import LogDensity
from gpmcflow.samplers.density_protocol import DensitySampler, DensityState
from gpmcflow.storage import standard_attributes, with_attributes

log = logging.getLogger(__name__)
STATS = ("log_likelihood", "lp", "acceptance_rate", "accepted", "diverging")
ALARM = 1e-3  # share of evaluations that fail


@dataclass(frozen=True, eq=False)
class DensityProgram:
    """Chains of one sampler as a program of segments; chain k starts from row k of ``starts``, modulo.

    Chains are advanced one after another: each has its own factorisations. Densities are copied for
    each segment (`LogDensity.fresh`), so that threads share neither buffers nor counters.
    """

    densities: tuple[LogDensity, ...]
    sampler: DensitySampler
    starts: np.ndarray

    def digest(self) -> str:
        """SHA-256 of all that decides the numbers of a run, beside its random streams."""
        parts = [density.digest() for density in self.densities]
        return text_digest(*parts, array_digest({"start": self.starts}), repr(self.sampler))

    def outputs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Trailing shapes and types of what each draw gives."""
        d, n = self.densities[0].dim, len(self.densities)
        found = {"theta": ((d,), "<f8")}
        found |= {name: ((), "<f8") for name in ("log_likelihood", "lp", "acceptance_rate")}
        found |= {name: ((), "|i1") for name in ("accepted", "diverging")}
        return found | {name: ((n,), "<i8") for name in ("n_calls", "n_gradients", "n_failed")}

    def start(self, rng) -> dict[str, np.ndarray]:
        """States at the starting points; their evaluations are not counted to any draw."""
        densities = [density.fresh() for density in self.densities]
        states = [
            self.sampler.init(densities, self.starts[chain % len(self.starts)])
            for chain in rng.chains
        ]
        return _stack(states)

    def advance(self, rng, carry, start: int, stop: int):
        """Draws start..stop-1."""
        densities = [density.fresh() for density in self.densities]
        n_chains, length = len(carry["position"]), stop - start
        out = {
            name: np.zeros((n_chains, length, *shape), dtype)
            for name, (shape, dtype) in self.outputs().items()
        }
        states = []
        for chain in range(n_chains):
            values = tuple(float(v) for v in carry["values"][chain])
            state = DensityState(carry["position"][chain].copy(), values)
            generator = rng.generator(chain)
            for t in range(length):
                for density in densities:
                    density.reset()
                state, info = self.sampler.step(generator, densities, state)
                self._record(out, chain, t, densities, state, info)
            states.append(state)
        return _stack(states), out

    def _record(self, out, chain: int, t: int, densities, state, info) -> None:
        at, lp = (chain, t), state.values[0]
        out["theta"][at], out["lp"][at] = state.position, lp
        out["log_likelihood"][at] = lp - densities[0].log_prior(state.position)
        out["acceptance_rate"][at] = info.acceptance_rate
        out["accepted"][at], out["diverging"][at] = info.accepted, info.failed
        for name in ("n_calls", "n_gradients", "n_failed"):
            out[name][at] = [getattr(density, name) for density in densities]


def sample_density(
    densities: LogDensity | Sequence[LogDensity],
    sampler: DensitySampler,
    start: np.ndarray,
    *,
    n_chains: int = 4,
    n_draws: int = 1000,
    n_warmup: int = 0,
    seed: int = 0,
    key: tuple[str | int, ...] = (),
    block_size: int = 1,
    segment_length: int = 500,
    scheduler: Any = "synchronous",
    n_workers: int = 1,
    state_dir: Any = None,
    settings: Any = None,
    compute: bool = True,
    progress: str | None = None,
) -> xr.DataTree:
    """Draw from exp(densities[0]), with the stand-ins that follow it as the sampler uses them.

    ``densities`` is the exact log density, or a list of it and its stand-ins: ``model.log_density()``
    and ``SubsetOfData(model, cases)``, say; a user's own function is a `FunctionDensity`. ``start`` is
    theta (d,), or (pool, d) from which chain k takes row k modulo the pool. ``n_warmup`` draws are
    dropped. For the settings of execution see `gpmcflow.execution.run`.

    Returns groups ``posterior`` (theta: chain, draw, theta_dim, with the names of the coordinates) and
    ``sample_stats``: log_likelihood (the exact one, without prior, where the density tells them apart),
    lp, acceptance_rate, accepted, diverging (a proposal without a finite density), and n_calls,
    n_gradients, n_failed (chain, draw, density), the calls of each density in that iteration.

    Raises `InputError` for a start of the wrong shape, `NumericalError` where a density is -inf there.
    """
    pin_blas()
    densities = (densities,) if isinstance(densities, LogDensity) else tuple(densities)
    starts = np.atleast_2d(np.asarray(start, dtype=np.float64))
    if n_warmup < 0 or n_draws < 1:
        raise InputError(
            f"sample_density: n_draws is {n_draws}, n_warmup is {n_warmup}; allowed: >= 1, >= 0"
        )
    if starts.ndim != 2 or starts.shape[1] != densities[0].dim:
        raise InputError(
            f"sample_density: start has shape {np.shape(start)}; allowed: ({densities[0].dim},) or "
            f"(pool, {densities[0].dim}): {', '.join(densities[0].names)}"
        )
    for row in starts[:n_chains]:  # an error here, not in a worker
        sampler.init([density.fresh() for density in densities], row)
    program = DensityProgram(densities, sampler, starts)
    arrays = run(
        program,
        n_chains=n_chains,
        length=n_warmup + n_draws,
        block_size=block_size,
        segment_length=segment_length,
        seed=seed,
        key=(*key, "sample_density"),
        scheduler=scheduler,
        n_workers=n_workers,
        state_dir=state_dir,
        settings=settings,
        compute=compute,
        progress=progress,
    )
    described = {"sampler": repr(sampler), "key": list(key), "densities": _labels(densities)}
    checksum = text_digest(*(density.digest() for density in densities))
    attributes = standard_attributes(settings=described, seed=seed, data_checksum=checksum)
    tree = with_attributes(_tree(arrays, n_warmup, program), attributes)
    if compute:
        _warn(tree["sample_stats"].to_dataset().compute(scheduler="synchronous"), sampler)
    return tree.load(scheduler="synchronous") if compute and state_dir is None else tree


def seconds_per_iteration(
    densities: Sequence[LogDensity],
    sampler: DensitySampler,
    start: np.ndarray,
    n_iterations: int = 100,
    seed: int = 0,
) -> float:
    """CPU seconds (process time) of an iteration, the mean of some after a first few.

    Not part of any result file: those hold no timings.
    """
    pin_blas()
    rng = np.random.default_rng(seed)
    copies = [density.fresh() for density in densities]
    state = sampler.init(copies, start)
    for k in range(n_iterations + 3):
        if k == 3:
            began = time.process_time()
        state, _ = sampler.step(rng, copies, state)
    return (time.process_time() - began) / n_iterations


def seconds_per_evaluation(
    density: LogDensity, thetas: np.ndarray, repeats: int = 5, gradient: bool = False
) -> float:
    """CPU seconds of an evaluation: the least of some means over the rows of thetas (k, d).

    Give rows that differ in all coordinates, as a cached covariance would flatter the density.
    """
    pin_blas()
    copy, best = density.fresh(), np.inf
    call = copy.value_and_gradient if gradient else copy
    call(thetas[-1])
    for _ in range(repeats):
        began = time.process_time()
        for theta in thetas:
            call(theta)
        best = min(best, (time.process_time() - began) / len(thetas))
    return best


def _stack(states: Sequence[DensityState]) -> dict[str, np.ndarray]:
    return {
        "position": np.stack([s.position for s in states]),
        "values": np.array([s.values for s in states], dtype=np.float64),
    }


def _labels(densities: Sequence[LogDensity]) -> list[str]:
    return [f"{k}: {density!r}" for k, density in enumerate(densities)]


def _tree(arrays: dict, n_warmup: int, program: DensityProgram) -> xr.DataTree:
    kept = {name: values[:, n_warmup:] for name, values in arrays.items()}
    n_chains, n_draws = kept["lp"].shape
    coords = {"chain": np.arange(n_chains), "draw": np.arange(n_draws)}
    names = np.array(program.densities[0].names)
    stats: dict[str, Any] = {name: (("chain", "draw"), kept[name]) for name in STATS}
    for name in ("n_calls", "n_gradients", "n_failed"):
        stats[name] = (("chain", "draw", "density"), kept[name])
    labels = np.array(_labels(program.densities))
    groups = {
        "posterior": xr.Dataset(
            {"theta": (("chain", "draw", "theta_dim"), kept["theta"])},
            coords | {"theta_dim": names},
        ),
        "sample_stats": xr.Dataset(stats, coords | {"density": labels}),
    }
    return xr.DataTree.from_dict(groups)


def _warn(stats: xr.Dataset, sampler: DensitySampler) -> None:
    """Say so where chains never moved, and where many evaluations failed."""
    stuck = int((~stats["accepted"].astype(bool).any("draw")).sum())
    if stuck:
        log.warning(
            "sample_density: %d of %d chains never moved under %r; take a better approximation, or "
            "smaller widths", stuck, stats.sizes["chain"], sampler,
        )  # fmt: skip
    calls = float(stats["n_calls"].sum() + stats["n_gradients"].sum())
    failed = float(stats["n_failed"].sum())
    if failed > ALARM * max(calls, 1.0):
        log.warning(
            "sample_density: %d of %d evaluations had no finite value (they were rejected); look at "
            "the noise level and the priors", failed, calls,
        )  # fmt: skip
