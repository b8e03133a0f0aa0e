"""log p(y) with hyperparameters integrated out, against exact values, and what must not change it."""

from __future__ import annotations

import logging
from functools import cache

import numpy as np
import pytest
from numpy.polynomial.legendre import leggauss
from scipy.integrate import quad
from scipy.special import gammaln, logsumexp

import gpmcflow as gp
from gpmcflow.approximations.mixture import Mixture
from gpmcflow.errors import InputError
from gpmcflow.evidence import joint_tempering as joint_path
from gpmcflow.evidence import model_evidence
from gpmcflow.evidence.joint_tempering import JointPath
from gpmcflow.evidence.model_evidence_group import Ends
from gpmcflow.evidence.two_ends import _require_same
from gpmcflow.execution import Execution
from gpmcflow.models.dense_structure import DenseStructure
from gpmcflow.samplers.joint.problem import JointProblem
from gpmcflow.samplers.joint.split_dynamics import SplitTarget, transition

QUIET = Execution(progress=False)
COMMON = {  # in the evidence group of every route; nan where it has no meaning
    "log_evidence", "standard_error", "effective_size", "n_gradient", "n_likelihood",
    "n_factorisation", "acceptance_rate", "diverging", "unsolved", "alarm",
}  # fmt: skip
LENGTH, SIGNAL = gp.Hyperprior.log_uniform(0.03, 1.0), gp.Hyperprior.log_uniform(0.2, 5.0)


class ExplicitGaussian(gp.Gaussian):
    """Gaussian noise whose latents are drawn, as under any other likelihood."""

    conjugate = False


def curve(n: int = 50, likelihood: type = gp.Gaussian) -> gp.GPModel:
    rng = np.random.default_rng(0)
    x = np.sort(rng.random(n))
    y = np.sin(6.0 * x) + 0.3 * rng.standard_normal(n)
    return gp.GPModel(x, y, gp.SquaredExponential(LENGTH, SIGNAL), likelihood(0.3))


def over_theta(model: gp.GPModel, value, n_nodes: int = 24) -> float:
    """Log integral of exp(value(theta)) under log-uniform hyperpriors, by Gauss and Legendre."""
    nodes, weights = leggauss(n_nodes)
    axes = [
        low + 0.5 * (nodes + 1.0) * (high - low)
        for low, high in (prior.support for prior in model.parameters.free_priors)
    ]
    values = np.array([[value(np.array([a, b])) for b in axes[1]] for a in axes[0]])
    return float(logsumexp(values + np.log(0.5 * weights)[:, None] + np.log(0.5 * weights)))


@cache
def exact_curve() -> float:
    model = curve()
    density = gp.RegressionDensity(model)
    value = over_theta(model, density.log_likelihood)
    assert value == pytest.approx(over_theta(model, density.log_likelihood, 16), abs=1e-3)
    return value


def at_bridge(tree) -> tuple[float, float]:
    group = tree["evidence"].to_dataset().sel(estimator="bridge")
    return float(group["log_evidence"]), float(group["standard_error"])


def chains(model: gp.GPModel, **settings):
    """By chains: without a route the mixture comes first."""
    return gp.model_evidence(model, route="two_ended", execution=QUIET, **settings)


def tuned(model: gp.GPModel, seed: int = 1):
    sampler = gp.JointSplitHMC(rounds=(60, 100, 60))
    return sampler.tune(JointProblem.of(model, None), 1, seed=seed, key=(), execution=QUIET)[0]


# -- the value -----------------------------------------------------------------------------------


@pytest.mark.parametrize("route", ["two_ended", "ladder"])
@pytest.mark.parametrize("likelihood", [gp.Gaussian, ExplicitGaussian])
def test_gaussian_noise_against_quadrature(likelihood, route):
    run = gp.model_evidence(
        curve(likelihood=likelihood), route=route, n_draws=400, target_error=0.03, seed=3,
        execution=QUIET,
    )  # fmt: skip
    value, error = at_bridge(run)
    assert error < 0.05
    assert abs(value - exact_curve()) < 4.0 * error
    assert run.evidence.attrs["route"] == route
    assert run["pilot"].sizes["chain"] == 4
    assert not np.array_equal(run["pilot/center"][0], run["pilot/center"][1])  # each has its own
    low, high = (
        float(run.evidence[f"interval_{end}"].sel(estimator="bridge")) for end in ("low", "high")
    )
    assert low < value < high
    if route == "ladder":
        for name in ("stepping_stones", "thermodynamic_integration"):
            other = run.evidence.sel(estimator=name)
            assert abs(float(other["log_evidence"]) - exact_curve()) < 0.3
    assert float(run.evidence["complexity"]) > 0.0


