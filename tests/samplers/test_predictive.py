"""Groups that ArviZ's functions ask for, against scipy and closed forms."""

from __future__ import annotations

import arviz_stats
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from scipy import stats

import gpmcflow as gp
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.samplers import predictive as module
from gpmcflow.samplers.predictive import LatentPredictive, ModelPredictive, predictive_groups
from tests.arviz_reads import arviz_reads

CHAINS, DRAWS = 2, 30


def _counts(n):
    return np.random.default_rng(3).poisson(2.0, n).astype(float)


def _negative_binomial(y, eta, p):
    return stats.nbinom.logpmf(y, p["size"], p["size"] / (p["size"] + np.exp(eta)))


def _student_t(y, eta, p):
    return stats.t.logpdf(y, p["df"], eta, p["scale"])


def _gaussian(y, eta, p):
    return stats.norm.logpdf(y, eta, p["noise_sd"])


# likelihood, structure, whether draws hold latents, mean, log density by scipy
CASES = {
    "counts": (gp.Poisson(), "auto", True, lambda y, eta, p: stats.poisson.logpmf(y, np.exp(eta))),
    "spread counts": (gp.NegativeBinomial(), "auto", True, _negative_binomial),
    "heavy tails": (gp.StudentT(), "auto", True, _student_t),
    "labels": (gp.Probit(), "auto", True, lambda y, eta, p: stats.norm.logcdf(y * eta)),
    "regression": (gp.Gaussian(), "auto", True, _gaussian),
    "regression, f integrated out": (gp.Gaussian(), "auto", False, _gaussian),
    "basis": (gp.NegativeBinomial(), gp.BasisFunctions(12), True, _negative_binomial),
    "basis regression, w integrated out": (gp.Gaussian(), gp.BasisFunctions(12), False, _gaussian),
}


def _model(likelihood, structure="auto", n=12):
    x, y = np.linspace(0.0, 3.0, n), _counts(n)
    if likelihood.binary:
        y = np.where(y > 1.0, 1.0, -1.0)
    mean = gp.Hyperprior("norm", {"loc": 0.3, "scale": 0.5})
    return gp.GPModel(x, y, gp.Matern32(), likelihood, mean=mean, structure=structure)


def _draws(model, has_latents):
    rng = np.random.default_rng(5)
    theta = np.array([[model.draw_prior(rng) for _ in range(DRAWS)] for _ in range(CHAINS)])
    latents = 0.5 * rng.standard_normal((CHAINS, DRAWS, model.n_latents))
    return {"theta": theta} | ({model.latent_variable: latents} if has_latents else {})


@pytest.mark.parametrize("name", CASES)
def test_pointwise_log_likelihoods_are_those_of_scipy(name):
    likelihood, structure, has_latents, log_density = CASES[name]
    model = _model(likelihood, structure)
    draws = _draws(model, has_latents)
    groups = predictive_groups(ModelPredictive(model, has_latents), draws, 1, ("t",))
    eta = groups["posterior_predictive"]["eta"].values
    parameters = {
        name: np.array(
            [[model.natural(theta)[name] for theta in chain] for chain in draws["theta"]]
        )
        for name in model.natural(model.prior_median())
    }
    if has_latents and not model.basis:
        np.testing.assert_allclose(eta, draws["latent"] + parameters["mean"][..., None])
    wanted = log_density(model.y, eta, {k: v[..., None] for k, v in parameters.items()})
    np.testing.assert_allclose(groups["log_likelihood"]["y"].values, wanted, atol=1e-9)
    theta = draws["theta"][1, 7]
    if has_latents:
        whole = float(model.log_likelihood(draws[model.latent_variable][1, 7], theta))
        assert groups["log_likelihood"]["y"].values[1, 7].sum() == pytest.approx(whole, abs=1e-9)
    coordinates = dict(zip(model.names, theta, strict=True))
    for own, prior in zip(model.names, model.parameters.free_priors, strict=True):
        found = float(groups["log_prior"][own][1, 7])
        assert found == pytest.approx(prior.log_density(coordinates[own])), own


