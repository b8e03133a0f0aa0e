"""Parallel tempering against evidences in closed form; its swaps, counts, runs and mutants."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.evidence import alarms, ladder_estimates
from gpmcflow.evidence import parallel_tempering as tempering_program
from gpmcflow.evidence.ladder_estimates import (
    batch_means_error,
    influence,
    paired_difference,
    round_trips,
    stepping_stones,
    swap_rates,
    thermodynamic_integration,
)
from gpmcflow.evidence.log_evidence import log_evidence
from gpmcflow.evidence.parallel_tempering import (
    batch_steps,
    swap,
    swap_log_probability,
    temper,
    tempering_evidence,
)
from gpmcflow.evidence.schedule import Schedule, linear, power
from gpmcflow.execution import Execution, array_digest
from gpmcflow.likelihoods import Poisson, Probit
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers import HMC, RMHMC, DataSplitHMC, PreconditionedSplitHMC, make_sampler
from gpmcflow.samplers.latent.protocol import STATISTICS
from gpmcflow.storage import load_results, write_results

COMMON = {  # in the evidence group of every route; nan where it has no meaning
    "log_evidence", "standard_error", "effective_size", "n_gradient", "n_likelihood",
    "n_factorisation", "acceptance_rate", "diverging", "unsolved", "alarm",
}  # fmt: skip

Y3 = np.array([1.0, -1.0, 1.0])
K3 = 4.0 * np.array([[1.0, 0.7, 0.2], [0.7, 1.3, 0.5], [0.2, 0.5, 0.9]])
SPLIT = PreconditionedSplitHMC(step_size=0.8, n_steps=2)


def normal_ladder(seed: int, betas: np.ndarray, precision: float, n_draws: int) -> np.ndarray:
    """Exact draws of u = -precision x^2 / 2 at each temperature, reference N(0, 1), of eight chains."""
    x = np.random.default_rng(seed).standard_normal((8, len(betas), n_draws))
    return -0.5 * precision * (x / np.sqrt(1.0 + precision * betas)[:, None]) ** 2


def rings(betas: np.ndarray, u: np.ndarray) -> bool:
    found = alarms.disagreement_alarms(("a", 0.0), ("b", 0.0), *paired_difference(betas, u))
    return bool(found)


def test_a_ladder_too_coarse_to_integrate_over_rings():
    """Both estimates are of the same draws: taken for independent, one run in five was told."""
    betas = power(3, 2.0)
    ladders = [normal_ladder(seed, betas, 10.0, 2000) for seed in range(20)]
    assert sum(rings(betas, u) for u in ladders) >= 18
    fine = power(6, 2.0)
    ladders = [normal_ladder(seed, fine, 3.0, 500) for seed in range(60)]
    assert sum(rings(fine, u) for u in ladders) <= 1
    assert sum(rings(fine, u[:1]) for u in ladders) <= 2


def test_the_error_of_a_paired_difference_is_its_spread():
    betas = power(6, 2.0)
    told = np.array(
        [paired_difference(betas, normal_ladder(seed, betas, 3.0, 500))[:2] for seed in range(200)]
    )
    assert (
        abs(told[:, 0].mean()) < 4 * told[:, 0].std() / np.sqrt(200) + 2e-4
    )  # and what is left of D^5
    assert 0.85 < told[:, 1].mean() / told[:, 0].std(ddof=1) < 1.15


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


def schedule_of(betas, sampler=SPLIT):
    return Schedule.constant(betas, sampler)


def distances(evidence, exact):
    """Errors of both methods in standard errors."""
    return np.abs(evidence["log_evidence"] - exact).values / evidence["standard_error"].values


def assert_exact(evidence, exact, bound=0.05):
    assert np.all(evidence["standard_error"] < bound)
    assert np.all(distances(evidence, exact) <= 3.0)
    assert not str(evidence["alarm"].values)


@pytest.mark.parametrize("reference", ["prior", "ep"])
@pytest.mark.parametrize("sampler", ["hmc", "preconditioned_split_hmc", "split_hmc", PriorHMC()])
@pytest.mark.parametrize("n", [3, 50])
def test_closed_forms(three_cases, one_factor, n, sampler, reference):
    """Row 18: stepping stones and thermodynamic integration, both starts, n = 3 and 50."""
    model, exact = three_cases if n == 3 else one_factor(50, 30)
    tree = log_evidence(
        reference_of(model, reference),
        "parallel_tempering",
        sampler,
        n_temperatures=16 if reference == "prior" else 5,
        n_replicates=24,  # with 8, an error by their spread has the tails of Student's t
        n_draws=200,
        n_warmup=50,
        seed=n,
        execution=Execution(block_size=24),
    )
    assert_exact(tree["evidence"], exact, bound=0.1 if sampler == "split_hmc" else 0.05)
    assert int(tree["evidence"]["n_round_trips"]) > 0
    assert set(tree["evidence"].data_vars) >= COMMON


@pytest.mark.parametrize(
    "name", ["latent_hmc", "data_split_hmc", "random_walk_metropolis", "independence_metropolis"]
)
def test_the_other_samplers(three_cases, name):
    model, exact = three_cases
    tree = log_evidence(
        GaussianSites.prior(model),
        "parallel_tempering",
        name,
        n_temperatures=16,
        n_replicates=24,
        n_draws=200,
        execution=Execution(block_size=24),
    )
    assert_exact(tree["evidence"], exact)


@pytest.mark.parametrize("reference", ["prior", "ep"])
def test_rmhmc(three_cases, reference):
    """Its coordinates are the prior's whatever the reference, its metric differs from row to row."""
    model, exact = three_cases
    sampler = RMHMC(0.4, 3)
    betas = power(6, 2.0) if reference == "prior" else linear(3)
    tree = temper(
        TemperedPath(reference_of(model, reference)),
        sampler,
        schedule_of(betas, sampler),
        n_replicates=24,
        n_draws=60,
        n_warmup=5,
        seed=4,
        execution=Execution(block_size=24),
    )
    assert_exact(tree["evidence"], exact)
    assert float(tree["evidence/n_factorisation"]) > 0


