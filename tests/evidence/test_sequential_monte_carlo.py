"""Sequential Monte Carlo against evidences in closed form; its rules, runs and mutants."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.diagnostics.importance_weights import systematic_resample
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.evidence import sequential_monte_carlo as particle_program
from gpmcflow.evidence.log_evidence import log_evidence
from gpmcflow.evidence.schedule import Schedule, linear, power
from gpmcflow.evidence.sequential_monte_carlo import (
    GROWTH,
    AdaptiveParticles,
    ParticleProgram,
    particle_evidence,
    resample_move,
)
from gpmcflow.execution import Execution, array_digest, chain_generators
from gpmcflow.execution.randomness import RandomRows
from gpmcflow.likelihoods import Poisson, Probit
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers import HMC, PreconditionedSplitHMC
from gpmcflow.samplers.adaptation.step_sizes import TuningSettings
from gpmcflow.storage import load_results, write_results

COMMON = {  # in the evidence group of every route; nan where it has no meaning
    "log_evidence", "standard_error", "effective_size", "n_gradient", "n_likelihood",
    "n_factorisation", "acceptance_rate", "diverging", "unsolved", "alarm",
}  # fmt: skip

Y3 = np.array([1.0, -1.0, 1.0])
K3 = 4.0 * np.array([[1.0, 0.7, 0.2], [0.7, 1.3, 0.5], [0.2, 0.5, 0.9]])
SPLIT = PreconditionedSplitHMC(step_size=0.8, n_steps=2)

VARIANTS = {
    "fixed": {"n_particles": 200},
    "bisection": {"effective_fraction": 0.9, "n_particles": 200},
    "adaptive": {"n_particles": AdaptiveParticles(0.001, 40, 2000)},
    "both": {"effective_fraction": 0.9, "n_particles": AdaptiveParticles(0.001, 40, 2000)},
    "waste_free": {"n_particles": 200, "n_moves": 3, "waste_free": True},
}


@dataclass(frozen=True)
class PriorHMC(HMC):
    """Moves in the prior's coordinates and evaluates each state anew, as a position-dependent metric."""

    def coordinates(self, base):
        return GaussianSites.prior(base.model)

    def step(self, rng, target, state):
        return super().step(rng, target, self.init(target, state.position))


@pytest.fixture(scope="module")
def three_cases(orthant_evidence):
    model = LatentGaussianModel.from_covariance(K3, Probit(), Y3)
    return model, orthant_evidence(K3, Y3)


def reference_of(model, name):
    return GaussianSites.prior(model) if name == "prior" else expectation_propagation(model).sites


def distance(evidence, exact):
    return abs(float(evidence["log_evidence"]) - exact) / float(evidence["standard_error"])


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("reference", ["prior", "ep"])
@pytest.mark.parametrize("n", [3, 50])
def test_closed_forms(three_cases, one_factor, n, reference, variant):
    model, exact = three_cases if n == 3 else one_factor(50, 30)
    tree = log_evidence(
        reference_of(model, reference),
        "sequential_monte_carlo",
        n_temperatures=15 if reference == "prior" else 4,
        n_replicates=10 if variant in ("bisection", "both") else 30,
        seed=n + 1,
        **VARIANTS[variant],
    )
    evidence = tree["evidence"]
    assert float(evidence["standard_error"]) < 0.05
    assert distance(evidence, exact) <= 3.0
    assert not str(evidence["alarm"].values)
    assert set(evidence.data_vars) >= COMMON
    assert int(evidence["unbiased"]) == (variant in ("fixed", "waste_free"))


@pytest.mark.parametrize("sampler", ["hmc", "random_walk_metropolis", PriorHMC(0.4, 3), "rmhmc"])
def test_other_samplers(three_cases, sampler):
    model, exact = three_cases
    tree = log_evidence(
        expectation_propagation(model).sites,
        "sequential_monte_carlo",
        sampler,
        n_temperatures=3,
        n_replicates=24,
        n_particles=50,
        tuning=TuningSettings(n_particles=32),
    )
    assert distance(tree["evidence"], exact) <= 3.0


