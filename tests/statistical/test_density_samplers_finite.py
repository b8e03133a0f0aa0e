"""Exactness of the samplers of a log density on finite states: by enumeration, and of what they draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import chi2

from gpmcflow.models.log_density import FunctionDensity
from gpmcflow.samplers.density.discretizing_chain import DiscretizingChain
from gpmcflow.samplers.density.protocol import DensityState
from gpmcflow.samplers.density.tempered_transitions import TemperedTransitions

SIDE = 12

# Gibbs sampling of three discretised Gaussians on a grid.


def table(mean, sd, correlation) -> np.ndarray:
    a, b = np.meshgrid(*[np.arange(SIDE)] * 2, indexing="ij")
    u, v = (a - mean[0]) / sd, (b - mean[1]) / sd
    p = np.exp(-0.5 * (u * u - 2 * correlation * u * v + v * v) / (1 - correlation**2))
    return p / p.sum()


TABLES = (
    table((5.0, 6.0), 2.0, 0.8),
    table((6.0, 5.5), 2.5, 0.5),
    table((5.5, 4.5), 3.2, -0.2),
)


def gibbs(p: np.ndarray, coordinate: int) -> np.ndarray:
    """Matrix of a Gibbs update of one coordinate, (state, state), state = SIDE * a + b."""
    out = np.zeros((SIDE,) * 4)
    given = p / p.sum(coordinate, keepdims=True)
    for a in range(SIDE):
        for b in range(SIDE):
            if coordinate == 0:
                out[a, b, :, b] = given[:, b]
            else:
                out[a, b, a, :] = given[a, :]
    return out.reshape(SIDE**2, SIDE**2)


def sweeps(p: np.ndarray, same_order: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Matrices of the sweep (0, then 1) and of its reverse; a wrong one with ``same_order``."""
    forward = gibbs(p, 0) @ gibbs(p, 1)
    return forward, forward if same_order else gibbs(p, 1) @ gibbs(p, 0)


def with_rejections(moves: np.ndarray) -> np.ndarray:
    return moves + np.diag(1.0 - moves.sum(1))


def chain_matrix(same_order=False, s=1, pair=None) -> np.ndarray:
    """One iteration of the discretizing chain with r = 1, enumerated."""
    p, q = TABLES[0].ravel(), TABLES[1].ravel()
    forward, backward = pair or sweeps(TABLES[1], same_order)
    accept = np.minimum(1.0, (p / q)[None, :] / (p / q)[:, None])
    power = np.linalg.matrix_power
    return with_rejections(0.5 * (power(forward, s) + power(backward, s)) * accept)


def tempered_matrix(n_layers, same_order=False) -> np.ndarray:
    """One iteration of tempered transitions, enumerated over all paths."""
    p = [t.ravel() for t in TABLES]
    pairs = [sweeps(t, same_order) for t in TABLES[1:]]
    if n_layers == 1:
        out, back = pairs[0]
        ratio = p[1] / p[0]
        return with_rejections(
            sum(
                np.outer(out[:, m], back[m]) * np.minimum(1.0, ratio[:, None] / ratio[None, :])
                for m in range(len(ratio))
            )
        )
    (out1, back1), (out2, back2) = pairs
    middle = out2 @ back2
    first, second = p[1] / p[0], p[2] / p[1]
    total = np.zeros_like(out1)
    for x in range(SIDE**2):  # over (x, before T_2, after T_2 and back, end)
        inner = out1[x][:, None] * middle  # (before, after)
        weight = first[x] * second[:, None] / second[None, :]
        # sum over `before` for each (after, end) with the minimum inside: sort by the weight once
        for after in range(SIDE**2):
            w, mass = weight[:, after], inner[:, after]
            keep = mass > 0
            limit = first  # 1 / ratio at the end
            order = np.argsort(w[keep])
            ws, ms = w[keep][order], mass[keep][order]
            low_sum = np.concatenate([[0.0], np.cumsum(ms * ws)])
            mass_sum = np.concatenate([[0.0], np.cumsum(ms)])
            cut = np.searchsorted(ws, limit)  # w / limit < 1 below
            value = low_sum[cut] / limit + (mass_sum[-1] - mass_sum[cut])
            total[x] += value * back1[after]
    return with_rejections(total)


def imbalance(T: np.ndarray) -> tuple[float, float]:
    """Total variation of pi T - pi, and the largest breach of detailed balance."""
    p = TABLES[0].ravel()
    flow = p[:, None] * T
    return 0.5 * np.abs(p @ T - p).sum(), np.abs(flow - flow.T).max()