def test_draws_at_one_are_draws_of_the_posterior(three_cases):
    model, _ = three_cases
    tree = temper(
        TemperedPath(GaussianSites.prior(model)),
        SPLIT,
        schedule_of(power(8, 2.0)),
        n_draws=1000,
        store_latents=True,
        seed=5,
    )
    latent = tree["posterior/latent"].values
    rng = np.random.default_rng(11)
    f = rng.standard_normal((200_000, 3)) @ np.linalg.cholesky(K3).T
    exact = f[np.log(rng.random(len(f))) < model.likelihood.log_density(f, Y3)]
    each = latent.mean(1)
    error = np.hypot(each.std(0, ddof=1) / np.sqrt(len(each)), exact.std(0) / np.sqrt(len(exact)))
    assert np.all(np.abs(each.mean(0) - exact.mean(0)) < 4.0 * error)
    assert np.all(np.abs(latent.std((0, 1)) / exact.std(0) - 1.0) < 0.1)
    expected = model.likelihood.log_density(latent, Y3)
    found = tree["tempered/sum_log_likelihood"].sel(temperature=8).values
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_coverage_of_the_errors_from_within(three_cases):
    """Of 100 chains most are within one of their own standard errors, nearly all within two."""
    model, exact = three_cases
    tree = temper(
        TemperedPath(GaussianSites.prior(model)),
        SPLIT,
        schedule_of(power(8, 2.0)),
        n_replicates=100,
        n_draws=400,
        n_warmup=20,
        seed=3,
        execution=Execution(block_size=100),
    )
    betas, u = tree["tempered/beta"].values, tree["tempered/log_ratio"].values
    for name, each in zip(
        ladder_estimates.ESTIMATORS, tree["evidence/chain_log_evidence"].values, strict=True
    ):
        error = batch_means_error(influence(betas, u, name))
        distance = np.abs(each - exact) / error
        assert 0.52 <= np.mean(distance < 1.0) <= 0.8
        assert 0.86 <= np.mean(distance < 2.0) <= 0.99
    evidence = tree["evidence"]
    ratio = (evidence["replicate_error"] / evidence["within_error"]).values
    assert np.all((ratio > 0.8) & (ratio < 1.25))


# The swaps.