def importance(model: gp.GPModel, stage, seed: int) -> tuple[float, float]:
    """Log mean of e^u over draws of the reference, and its error."""
    path, rng = JointPath(model, stage), np.random.default_rng(seed)
    u = np.array([path.reference(rng) for _ in range(3000)])
    weights = np.exp(u - u.max())
    return float(np.log(weights.mean()) + u.max()), float(
        weights.std() / weights.mean() / np.sqrt(len(u))
    )


CHANGES = {
    "none": lambda s: s,
    "wider": lambda s: s._replace(scale=1.3 * s.scale),
    "shifted": lambda s: s._replace(center=s.center + 0.5 * s.scale @ np.ones(2)),
    "weaker sites": lambda s: s._replace(precision=0.8 * s.precision, shift=0.8 * s.shift),
    "other sites": lambda s: s._replace(precision=0.9 * s.precision, shift=0.95 * s.shift),
}


@cache
def explicit_stage():
    model = curve(20, ExplicitGaussian)
    return model, tuned(model).stage(0)


@pytest.mark.parametrize("change", CHANGES)
def test_any_frame_gives_the_same_number(change):
    """The constants of the sites and of the scale, which differ by frame."""
    model, stage = explicit_stage()
    exact = over_theta(model, gp.RegressionDensity(curve(20)).log_likelihood)
    value, error = importance(model, CHANGES[change](stage), 5)
    assert error < 0.1
    assert abs(value - exact) < 4.0 * error


def _without_sites(self):
    return 0.0


def _without_half(self):
    w, b = self.sites
    return float(b @ (b / w))


@pytest.mark.parametrize("mutant", [_without_sites, _without_half])
def test_wrong_constants_of_the_sites_are_seen(monkeypatch, mutant):
    model, stage = explicit_stage()
    exact = over_theta(model, gp.RegressionDensity(curve(20)).log_likelihood)
    monkeypatch.setattr(DenseStructure, "log_constant", mutant)
    value, error = importance(model, stage, 5)
    assert abs(value - exact) > 10.0 * error


def test_a_missing_determinant_is_seen(monkeypatch):
    model, stage = explicit_stage()
    exact = over_theta(model, gp.RegressionDensity(curve(20)).log_likelihood)
    monkeypatch.setattr(SplitTarget, "log_constant", lambda self: self.density.log_constant())
    value, error = importance(model, stage, 5)
    assert abs(value - exact) > 10.0 * error


def test_counts_without_a_signal_against_an_integral():
    rng = np.random.default_rng(1)
    y = rng.poisson(3.0, 60)
    mean = gp.Hyperprior("uniform", {"loc": -2.0, "scale": 6.0})
    signal = gp.SquaredExponential(
        0.3, gp.Parameter("signal_sd", gp.Hyperprior.log_uniform(1e-6, 1e-5))
    )
    model = gp.GPModel(np.linspace(0.0, 1.0, 60), y, signal, gp.Poisson(), mean)

    def likelihood(c: float) -> float:
        return np.exp(y.sum() * c - 60 * np.exp(c) - gammaln(y + 1.0).sum() + 120.0)

    exact = (
        np.log(quad(likelihood, -2.0, 4.0, points=[np.log(y.mean())], limit=200)[0] / 6.0) - 120.0
    )
    run = chains(model, n_draws=800, target_error=0.004, seed=2)
    value, error = at_bridge(run)
    assert error < 0.01
    assert abs(value - exact) < 4.0 * error