def test_leave_one_out_is_that_of_pointwise_values_and_not_of_their_sum():
    """Right by scipy from the draws; the sum had n = 1 and no standard error."""
    model = _model(gp.Poisson(), n=10)
    tree = gp.sample(model, gp.SurrogateSlice(), n_chains=2, n_draws=50, n_warmup=20)
    values = stats.poisson.logpmf(model.y, np.exp(tree["posterior_predictive/eta"].values))
    wanted = tree.copy()
    wanted["log_likelihood"] = xr.DataTree(xr.Dataset({"y": (("chain", "draw", "case"), values)}))
    ours, theirs = (arviz_stats.loo(each, pointwise=True) for each in (tree, wanted))
    assert ours.n_data_points == 10
    np.testing.assert_allclose(ours.elpd_i, theirs.elpd_i, atol=1e-8)
    np.testing.assert_allclose(ours.se, theirs.se, atol=1e-8)
    np.testing.assert_allclose(
        tree["log_likelihood/y"].sum("case"), tree["sample_stats/sum_log_likelihood"], atol=1e-9
    )
    assert "log_likelihood" not in tree["sample_stats"]
    bare = gp.sample(model, gp.SurrogateSlice(), n_chains=1, n_draws=4, predictive=False)
    np.testing.assert_array_equal(bare["posterior/theta"][0, :1].shape, (1, 3))
    with pytest.raises(TypeError, match="log likelihood not found"):
        arviz_stats.loo(bare)


@pytest.mark.parametrize("structure", ["auto", gp.BasisFunctions(8)])
def test_latents_that_were_integrated_out_come_from_their_posterior(structure):
    """Mean and variance of eta over 1000 draws at one theta, beside Gaussian conditioning."""
    x, y = np.array([0.0, 0.7, 1.5, 2.4]), np.array([0.3, 1.1, -0.4, 0.2])
    noise = gp.Hyperprior("norm", {"loc": np.log(0.6), "scale": 0.1})
    model = gp.GPModel(
        x, y, gp.SquaredExponential(0.8, 1.2), gp.Gaussian(noise), mean=0.25, structure=structure
    )
    theta = np.log([0.6])
    draws = {"theta": np.broadcast_to(theta, (2, 500, 1))}
    eta = predictive_groups(ModelPredictive(model, False), draws, 1, ())["posterior_predictive"][
        "eta"
    ].values.reshape(-1, 4)
    if model.basis:
        design = model.basis_design.matrix() * model.basis.scales(model.full(theta))[0]
        K = design @ design.T
    else:
        K = 1.44 * np.exp(-0.5 * np.subtract.outer(x, x) ** 2 / 0.64) + 1.44e-6 * np.eye(4)
    gain = K @ np.linalg.inv(K + 0.36 * np.eye(4))
    mean, covariance = 0.25 + gain @ (y - 0.25), K - gain @ K
    sd = np.sqrt(np.diag(covariance))
    assert np.abs((eta.mean(0) - mean) / sd).max() * np.sqrt(1000) < 4.5
    assert np.abs(np.cov(eta.T) - covariance).max() < 4.5 * np.sqrt(2 / 1000) * sd.max() ** 2