def toy_balance(log_probability) -> float:
    """Largest violation of detailed balance of swaps between two temperatures of a 2-state system."""
    betas, u, q = np.array([0.2, 0.9]), np.array([0.3, 2.0]), np.array([0.6, 0.4])
    density = q * np.exp(betas[:, None] * u)
    density /= density.sum(1, keepdims=True)
    worst = 0.0
    for i in (0, 1):
        for j in (0, 1):
            flow = density[0, i] * density[1, j] * np.exp(log_probability(betas, u[[i, j]]))[0]
            back = density[0, j] * density[1, i] * np.exp(log_probability(betas, u[[j, i]]))[0]
            worst = max(worst, abs(flow - back))
    return worst


def test_detailed_balance_of_swaps():
    assert toy_balance(swap_log_probability) < 1e-15
    assert toy_balance(lambda betas, u: np.minimum(np.diff(betas) * np.diff(u), 0.0)) > 0.05
    assert toy_balance(lambda betas, u: np.zeros(1)) > 0.05  # always


def test_swaps_happen_with_their_probability_and_only_between_the_pairs_whose_turn_it_is():
    betas, u = np.array([0.0, 0.3, 0.6, 1.0]), np.array([2.0, 0.5, 1.0, -1.5])
    uniforms = np.random.default_rng(0).random((20_000, 3))
    many = np.tile(u, (20_000, 1))
    probability = np.exp(swap_log_probability(betas, u))
    for iteration in (0, 1):
        accepted, order = swap(betas, many, uniforms, iteration)
        turn = np.arange(3) % 2 == iteration
        assert np.all(accepted[:, :-1][:, ~turn] == -1)
        assert np.all(accepted[:, -1] == -1)
        np.testing.assert_allclose(
            (accepted[:, :-1] == 1).mean(0)[turn], probability[turn], atol=0.012
        )
        assert np.all(np.sort(order, axis=1) == np.arange(4))
        swapped = accepted[:, iteration] == 1
        assert np.all(order[swapped, iteration] == iteration + 1)
        assert np.all(order[~swapped, iteration] == iteration)


def test_a_likelihood_of_zero_at_the_reference_is_not_taken_in():
    accepted, _ = swap(np.array([0.0, 1.0]), np.array([[-np.inf, -3.0]]), np.zeros((1, 1)), 0)
    assert accepted[0, 0] == 0


# What a run records.


def test_what_a_run_records(three_cases):
    model, _ = three_cases
    sampler, betas = HMC(0.5, 3), power(5, 2.0)
    tree = temper(
        TemperedPath(GaussianSites.prior(model)),
        sampler,
        schedule_of(betas, sampler),
        n_replicates=4,
        n_draws=30,
        n_warmup=6,
        seed=2,
        execution=Execution(segment_length=7),
    )
    t = tree["tempered"]
    assert dict(t.sizes) == {"chain": 4, "temperature": 6, "draw": 30}
    assert t["log_ratio"].dims == ("chain", "temperature", "draw")
    assert set(t.data_vars) == {
        "log_ratio",
        "sum_log_likelihood",
        "swap_accepted",
        "walker",
        *STATISTICS,
    }
    np.testing.assert_array_equal(t["beta"], betas)
    # from the prior u is the log likelihood
    np.testing.assert_allclose(t["log_ratio"], t["sum_log_likelihood"], rtol=1e-12)
    gradients = t["n_gradient"].values
    assert np.all(gradients[:, 0] == 1)
    assert np.all(gradients[:, 1:] == 3)
    spent = 4 * 36 * (5 * 3 + 1) + 4 * (5 * 3 + 1)  # the start is an iteration, too
    assert float(tree["evidence/n_gradient"]) == spent
    acceptance = t["acceptance_rate"].values
    assert np.isnan(acceptance[:, 0]).all()
    assert float(tree["evidence/acceptance_rate"]) == pytest.approx(np.nanmean(acceptance))
    walker, swapped = t["walker"].values, t["swap_accepted"].values
    assert np.all(np.sort(walker, axis=1) == np.arange(6)[:, None])
    for c, k, pair in np.argwhere((swapped == 1).transpose(0, 2, 1)):
        if k + 1 < 30:
            assert walker[c, pair, k + 1] == walker[c, pair + 1, k]
            assert walker[c, pair + 1, k + 1] == walker[c, pair, k]
    moved = walker[:, :, 1:] != walker[:, :, :-1]
    assert moved.any()
    took_part = swapped == 1
    took_part[:, 1:] |= swapped[:, :-1] == 1
    np.testing.assert_array_equal(moved, took_part[:, :, :-1])