def test_three_labels_against_quadrature_over_all_dimensions():
    """Probit: p(y | theta) is an orthant probability, which three dimensions have in closed form."""
    x, y = np.array([0.1, 0.35, 0.9]), np.array([1.0, 1.0, -1.0])
    model = gp.GPModel(x, y, gp.SquaredExponential(LENGTH, SIGNAL), gp.Probit())

    def orthant(theta: np.ndarray) -> float:
        K = model.covariance_matrix(theta) + np.eye(3)
        sd = np.sqrt(np.diagonal(K))
        r = K / np.outer(sd, sd) * np.outer(y, y)
        return float(np.log(0.125 + np.arcsin(r[np.triu_indices(3, 1)]).sum() / (4.0 * np.pi)))

    run = chains(model, n_draws=2000, target_error=0.004, seed=4)
    value, error = at_bridge(run)
    assert error < 0.01
    assert abs(value - over_theta(model, orthant, 40)) < max(4.0 * error, 1e-2)


def test_structures_of_one_prior_agree():
    """Basis functions of straight lines are exact, and a grid is dense, too."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal(40)
    lines = gp.GPModel(
        x, rng.poisson(np.exp(0.5 + 0.4 * x)), gp.Linear() + gp.Constant(), gp.Poisson()
    )
    first, second = np.meshgrid(np.arange(5.0), np.arange(4.0), indexing="ij")
    X = np.column_stack([first.ravel(), second.ravel()])
    covariance = gp.SquaredExponential(gp.Hyperprior.log_uniform(0.5, 5.0), SIGNAL)
    grid = gp.GPModel(X, rng.poisson(np.exp(np.sin(X[:, 0]))), covariance, gp.Poisson(), 0.3)
    for model, other in ((lines, "basis"), (grid.with_structure("dense"), "kronecker")):
        runs = [
            chains(m, n_replicates=2, n_draws=300, target_error=0.06, seed=k)
            for k, m in enumerate((model, model.with_structure(other)))
        ]
        (a, ea), (b, eb) = (at_bridge(run) for run in runs)
        assert max(ea, eb) < 0.12
        assert abs(a - b) < 4.0 * np.hypot(ea, eb)


def test_stated_errors_are_those_of_seeds():
    """Of 16 seeds, each with pilots of its own: mean square of the distance over the error is 1."""
    exact, scores = exact_curve(), []
    for seed in range(16):
        value, error = at_bridge(
            gp.model_evidence(
                curve(),
                gp.JointSplitHMC(rounds=(40, 60, 40)),
                n_replicates=2,
                n_draws=150,
                target_error=1.0,
                seed=seed,
                execution=QUIET,
            )
        )
        scores.append((value - exact) / error)
    assert 0.2 < np.mean(np.square(scores)) < 2.2  # 16 in chi^2_16 with a larger-of-two error


# -- the kernel of the ladder --------------------------------------------------------------------


def test_the_kernel_leaves_each_temperature_invariant():
    """From exact draws of h_beta of a model with two coordinates, which a grid gives."""
    model = curve(12)
    stage, beta = tuned(model).stage(0), 0.4
    path, rng = JointPath(model, stage), np.random.default_rng(0)
    axis = np.linspace(-5.0, 5.0, 121)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    rest = np.array([path.target.rest(point) for point in points])
    log_density = beta * rest - 0.5 * (points**2).sum(-1)
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    exact = density @ np.column_stack([points, points**2])
    moved, cell = [], axis[1] - axis[0]
    for k in rng.choice(len(points), 1500, p=density):
        state = path.target.state(points[k] + cell * (rng.random(2) - 0.5))
        for _ in range(3):
            state, _ = transition(rng, path.target, state, 0.9, 2, 0.2, beta)
        moved.append(state.position)
    moved = np.array(moved)
    values = np.column_stack([moved, moved**2])
    error = values.std(0) / np.sqrt(len(values))
    assert np.all(np.abs(values.mean(0) - exact) < 4.0 * error)
    wrong = np.exp(rest - 0.5 * (points**2).sum(-1))  # beta = 1 has other moments
    assert np.any(
        np.abs(wrong / wrong.sum() @ np.column_stack([points, points**2]) - exact) > 6.0 * error
    )


def test_the_flow_is_exact_at_the_reference():
    model = curve(12, ExplicitGaussian)
    path, rng = JointPath(model, tuned(model).stage(0)), np.random.default_rng(0)
    state = path.target.state(rng.standard_normal(path.size))
    for _ in range(20):
        state, info = transition(rng, path.target, state, 1.2, 3, 0.2, 0.0)
        assert info.acceptance_rate == pytest.approx(1.0, abs=1e-9)


# -- draws of other runs -------------------------------------------------------------------------


@cache
def counts() -> gp.GPModel:
    rng = np.random.default_rng(3)
    x = np.linspace(0.0, 1.0, 25)
    y = rng.poisson(np.exp(1.0 + np.sin(6.0 * x)))
    return gp.GPModel(x, y, gp.SquaredExponential(LENGTH, SIGNAL), gp.Poisson(), 1.0)


@cache
def own_run():
    return chains(counts(), n_draws=800, target_error=0.03, seed=1)


@pytest.mark.parametrize("sampler", ["joint_split_hmc", "surrogate_slice"])
def test_draws_of_any_sampler_give_the_same_evidence(sampler):
    draws = gp.sample(counts(), sampler, n_chains=3, n_draws=600, seed=7, execution=QUIET)
    run = gp.model_evidence(counts(), draws=draws, seed=8, execution=QUIET)
    (a, ea), (b, eb) = at_bridge(own_run()), at_bridge(run)
    assert max(ea, eb) < 0.1
    assert abs(a - b) < 3.0 * np.hypot(ea, eb)
    pilots = float(run.evidence["n_gradient_pilot"])
    assert (pilots == 0.0) == (sampler == "joint_split_hmc")  # whose pilot comes with the draws
    assert run.posterior.sizes["chain"] == run.evidence.sizes["replicate"] == 3


def test_draws_of_labels_bring_the_frame_of_their_reference():
    """No pilot runs; where a smaller error takes new chains, one does, as their step has to be tuned."""
    rng = np.random.default_rng(3)
    x = np.linspace(-1.0, 1.0, 30)
    y = np.where(rng.random(30) < 1.0 / (1.0 + np.exp(-4.0 * np.sin(3.0 * x))), 1, -1)
    model = gp.GPModel(x, y, gp.SquaredExponential(LENGTH, SIGNAL), gp.Logistic(), 0.0)
    draws = gp.sample(
        model, "pseudo_marginal_hmc", n_chains=2, n_draws=400, seed=1, execution=QUIET
    )
    settings = {"draws": draws, "n_draws": 400, "seed": 2, "execution": QUIET}
    run = gp.model_evidence(model, **settings)
    known = gp.model_evidence(model, route="mixture", seed=3, execution=QUIET)
    value, error = at_bridge(run)
    exact = known.evidence.sel(estimator="importance")
    assert float(exact["standard_error"]) < 0.02
    assert error < 0.1
    assert abs(value - float(exact["log_evidence"])) < 4.0 * np.hypot(error, 0.02)
    assert float(run.evidence["n_gradient_pilot"]) == 0.0
    assert "pilot" not in run.children
    assert run.posterior.sizes["draw"] == 400
    fewer = gp.model_evidence(model, **settings | {"n_draws": 200})
    assert fewer.posterior.sizes["draw"] == 200
    # too few: all that there are, then new ones
    all_given = gp.model_evidence(model, target_error=1e-4, **settings | {"n_draws": 200})
    assert at_bridge(all_given)[0] == pytest.approx(value, abs=0.1)
    assert all_given.posterior.sizes["draw"] == 400
    assert "pilot" not in all_given.children
    longer = gp.model_evidence(model, target_error=1e-4, **settings | {"n_draws": 800})
    assert longer.posterior.sizes["draw"] == 800
    assert (longer.pilot["acceptance_rate"][..., -1] > 0.5).all()
    again, error = at_bridge(longer)
    assert abs(again - float(exact["log_evidence"])) < 4.0 * np.hypot(error, 0.02)


@pytest.mark.parametrize("sampler", ["joint_split_hmc", "univariate_slice"])
@pytest.mark.parametrize(("route", "by"), [("two_ended", "bridge"), ("auto", "importance")])
def test_draws_of_hyperparameters_alone_suffice_for_gaussian_noise(sampler, route, by):
    draws = gp.sample(curve(), sampler, n_chains=2, n_draws=400, seed=2, execution=QUIET)
    run = gp.model_evidence(curve(), draws=draws, route=route, execution=QUIET)
    result = run.evidence.isel(estimator=0)
    value, error = float(result["log_evidence"]), float(result["standard_error"])
    assert str(result["estimator"].values) == by
    assert error < 0.1
    assert abs(value - exact_curve()) < 4.0 * error
    latents = gp.sample(curve(), n_chains=2, n_draws=400, seed=5, execution=QUIET)
    fit = float(latents["sample_stats/sum_log_likelihood"].mean())
    assert float(run.evidence["fit"]) == pytest.approx(
        fit, abs=0.6
    )  # log p(y | f), not log p(y | theta)
    assert abs(float(run["sample_stats/log_ratio"].mean()) - fit) > 5.0


def test_draws_of_a_regression_lend_a_density_to_sample_from():
    """Also of ten hyperparameters; where they lie beside the posterior, the estimate is as right.

    A bridge of these 600 draws, whose R-hat is 1.24, is 0.3 nats off.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 8))
    wavy = gp.GPModel(
        X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(40),
        gp.SquaredExponential(LENGTH, SIGNAL, ard=True), gp.Gaussian(LENGTH),
    )  # fmt: skip
    draws = gp.sample(wavy, n_chains=2, n_draws=300, seed=1, predictive=False, execution=QUIET)
    settings = {"predictive": False, "target_error": 0.05, "execution": QUIET}
    run = gp.model_evidence(wavy, draws=draws, **settings)
    assert "modes" not in run.children
    value, error = [float(run.evidence[name][0]) for name in ("log_evidence", "standard_error")]
    exact, its_error = -43.696, 0.007  # 200,000 draws of a mixture that is fitted without chains
    assert error < 0.06
    assert abs(value - exact) < 4.0 * np.hypot(error, its_error)
    theta = draws["posterior/theta"]
    draws["posterior"]["theta"] = 0.7 * theta + 0.3 * theta.max(("chain", "draw"))
    beside = gp.model_evidence(wavy, draws=draws, route="mixture", **settings).evidence
    apart = float(beside["log_evidence"][0]) - exact
    assert abs(apart) < 4.0 * np.hypot(float(beside["standard_error"][0]), its_error)


