"""What a route to the evidence runs with: its settings, sampler, pilot and ladders."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from gpmcflow.evidence.schedule import Schedule, make_ladder
from gpmcflow.execution import Execution
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers import make_sampler
from gpmcflow.samplers.adaptation.pilot import Pilot, find_pilot
from gpmcflow.samplers.adaptation.step_sizes import TuningSettings
from gpmcflow.samplers.latent.protocol import LatentSampler


@dataclass(frozen=True, eq=False)
class Setting:
    """What a route is given: the path, the method's settings, random streams, where and how to run."""

    path: TemperedPath
    method: dict
    seed: int
    key: tuple[str, ...]
    label: str
    execution: Execution

    def run(self, folder: str, label: str) -> Execution:
        """How one of its runs executes, with a folder and a label of its own."""
        return replace(self.execution.inside(folder), progress=f"{self.label} {label}")

    @property
    def tuning(self) -> TuningSettings:
        """How the pilot tunes."""
        return TuningSettings(**(self.method.get("tuning") or {}))

    def sampler(self) -> LatentSampler:
        """The method's sampler, with what the config states of it."""
        names = ("step_size", "n_steps", "fixed_iters")
        stated = {k: self.method[k] for k in names if self.method.get(k) is not None}
        return make_sampler(self.method["sampler"], **stated)


class Plan:
    """What an annealing method amounts to: sampler, pilot, ladders."""

    def __init__(self, setting: Setting) -> None:
        self.path, self.method = setting.path, setting.method
        self.lengths = [int(t) for t in self.method["temperatures"]]
        self.pilot: Pilot | None = None
        self.pilot_seconds = 0.0
        self.sampler = setting.sampler()
        self.tuned = self.method.get("step_size") is None
        if self.tuned or self.method["ladder"] in ("adaptive", "geometric"):
            began = time.perf_counter()
            self.pilot = find_pilot(
                self.path,
                self.sampler,
                self.method.get("coordinates", "reference"),
                setting.tuning,
                seed=setting.seed,
                key=setting.key,
                state_dir=setting.execution.state_dir,
            )
            self.pilot_seconds = time.perf_counter() - began

    def schedule(self, n_temperatures: int) -> Schedule:
        """Frozen schedule for a ladder of that length."""
        betas = make_ladder(self.method["ladder"], n_temperatures, self.pilot)
        if self.tuned:
            return Schedule.from_pilot(self.pilot, self.path, betas)
        schedule = Schedule.constant(betas, self.sampler)
        if self.method.get("coordinates") == "mode":
            return schedule.with_mode_bases(self.path, betas)
        return schedule


class OneStep:
    """Importance sampling as a plan: one increment, no transition."""

    lengths = (1,)
    pilot, pilot_seconds = None, 0.0

    def __init__(self, path: TemperedPath) -> None:
        self.path, self.sampler = path, make_sampler("preconditioned_split_hmc")

    def schedule(self, n_temperatures: int) -> Schedule:
        """From the reference to the posterior at once."""
        return Schedule.constant(np.array([0.0, 1.0]), self.sampler)


def load_compiled_code(path: TemperedPath) -> None:
    """Evaluate once, so that the first run's time does not hold the loading of compiled code."""
    path.target(1.0).evaluate(np.zeros((2, path.model.dim)))
    path.target(1.0).residual_gradient(np.zeros((2, path.model.dim)))


def pilot_dataset(pilot: Pilot) -> xr.Dataset:
    """What a pilot found, (stage)."""
    fields = ("betas", "step_size", "n_steps", "acceptance_rate", "distance")
    return xr.Dataset(
        {name: ("stage", getattr(pilot, name)) for name in fields}
        | {"ratio_sd": ((), pilot.ratio_sd), "n_gradient": ((), pilot.n_gradient)},
        {"stage": np.arange(len(pilot.betas))},
    )