def test_errors_of_few_and_of_many_chains(control):
    tempered = control["tempered"].to_dataset()

    def errors(n_chains):
        found = tempering_evidence(tempered.isel(chain=slice(0, n_chains), draw=slice(0, 400)))
        return (
            found[name].values for name in ("standard_error", "replicate_error", "within_error")
        )

    error, spread, within = errors(8)
    np.testing.assert_array_equal(error, spread)
    error, spread, within = errors(7)
    np.testing.assert_array_equal(error, np.maximum(spread, within))
    error, spread, within = errors(1)
    np.testing.assert_array_equal(error, within)
    assert np.isnan(spread).all()
    assert np.all(within > 0)


def test_the_reference_is_drawn_afresh(three_cases):
    """u at beta = 0 is independent of the draw before, and distributed as under the reference."""
    model, _ = three_cases
    q = expectation_propagation(model).sites
    tree = temper(
        TemperedPath(q), PriorHMC(0.3, 2), schedule_of(linear(2)), n_draws=2000, n_warmup=0
    )
    first = tree["tempered/log_ratio"].values[:, 0]
    normals = np.random.default_rng(1).standard_normal((20_000, 3))
    eta = q.predictor(normals)
    u = TemperedPath(q).log_ratio(eta, model.likelihood.log_density(eta, Y3))
    assert first.mean() == pytest.approx(u.mean(), abs=4.0 * u.std() / 100.0)
    assert first.std() == pytest.approx(u.std(), rel=0.1)
    x = first - first.mean()
    assert abs((x[:, 1:] * x[:, :-1]).mean() / x.var()) < 4.0 / np.sqrt(x.size)


@pytest.mark.parametrize("sampler", [HMC(0.5, 2), PriorHMC(0.3, 2), DataSplitHMC(0.4, 2)])
def test_batched_chains_equal_single_chains(three_cases, sampler):
    """The same random numbers, one batch of 4 ladders or four batches of one."""
    path = TemperedPath(expectation_propagation(three_cases[0]).sites)

    def ratios(block_size):
        return temper(
            path, sampler, schedule_of(linear(3), sampler), n_replicates=4, n_draws=8,
            n_warmup=2, seed=9, execution=Execution(block_size=block_size),
        )["tempered/log_ratio"].values  # fmt: skip

    np.testing.assert_allclose(ratios(4), ratios(1), rtol=1e-9, atol=1e-9)


def test_steps_of_a_batch():
    schedule = Schedule(linear(4), np.array([9.0, 1.0, 0.5, 0.4, 0.2]), np.array([9, 2, 4, 5, 10]))
    step_size, n_steps = batch_steps(schedule)
    assert n_steps == 6  # the mean of 2, 4, 5, 10, rounded up
    np.testing.assert_allclose(step_size, [1.0 / 3.0, 0.5 * 4 / 6, 0.4 * 5 / 6, 0.2])
    tuned = schedule.step_size[1:] * schedule.n_steps[1:]
    assert np.all(step_size * n_steps <= tuned + 1e-12)


# The estimates, on draws whose distribution is known.


def gaussian_draws(rng, betas, n_draws, n=()):
    """u ~ N(m + beta s^2, s^2), for which log Z = m + s^2 / 2 (log-normal weights), m = -3, s = 1.2."""
    noise = rng.standard_normal((*n, len(betas), n_draws))
    return -3.0 + 1.44 * betas[:, None] + 1.2 * noise, -3.0 + 0.72


def test_estimates_of_log_normal_weights():
    rng, betas = np.random.default_rng(0), np.array([0.0, 0.1, 0.5, 0.7, 1.0])
    u, exact = gaussian_draws(rng, betas, 400_000)
    assert stepping_stones(betas, u) == pytest.approx(exact, abs=0.005)
    assert thermodynamic_integration(betas, u) == pytest.approx(exact, abs=0.005)
    grow = u * np.sqrt(1.0 + betas[:, None])  # any draws will do to check the sum itself
    gap, mean, var = np.diff(betas), grow.mean(1), grow.var(1, ddof=1)
    by_hand = (gap / 2 * (mean[1:] + mean[:-1]) - gap**2 / 12 * np.diff(var)).sum()
    assert thermodynamic_integration(betas, grow) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("estimator", ladder_estimates.ESTIMATORS)