@pytest.mark.parametrize("waste_free", [False, True])
def test_unbiased_and_covered(three_cases, waste_free):
    """300 replicates on a frozen ladder: E[Z-hat] = Z, and the formula's error is about right."""
    model, exact = three_cases
    tree = resample_move(
        TemperedPath(GaussianSites.prior(model)),
        SPLIT,
        Schedule.constant(power(4, 2.0), SPLIT),
        n_particles=200 if waste_free else 80,
        n_moves=3 if waste_free else 2,
        waste_free=waste_free,
        n_replicates=300,
        seed=8,
        execution=Execution(block_size=300),
    )
    evidence, stages = tree["evidence"], tree["sequential_monte_carlo"]
    z = np.exp(evidence["chain_log_evidence"].values - exact)
    assert abs(z.mean() - 1.0) < 3.0 * z.std() / np.sqrt(300)
    stated = np.sqrt((stages["relative_variance"] / stages["n_particles"]).sum("stage").values)
    off = np.abs(np.log(z)) / stated
    assert 0.55 <= np.mean(off < 1.0) <= 0.78
    assert 0.88 <= np.mean(off < 2.0) <= 0.99
    ratio = float(evidence["formula_error"] / evidence["replicate_error"])
    assert 0.8 < ratio < 1.2


def test_systematic_resampling():
    weights = np.array([0.5, 0.1, 0.0, 0.4])
    counts = np.mean(
        [
            np.bincount(systematic_resample(weights, u, 7), minlength=4)
            for u in (np.arange(2000) + 0.5) / 2000
        ],
        axis=0,
    )
    np.testing.assert_allclose(counts, 7 * weights, atol=1e-3)
    one = np.bincount(systematic_resample(weights, 0.3, 7), minlength=4)
    assert np.all(np.abs(one - 7 * weights) < 1.0)


def test_rows_of_a_chain_are_the_same_beside_others():
    def rows(numbers, **settings):
        rng = chain_generators(1, chains=numbers)
        random = RandomRows(rng, 3, **settings)
        return random.standard_normal((2,)), random.uniform()

    both, alone = rows([0, 1]), rows([1])
    for whole, part, size in zip(both, alone, ((6, 2), (6,)), strict=True):
        assert whole.shape == size
        np.testing.assert_array_equal(whole[3:], part)
    np.testing.assert_array_equal(rows([0, 1], chains=[1])[0], alone[0])


# What a run records, and its rules.


def run(model, n_particles=60, betas=None, reference="prior", sampler=SPLIT, **settings):
    settings = {"n_replicates": 4, "seed": 3} | settings
    return resample_move(
        TemperedPath(reference_of(model, reference)),
        sampler,
        Schedule.constant(power(4, 2.0) if betas is None else betas, sampler),
        n_particles=n_particles,
        **settings,
    )


def test_what_a_run_records(three_cases):
    tree = run(three_cases[0], n_moves=2)
    stages, evidence = tree["sequential_monte_carlo"], tree["evidence"]
    assert dict(stages.sizes) == {"chain": 4, "stage": 4}
    np.testing.assert_array_equal(stages["beta"][0], power(4, 2.0)[:-1])
    np.testing.assert_array_equal(stages["next_beta"][0], power(4, 2.0)[1:])
    np.testing.assert_array_equal(stages["n_particles"], 60)
    np.testing.assert_array_equal(stages["n_gradient"][0], [60, 240, 240, 240])
    assert float(evidence["n_gradient"]) == 4 * (60 + 3 * 240)
    acceptance = stages["acceptance_rate"].values
    assert np.isnan(acceptance[:, 0]).all()
    assert float(evidence["acceptance_rate"]) == pytest.approx(np.nanmean(acceptance))
    each = stages["log_increment"].sum("stage")
    np.testing.assert_allclose(evidence["chain_log_evidence"], each)
    assert float(evidence["log_evidence"]) == pytest.approx(float(np.log(np.exp(each).mean())))
    size = 60.0 / (
        1.0 + stages["relative_variance"] * 59 / 60
    )  # ESS = M / (1 + variance, divisor M)
    np.testing.assert_allclose(stages["effective_size"], size, rtol=1e-9)
    assert float(evidence["effective_size"]) == pytest.approx(float(size.min()))
    assert 1.0 / 60.0 < float(evidence["max_weight"]) < 0.2