def test_draws_that_stand_at_few_places_leave_the_prior_to_sample_from():
    draws = gp.sample(curve(), n_chains=2, n_draws=100, seed=1, predictive=False, execution=QUIET)
    theta = draws["posterior/theta"]
    draws["posterior"]["theta"] = 0.0 * theta + theta.isel(draw=0)  # each chain never moved
    run = gp.model_evidence(
        curve(), draws=draws, route="mixture", n_draws=1000, predictive=False, execution=QUIET
    ).evidence.isel(estimator=0)
    apart = float(run["log_evidence"]) - exact_curve()
    assert abs(apart) < 4.0 * float(run["standard_error"]) < 1.0
    x = np.repeat([[1.0, 2.0, 3.0], [2.0, 4.0, 7.0]], 50, axis=0)
    mixture = Mixture.of_draws(x)
    np.testing.assert_array_equal(mixture.scales, np.eye(3)[None])
    np.testing.assert_array_equal(mixture.locations, np.zeros((1, 3)))


def test_what_is_no_use_is_refused():
    model = counts()
    draws = gp.sample(model, n_chains=1, n_draws=120, seed=1, execution=QUIET)
    without_latents = draws.map_over_datasets(
        lambda group: group.drop_vars("latent", errors="ignore")
    )
    refused = {
        "of another model": (
            gp.GPModel(model.X, model.y, gp.Matern32(LENGTH, SIGNAL), gp.Poisson(), 1.0), draws,
        ),
        "of other data": (
            gp.GPModel(model.X, model.y + 1, gp.SquaredExponential(LENGTH, SIGNAL), gp.Poisson(), 1.0),
            draws,
        ),
        "100 or more": (model, draws.isel(draw=slice(99))),
        "keep_latents=True": (model, without_latents),
        "what sample": (model, gp.approximate(model)),
    }  # fmt: skip
    for message, (of, given) in refused.items():
        with pytest.raises(InputError, match=message):
            gp.model_evidence(of, draws=given, execution=QUIET)
    fixed = gp.GPModel(model.X, model.y, gp.SquaredExponential(0.3, 1.0), gp.Poisson(), 1.0)
    with pytest.raises(
        InputError, match="no hyperparameter of the model is free; take log_evidence"
    ):
        gp.model_evidence(fixed)
    for wrong in (
        {"n_draws": 50}, {"route": "nest"}, {"target_error": 0.0}, {"n_replicates": 0},
        {"sampler": "joint_split_hmc"},
    ):  # fmt: skip
        with pytest.raises(InputError, match=r"allowed|did you mean|there are"):
            gp.model_evidence(model, **wrong)