def test_leave_one_out_of_a_regression_is_the_closed_form():
    """At one theta: sum of log N(y_i - a_i / C^-1_ii, 1 / C^-1_ii), and its levels."""
    x, n, sd = np.linspace(0.0, 3.0, 12), 12, 1.0
    y = np.sin(x) + np.random.default_rng(2).standard_normal(n)
    noise = gp.Hyperprior("norm", {"loc": np.log(sd), "scale": 0.1})
    model = gp.GPModel(x, y, gp.SquaredExponential(2.0, 1.0), gp.Gaussian(noise))
    draws = {"theta": np.full((2, 500, 1), np.log(sd))}
    groups = predictive_groups(ModelPredictive(model, False), draws, 3, ())
    tree = xr.DataTree.from_dict({k: groups[k] for k in ("log_likelihood", "posterior_predictive")})
    tree["observed_data"] = xr.DataTree(xr.Dataset({"y": ("case", y)}, {"case": np.arange(n)}))
    any_draws = np.random.default_rng(0).standard_normal(
        (2, 500)
    )  # for the size of the draws alone
    tree["posterior"] = xr.DataTree(xr.Dataset({"a": (("chain", "draw"), any_draws)}))
    K = np.exp(-0.5 * np.subtract.outer(x, x) ** 2 / 4.0)
    inverse = np.linalg.inv(K + sd**2 * np.eye(n))
    variance = 1.0 / np.diag(inverse)
    left_out = stats.norm(y - variance * (inverse @ y), np.sqrt(variance))
    found = arviz_stats.loo(tree, reff=1.0)
    assert found.elpd == pytest.approx(left_out.logpdf(y).sum(), abs=0.2)
    np.testing.assert_allclose(arviz_stats.loo_pit(tree)["y"], left_out.cdf(y), atol=0.07)


def test_latents_at_fixed_hyperparameters_have_their_own_prior():
    rng = np.random.default_rng(1)
    design, L = rng.standard_normal((9, 3)), np.linalg.cholesky(np.diag([1.0, 2.0, 0.5]) + 0.2)
    model = LatentGaussianModel(
        gp.Logistic(), np.where(rng.random(9) > 0.5, 1.0, -1.0), np.array([0.1, -0.2, 0.3]), L,
        design=design, offset=0.4,
    )  # fmt: skip
    latent = rng.standard_normal((2, 5, 3))
    groups = predictive_groups(LatentPredictive(model), {"latent": latent}, 1, ())
    eta = latent @ design.T + 0.4
    wanted = -np.log1p(np.exp(-model.y * eta))
    np.testing.assert_allclose(groups["log_likelihood"]["y"], wanted, atol=1e-12)
    prior = stats.multivariate_normal(model.mean, L @ L.T)
    np.testing.assert_allclose(groups["log_prior"]["latent"], prior.logpdf(latent), atol=1e-12)
    tree = gp.sample(model, gp.HMC(), n_chains=2, n_draws=30, n_warmup=5)
    np.testing.assert_allclose(
        tree["log_likelihood/y"].sum("case"), tree["sample_stats/sum_log_likelihood"], rtol=1e-9
    )


def test_large_arrays_keep_evenly_spaced_draws_and_lazy_ones_are_the_same(monkeypatch):
    model = _model(gp.Poisson())
    draws = _draws(model, True)
    monkeypatch.setattr(module, "MOST_NUMBERS", 12 * 30)
    monkeypatch.setattr(module, "LEAST_DRAWS", 10)
    source = ModelPredictive(model, True)
    groups = predictive_groups(source, draws, 1, ())
    np.testing.assert_array_equal(groups["log_likelihood"]["draw"], np.arange(0, DRAWS, 2))
    at = draws["latent"][1, 6] + draws["theta"][1, 6, list(model.names).index("mean")]
    np.testing.assert_allclose(
        groups["log_likelihood"]["y"].sel(chain=1, draw=6),
        stats.poisson.logpmf(model.y, np.exp(at)),
    )
    chunked = {name: da.from_array(values, chunks=(1, 7, -1)) for name, values in draws.items()}
    lazy = predictive_groups(source, chunked, 1, ())
    assert lazy["log_likelihood"]["y"].chunks
    for name, group in groups.items():
        twice = [lazy[name].compute(scheduler="synchronous") for _ in range(2)]
        for values in twice:
            xr.testing.assert_identical(values, group)


