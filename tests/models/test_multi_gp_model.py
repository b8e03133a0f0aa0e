"""Models of several latent functions: densities, Laplace's method, and limits with known answers."""

from __future__ import annotations

import numpy as np
import pytest

import gpmcflow as gp
from gpmcflow.approximations import multi_laplace as laplace_of_functions
from gpmcflow.approximations.conditional import latent_predictor
from gpmcflow.approximations.frozen_sites import frozen_sites
from gpmcflow.approximations.leave_one_out import of_functions
from gpmcflow.approximations.multi_gradient import laplace_gradient
from gpmcflow.approximations.multi_laplace import multi_laplace
from gpmcflow.approximations.multi_maximum import maximise_multi_evidence
from gpmcflow.approximations.multi_prediction import multi_predictor
from gpmcflow.errors import InputError
from gpmcflow.models.joint_density import JointDensity

HALF = gp.Hyperprior("norm", {"loc": 0.0, "scale": 0.5})
RNG = np.random.default_rng(0)
GRID = np.array([[a, b] for a in range(4) for b in range(3)], dtype=float)
PLACES = RNG.standard_normal((12, 2))
CLASSES = 1.0 + np.arange(12) % 3
VARYING = gp.HeteroscedasticGaussian()
MODELS = {
    "classes": lambda: gp.GPModel(PLACES, CLASSES, gp.Matern32(HALF, HALF), gp.Softmax()),
    "classes by weights": lambda: gp.GPModel(
        PLACES, CLASSES, gp.Linear(HALF) + gp.Constant(HALF), gp.Softmax()
    ),
    "noise": lambda: gp.GPModel(
        PLACES[:, 0], CLASSES,
        {"mean": gp.Matern32(HALF, HALF) + gp.Linear(HALF), "log_sd": gp.SquaredExponential(HALF, HALF)},
        VARYING,
    ),
    "noise by weights": lambda: gp.GPModel(
        PLACES[:, 0], CLASSES, {"mean": "matern32()", "log_sd": "linear()"}, VARYING
    ),
    "noise on a grid": lambda: gp.GPModel(
        GRID, CLASSES, {"mean": "matern32(x1) * matern32(x2)", "log_sd": "matern32()"}, VARYING
    ),
    "size": lambda: gp.GPModel(
        PLACES[:, 0], CLASSES - 1.0, {"mean": gp.Matern32(HALF, HALF), "size": gp.Linear(HALF)},
        gp.NegativeBinomial(exposure=np.linspace(0.5, 2.0, 12)),
    ),
    "zeros, and a size for all": lambda: gp.GPModel(
        PLACES[:, 0], CLASSES - 1.0, {"mean": "matern32()", "probability": "matern32()"},
        gp.ZeroInflated(gp.NegativeBinomial()),
    ),
    "tails and scale": lambda: gp.GPModel(
        PLACES[:, 0], CLASSES, {"mean": "linear()", "scale": "matern32()", "df": "matern32()"},
        gp.StudentT(),
    ),
    "one length scale": lambda: gp.GPModel(
        PLACES[:, 0], CLASSES,
        {
            "mean": gp.Matern32(gp.Parameter("range", HALF), HALF),
            "log_sd": gp.Matern32(gp.Parameter("range", HALF), HALF),
        },
        VARYING,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_the_density_is_the_slow_sum_and_its_gradient_that_of_differences(name):
    rng, model = np.random.default_rng(3), MODELS[name]()
    density = JointDensity(model, frozen_sites(model, model.prior_median()))
    x, z = 0.4 * rng.standard_normal(model.dim), 0.4 * rng.standard_normal(density.n_z)
    at = density.evaluate(x, z)
    slow = model.log_density(at.theta, at.latents) - model.log_prior(at.theta)
    assert at.complete == pytest.approx(slow, abs=1e-8)
    for k, step in enumerate(1e-5 * np.eye(model.dim)):
        by_difference = (density.value(x + step, z) - density.value(x - step, z)) / 2e-5
        assert at.slope_x[k] == pytest.approx(by_difference, rel=1e-5, abs=1e-5)
    for k in rng.choice(density.n_z, 5, replace=False):
        step = np.zeros(density.n_z)
        step[k] = 1e-5
        by_difference = (density.value(x, z + step) - density.value(x, z - step)) / 2e-5
        assert at.slope_z[k] == pytest.approx(by_difference, rel=1e-5, abs=1e-5)


def test_a_covariance_that_functions_share_is_factorised_once():
    """One dense part for all contrasts; of functions with covariances of their own, one for each."""
    model = MODELS["classes"]()
    density = JointDensity(model, frozen_sites(model, model.prior_median()))
    (part,) = density.structure.parts
    assert part.n_functions == 2
    assert density.evaluate(np.zeros(model.dim), np.zeros(density.n_z)).latents.shape == (24,)
    model = MODELS["noise"]()
    density = JointDensity(model, frozen_sites(model, model.prior_median()))
    assert [part.n_functions for part in density.structure.parts] == [1, 1]


@pytest.mark.parametrize("name", ["classes", "noise by weights"])
def test_latents_give_back_their_coordinates(name):
    """z drawn given latents leads to these latents."""
    rng, model = np.random.default_rng(4), MODELS[name]()
    density = JointDensity(model, frozen_sites(model, model.prior_median()))
    theta = model.draw_prior(rng, 0.5)
    latents, _ = model.simulate(rng, theta)
    x = model.parameters.to_normal(theta)
    z = density.augment(rng, x, latents)
    assert density.evaluate(x, z).latents == pytest.approx(latents, abs=1e-6)


def test_parameters_are_named_by_function_and_shared_by_name():
    assert MODELS["classes"]().names == ("length_scale", "signal_sd")
    names = MODELS["noise"]().names
    assert names[:2] == ("mean.matern32.length_scale", "mean.matern32.signal_sd")
    assert names[-1] == "log_sd.mean"
    assert MODELS["one length scale"]().names.count("range") == 1


def test_two_classes_have_the_laplace_evidence_of_labels():
    """Softmax of two classes is logistic, of an amplitude sqrt(2) times as large."""
    x, y = np.linspace(0.0, 1.0, 9), np.array([1.0, 1, 2, 1, 2, 2, 1, 2, 2])
    classes = gp.GPModel(x, y, gp.SquaredExponential(0.4, 1.5, name="k"), gp.Softmax())
    labels = gp.GPModel(
        x,
        np.where(y == 1.0, 1.0, -1.0),
        gp.SquaredExponential(0.4, 1.5 * np.sqrt(2.0)),
        gp.Logistic(),
    )
    own, known = multi_laplace(classes, np.empty(0)), gp.laplace(labels.at())
    assert own.log_evidence == pytest.approx(known.log_evidence, abs=1e-6)


def test_two_classes_have_the_posterior_of_labels():
    """Densities of hyperparameters and latents agree at every point: log signal sd is log(2)/2 apart."""
    shift = 0.5 * np.log(2.0)
    of_labels = gp.Hyperprior("norm", {"loc": shift, "scale": 0.5})
    x, y = PLACES[:, 0], 1.0 + np.arange(12) % 2
    classes = gp.GPModel(x, y, gp.Matern32(HALF, HALF), gp.Softmax())
    labels = gp.GPModel(x, 3.0 - 2.0 * y, gp.Matern32(HALF, of_labels), gp.Logistic())
    rng = np.random.default_rng(8)
    for _ in range(3):
        theta, latents = rng.standard_normal(2), rng.standard_normal(12)
        moved = labels.log_density(theta + np.array([0.0, shift]), np.sqrt(2.0) * latents)
        assert classes.log_density(theta, latents) == pytest.approx(moved + 12.0 * shift, abs=1e-8)


@pytest.mark.parametrize("semidefinite", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_slopes_of_laplace_s_evidence_are_those_of_differences(name, semidefinite, monkeypatch):
    """Also where the information is not minus the Hessian, so that the mode moves by another matrix."""
    monkeypatch.setattr(laplace_of_functions, "TOLERANCE", 1e-12)
    rng, model = np.random.default_rng(0), MODELS[name]()
    theta = model.prior_median() + 0.1 * rng.standard_normal(model.dim)
    fit = multi_laplace(model, theta, semidefinite=semidefinite)

    def value(at):
        own = multi_laplace(model, at, fit.whitened_mean, semidefinite=semidefinite)
        return own.log_evidence

    def difference(step):
        return (value(theta + step) - value(theta - step)) / (2.0 * np.abs(step).sum())

    steps = 1e-2 * np.eye(model.dim)
    slopes = [(4.0 * difference(step) - difference(2.0 * step)) / 3.0 for step in steps]
    assert laplace_gradient(fit) == pytest.approx(slopes, rel=2e-4, abs=5e-3)


@pytest.mark.parametrize("name", MODELS)
def test_the_search_ends_where_the_evidence_is_flat(name):
    model = MODELS[name]()
    best = maximise_multi_evidence(model, "laplace")
    best = multi_laplace(model, best.theta, semidefinite=True)
    inside = np.abs(model.parameters.to_normal(best.theta)) < 2.99
    assert laplace_gradient(best)[inside] == pytest.approx(0.0, abs=0.02)


def test_the_order_of_the_classes_does_not_matter():
    """Swapping names of classes leaves evidence and probabilities, up to the swap."""
    words = np.array(["a", "b", "c"])[np.arange(12) % 3 * np.array([0, 1] * 6) % 3]
    covariance = gp.SquaredExponential(0.8, 1.3)
    orders = [("a", "b", "c"), ("c", "a", "b")]
    fits = [
        gp.approximate(gp.GPModel(PLACES, words, covariance, gp.Softmax(order))) for order in orders
    ]
    assert fits[0].log_evidence == pytest.approx(fits[1].log_evidence, abs=1e-8)
    first, second = (gp.predict(fit, PLACES[:2] + 0.1).response_probability for fit in fits)
    for word in "abc":  # averages over 400 draws of other contrasts
        assert first.sel({"class": word}).values == pytest.approx(
            second.sel({"class": word}).values, abs=0.02
        )


def test_noise_that_hardly_varies_is_gaussian():
    """With log sd fixed but for an amplitude of 1e-5, the evidence is that of a Gaussian likelihood."""
    x = np.linspace(0.0, 1.0, 8)
    y = np.sin(5.0 * x)
    covariance = {"mean": gp.Matern52(0.5, 1.0), "log_sd": gp.Matern52(0.5, 1e-5)}
    mean = {"mean": 0.2, "log_sd": float(np.log(0.3))}
    varying = gp.GPModel(x, y, covariance, VARYING, mean, 1e-9)
    plain = gp.GPModel(x, y, gp.Matern52(0.5, 1.0), gp.Gaussian(0.3), 0.2, 1e-9)
    assert gp.approximate(varying).log_evidence == pytest.approx(
        gp.approximate(plain).log_evidence, abs=1e-6
    )
    near = [0.11, 0.6]
    own, known = (gp.predict(gp.approximate(m), near) for m in (varying, plain))
    assert own.response_mean.values == pytest.approx(known.response_mean.values, abs=0.02)
    assert own.response_sd.values == pytest.approx(known.response_sd.values, rel=0.05)


@pytest.mark.parametrize(
    ("likelihood", "second", "y"),
    [
        (VARYING, "log_sd", [0.5, -1.0]),
        (gp.NegativeBinomial(), "size", [3.0, 0.0]),
        (gp.ZeroInflated(gp.Poisson()), "probability", [3.0, 0.0]),
        (gp.StudentT(df=4.0), "scale", [0.5, -1.0]),
    ],
    ids=["noise", "size", "zeros", "scale"],
)
def test_the_evidence_at_fixed_hyperparameters_is_that_of_quadrature(likelihood, second, y):
    """Two cases, two functions: four latents by a product of Gauss and Hermite's nodes."""
    X, y = np.array([0.0, 0.7]), np.array(y)
    covariance = {"mean": gp.Matern32(0.8, 1.1), second: gp.Matern32(HALF, 0.6)}
    model = gp.GPModel(X, y, covariance, likelihood, {"mean": 0.0, second: -0.3})
    x = np.array([0.2])
    theta = model.parameters.normal.theta(x)[0]
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    grid = np.stack(np.meshgrid(*[nodes] * 4, indexing="ij"), -1).reshape(-1, 4)
    logs = np.log(np.stack(np.meshgrid(*[weights / weights.sum()] * 4, indexing="ij"), -1)).sum(-1)
    own = zip(model.parts, model.thetas_of_parts(theta), strict=True)
    L = [part.cholesky(part.full(at)) for part, at in own]
    eta = np.stack([grid[:, :2] @ L[0].T, grid[:, 2:] @ L[1].T - 0.3], axis=1)
    whole = model.likelihood_at(model.full(theta))
    exact = np.logaddexp.reduce(whole.log_density(eta, y) + logs.ravel())
    density = JointDensity(model, frozen_sites(model, theta))
    rng = np.random.default_rng(5)
    rest = np.array([density.value(x, rng.standard_normal(density.n_z)) for _ in range(4000)])
    estimate = density.log_constant() + np.logaddexp.reduce(rest) - np.log(len(rest))
    error = np.exp(rest - rest.max()).std() / np.exp(rest - rest.max()).mean() / np.sqrt(len(rest))
    assert abs(estimate - exact) < 4.0 * error < 0.2


@pytest.mark.parametrize(
    ("likelihood", "name"),
    [
        (gp.NegativeBinomial(size=2.5), "size"),
        (gp.ZeroInflated(gp.Poisson(), probability=0.3), "probability"),
        (gp.Gamma(shape=2.5), "shape"),
        (gp.StudentT(scale=0.7, df=4.0), "scale"),
    ],
)
def test_a_parameter_that_hardly_varies_is_a_number(likelihood, name):
    """With an amplitude of 1e-5 Laplace's evidence and predictions are those of the plain likelihood."""
    x, y = np.linspace(0.0, 1.0, 8), np.array([1.0, 2, 1, 3, 5, 4, 9, 2])
    covariance = {"mean": gp.Matern52(0.5, 1.0), name: gp.Matern52(0.5, 1e-5)}
    varying = gp.GPModel(x, y, covariance, likelihood, 0.2, 1e-9)
    plain = gp.GPModel(x, y, gp.Matern52(0.5, 1.0), likelihood, 0.2, 1e-9)
    own, known = gp.approximate(varying), gp.approximate(plain, method="laplace")
    assert own.log_evidence == pytest.approx(known.log_evidence, abs=1e-6)
    near = [0.11, 0.6]
    first, second = (gp.predict(fit, near) for fit in (own, known))
    assert first.response_mean.values == pytest.approx(second.response_mean.values, rel=0.05)
    quantiles = [fit.response_quantile.values for fit in (first, second)]
    assert np.abs(quantiles[0] - quantiles[1]).max() <= 1.0  # a count


def test_draws_with_a_parameter_as_a_function_serve_every_verb(tmp_path):
    x = np.linspace(-1.0, 1.0, 15)
    y = np.random.default_rng(0).poisson(np.exp(1.0 + x)).astype(float)
    frame = {"age": x, "visits": y, "years": np.full(15, 2.0)}
    covariance = {"mean": "matern32(age)", "size": "linear(age)"}
    model = gp.GPModel.from_frame(
        frame, y="visits", covariance=covariance, likelihood="negative_binomial", exposure="years"
    )
    assert model.mean["mean"].parameters["loc"] == pytest.approx(np.log(y.mean() / 2.0))
    assert "size.sd" in model.names
    draws = gp.sample(model, gp.JointSplitHMC(rounds=(20, 40)), n_draws=60, n_chains=1)
    new = {"age": [0.0, 0.5]}
    prediction = gp.predict(draws, new)
    assert prediction["function"].values.tolist() == ["mean", "size"]
    twice = gp.predict(draws, new, exposure=[1.0, 2.0])
    ratio = (twice / prediction)["response_mean"].values
    assert ratio == pytest.approx([1.0, 2.0])
    draws.to_netcdf(tmp_path / "draws.nc")
    assert gp.predict(gp.load_results(tmp_path / "draws.nc"), new).equals(prediction)
    assert np.isfinite(gp.leave_one_out(draws).attrs["elpd"])
    assert gp.simulate(draws, n_draws=2).posterior_predictive["y"].shape == (1, 2, 15)
    effect = gp.effects(draws, "age", of="size", kind="latent", n_draws=20)
    assert np.isfinite(effect["mean"].values).all()
    apart = gp.contrast(draws, {"age": [0.0]}, {"age": [1.0]})
    assert float(apart["low"][0]) <= float(apart["high"][0])
    with pytest.raises(InputError, match="of"):
        gp.draws_at(draws, new, kind="latent")


@pytest.mark.parametrize("name", ["classes by weights", "classes"])
def test_sites_of_separated_classes_are_near_the_posterior(name):
    """Far out in the amplitude the information at the mode is nearly nothing, and sites lose the mode.

    The evidence of the sites at their centre is within some nats of Laplace's.
    """
    x = np.random.default_rng(2).normal(size=(60, 2))
    y = 1.0 + np.argmax(x @ np.array([[2.0, -1.0, -1.0], [0.0, 1.7, -1.7]]), axis=1)
    linear = gp.Linear(HALF) + gp.Constant(HALF)
    covariance = linear if name == "classes by weights" else gp.SquaredExponential(1.5, HALF)
    model = gp.GPModel(x, y, covariance, gp.Softmax())
    for far in (0.0, 2.0, 4.0, 6.0, 8.0):
        at = np.full(model.dim, far)
        theta = model.parameters.normal.theta(at)[0]
        density = JointDensity(model, frozen_sites(model, theta))
        centre = density.value(at, np.zeros(density.n_z)) + density.log_constant()
        assert centre > multi_laplace(model, theta).log_evidence - 8.0


def test_a_case_left_out_is_predicted_from_the_latents_of_the_others():
    """By partition of each function's covariance, case by case; draws at one theta at once."""
    model = gp.GPModel(
        PLACES[:5, 0], CLASSES[:5], {"mean": gp.Matern32(0.8, 1.1), "log_sd": gp.Matern52(1.2, HALF)},
        VARYING, {"mean": 0.3, "log_sd": -0.4},
    )  # fmt: skip
    theta, rng = np.array([0.2]), np.random.default_rng(8)
    latents = np.stack([model.simulate(rng, theta)[0] for _ in range(2)])
    found = of_functions(model, theta, latents)
    thetas = model.thetas_of_parts(theta)
    K = [part.covariance_matrix(at) for part, at in zip(model.parts, thetas, strict=True)]
    for draw, f in enumerate(latents.reshape(2, 2, 5)):
        for i in range(5):
            rest = np.arange(5) != i
            mean, variance = np.empty((2, 1)), np.empty((2, 1))
            for c, shift in enumerate((0.3, -0.4)):
                weights = np.linalg.solve(K[c][np.ix_(rest, rest)], K[c][rest, i])
                mean[c] = shift + weights @ f[c][rest]
                variance[c] = K[c][i, i] - weights @ K[c][rest, i]
            known = VARYING.log_mean(model.y[[i]], mean, variance)[0]
            assert found[draw, i] == pytest.approx(known, abs=1e-7)


def test_predictions_of_functions_are_those_of_each_alone():
    """Given latents, each function is predicted by its own covariance; shared ones are factorised once."""
    model, rng = MODELS["classes"](), np.random.default_rng(9)
    theta = model.draw_prior(rng, 0.5)
    latents = np.stack([model.simulate(rng, theta)[0] for _ in range(3)])
    X_new = PLACES[:4] + 0.3
    together = multi_predictor(model, theta, latents, {}).moments(X_new)
    for c, (part, at) in enumerate(zip(model.parts, model.thetas_of_parts(theta), strict=True)):
        alone = latent_predictor(part, at, latents[:, 12 * c : 12 * (c + 1)]).moments(X_new)
        assert together.mean[:, c] == pytest.approx(alone.mean, abs=1e-10)
        assert together.variance[:, c] == pytest.approx(alone.variance, abs=1e-10)


def test_draws_hold_all_functions_and_predict_from_a_file(tmp_path):
    model = MODELS["classes"]()
    draws = gp.sample(model, gp.JointSplitHMC(rounds=(20, 40)), n_draws=60, n_chains=1)
    assert dict(draws.posterior["latent"].sizes) == {
        "chain": 1, "draw": 60, "function": 2, "latent_dim": 12,
    }  # fmt: skip
    assert draws.posterior_predictive["eta"].dims == ("chain", "function", "draw", "case")
    prediction = gp.predict(draws, PLACES[:3])
    assert prediction.response_probability.sum("class").values == pytest.approx(np.ones(3))
    draws.to_netcdf(tmp_path / "draws.nc")
    again = gp.predict(gp.load_results(tmp_path / "draws.nc"), PLACES[:3])
    assert again.equals(prediction)
    scores = gp.leave_one_out(draws)
    assert scores.attrs["by"] == "draws"
    assert np.isfinite(scores.attrs["elpd"])
    at = gp.draws_at(draws, PLACES[:3], of="2")
    assert at["mean"].mean(("chain", "draw")).values == pytest.approx(
        prediction.response_probability.sel({"class": 2}).values, abs=0.06
    )
    effect = gp.contrast(draws, PLACES[:1], PLACES[1:2], of="3")
    assert float(effect["low"][0]) <= float(effect["mean"][0]) <= float(effect["high"][0])
    with pytest.raises(InputError, match="of"):
        gp.draws_at(draws, PLACES[:3])


def test_verbs_that_need_one_function_say_so():
    model = MODELS["classes by weights"]()
    fit = gp.approximate(model)
    assert gp.maximise_evidence(model).fit.log_evidence == pytest.approx(fit.log_evidence)
    shares = gp.effects(fit, "x1", of="2", n_draws=200)
    assert ((shares["mean"] > 0.0) & (shares["mean"] < 1.0)).all()
    for ask in (
        lambda: gp.decompose(fit, PLACES),
        lambda: gp.coefficients(fit),
        lambda: gp.check_likelihood(gp.Softmax(3), np.array([1.0, 2.0])),
        lambda: gp.log_evidence(fit),
        lambda: gp.sample(model, "surrogate_slice"),
    ):
        with pytest.raises(InputError, match="several latent functions"):
            ask()


def test_replicates_of_the_prior_and_the_posterior():
    model = MODELS["noise by weights"]()
    prior = gp.simulate(model, n_draws=3)
    assert prior.prior_predictive["eta"].dims == ("chain", "draw", "function", "case")
    draws = gp.sample(model, gp.JointSplitHMC(rounds=(20, 40)), n_draws=40, n_chains=1)
    assert "weight" in draws.posterior
    again = gp.simulate(draws, n_draws=3)
    assert dict(again.posterior_predictive["y"].sizes) == {"chain": 1, "draw": 3, "case": 12}
    prediction = gp.predict(draws, PLACES[:2, 0])
    assert set(prediction.data_vars) >= {"response_mean", "response_sd", "response_quantile"}


def test_from_frame_reads_classes_and_noise():
    rng = np.random.default_rng(6)
    frame = {
        "length": rng.normal(40.0, 5.0, 20), "site": ["n", "s"] * 10, "kind": ["a", "b", "c", "a"] * 5,
        "price": rng.normal(100.0, 20.0, 20),
    }  # fmt: skip
    model = gp.GPModel.from_frame(frame, y="kind", covariance="matern32(length) + group(site)")
    assert model.likelihood == gp.Softmax(("a", "b", "c"))
    assert "Constant" in repr(model)
    covariance = {"mean": "matern32(length)", "log_sd": "linear(length)"}
    model = gp.GPModel.from_frame(
        frame, y="price", covariance=covariance, likelihood="heteroscedastic_gaussian"
    )
    median = model.natural(model.prior_median())
    assert median["mean.mean"] == pytest.approx(np.mean(frame["price"]))
    assert median["log_sd.mean"] == pytest.approx(np.log(np.std(frame["price"])) - 1.0)
    assert "log_sd: " in str(model)
    stated = gp.GPModel.from_frame(
        frame, y="price", covariance=covariance, likelihood="heteroscedastic_gaussian",
        mean={"log_sd": 2.0},
    )  # fmt: skip
    assert stated.mean["log_sd"] == 2.0
    assert "mean.mean" in stated.names
    level = gp.GPModel.from_frame(
        frame, y="price", covariance={**covariance, "mean": "matern32(length) + constant()"},
        likelihood="heteroscedastic_gaussian",
    )  # fmt: skip
    assert "mean.mean" not in level.names
    with pytest.raises(InputError, match="mean is 0"):
        gp.GPModel.from_frame(frame, y="kind", covariance="matern32(length)", mean=0.5)


@pytest.mark.parametrize(
    ("covariance", "likelihood", "mean", "said"),
    [
        ({"mean": "matern32()"}, VARYING, None, "no covariance for log_sd"),
        ({"mean": "matern32()", "sd": "matern32()"}, VARYING, None, "unknown|sd"),
        ("matern32()", gp.Softmax(), 0.5, "add Constant"),
        ("matern32()", VARYING, {"noise": 1.0}, "noise"),
        ({"a": "matern32()", "b": "matern32()"}, gp.Softmax(), None, "one for all functions"),
    ],
)
def test_what_a_model_of_several_functions_refuses(covariance, likelihood, mean, said):
    with pytest.raises(InputError, match=said):
        gp.GPModel(PLACES[:, 0], CLASSES, covariance, likelihood, mean)


def test_a_likelihood_of_one_function_takes_one_covariance():
    with pytest.raises(InputError, match="covariance is"):
        gp.GPModel(PLACES, CLASSES, {"mean": "matern32()"}, gp.Gaussian())


def test_what_a_likelihood_states_for_a_parameter_is_the_level_of_its_function():
    """Numbers and shared parameters by their logs or logits, hyperpriors as they are, on either scale."""
    covariance = {"mean": "matern32()", "size": "matern32()", "probability": "matern32()"}
    share = gp.Hyperprior("beta", {"a": 1.0, "b": 3.0}, "probability")
    counts = gp.NegativeBinomial(size=gp.Parameter("spread", 2.0))
    model = gp.GPModel(
        PLACES[:, 0], CLASSES - 1.0, covariance, gp.ZeroInflated(counts, probability=share)
    )
    assert model.mean["size"] == gp.Parameter("spread", np.log(2.0))
    assert "spread" not in model.names
    level = model.prior_median()[model.names.index("probability.mean")]
    assert level == pytest.approx(share.quantile(0.5))
    fixed = gp.GPModel(
        PLACES[:, 0], CLASSES - 1.0, {"mean": "matern32()", "probability": "matern32()"},
        gp.ZeroInflated(gp.Poisson(), probability=0.2), 0.7,
    )  # fmt: skip
    assert fixed.mean == {"mean": 0.7, "probability": pytest.approx(np.log(0.25))}