def test_nested_annealing_agrees():
    for model, exact, error in (
        (curve(), exact_curve(), 0.0),
        (counts(), *at_bridge(own_run())),
    ):
        nested = gp.nested_annealing(model, n_draws=80, n_particles=24, seed=2, execution=QUIET)[
            "evidence"
        ]
        assert float(nested["standard_error"]) < 0.2
        distance = abs(float(nested["log_evidence"]) - exact)
        assert distance < 3.5 * np.hypot(float(nested["standard_error"]), error)
        assert not str(nested["alarm"].values)
        assert set(nested.data_vars) >= COMMON
        assert set(own_run().evidence.data_vars) >= COMMON
    many = gp.GPModel(
        np.ones((3, 5)), [1, 0, 2], gp.SquaredExponential(ard=True), gp.Poisson(), 0.0
    )
    with pytest.raises(InputError, match="allowed: a GPModel with 1 to 5"):
        gp.nested_annealing(many)
    with pytest.raises(InputError, match="n_draws is 1; allowed: 2 or more"):
        gp.nested_annealing(counts(), n_draws=1)


# -- runs ----------------------------------------------------------------------------------------


def test_workers_kills_and_replicates_do_not_change_a_bit(tmp_path, caplog):
    short = gp.JointSplitHMC(rounds=(20, 30, 20))
    settings = {"route": "ladder", "n_draws": 120, "target_error": 1e-6, "seed": 6}
    model = counts()

    def replicates(n, how):
        run = gp.model_evidence(model, short, n_replicates=n, execution=how, **settings)
        return run.evidence["replicate_log_evidence"].sel(estimator="bridge").values

    whole = replicates(2, QUIET)
    assert np.array_equal(replicates(2, Execution(workers=2, progress=False)), whole)
    assert replicates(1, QUIET)[0] == whole[0]
    how = Execution(state_dir=tmp_path, progress=False)
    assert np.array_equal(replicates(2, how), whole)
    lost = sorted(tmp_path.rglob("segment_00001.npz"))
    assert len(lost) >= 2
    for path in lost:
        path.unlink()
    with caplog.at_level(logging.WARNING):
        assert np.array_equal(replicates(2, how), whole)
    assert "other settings" not in caplog.text