@pytest.mark.parametrize("s", [1, 2, 3])
def test_discretizing_chain_is_exact_by_enumeration(s):
    variation, breach = imbalance(chain_matrix(s=s))
    assert max(variation, breach) <= 1e-14


@pytest.mark.parametrize("n_layers", [1, 2])
def test_tempered_transitions_are_exact_by_enumeration(n_layers):
    variation, breach = imbalance(tempered_matrix(n_layers))
    assert max(variation, breach) <= 1e-14


def test_wrong_sweep_order_is_not():
    """Negative controls: the same order in both directions."""
    assert imbalance(chain_matrix(same_order=True))[0] > 0.02
    assert imbalance(tempered_matrix(1, same_order=True))[0] > 5e-3
    assert imbalance(tempered_matrix(2, same_order=True))[0] > 5e-3


def test_equivalence_by_enumeration():
    """With reversible R and s = 2, r = 1 the chain is tempered transitions of one layer."""
    out, back = gibbs(TABLES[1], 0), gibbs(TABLES[1], 1)
    palindrome = out @ back @ back @ out
    p = [t.ravel() for t in TABLES]
    accept = np.minimum(1.0, (p[0] / p[1])[None, :] / (p[0] / p[1])[:, None])
    tempered = with_rejections(palindrome @ palindrome * accept)
    chain = chain_matrix(s=2, pair=(palindrome, palindrome))
    assert np.abs(chain - tempered).max() <= 1e-15


@dataclass(frozen=True)
class GridGibbs:
    """Gibbs sampling of the density's table, as a transition; ``wrong`` reverses nothing."""

    wrong: bool = False

    def forward(self, rng, density, position, value):
        return self._sweep(rng, density, position, (0, 1))

    def backward(self, rng, density, position, value):
        return self._sweep(rng, density, position, (0, 1) if self.wrong else (1, 0))

    def _sweep(self, rng, density, position, order):
        position = position.copy()
        for j in order:
            line = density.function.cumulative[j][int(position[1 - j])]
            position[j] = line.searchsorted(rng.random())
        return position, density(position)


class TableFunction:
    def __init__(self, p):
        self.logs = np.log(p)
        self.cumulative = [(p.T / p.sum(0)[:, None]).cumsum(1), (p / p.sum(1)[:, None]).cumsum(1)]

    def __call__(self, theta):
        return self.logs[int(theta[0]), int(theta[1])]


def frequencies_p_value(sampler, n_densities, n_draws, n_steps=1, seed=0) -> float:
    """p-value of chi^2 for the states after steps from exact draws."""
    densities = [FunctionDensity(TableFunction(t), ("a", "b")) for t in TABLES[:n_densities]]
    rng = np.random.default_rng(seed)
    flat = TABLES[0].ravel()
    counts = np.zeros(SIDE**2)
    starts = rng.choice(SIDE**2, size=n_draws, p=flat)
    logs = [d.function.logs.ravel() for d in densities[:2]]
    for start in starts:
        state = DensityState(
            np.array(divmod(int(start), SIDE), dtype=float), tuple(float(v[start]) for v in logs)
        )
        for _ in range(n_steps):
            state, _ = sampler.step(rng, densities, state)
        counts[SIDE * int(state.position[0]) + int(state.position[1])] += 1
    expected = n_draws * flat
    common = expected > 5.0
    seen = np.append(counts[common], counts[~common].sum())
    wanted = np.append(expected[common], expected[~common].sum())
    return float(chi2.sf(((seen - wanted) ** 2 / wanted).sum(), len(seen) - 1))


@pytest.mark.parametrize(
    ("sampler", "n_densities"),
    [
        (DiscretizingChain(GridGibbs()), 2),
        (DiscretizingChain(GridGibbs(), r=3, s=2), 2),
        (TemperedTransitions((GridGibbs(),)), 2),
        (TemperedTransitions((GridGibbs(),), (2, 1)), 3),
    ],
)
def test_production_code_keeps_the_distribution(sampler, n_densities):
    n_draws = 100_000 if n_densities == 2 and getattr(sampler, "r", 1) == 1 else 40_000
    assert frequencies_p_value(sampler, n_densities, n_draws) > 1e-3


@pytest.mark.parametrize(
    "sampler",
    [DiscretizingChain(GridGibbs(wrong=True)), TemperedTransitions((GridGibbs(wrong=True),))],
)
def test_production_code_with_the_wrong_sweep_order_is_found_out(sampler):
    assert frequencies_p_value(sampler, 2, 60_000, n_steps=2) < 1e-3
