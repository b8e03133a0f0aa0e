from __future__ import annotations

import pickle

import mpmath
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from gpmcflow.approximations.approximate import approximate
from gpmcflow.approximations.search import frozen_maximum
from gpmcflow.covariances.basis_functions import BasisFunctions
from gpmcflow.covariances.leaves import (
    Constant,
    Linear,
    Matern32,
    Periodic,
    Polynomial,
    SquaredExponential,
    White,
)
from gpmcflow.covariances.tape import CovarianceBuffers
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.likelihoods import Gaussian, Poisson, Probit, StudentT
from gpmcflow.models.collapsed_density import CollapsedDensity, density_of
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.log_density import FunctionDensity, finite_start
from gpmcflow.models.marginal_likelihood import MarginalLikelihood
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.models.regression_density import RegressionDensity
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.parameters.parameter import Parameter, coordinate_of

N, WIDE = 40, Hyperprior("norm", {"loc": -0.2, "scale": 1.3})
GAMMA = Hyperprior("gamma", {"a": 2.0, "scale": 0.3}, scale="natural")
RNG = np.random.default_rng(5)
X, NOISE = RNG.random((N, 3)), RNG.uniform(0.1, 0.6, N)
Y = np.sin(5.0 * X[:, 0]) + X[:, 1] + 0.3 * RNG.standard_normal(N) + 0.5
APART = X[:, None] - X


def se(scales, sd):
    return sd**2 * np.exp(-0.5 * ((APART / scales) ** 2).sum(-1))


def matern(scale, sd):
    a = np.sqrt(3.0 * (APART**2).sum(-1)) / scale
    return sd**2 * (1.0 + a) * np.exp(-a)


def periodic(scale, period):
    return np.exp(-2.0 * np.sin(np.pi * APART[..., 0] / period) ** 2 / scale**2)


def model_of(covariance, likelihood=Gaussian(WIDE), jitter=0.0, mean=0.0, y=Y):  # noqa: B008
    return GPModel(X, y, covariance, likelihood, mean=mean, jitter=jitter)


I = np.eye(N)  # noqa: E741
EXACT = Constant(10.0)
SHARED = Parameter("s", WIDE)
# name: the model, theta in its own units, C by formulas, c
CASES = {
    "one length scale": (
        model_of(SquaredExponential(WIDE, WIDE) + EXACT), [0.4, 1.5, 0.3],
        lambda h, s, e: se(h, s) + 100.0 + e**2 * I, 0.0,
    ),
    "ard": (
        model_of(SquaredExponential(WIDE, WIDE, ard=True)), [0.4, 0.9, 2.0, 1.5, 0.3],
        lambda a, b, c, s, e: se([a, b, c], s) + e**2 * I, 0.0,
    ),
    "two constants, free, jitter": (
        model_of(
            Constant(WIDE) + SquaredExponential(GAMMA, WIDE) + Constant(GAMMA), Gaussian(WIDE), 0.05
        ),
        [1.1, 0.4, 1.5, 0.7, 0.3],
        lambda a, h, s, b, e: se(h, s) * (1.0 + 0.05 * I) + a**2 + b**2 + e**2 * I, 0.0,
    ),
    "known noise, a free mean": (
        model_of(Matern32(WIDE, WIDE) + EXACT, Gaussian(NOISE), 0.0, Hyperprior("norm")),
        [0.6, 1.2, -0.7], lambda h, s, c: matern(h, s) + 100.0 + np.diag(NOISE**2), -0.7,
    ),
    "fixed amplitude and mean": (
        model_of(Matern32(WIDE, 1.7) + EXACT, Gaussian(WIDE), 0.0, 0.4), [0.6, 0.3],
        lambda h, e: matern(h, 1.7) + 100.0 + e**2 * I, 0.4,
    ),
    "white": (
        model_of(Matern32(WIDE, WIDE) + White(WIDE) + EXACT, Gaussian(0.2)), [0.6, 1.2, 0.5],
        lambda h, s, w: matern(h, s) + 100.0 + (w**2 + 0.04) * I, 0.0,
    ),
    "product and sum": (
        model_of(
            SquaredExponential(WIDE, WIDE) * Periodic(WIDE, period=0.5, columns=0)
            + Linear(WIDE, columns=1), Gaussian(WIDE), 1e-3,
        ),
        [0.8, 1.3, 0.9, 0.6, 0.3],
        lambda h, s, r, b, e: se(h, s) * periodic(r, 0.5) * (1.0 + 1e-3 * I)
        + b**2 * np.outer(X[:, 1], X[:, 1]) + e**2 * I, 0.0,
    ),
    "product plus a constant": (
        model_of(SquaredExponential(WIDE, WIDE) * Periodic(WIDE, period=0.5, columns=0) + EXACT),
        [0.8, 1.3, 0.9, 0.3],
        lambda h, s, r, e: se(h, s) * periodic(r, 0.5) + 100.0 + e**2 * I, 0.0,
    ),
    "one parameter in three places": (
        model_of(SquaredExponential(WIDE, SHARED) + Constant(SHARED), Gaussian(SHARED)), [0.6, 1.2],
        lambda h, s: se(h, s) + s**2 + s**2 * I, 0.0,
    ),
}  # fmt: skip
each = pytest.mark.parametrize("case", CASES)