def test_energy_is_that_of_the_state_that_is_kept():
    """H + log density is the kinetic energy, d / 2 on average for a mass of 1."""
    model = _model(gp.Poisson(), n=8).at([0.0, 0.0, 0.3])
    for sampler in (gp.HMC(0.6, 3), gp.PreconditionedSplitHMC(0.6, 3), gp.SplitHMC(0.4, 3)):
        stats_ = gp.sample(model, sampler, n_chains=8, n_draws=60, n_warmup=10).sample_stats
        kinetic = (stats_["energy"] + stats_["lp"]).values
        assert kinetic.min() > 0.0
        assert kinetic.mean() == pytest.approx(4.0, abs=0.4), sampler
    assert "energy" not in gp.sample(model, gp.EllipticalSlice(), n_draws=3).sample_stats
    for sampler, source in (
        (gp.RMHMC(0.5, 3), model),
        (gp.JointSplitHMC(rounds=(20, 30)), _model(gp.Poisson(), n=8)),
    ):
        tree = gp.sample(source, sampler, n_chains=2, n_draws=40, n_warmup=5)
        energy = tree["sample_stats/energy"].values
        assert np.isfinite(energy).all()
        assert 0.1 < float(arviz_stats.bfmi(tree)["energy"].mean()) < 3.0, sampler


def _poisson(y, eta):
    return stats.poisson.logpmf(y, np.exp(eta))


def test_arviz_reads_a_file_of_each_kind(tmp_path):
    """Leave-one-out by pointwise values of scipy, sensitivity to priors, and the plots."""
    counts, pilot = _model(gp.Poisson()), gp.JointSplitHMC(rounds=(20, 30))
    runs, x = {"n_chains": 2, "n_draws": 40}, np.linspace(0.0, 3.0, 12)
    basis = _model(gp.Poisson(), gp.BasisFunctions(20, boundary=3.0))
    K = gp.Matern32(1.0, 1.0)(x) + 1e-6 * np.eye(12)
    latent = LatentGaussianModel(gp.Poisson(), counts.y, np.zeros(12), np.linalg.cholesky(K))
    trees = {
        "dense": gp.sample(counts, pilot, **runs),
        "basis": gp.sample(basis, pilot, **runs),
        "f integrated out": gp.sample(
            _model(gp.Gaussian()), gp.UnivariateSlice(), n_warmup=10, **runs
        ),
        "latent Gaussian": gp.sample(latent, **runs),
        "evidence": gp.model_evidence(counts, n_draws=500),
    }
    for name, tree in trees.items():
        gp.write_results(tree, tmp_path / "file.nc")
        tree = trees[name] = gp.load_results(tmp_path / "file.nc")
        if name == "latent Gaussian":
            arviz_reads(tree, var_names=["latent"], coords={"latent_dim": [0, 5]})
        else:
            parameters = {"var_names": ["length_scale", "signal_sd"]}
            arviz_reads(tree, **parameters)
            kept = tree["posterior"].to_dataset().sel(draw=tree["log_likelihood"]["draw"])
            at_these = tree.copy()
            at_these["posterior"] = xr.DataTree(kept)
            table = arviz_stats.psense_summary(at_these, **parameters)
            assert table[["prior", "likelihood"]].notna().all(axis=None), name
        if name == "f integrated out":
            continue
        draws = tree["log_likelihood"]["draw"]
        eta = tree["posterior_predictive/eta"].sel(draw=draws).values
        wanted = tree.copy()
        wanted["log_likelihood"] = xr.DataTree(
            xr.Dataset({"y": (("chain", "draw", "case"), _poisson(counts.y, eta))})
        )
        ours, theirs = (arviz_stats.loo(each, pointwise=True) for each in (tree, wanted))
        np.testing.assert_allclose(ours.elpd_i, theirs.elpd_i, atol=1e-8, err_msg=name)
        assert ours.elpd == pytest.approx(theirs.elpd, abs=1e-8), name
    ranking = arviz_stats.compare(trees)
    assert set(ranking.index) == set(trees)