def test_rounds_end_when_the_error_is_small_enough(monkeypatch):
    lengths, enough = [], Ends.enough

    def counted(self, target_error):
        lengths.append(self.log_ratio.shape[1])
        return enough(self, target_error)

    monkeypatch.setattr(Ends, "enough", counted)
    short = gp.JointSplitHMC(rounds=(20, 30, 20))
    settings = {"n_replicates": 1, "seed": 1, "execution": QUIET}
    gp.model_evidence(
        counts(), short, n_draws=450, target_error=1e-9, route="two_ended", **settings
    )
    assert lengths == [100, 200, 400, 450]
    lengths.clear()
    gp.model_evidence(counts(), short, n_draws=4800, target_error=10.0, **settings)
    assert lengths[-1] < 4800
    lengths.clear()
    monkeypatch.setattr(model_evidence, "USUAL_DRAWS", 100)
    gp.model_evidence(counts(), short, target_error=1e-9, route="two_ended", **settings)
    assert lengths == [100, 200, 400]  # more by itself, where no number was asked for


def test_little_overlap_rings_and_takes_the_ladder(monkeypatch):
    """Sites of a hundredth of their precision: the reference is far wider than the posterior."""
    weak = JointPath.__init__

    def far(self, model, stage):
        weak(
            self,
            model,
            stage._replace(precision=0.003 * stage.precision, shift=0.003 * stage.shift),
        )

    monkeypatch.setattr(joint_path.JointPath, "__init__", far)
    alone = gp.model_evidence(counts(), route="two_ended", n_draws=200, seed=1, execution=QUIET)
    assert "overlap" in str(alone.evidence["alarm"].values)
    given = model_evidence.default_sampler(counts())  # else the mixture comes first
    run = gp.model_evidence(counts(), given, n_draws=300, target_error=0.1, seed=1, execution=QUIET)
    assert run.evidence.attrs["route"] == "ladder"
    assert run.tempered.sizes["temperature"] > 3
    (a, ea), (b, eb) = at_bridge(own_run()), at_bridge(run)
    assert abs(a - b) < 4.0 * np.hypot(ea, eb)
    rows = run.tempered
    assert np.all(
        rows["acceptance_rate"].isel(temperature=slice(1, None)).mean(("chain", "draw")) > 0.5
    )
    assert np.all(np.diff(rows["beta"].values) > 0.0)