def theta_of(case: str) -> np.ndarray:
    model, values, _, _ = CASES[case]
    kinds = [model.parameters.coordinates[place] for place in model.free]
    return np.array([coordinate_of(v, kind) for v, kind in zip(values, kinds, strict=True)])


@each
def test_likelihood_and_posterior_are_those_of_dense_algebra(case):
    model, values, C, c = CASES[case]
    theta, density = theta_of(case), RegressionDensity(model)
    want = multivariate_normal(np.full(N, c), C(*values)).logpdf(Y)
    assert density(theta) - density.log_prior(theta) == pytest.approx(want, abs=1e-8)
    assert density.log_likelihood(theta) == pytest.approx(want, abs=1e-8)
    assert density.log_prior(theta) == model.log_prior(theta)
    assert (density.n_calls, density.n_failed) == (1, 0)
    assert density.seconds > 0.0


def test_the_prior_is_that_of_the_logs():
    model, values, _, _ = CASES["one length scale"]
    want = norm(-0.2, 1.3).logpdf(np.log(values)).sum()
    assert RegressionDensity(model).log_prior(np.log(values)) == pytest.approx(want, abs=1e-12)


@each
def test_gradient_is_that_of_richardson_differences(case):
    density, theta = RegressionDensity(CASES[case][0]), theta_of(case) + 0.07
    value, gradient = density.value_and_gradient(theta)

    def central(k, h):
        step = h * np.eye(len(theta))[k]
        return (density(theta + step) - density(theta - step)) / (2.0 * h)

    numerical = [(4.0 * central(k, 1e-3) - central(k, 2e-3)) / 3.0 for k in range(len(theta))]
    assert value == density(theta)
    np.testing.assert_allclose(gradient, numerical, rtol=1e-6, atol=1e-6)
    assert density.n_gradients == 1


@each
def test_values_do_not_depend_on_what_was_asked_before(case):
    model, rng = CASES[case][0], np.random.default_rng(1)
    density = RegressionDensity(model)
    for _ in range(15):  # one coordinate at a time, as in slice sampling: E is kept or made again
        theta = theta_of(case)
        theta[rng.integers(model.dim)] += 0.2 * rng.standard_normal()
        fresh, again = density.fresh(), pickle.loads(pickle.dumps(density))
        assert density(theta) == fresh(theta) == again(theta)
        ours, theirs = density.value_and_gradient(theta)[1], fresh.value_and_gradient(theta)[1]
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("case", "kept"), [("two constants, free, jitter", 4), ("known noise, a free mean", 2)]
)
def test_no_covariance_is_made_while_only_scales_and_mean_move(case, kept, monkeypatch):
    work, full = MarginalLikelihood(CASES[case][0]), CASES[case][0].full(theta_of(case))
    fill, made = work._buffers.fill, []
    monkeypatch.setattr(work._buffers, "fill", lambda *given: made.append(0) or fill(*given))
    work.value(full)
    for place in work.model.free:
        work.value(full + 0.1 * (np.arange(len(full)) == place))
        work.value(full)
    assert len(made) == 1 + 2 * (work.model.dim - kept)


