"""Chains of any sampler as a program of segments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gpmcflow.execution import text_digest
from gpmcflow.samplers.problem import Outputs, Problem
from gpmcflow.samplers.protocol import Sampler, Transition


class Summary(Protocol):
    """Functions of the latents that are kept of every transition, where latents themselves are thinned.

    Any object of this form, given to `sample` as ``keep_latents``: picklable, with a repr that tells all its
    settings. Called with latents (..., d), it returns values (..., len(names)).

    Attributes
    ----------
    names:
        Names of the functions in group ``trace`` of the results.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sign(x - 0.4), gp.SquaredExponential(0.3, 2.0), gp.Probit())
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Extremes:
    ...     names: tuple[str, ...] = ("least", "largest")
    ...
    ...     def __call__(self, latent):
    ...         return np.stack([latent.min(-1), latent.max(-1)], axis=-1)
    >>> draws = gp.sample(model, gp.HMC(), n_chains=1, n_draws=10, thin=5, keep_latents=Extremes())
    >>> dict(draws.trace["largest"].sizes)
    {'chain': 1, 'iteration': 50}
    """

    names: tuple[str, ...]

    def __call__(self, latent: np.ndarray) -> np.ndarray:
        """Values (..., len(names)) at latents (..., d)."""


@dataclass(frozen=True, eq=False)
class ChainProgram:
    """Chains of a sampler on a problem; a draw is the last of ``thin`` transitions.

    Chains of a batched sampler are advanced together, others one after another. Of the transitions of a draw
    counts (``n_...``) are summed, acceptance rates averaged, a flag tells whether any had it, and of other
    numbers the last is kept. Where transitions are thinned, or there is a ``summary``, the numbers that the
    sampler traces and the summary's are kept of every one.
    """

    problem: Problem
    sampler: Sampler
    thin: int = 1
    summary: Summary | None = None

    def digest(self) -> str:
        """SHA-256 of all that decides the numbers of a run, beside its random streams."""
        settings = repr((self.thin, self.summary))
        return text_digest(self.problem.digest(), self.sampler.digest(), settings)

    @property
    def traced(self) -> tuple[str, ...]:
        """Names of the numbers that are kept of every transition."""
        if self.thin == 1 and self.summary is None:
            return ()
        return self.sampler.traced + (() if self.summary is None else self.summary.names)

    def statistics(self) -> Outputs:
        """Trailing shapes and types on disk of what tells of the transitions of a draw."""
        return self.problem.statistics(self.sampler.statistics)

    def outputs(self) -> Outputs:
        """Trailing shapes and types of what each draw gives."""
        of_draw = self.problem.recorded | self.statistics()
        trace = {}
        for name in self.traced:
            shape, kind = of_draw.get(name, ((), "<f8"))
            trace[f"trace_{name}"] = ((self.thin, *shape), kind)
        return of_draw | trace

    def start(self, rng) -> dict[str, np.ndarray]:
        """States at the starting points."""
        problem, sampler = self.problem, self.sampler
        if sampler.batched:
            return sampler.bind(problem.target).init(rng, problem.start(rng))._asdict()
        states = []
        for k, chain in enumerate(rng.chains):
            generator = rng.generator(k)
            transition = sampler.bind(problem.target, chain)
            start = problem.start(generator, chain) if sampler.needs_start else None
            states.append(transition.init(generator, start))
        return stacked(states)

    def advance(self, rng, carry, start: int, stop: int):
        """Draws start..stop-1."""
        sampler, target, length = self.sampler, self.problem.target, stop - start
        if sampler.batched:
            state = sampler.state(**carry)
            state, draws = self._draws(rng, sampler.bind(target), state, length)
            return state._asdict(), draws
        states, chains = [], []
        for k, chain in enumerate(rng.chains):
            state = state_of(sampler.state, carry, k)
            transition = sampler.bind(target, chain)
            state, draws = self._draws(rng.generator(k), transition, state, length)
            states.append(state)
            chains.append(draws)
        return stacked(states), {name: np.stack([c[name] for c in chains]) for name in chains[0]}

    def _draws(self, rng, transition: Transition, state, length: int):
        """State after so many draws, and their outputs, of one chain or of a batch."""
        outputs, traced, statistics = self.outputs(), self.traced, self.statistics()
        rows = []
        for _ in range(length):
            state, row = self._draw(rng, transition, state, traced, statistics)
            rows.append({name: row[name] for name in outputs})
        axis = 1 if self.sampler.batched else 0
        return state, {
            name: np.stack([row[name] for row in rows], axis=axis).astype(kind, copy=False)
            for name, (_, kind) in outputs.items()
        }

    def _draw(self, rng, transition: Transition, state, traced: tuple, statistics: Outputs):
        infos, trace, row = [], [], {}
        for left in reversed(range(self.thin)):
            state, info = transition.step(rng, state)
            infos.append(info)
            if traced or not left:
                row = transition.record(rng, state)
            if traced:
                trace.append(dict(self._trace(row, info)))
        for name, (_, kind) in statistics.items():
            row[name] = _together(name, kind, [getattr(info, name) for info in infos])
        axis = 1 if self.sampler.batched else 0
        for name in traced:
            row[f"trace_{name}"] = np.stack([values[name] for values in trace], axis=axis)
        return state, row

    def _trace(self, row: dict, info) -> Iterator[tuple[str, Any]]:
        for name in self.sampler.traced:
            yield name, row[name] if name in row else getattr(info, name)
        if self.summary is not None:
            values = self.summary(row["latent"])
            yield from zip(self.summary.names, np.moveaxis(values, -1, 0), strict=True)


def _together(name: str, kind: str, values: list) -> Any:
    """One statistic of the transitions of a draw."""
    if len(values) == 1:
        return values[0]
    if name.startswith("n_"):
        return sum(values)
    if name == "acceptance_rate":
        return sum(values) / len(values)
    return np.any(values, axis=0) if kind == "|i1" else values[-1]


def stacked(states: list) -> dict[str, np.ndarray]:
    """States of chains, NamedTuples of one kind, as arrays with the chain axis first."""
    return {name: np.array([getattr(s, name) for s in states]) for name in states[0]._fields}


def state_of(kind: Any, carry: Mapping[str, np.ndarray], chain: int) -> Any:
    """Inverse of `stacked`, of one chain: numbers, and arrays of its own."""
    own = (carry[name][chain] for name in kind._fields)
    return kind(*(value.copy() if value.ndim else value.item() for value in own))