def test_errors_of_few_and_of_many_replicates(three_cases):
    alone = run(three_cases[0], n_replicates=1)["evidence"]
    assert float(alone["standard_error"]) == float(alone["formula_error"])
    few = run(three_cases[0])["evidence"]
    larger = max(float(few["formula_error"]), float(few["replicate_error"]))
    assert float(few["standard_error"]) == larger
    many = run(three_cases[0], n_replicates=8)["evidence"]
    assert float(many["standard_error"]) == float(many["replicate_error"])
    z = np.exp(many["chain_log_evidence"].values)
    assert float(many["replicate_error"]) == pytest.approx(z.std(ddof=1) / z.mean() / np.sqrt(8))


def test_bisection_keeps_the_effective_size(three_cases):
    stages = run(three_cases[0], 200, effective_fraction=0.8)["sequential_monte_carlo"]
    size = stages["effective_size"].values
    last = stages["next_beta"].values == 1.0
    known = np.isfinite(size)
    np.testing.assert_allclose(size[known & ~last], 160.0, rtol=1e-6)
    assert np.all(size[last] >= 160.0 - 1e-6)
    assert np.all(last.sum(1) == 1)
    with pytest.raises(NumericalError, match=r"only .* after 2 stages; allow more"):
        run(three_cases[0], 200, effective_fraction=0.8, max_stages=2)


def test_numbers_of_particles_follow_the_variance(three_cases):
    rule = AdaptiveParticles(0.002, 20, 700)
    stages = run(three_cases[0], rule, reference="prior")["sequential_monte_carlo"]
    n, v = stages["n_particles"].values, stages["relative_variance"].values
    cost = stages["n_gradient"].values / n
    np.testing.assert_allclose(cost[:, 0], 1.0)
    np.testing.assert_allclose(cost[:, 1:], 2.0)
    wanted = np.sqrt(v / cost) / 0.002
    assert np.all((n >= wanted) | (n == 700))
    assert np.all((n >= 20) & (n <= 700))
    assert len(np.unique(n)) > 5
    first_goal = n[n < 700]
    assert np.all((first_goal >= GROWTH * 20) | (first_goal == 20))
    smaller = run(three_cases[0], AdaptiveParticles(0.004, 20, 700))["sequential_monte_carlo"]
    assert smaller["n_particles"].sum() < 0.75 * n.sum()


def test_waste_free_keeps_all_states(three_cases):
    path = TemperedPath(GaussianSites.prior(three_cases[0]))
    schedule = Schedule.constant(linear(3), SPLIT)
    program = ParticleProgram(path, SPLIT, schedule, 40, 3, True)
    rng = chain_generators(0, chains=[0])
    state, _ = program._particles(rng, 0, 40, 0.0, None)
    weights = np.full(40, 1.0 / 40.0)
    moved, tally = program._particles(rng, 0, 40, 0.5, (state, weights))
    assert moved.position.shape == (40, 3)
    assert tally["n_transitions"] == 30
    assert tally["n_gradient"] == 60
    ways = moved.position.reshape(10, 4, 3)  # ancestor, state on its way
    ancestors = [np.flatnonzero((state.position == way[0]).all(1)) for way in ways]
    assert all(len(found) == 1 for found in ancestors)
    assert np.mean((ways[:, 1:] != ways[:, :-1]).any(-1)) > 0.8