@pytest.mark.parametrize("case", ["one length scale", "ard", "product plus a constant"])
@pytest.mark.parametrize("mean", [0.0, 0.8])
def test_scale_statistics_give_the_likelihood_at_any_scale(case, mean):
    model, values, C, _ = CASES[case]
    model = GPModel(X, Y, model.covariance, model.likelihood, mean=mean, jitter=0.0)
    *_, s, e = (
        values if case != "product plus a constant" else (*values[:1], *values[2:3], 1.3, 0.3)
    )
    density, c2 = RegressionDensity(model), 0.0 if case == "ard" else 100.0
    statistics = density.scale_statistics(np.log(e / s), theta_of(case) + 0.0)
    k = c2 / s**2
    log_det = N * np.log(s**2) + statistics.log_det + np.log1p(k * statistics.ones)
    squares = statistics.squares - k * statistics.cross**2 / (1.0 + k * statistics.ones)
    dense, r = C(*values), Y - mean
    assert log_det == pytest.approx(np.linalg.slogdet(dense)[1], abs=1e-7)
    assert squares / s**2 == pytest.approx(r @ np.linalg.solve(dense, r), rel=1e-8)
    assert density.n_calls == 1


def test_simulated_responses_and_latents_have_their_covariances():
    model, values, C, c = CASES["fixed amplitude and mean"]
    small, rng = model.take(np.arange(3)), np.random.default_rng(0)
    theta, density = np.log(values), RegressionDensity(small)
    y = np.stack([density.draw_responses(rng, theta) for _ in range(20_000)])
    want = C(*values)[:3, :3]
    np.testing.assert_allclose(np.cov(y.T), want, rtol=0.03)
    assert np.abs((y.mean(0) - c) / np.sqrt(np.diag(want) / 20_000)).max() < 4.0
    collapsed = CollapsedDensity(small)
    f = np.stack([collapsed.draw_latents(rng, theta)[0] for _ in range(20_000)])
    noise = 0.3**2 * np.eye(3)
    gain = (want - noise) @ np.linalg.inv(want)
    error = np.sqrt(np.diag(noise @ gain.T) / 20_000)
    assert np.abs((f.mean(0) - gain @ (Y[:3] - c)) / error).max() < 4.0
    np.testing.assert_allclose(np.cov(f.T), gain @ noise, atol=0.05 * 0.09)


def test_what_cannot_be_factorised_is_minus_infinity_and_counted():
    smooth = GPModel(
        np.linspace(0.0, 1.0, 30), np.ones(30), SquaredExponential(), Gaussian(), jitter=0.0
    )
    density, bad = RegressionDensity(smooth), np.array([2.0, 3.0, -25.0])  # no noise to speak of
    assert density(bad) == -np.inf
    for far in ([0.0, 1e3, 0.0], [np.nan, 0.0, 0.0], [0.0, 0.0, -np.inf]):
        assert density(np.array(far)) == -np.inf
    assert density.n_failed == 4
    assert np.isfinite(density(np.zeros(3)))
    value, gradient = density.value_and_gradient(np.array([400.0, 0.0, 0.0]))
    assert value == -np.inf
    assert not gradient.any()
    assert density.scale_statistics(-28.0, bad) is None
    assert density.n_failed == 6
    with pytest.raises(NumericalError, match="not positive definite"):
        density.draw_responses(np.random.default_rng(0), bad)


def test_only_gaussian_noise_can_be_integrated_out():
    probit = GPModel(X, np.sign(Y), SquaredExponential(), Probit())
    with pytest.raises(
        InputError, match=r"RegressionDensity: the probit likelihood; allowed: gaussian"
    ):
        RegressionDensity(probit)
    with pytest.raises(InputError, match="RegressionDensity: found int; allowed: a GPModel"):
        RegressionDensity(3)


def test_densities_are_told_apart():
    models = [CASES[case][0] for case in CASES] + [CASES["ard"][0].with_y(Y + 1.0)]
    assert len({RegressionDensity(model).digest() for model in models}) == len(models)


def test_a_users_function():
    density = FunctionDensity(lambda t: -0.5 * float(t @ t), ("a", "b"), gradient=lambda t: -t)
    assert density(np.array([3.0, 4.0])) == -12.5
    assert density.value_and_gradient(np.array([3.0, 4.0]))[1].tolist() == [-3.0, -4.0]
    assert (density.n_calls, density.n_gradients) == (1, 1)
    with pytest.raises(InputError, match="2 finite numbers"):
        finite_start(density, [1.0])
    hole = FunctionDensity(lambda t: -np.inf, ("a",))
    with pytest.raises(NumericalError, match=r"-inf at \[1.0\]"):
        finite_start(hole, np.array([1.0]))
    with pytest.raises(InputError, match="has no gradient"):
        hole.value_and_gradient(np.array([1.0]))