def test_error_from_within_is_the_spread_of_independent_estimates(estimator):
    betas = np.array([0.0, 0.4, 1.0])
    u, _ = gaussian_draws(np.random.default_rng(2), betas, 500, (400,))
    spread = getattr(ladder_estimates, estimator)(betas, u).std(ddof=1)
    errors = batch_means_error(influence(betas, u, estimator))
    assert np.sqrt((errors**2).mean()) == pytest.approx(spread, rel=0.1)


def test_batch_means_know_of_autocorrelation():
    rng, x = np.random.default_rng(4), np.zeros((200, 4000))
    for k in range(1, 4000):  # AR(1) with time (1 + 0.8) / (1 - 0.8) = 9
        x[:, k] = 0.8 * x[:, k - 1] + rng.standard_normal(200)
    stated = np.sqrt((batch_means_error(x) ** 2).mean())
    assert stated == pytest.approx(x.mean(1).std(ddof=1), rel=0.12)
    assert np.isnan(batch_means_error(x[:, :15])).all()


def test_round_trips_and_swap_rates():
    bottom = [0, 0, 1, 1, 2, 0, 0, 1]
    top = [2, 2, 2, 0, 0, 1, 2, 2]  # 0 goes up and comes back; 1 does so, too; 2 only comes down
    middle = [1, 1, 0, 2, 1, 2, 1, 0]
    walkers = np.array([[bottom, middle, top], [[0] * 8, [1] * 8, [2] * 8]])
    np.testing.assert_array_equal(round_trips(walkers), [2, 0])
    accepted = np.array([[[1, -1, 0, -1], [-1, 1, -1, 1], [-1, -1, -1, -1]]])
    np.testing.assert_allclose(swap_rates(accepted), [0.5, 1.0])
    assert np.isnan(swap_rates(np.full((1, 2, 3), -1))).all()


# Mistakes: each must fail the check against the closed form.


def coarse_run(model, reference="prior", n_draws=4000):
    """Few temperatures far apart, moves that hardly mix, so that swaps and corrections matter."""
    return temper(
        TemperedPath(reference_of(model, reference)),
        PreconditionedSplitHMC(0.8, 2),
        schedule_of(power(4, 2.0)),
        n_replicates=16,
        n_draws=n_draws,
        n_warmup=50,
        seed=1,
        execution=Execution(block_size=16),
    )


@pytest.fixture(scope="module")
def control(three_cases):
    return coarse_run(three_cases[0])


def test_control(control, three_cases):
    distance = distances(control["evidence"], three_cases[1])
    assert np.all(distance < 3.0)
    assert np.all(control["evidence/standard_error"] < 0.02)


def test_swap_ratio_of_the_wrong_sign(three_cases, monkeypatch):
    def wrong(betas, u):
        return np.minimum(np.diff(betas) * np.diff(u, axis=-1), 0.0)

    monkeypatch.setattr(tempering_program, "swap_log_probability", wrong)
    evidence = coarse_run(three_cases[0], n_draws=1000)["evidence"]
    assert np.all(distances(evidence, three_cases[1]) > 5.0)


def test_swapping_always(three_cases, monkeypatch):
    monkeypatch.setattr(
        tempering_program, "swap_log_probability", lambda betas, u: np.zeros_like(u[:, 1:])
    )
    evidence = coarse_run(three_cases[0], n_draws=1000)["evidence"]
    assert np.all(distances(evidence, three_cases[1]) > 5.0)


@pytest.mark.parametrize("factor", [-1.0, 0.0])
def test_variance_correction_of_the_wrong_sign_or_none(control, three_cases, monkeypatch, factor):
    right = ladder_estimates.quadrature

    def wrong(betas):
        of_mean, of_variance = right(betas)
        return of_mean, factor * of_variance

    monkeypatch.setattr(ladder_estimates, "quadrature", wrong)
    evidence = tempering_evidence(control["tempered"].to_dataset())
    stones, integral, _ = distances(evidence, three_cases[1])
    assert stones < 3.0
    assert integral > 5.0