# Mistakes: each must fail the check against the closed form.


def coarse_run(model, sampler=SPLIT):
    return run(
        model,
        500,
        n_moves=4,
        n_replicates=30,
        seed=1,
        sampler=sampler,
        execution=Execution(block_size=30),
    )["evidence"]


SHORT = PreconditionedSplitHMC(
    step_size=0.1, n_steps=1
)  # so that particles remember their ancestors


@pytest.mark.parametrize("sampler", [SPLIT, SHORT], ids=["long", "short"])
def test_control(three_cases, sampler):
    evidence = coarse_run(three_cases[0], sampler)
    assert distance(evidence, three_cases[1]) < 3.0
    assert float(evidence["standard_error"]) < 0.02


def test_weights_taken_after_the_move(three_cases, monkeypatch):
    right = ParticleProgram._particles

    def moved_first(self, rng, c, n, beta, stored):
        state, tally = right(self, rng, c, n, beta, stored)
        after = float(self.schedule.betas[np.searchsorted(self.schedule.betas, beta) + 1])
        for _ in range(4):
            random = RandomRows(rng, n, [c])
            state, _ = self._sampler(after).step(random, self.path.target(after), state)
        return state, tally

    monkeypatch.setattr(ParticleProgram, "_particles", moved_first)
    assert distance(coarse_run(three_cases[0]), three_cases[1]) > 5.0


def test_resampling_without_resetting_the_weights(three_cases, monkeypatch):
    resample, right, kept = systematic_resample, ParticleProgram._stage, {}

    def remember(weights, uniform, n):
        rows = resample(weights, uniform, n)
        kept["weights"] = weights[rows] / weights[rows].sum()
        return rows

    def not_reset(self, rng, c, k, beta, stored):
        row, following, (state, weights) = right(self, rng, c, k, beta, stored)
        if stored is not None:
            both = kept["weights"] * weights
            row["log_increment"] += np.log(len(weights) * both.sum())
            weights = both / both.sum()
        return row, following, (state, weights)

    monkeypatch.setattr(particle_program, "systematic_resample", remember)
    monkeypatch.setattr(ParticleProgram, "_stage", not_reset)
    assert distance(coarse_run(three_cases[0], SHORT), three_cases[1]) > 5.0


def test_no_resampling(three_cases, monkeypatch):
    monkeypatch.setattr(particle_program, "systematic_resample", lambda w, u, n: np.arange(n))
    assert distance(coarse_run(three_cases[0]), three_cases[1]) > 5.0


# Runs.

HOW = Execution(segment_length=2)
RUN = {"n_temperatures": 5, "n_replicates": 3, "n_particles": 20, "execution": HOW}
ADAPTIVE = {
    "effective_fraction": 0.9, "n_particles": AdaptiveParticles(0.01, 10, 80), "max_stages": 60,
    "n_replicates": 3, "execution": Execution(block_size=2, segment_length=4),
}  # fmt: skip


def digest(tree):
    group = tree["sequential_monte_carlo"]
    return array_digest({name: np.asarray(v.values) for name, v in group.items()})


@pytest.fixture(scope="module")
def prior(gp):
    return GaussianSites.prior(gp(Probit()))


@pytest.fixture(scope="module")
def expected(prior):
    return {kind: digest(log_evidence(prior, "sequential_monte_carlo", **settings)) for kind, settings in
            (("fixed", RUN), ("adaptive", ADAPTIVE))}  # fmt: skip


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_schedulers_give_the_same_arrays(prior, expected, scheduler):
    how = replace(HOW, scheduler=scheduler, workers=2)
    found = log_evidence(prior, "sequential_monte_carlo", **RUN | {"execution": how})
    assert digest(found) == expected["fixed"]