OFFSETS = (0.0, 2000.0, 1e4, 1e6)
FAR_FROM_ZERO = (  # covariance, and k(a, b) for mpmath
    (Linear(2.0) + Constant(3.0), lambda a, b: 4 * a * b + 9),
    (
        Linear(2.0) + Constant(3.0) + SquaredExponential(1.0, 1.0),
        lambda a, b: 4 * a * b + 9 + mpmath.exp(-((a - b) ** 2) / 2),
    ),
    (Polynomial(2, 1.0, 1.0), lambda a, b: (1 + a * b) ** 2),
    (Linear(1.5) * Constant(0.5) + White(0.2), lambda a, b: 0.5625 * a * b + 0.04 * (a == b)),
)


def test_columns_far_from_zero():
    """Linear and polynomial terms keep their digits, against log N with 60 digits, by all routes."""
    n = 12
    t, rng = np.linspace(-3.0, 3.0, n), np.random.default_rng(0)
    y = 1.3 * t + np.sin(3.0 * t) + 0.1 * rng.standard_normal(n)
    for offset in OFFSETS:
        x = offset + t
        for covariance, k in FAR_FROM_ZERO:
            with mpmath.workdps(60):
                at, cases = [mpmath.mpf(float(v)) for v in x], range(n)
                C = mpmath.matrix(n, n)
                for i in cases:
                    for j in cases:
                        C[i, j] = k(at[i], at[j]) + (i == j) * mpmath.mpf(0.1) ** 2
                L = mpmath.cholesky(C)
                u = mpmath.lu_solve(L, mpmath.matrix(y.tolist()))
                log_det = sum(mpmath.log(L[i, i]) for i in cases)
                right = float(
                    -sum(v * v for v in u) / 2 - log_det - n * mpmath.log(2 * mpmath.pi) / 2
                )
            model = GPModel(x, y, covariance, Gaussian(0.1))
            exact = GPModel(x, y, covariance, Gaussian(0.1), jitter=0.0)
            got = {
                "density": RegressionDensity(exact).log_likelihood(np.empty(0)),
                "ep": approximate(model).log_evidence,
                "laplace": approximate(model, "laplace").log_evidence,
            }
            for name, value in got.items():
                assert value == pytest.approx(right, rel=1e-7, abs=1e-4), (offset, covariance, name)


def test_slopes_of_functions_kept_apart():
    """Every parameter of linear, polynomial and constant terms and of the rest, against differences."""
    norm_ = Hyperprior("norm")
    covariance = (
        Linear(norm_, ard=True, columns=(0, 1))
        + Polynomial(2, norm_, norm_, columns=(1,))
        + Linear(norm_, columns=(2,)) * Constant(2.0)
        + Constant(norm_, name="level")
        + SquaredExponential(norm_, norm_, columns=(0,))
        + White(norm_)
    )
    moved = X + np.array([2000.0, 0.0, 50.0])
    model = GPModel(moved, Y, covariance, Gaussian(norm_), mean=norm_)
    density, theta = RegressionDensity(model), np.random.default_rng(3).normal(0.0, 0.3, model.dim)
    _, slope = density.value_and_gradient(theta)
    steps = 1e-4 * np.eye(model.dim)
    numeric = [(density(theta + h) - density(theta - h)) / 2e-4 for h in steps]
    np.testing.assert_allclose(slope, numeric, rtol=1e-5, atol=1e-5)
    # C as a whole: draws of y, and the factor that predictions use
    C = model.covariance_matrix(theta) + np.exp(2.0 * theta[-1]) * np.eye(N)
    factor = MarginalLikelihood(model).dense_factor(model.full(theta))
    np.testing.assert_allclose(factor @ factor.T, C, rtol=1e-10)


