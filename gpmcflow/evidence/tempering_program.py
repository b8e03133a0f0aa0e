"""Parallel tempering for a block of chains, each a ladder, as a program of segments of draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.evidence.random_rows import RandomRows
from gpmcflow.execution import array_digest, text_digest
from gpmcflow.models.tempered import Target, TemperedPath
from gpmcflow.samplers.latent.protocol import STATISTICS, Info, LatentSampler, State, statistics

NOT_PROPOSED = -1


@dataclass(frozen=True, eq=False)
class TemperingProgram:
    """Chains at all inverse temperatures at once, which now and then swap their states.

    An iteration moves all temperatures beta_1..beta_T of all chains of the block as one batch, with
    ``n_steps`` steps of ``step_size`` (T,) each, and takes a fresh exact draw of the reference at
    beta_0 = 0; what it gives is recorded there. Then neighbours (t, t + 1), of even t in even
    iterations and of odd t in odd ones, swap with the probability of `swap_log_probability`.

    Row t starts where an annealing run of one particle stands after its transition at beta_t. What
    that costs is counted with the first draw.
    """

    path: TemperedPath
    sampler: LatentSampler
    betas: np.ndarray
    step_size: np.ndarray
    n_steps: int
    store_latents: bool = False

    @property
    def n_moved(self) -> int:
        """T, the number of temperatures the sampler moves."""
        return len(self.betas) - 1

    def digest(self) -> str:
        """SHA-256 of all that decides the numbers of a run, beside its random streams."""
        arrays = {"betas": self.betas, "step_size": self.step_size}
        settings = f"{self.sampler!r} {self.n_steps}"
        return text_digest(self.path.digest(), array_digest(arrays), settings)

    def outputs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Trailing shapes and types of what each draw gives."""
        types = {
            "log_ratio": "<f8",
            "sum_log_likelihood": "<f8",
            "swap_accepted": "|i1",
            "walker": "<i4",
            **STATISTICS,
        }
        arrays = {name: ((len(self.betas),), kind) for name, kind in types.items()}
        if self.store_latents:
            arrays["latent"] = ((self.path.model.dim,), "<f8")
        return arrays

    def start(self, rng) -> dict[str, np.ndarray]:
        """States of all temperatures, walkers in order."""
        reference = Target.posterior(self.path.base)
        state = self.sampler.bind(reference).init(rng, self._reference(rng))
        rows, spent = [], [(np.ones(len(state.position)), np.zeros(len(state.position)))]
        for beta, step_size in zip(self.betas[1:], self.step_size, strict=True):
            sampler = self.sampler.with_steps(float(step_size), self.n_steps)
            state, info = sampler.step(rng, self.path.target(float(beta)), state)
            rows.append(state)
            spent.append((info.n_gradient, info.n_factorisation))
        fields = {
            name: np.stack([getattr(row, name) for row in rows], axis=1) for name in State._fields
        }
        walker = np.tile(np.arange(len(self.betas), dtype=np.int32), (len(state.position), 1))
        return fields | {"walker": walker, "spent": np.stack(spent, axis=1).T}

    def advance(self, rng, carry, start: int, stop: int):
        """Draws start..stop-1."""
        n_chains, T = len(carry["walker"]), self.n_moved
        fields = {name: carry[name] for name in State._fields}
        walker, spent, rows = carry["walker"], carry["spent"], []
        target = self.path.target(np.tile(self.betas[1:], n_chains))
        sampler = self.sampler.with_steps(np.tile(self.step_size, n_chains), self.n_steps)
        random = RandomRows(rng, T)
        for k in range(start, stop):
            state = State(
                *(field.reshape(n_chains * T, *field.shape[2:]) for field in fields.values())
            )
            state, info = sampler.step(random, target, state)
            fresh = self.sampler.init(Target.posterior(self.path.base), self._reference(rng))
            fields = {
                name: np.concatenate(
                    [first[:, None], rest.reshape(n_chains, T, *rest.shape[1:])], axis=1
                )
                for name, first, rest in zip(State._fields, fresh, state, strict=True)
            }
            u = self.path.log_ratio(fields["predictor"], fields["log_likelihood"])
            accepted, order = swap(self.betas, u, rng.uniform((T,)), k)
            row = {
                "log_ratio": u,
                "sum_log_likelihood": fields["log_likelihood"],
                "swap_accepted": accepted,
                "walker": walker,
                **self._statistics(info, n_chains, spent),
            }
            if self.store_latents:
                row["latent"] = self.path.base.latent(fields["position"][:, -1])
            rows.append(row)
            chains = np.arange(n_chains)[:, None]
            walker = walker[chains, order]
            fields = {name: field[chains, order[:, 1:]] for name, field in fields.items()}
            spent = np.zeros_like(spent)
        outputs = {name: np.stack([row[name] for row in rows], axis=1) for name in rows[0]}
        return fields | {"walker": walker, "spent": spent}, outputs

    def _reference(self, rng) -> np.ndarray:
        """Draws of the reference, one a chain."""
        return self.path.reference_draws(rng.standard_normal((self.path.model.dim,)))

    def _statistics(self, info: Info, n_chains: int, spent: np.ndarray) -> dict[str, np.ndarray]:
        """Statistics of all temperatures (chain, T + 1); a draw of the reference is one gradient."""
        fixed = {"acceptance_rate": np.nan, "energy_error": np.nan, "n_gradient": 1.0}
        totals = {}
        for name, values in statistics(info).items():
            moved = values.reshape(n_chains, self.n_moved)
            first = np.full((n_chains, 1), fixed.get(name, 0), dtype=values.dtype)
            totals[name] = np.concatenate([first, moved], axis=1)
        totals["n_gradient"] += spent[:, :, 0]
        totals["n_factorisation"] += spent[:, :, 1]
        return totals


def swap_log_probability(betas: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Log of the probability that neighbours swap, min(0, (beta_t - beta_{t+1}) (u_{t+1} - u_t)).

    ``u`` (..., T + 1) are the log density ratios at the temperatures, ``betas`` (T + 1,); the result
    is (..., T). With log h_beta = log q + beta u it is the Metropolis ratio of the exchange, which so
    leaves the product of the tempered densities invariant. Source: Swendsen & Wang (1986); Geyer
    (1991).
    """
    with np.errstate(invalid="ignore"):
        ratio = -np.diff(betas) * np.diff(u, axis=-1)
    return np.minimum(np.where(np.isnan(ratio), -np.inf, ratio), 0.0)


def swap(
    betas: np.ndarray, u: np.ndarray, uniforms: np.ndarray, iteration: int
) -> tuple[np.ndarray, np.ndarray]:
    """Swaps of one iteration: accepted (chain, T + 1) int8, and who comes to stand at each temperature.

    Entry t of ``accepted`` tells of the pair (t, t + 1): 1, 0, or -1 where none was proposed. Source
    of the alternation: Okabe et al. (2001); Syed et al. (2022).
    """
    n_chains, n = u.shape
    proposed = np.arange(n - 1) % 2 == iteration % 2
    taken = (np.log1p(-uniforms) < swap_log_probability(betas, u)) & proposed
    accepted = np.full((n_chains, n), NOT_PROPOSED, dtype=np.int8)
    accepted[:, :-1][:, proposed] = taken[:, proposed]
    order = np.tile(np.arange(n), (n_chains, 1))
    order[:, :-1] += taken
    order[:, 1:] -= taken
    return accepted, order