def test_given_draws_that_are_too_few_are_followed_by_new_chains(caplog):
    """Up to the number that is allowed; the estimate is that of longer chains."""
    settings = {"n_chains": 2, "n_draws": 100, "predictive": False}
    few = gp.sample(counts(), gp.JointSplitHMC(), seed=1, execution=QUIET, **settings)
    short, longer = (
        gp.model_evidence(
            counts(), draws=few, n_draws=n, target_error=1e-6, seed=2, execution=QUIET
        )
        for n in (100, 800)
    )
    assert "other settings" not in caplog.text
    for run, n_draws in ((short, 100), (longer, 800)):
        assert run["posterior"].sizes["draw"] == n_draws
        assert (float(run["evidence/n_gradient"]) > 0.0) == (n_draws > 100)
    (a, ea), (b, eb), (c, ec) = (at_bridge(run) for run in (short, longer, own_run()))
    sizes = [float(run["evidence/effective_size"]) for run in (short, longer)]
    assert sizes[1] > 2.0 * sizes[0]
    assert abs(a - b) < 4.0 * np.hypot(ea, eb)
    assert abs(b - c) < 4.0 * np.hypot(eb, ec)


def test_draws_of_times_known_to_an_interval_are_of_their_model():
    """Upper ends are nan where there is none, and nan is no other end than nan."""
    x, until = np.linspace(0.0, 1.0, 6), np.array([np.nan, 3.0, 4.0, np.nan, 5.0, 3.0])

    def model(until):
        return gp.GPModel(x, 1.0 + x, gp.SquaredExponential(), gp.Survival(until=until))

    draws = gp.sample(model(until), n_chains=1, n_draws=5, seed=1, execution=QUIET)
    _require_same(draws, model(until))
    with pytest.raises(InputError, match="they are of another until"):
        _require_same(draws, model(until + 1.0))


def test_classes_agree_with_the_average_of_their_fits():
    """By chains, as the mixture is of one latent function; EP, corrected by draws, is another way."""
    rng = np.random.default_rng(3)
    places = rng.standard_normal((14, 2))
    words = np.array(["a", "b", "c"])[(places[:, 0] > 0).astype(int) + (places[:, 1] > 0.5)]
    half = gp.Hyperprior("norm", {"loc": 0.0, "scale": 0.5})
    model = gp.GPModel(places, words, gp.Matern32(half, half), gp.Softmax())
    run = gp.model_evidence(model, seed=1)
    value = run.evidence["log_evidence"].values[0]
    error = run.evidence["standard_error"].values[0]
    assert run.evidence.attrs["route"] != "mixture"
    other, its_error = gp.approximate(model, integrated=True).checked_evidence
    assert abs(value - other) < 4.0 * np.hypot(error, its_error) + 0.02
    with pytest.raises(InputError, match="found several latent functions; allowed: one"):
        gp.model_evidence(model, route="mixture")