def test_the_jitter_is_a_share_of_what_needs_it():
    """None of constants and lines beside others; alone, a share of what varies about the centre."""
    x = 2000.0 + np.linspace(0.0, 1.0, 6)
    wide = Hyperprior("norm")
    model = GPModel(x, np.ones(6), Matern32(wide, 0.5) + Constant(10.0) + Linear(1.0), Poisson())
    K = CovarianceBuffers(model._tape, 1e-3)
    full, bare = model.full(np.zeros(1)), CovarianceBuffers(model._tape)
    added = np.diag(K.matrix(full)) - np.diag(bare.matrix(full))
    np.testing.assert_allclose(added, 1e-3 * 0.25, rtol=1e-5)
    np.testing.assert_allclose(K.diagonal(full, model.X) - np.diag(bare.matrix(full)), added)
    alone = GPModel(x, np.ones(6), Linear(wide) + Constant(0.1), Poisson())
    K, bare = CovarianceBuffers(alone._tape, 1e-3), CovarianceBuffers(alone._tape)
    full = alone.full(np.array([0.3]))
    size = (np.exp(0.6) * (x - 2000.5) ** 2 + 0.01).mean()
    added = np.diag(K.matrix(full) - bare.matrix(full))
    np.testing.assert_allclose(added, 1e-3 * size, atol=1e-8)
    np.testing.assert_allclose(K.diagonal(full, alone.X) - bare.diagonal(full, alone.X), added)
    # and its slope
    S = np.random.default_rng(0).standard_normal((6, 6))
    S, out = S + S.T, np.empty((6, 6))
    K.fill(full, out)
    slope = K.adjoint(full, S.copy())[alone.free[0]]
    ends = [K.matrix(alone.full(np.array([0.3 + h]))) for h in (1e-6, -1e-6)]
    assert slope == pytest.approx(np.sum(S * (ends[0] - ends[1])) / 2e-6, rel=1e-6)


def test_a_line_far_from_zero_under_counts():
    """A Poisson regression on years: latents by the covariance are those of its two coefficients."""
    t = np.linspace(-3.0, 3.0, 12)
    counts = np.round(np.exp(0.5 + 0.4 * t))
    for offset in (2000.0, 1e6):
        x = offset + t
        by_design = LatentGaussianModel.from_design(
            np.column_stack([x, np.ones(12)]), np.array([0.01, 20.0]), Poisson(), counts
        )
        model = GPModel(x, counts, Linear(0.01) + Constant(20.0), Poisson())
        right = approximate(by_design).log_evidence
        assert approximate(model).log_evidence == pytest.approx(right, abs=1e-3), offset


def test_a_jitter_that_counts_is_told(caplog):
    """A warning reports what a jitter changes beside noise of 1e-6."""
    x = np.linspace(0.0, 1.0, 30)
    smooth = GPModel(x, np.sin(x), SquaredExponential(2.0, 1.0), Gaussian(1e-6))
    rough = GPModel(x, np.sin(x), Matern32(1.0, 1.0), Gaussian(0.1))
    for model, told in ((smooth, True), (rough, False)):
        caplog.clear()
        approximate(model)
        assert ("jitter" in caplog.text) == told


def test_a_mean_of_any_size():
    """Densities of y + c with the mean c are those of y with mean 0; there was none above 150 or 300."""
    theta = np.array([0.2, -0.1, -0.5, 1.0])
    for likelihood in (Gaussian(WIDE), StudentT(WIDE, WIDE)):
        for structure in ("dense", BasisFunctions(m=8)):
            at = {}
            for c in (0.0, 151.0, -301.0, 1013.25):
                model = GPModel(
                    X[:, 0], Y + c, SquaredExponential(WIDE, WIDE), likelihood, c, structure=structure
                )  # fmt: skip
                density = density_of(model, FrozenSites(np.ones(N), Y + c))
                x = model.parameters.to_normal(theta[: model.dim])
                here = density.evaluate(x, np.zeros(density.n_z))
                at[c] = [here.rest + density.log_constant(), *here.slope_x]
                np.testing.assert_allclose(
                    at[c], at[0.0], rtol=1e-6, err_msg=f"{likelihood} {structure} {c}"
                )
                assert density.value(x, np.zeros(density.n_z)) == pytest.approx(here.rest, rel=1e-9)
    for c in (301.0, 1e6):  # the search for the sampler's frame, and for the maximum
        model = GPModel(X[:, 0], Y + c, SquaredExponential(), Gaussian(), mean=c)
        right = approximate(GPModel(X[:, 0], Y, SquaredExponential(), Gaussian())).log_evidence
        assert approximate(model).log_evidence == pytest.approx(right, abs=1e-3)
        x, _ = frozen_maximum(
            density_of(model, None), np.zeros(3), lambda x, sites: sites, hyperprior=True, searches=1,
            near=0.1, low=-4.0, high=4.0,
        )  # fmt: skip
        assert np.abs(x).max() < 3.0