@pytest.mark.parametrize(("kind", "settings"), [("fixed", RUN), ("adaptive", ADAPTIVE)])
def test_killed_and_resumed(prior, expected, tmp_path, kind, settings):
    how = replace(settings["execution"], segment_length=3, state_dir=tmp_path, settings={})
    settings = settings | {"execution": how}
    assert digest(log_evidence(prior, "sequential_monte_carlo", **settings)) == expected[kind]
    lost = sorted(tmp_path.rglob("segment_00001.npz"))  # what a killed run would not have
    assert lost
    for path in lost:
        path.unlink()
    assert digest(log_evidence(prior, "sequential_monte_carlo", **settings)) == expected[kind]


def test_replicates_do_not_depend_on_each_other(prior, expected):
    alone = log_evidence(prior, "sequential_monte_carlo", **(ADAPTIVE | {"n_replicates": 1}))
    all_three = log_evidence(prior, "sequential_monte_carlo", **ADAPTIVE)["sequential_monte_carlo"]
    first = all_three.isel(chain=[0]).to_dataset().dropna("stage", subset=["beta"])
    np.testing.assert_array_equal(
        alone["sequential_monte_carlo/log_increment"], first["log_increment"]
    )


def test_lazy_run(prior, expected):
    how = replace(HOW, compute=False)
    lazy = log_evidence(prior, "sequential_monte_carlo", **RUN | {"execution": how})
    assert "evidence" not in lazy.children
    assert digest(lazy) == expected["fixed"]
    done = particle_evidence(lazy["sequential_monte_carlo"].to_dataset().compute())
    eager = log_evidence(prior, "sequential_monte_carlo", **RUN)["evidence"]
    assert float(done["log_evidence"]) == float(eager["log_evidence"])


def test_results_on_disk(prior, tmp_path):
    tree = log_evidence(prior, "sequential_monte_carlo", **RUN)
    write_results(tree, tmp_path / "particles.nc")
    loaded = load_results(tmp_path / "particles.nc")
    for group in ("sequential_monte_carlo", "evidence"):
        assert loaded[group].to_dataset().equals(tree[group].to_dataset())
    again = particle_evidence(loaded["sequential_monte_carlo"].to_dataset())
    assert float(again["standard_error"]) == float(tree["evidence/standard_error"])


def test_wrong_settings(three_cases):
    model = three_cases[0]
    with pytest.raises(InputError, match="n_moves is 0; allowed: 1, 2"):
        run(model, n_moves=0)
    with pytest.raises(InputError, match="n_particles is 1; allowed: 2, 3"):
        run(model, 1)
    with pytest.raises(InputError, match="n_particles is 61 with waste_free and n_moves 3"):
        run(model, 61, n_moves=3, waste_free=True)
    with pytest.raises(InputError, match="waste_free needs a fixed n_particles"):
        run(model, AdaptiveParticles(), waste_free=True)
    with pytest.raises(InputError, match=r"effective_fraction is 1\.5; allowed: between 0 and 1"):
        run(model, effective_fraction=1.5)
    with pytest.raises(InputError, match=r"gamma is 0\.0"):
        AdaptiveParticles(gamma=0.0)
    with pytest.raises(InputError, match="did you mean 'adaptive'"):
        log_evidence(model, "sequential_monte_carlo", ladder="adaptiv")
    path = TemperedPath(GaussianSites.prior(model))
    modes = Schedule.constant(linear(2), SPLIT).with_mode_bases(path, linear(2))
    with pytest.raises(InputError, match="coordinates of each temperature's mode"):
        resample_move(path, SPLIT, modes)


def test_a_start_without_finite_likelihood_is_an_error():
    model = LatentGaussianModel.from_covariance(1e8 * np.eye(2), Poisson(), np.array([1.0, 2.0]))
    with pytest.raises(NumericalError, match="starting points have no finite likelihood"):
        run(model, 20, linear(2))