# Runs.

HOW = Execution(block_size=2, segment_length=6)
RUN = {
    "n_temperatures": 4, "n_replicates": 5, "n_draws": 20, "n_warmup": 4, "store_latents": True,
    "execution": HOW,
}  # fmt: skip


def digest(tree):
    return array_digest(
        {
            f"{group}/{name}": np.asarray(v.values)
            for group in ("tempered", "posterior")
            for name, v in tree[group].items()
        }
    )


@pytest.fixture(scope="module")
def sites(gp):
    return expectation_propagation(gp(Probit())).sites


@pytest.fixture(scope="module")
def expected(sites):
    return digest(log_evidence(sites, "parallel_tempering", **RUN))


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_schedulers_give_the_same_arrays(sites, expected, scheduler):
    how = replace(HOW, scheduler=scheduler, workers=2)
    assert digest(log_evidence(sites, "parallel_tempering", **RUN | {"execution": how})) == expected


def test_killed_and_resumed(sites, expected, tmp_path):
    how = replace(HOW, segment_length=5, state_dir=tmp_path, settings={})
    assert digest(log_evidence(sites, "parallel_tempering", **RUN | {"execution": how})) == expected
    kept = len(list(tmp_path.rglob("segment_*.npz")))
    for path in sorted(tmp_path.rglob("segment_00002.npz")):
        path.unlink()  # what a killed run would not have
    assert len(list(tmp_path.rglob("segment_*.npz"))) < kept
    assert digest(log_evidence(sites, "parallel_tempering", **RUN | {"execution": how})) == expected


def test_lazy_run(sites, expected):
    lazy = log_evidence(
        sites, "parallel_tempering", **RUN | {"execution": replace(HOW, compute=False)}
    )
    assert "evidence" not in lazy.children
    assert lazy["tempered/log_ratio"].chunks is not None
    assert digest(lazy) == expected
    done = tempering_evidence(lazy["tempered"].to_dataset().compute())
    eager = log_evidence(sites, "parallel_tempering", **RUN)["evidence"]
    np.testing.assert_array_equal(done["log_evidence"], eager["log_evidence"])


def test_results_on_disk(sites, expected, tmp_path):
    tree = log_evidence(sites, "parallel_tempering", **RUN)
    write_results(tree, tmp_path / "tempering.nc")
    loaded = load_results(tmp_path / "tempering.nc")
    assert digest(loaded) == expected
    assert loaded["evidence"].to_dataset().equals(tree["evidence"].to_dataset())
    stones = loaded["evidence/log_evidence"].sel(estimator="stepping_stones")
    assert float(stones) == float(tree["evidence/log_evidence"][0])


def test_another_sampler_or_seed_gives_other_arrays(sites, expected):
    assert digest(log_evidence(sites, "parallel_tempering", seed=1, **RUN)) != expected
    other = log_evidence(sites, "parallel_tempering", make_sampler("hmc"), **RUN)
    assert digest(other) != expected


def test_wrong_settings(three_cases):
    path = TemperedPath(GaussianSites.prior(three_cases[0]))
    with pytest.raises(InputError, match="n_draws is 3, n_warmup is 0; allowed: >= 4"):
        temper(path, SPLIT, schedule_of(linear(2)), n_draws=3, n_warmup=0)
    modes = schedule_of(linear(2)).with_mode_bases(path, linear(2))
    with pytest.raises(InputError, match="coordinates of each temperature's mode"):
        temper(path, SPLIT, modes)
    with pytest.raises(InputError, match="did you mean 'linear'"):
        log_evidence(path.reference, "parallel_tempering", ladder="linaer")


def test_a_start_without_finite_likelihood_is_an_error():
    model = LatentGaussianModel.from_covariance(1e8 * np.eye(2), Poisson(), np.array([1.0, 2.0]))
    with pytest.raises(NumericalError, match="starting points have no finite likelihood"):
        temper(TemperedPath(GaussianSites.prior(model)), HMC(), schedule_of(linear(2)), n_draws=5)
