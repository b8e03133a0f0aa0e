"""What chains sample: the target, where chains start, and what their draws are called in results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from gpmcflow.approximations.search import wiggling_starts
from gpmcflow.errors import InputError
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.multi_gp_model import MultiGPModel
from gpmcflow.samplers.predictive import Predictive

Outputs = dict[str, tuple[tuple[int, ...], str]]  # name -> (trailing shape, type on disk)
MOST_STARTS = 3  # of a pilot


class Problem(ABC):
    """A target of one kind with the starts of its chains. Frozen dataclass, picklable."""

    samples: ClassVar[str]  #: kind of sampler it takes, see `Sampler.samples`
    stream: ClassVar[str]  #: last part of the key of its chains' random streams
    target: Any  #: what samplers bind to

    @property
    @abstractmethod
    def recorded(self) -> Outputs:
        """What a draw keeps beside the statistics of its sampler."""

    @abstractmethod
    def start(self, rng: Any, chain: int = 0) -> Any:
        """Start of a chain, or, of a batched sampler, of all chains of a block."""

    @abstractmethod
    def digest(self) -> str:
        """SHA-256 of all its numbers."""

    @property
    @abstractmethod
    def coords(self) -> dict[str, np.ndarray]:
        """Coordinates of the trailing dimensions, `DIMS`, of its outputs."""

    @abstractmethod
    def posterior(self, draws: Mapping[str, Any]) -> dict[str, Any]:
        """Variables of group ``posterior`` by name, from the outputs (chain, draw, ...)."""

    @abstractmethod
    def data(self) -> dict[str, xr.Dataset]:
        """Groups that hold the data, and what is known of it before the run."""

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """Settings of the model, for the attributes of results; ``data_checksum`` among them."""

    def predictive(self) -> Predictive | None:
        """What the model says of its observations; None where that is not known."""
        return None

    def statistics(self, of_sampler: Mapping[str, str]) -> Outputs:
        """Shapes and types of a sampler's statistics."""
        return {name: ((), kind) for name, kind in of_sampler.items()}


def start_rows(what: str, values: Any, width: int) -> np.ndarray:
    """Starts of chains (pool, width), of (width,) or (pool, width); else `InputError`."""
    try:
        rows = np.asarray(values, dtype=np.float64)
        wrong = f"has shape {rows.shape}"
    except (TypeError, ValueError):
        rows, wrong = np.empty(0), f"is a {type(values).__name__}"
    if rows.ndim in (1, 2) and rows.shape[-1] == width:
        if np.all(np.isfinite(rows)):
            return np.atleast_2d(rows)
        wrong = "holds other than finite numbers"
    raise InputError(
        f"sample: start of {what} {wrong}; allowed: finite numbers ({width},) or (pool, {width})"
    )


def pilot_starts(
    model: GPModel | None, rng: np.random.Generator, given: np.ndarray | None = None
) -> list[np.ndarray]:
    """Theta (d,) from which a pilot searches: at most three ``given`` ones (pool, d), or by default.

    By default the hyperprior's centre and two draws from its central half, and where responses wiggle over
    short distances one more that says so: there may be several modes.
    """
    if given is not None:
        return list(given[:MOST_STARTS])
    assert model is not None  # else starts are given
    draws = (model.draw_prior(rng, central=0.5) for _ in range(1, MOST_STARTS))
    wiggling = () if isinstance(model, MultiGPModel) else wiggling_starts(model)
    return [model.prior_median(), *draws, *wiggling]
