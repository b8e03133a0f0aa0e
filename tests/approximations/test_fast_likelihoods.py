from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.stats import multivariate_normal, multivariate_t

from gpmcflow.approximations.fitted_density import FittedStudent
from gpmcflow.approximations.stand_ins import (
    JITTER,
    EigenExact,
    Nystrom,
    SubsetOfData,
    farthest_point_cases,
    nested_subsets,
)
from gpmcflow.covariances.leaves import Constant, Linear, Matern32, SquaredExponential, White
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.likelihoods import Gaussian, Probit
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.log_density import FunctionDensity
from gpmcflow.models.regression_density import RegressionDensity
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.replications.fast_likelihood.methods import SinglePrecision
from gpmcflow.replications.fast_likelihood.runs import log_ratio_sd

N, WIDE = 60, Hyperprior("norm", {"loc": 0.1, "scale": 1.2})
THETA = np.log([0.35, 5.0, 0.2])  # length scale, signal_sd, noise_sd
SMOOTH = SquaredExponential(WIDE, WIDE)


def build(covariance, theta, likelihood=Gaussian(WIDE), jitter=0.0, **settings):  # noqa: B008
    """Model with data of its own at theta, and theta."""
    rng = np.random.default_rng(7)
    model = GPModel(
        rng.random((N, 2)), np.zeros(N), covariance, likelihood, jitter=jitter, **settings
    )
    return model.with_y(RegressionDensity(model).draw_responses(rng, theta)), theta


NOISE = np.sqrt(np.random.default_rng(1).uniform(0.02, 0.2, N))
PLAIN = build(SMOOTH + Constant(10.0), THETA)
CASES = {
    "one noise level": PLAIN,
    "known noise": build(SMOOTH + Constant(10.0), THETA[:2], Gaussian(NOISE)),
    "free constant and mean, jitter": build(
        Constant(WIDE) + SMOOTH, np.append(np.log([3.0, 0.4, 5.0]), [0.7, -1.6]), jitter=1e-3,
        mean=Hyperprior("norm"),
    ),
    "white": build(SMOOTH + White(WIDE), np.log([0.4, 5.0, 0.2]), Gaussian(0.1)),
    "sum": build(
        Matern32(WIDE, WIDE) * Constant(1.0) + Linear(WIDE) + Constant(2.0), np.log([0.8, 3.0, 2.0, 0.4]),
        jitter=1e-4,
    ),
}  # fmt: skip
both = pytest.mark.parametrize(("model", "theta"), CASES.values(), ids=CASES)


def parts(model, theta):
    """K without what each case has for itself, that, constants of K, and y - c."""
    full = model.full(theta)
    K = model.cross_covariance(full, model.X)
    natural = model.natural(theta)
    white = natural.get("white.signal_sd", 0.0) ** 2
    # the jitter is no share of lines and constants
    level = natural.get("constant_2.signal_sd", natural.get("constant.signal_sd", 0.0)) ** 2
    few = level + natural.get("linear.sd", 0.0) ** 2 * (model.X**2).sum(1)
    own = model.epsilon * (K.diagonal() - few + white) + white
    noise = (
        NOISE**2 if isinstance(model.likelihood.noise_sd, np.ndarray) else natural["noise_sd"] ** 2
    )
    apart = len(model.covariance.operands()) == 2 and "constant.signal_sd" in natural
    constant = natural["constant.signal_sd"] ** 2 if apart else 0.0
    return K, own + noise, constant, model.y - model.mean_at(full)


def log_normal(C, r):
    return multivariate_normal(np.zeros(len(r)), C).logpdf(r)


def nystrom_matrix(model, theta, columns, constant):
    """The matrix of the definition, with the same jitter."""
    K, diagonal, c2, _ = parts(model, theta)
    outside = 0.0 if constant == "inside" else c2
    K = K - outside
    core = K[np.ix_(columns, columns)]
    core = core + JITTER * np.trace(core) / len(core) * np.eye(len(columns))
    return K[:, columns] @ np.linalg.solve(core, K[columns]) + outside + np.diag(diagonal)


@both
@pytest.mark.parametrize("constant", ["exact", "inside"])
def test_nystrom_is_that_of_dense_algebra(model, theta, constant):
    columns = farthest_point_cases(model.X, 15)
    want = log_normal(nystrom_matrix(model, theta, columns, constant), parts(model, theta)[3])
    factored = Nystrom(model, columns, constant=constant)
    normal = Nystrom(model, columns, constant=constant, form="normal")
    prior = model.log_prior(theta)
    assert factored(theta) == pytest.approx(want + prior, abs=1e-6)
    assert normal(theta) == pytest.approx(want + prior, abs=2e-3)
    assert (factored.n_calls, factored.log_prior(theta)) == (1, prior)


@both
def test_all_columns_cases_or_eigenpairs_are_exact(model, theta):
    exact, everything = RegressionDensity(model)(theta), np.arange(model.n_cases)
    for constant in ("exact", "inside"):  # the stand-in's jitter is in proportion to the variance
        near = Nystrom(model, everything, constant=constant)(theta)
        assert near == pytest.approx(exact, abs=4e-3)
    assert SubsetOfData(model, everything)(theta) == pytest.approx(exact, abs=1e-8)
    shuffled = np.random.default_rng(0).permutation(everything)
    assert SubsetOfData(model, shuffled)(theta) == pytest.approx(exact, abs=1e-8)
    assert EigenExact(model, model.n_cases)(theta) == pytest.approx(exact, abs=1e-7)


@both
def test_subset_is_the_likelihood_of_its_cases(model, theta):
    cases = np.array([3, 17, 50, 4])
    K, diagonal, _, r = parts(model, theta)
    C = (K + np.diag(diagonal))[np.ix_(cases, cases)]
    want = log_normal(C, r[cases]) + model.log_prior(theta)
    assert SubsetOfData(model, cases)(theta) == pytest.approx(want, abs=1e-9)


@both
def test_eigen_is_that_of_dense_algebra(model, theta):
    K, diagonal, _, r = parts(model, theta)
    noise = np.broadcast_to(model.likelihood_at(model.full(theta)).noise_variances(N), N)
    scale = np.sqrt(np.outer(noise, noise))
    values, vectors = np.linalg.eigh((K + np.diag(diagonal - noise)) / scale)
    low = (vectors[:, -9:] * values[-9:]) @ vectors[:, -9:].T
    want = log_normal((low + np.eye(N)) * scale, r) + model.log_prior(theta)
    assert EigenExact(model, 9)(theta) == pytest.approx(want, abs=1e-6)


@both
def test_single_precision_is_near_the_exact_one(model, theta):
    exact, single = RegressionDensity(model), SinglePrecision(model)
    rng = np.random.default_rng(2)
    points = theta + 0.1 * rng.standard_normal((50, len(theta)))
    gaps = np.array([single(t) - exact(t) for t in points])
    assert 0.0 < gaps.std() < 0.02
    assert np.abs(gaps).max() < 0.1
    assert single(points[0]) == single.fresh()(points[0])
    with pytest.raises(InputError, match="has no gradient"):
        single.value_and_gradient(theta)


def test_constant_inside_and_outside_differ_and_so_do_the_columns():
    model, theta = PLAIN
    exact = RegressionDensity(model)(theta)
    gaps = {
        constant: abs(Nystrom(model, np.arange(12), constant=constant)(theta) - exact)
        for constant in ("exact", "inside")
    }
    assert gaps["exact"] != gaps["inside"]
    crowded = Nystrom(model, np.argsort(model.X[:, 0])[:12])(theta) - exact  # at one edge
    spread = Nystrom(model, farthest_point_cases(model.X, 12))(theta) - exact
    assert abs(spread) < abs(crowded)


def test_space_filling_columns():
    X = np.random.default_rng(3).random((200, 2))
    chosen = farthest_point_cases(X, 20)
    assert len(set(chosen.tolist())) == 20
    nearest = np.sqrt(((X[:, None] - X[chosen]) ** 2).sum(-1)).min(1)
    at_random = [np.random.default_rng(k).choice(200, 20, replace=False) for k in range(20)]
    radii = [np.sqrt(((X[:, None] - X[c]) ** 2).sum(-1)).min(1).max() for c in at_random]
    assert nearest.max() < min(radii)
    stretched = farthest_point_cases(X, 20, scales=np.array([1e-3, 1.0]))
    assert np.ptp(np.diff(np.sort(X[stretched, 0]))) < np.ptp(np.diff(np.sort(X[chosen, 0])))
    assert len(set(farthest_point_cases(np.zeros((5, 1)), 5).tolist())) == 5


def test_nested_subsets():
    small, large = nested_subsets(30, [5, 12], np.random.default_rng(0))
    np.testing.assert_array_equal(small, large[:5])
    assert len(set(large.tolist())) == 12


def test_bad_subsets_and_columns():
    model, _ = PLAIN
    rng = np.random.default_rng(0)
    for build_one in (SubsetOfData, Nystrom):
        with pytest.raises(InputError, match=r"case 4 is in the subset 2 times"):
            build_one(model, [4, 1, 4])
        with pytest.raises(InputError, match=r"m is 61; allowed: 2 to the number of cases, 60"):
            build_one(model, np.arange(61))
        with pytest.raises(InputError, match=r"range over -1 to 2; allowed: 0 to 59"):
            build_one(model, [0, -1, 2])
        with pytest.raises(InputError, match="a list of integers"):
            build_one(model, [0.0, 1.0])
        with pytest.raises(InputError, match="m is 1"):
            build_one(model, [3])
    for call in (
        lambda: nested_subsets(20, [10, 21], rng),
        lambda: farthest_point_cases(model.X, 61),
        lambda: EigenExact(model, 61),
    ):
        with pytest.raises(InputError, match=r"m is \d\d; allowed"):
            call()
    probit = GPModel(model.X, np.sign(model.y), SMOOTH, Probit())
    for build_one in (SubsetOfData, Nystrom):
        with pytest.raises(InputError, match=f"{build_one.__name__}: the probit likelihood"):
            build_one(probit, [1, 2])
    for build_one in (SinglePrecision, lambda model: EigenExact(model, 2)):
        with pytest.raises(InputError, match="the probit likelihood; allowed: gaussian"):
            build_one(probit)
    with pytest.raises(InputError, match="did you mean 'inside'"):
        Nystrom(model, [1, 2], constant="insid")
    with pytest.raises(InputError, match="Nystrom: form"):
        Nystrom(model, [1, 2], form="B")


def test_stand_ins_pickle_and_are_told_apart():
    model, theta = PLAIN
    columns = farthest_point_cases(model.X, 10)
    student = FittedStudent(theta, 0.1 * np.eye(3), 6.0, model.names)
    others = [
        SubsetOfData(model, columns),
        SubsetOfData(model, columns[:9]),
        Nystrom(model, columns),
        Nystrom(model, columns, form="normal"),
        Nystrom(model, columns, constant="inside"),
        Nystrom(model, columns[::-1].copy()),
        SinglePrecision(model),
        EigenExact(model, 10),
        EigenExact(model, 11),
        student,
        FittedStudent(theta, 0.2 * np.eye(3), 6.0, model.names),
        RegressionDensity(model),
        RegressionDensity(build(SMOOTH + Constant(9.0), THETA)[0].with_y(model.y)),
    ]
    assert len({density.digest() for density in others}) == len(others)
    for density in others:
        assert density.names == model.names
        assert pickle.loads(pickle.dumps(density))(theta) == density(theta)
        assert density.fresh().n_calls == 0


def test_far_points_are_minus_infinity_not_errors():
    model, _ = PLAIN
    far = np.array([0.0, 500.0, 0.0])
    columns = farthest_point_cases(model.X, 10)
    for density in (SubsetOfData(model, columns), Nystrom(model, columns), SinglePrecision(model),
                    EigenExact(model, 5)):  # fmt: skip
        assert density(far) == -np.inf
        assert density.n_failed == 1


def test_student_density_is_normalised_and_its_draws_have_it():
    rng = np.random.default_rng(0)
    factor = np.array([[0.4, 0.0], [0.3, 0.7]])
    student = FittedStudent([0.2, -1.0], factor, 6.0, ("a", "b"))
    reference = multivariate_t([0.2, -1.0], factor @ factor.T, df=6.0)
    for theta in rng.standard_normal((5, 2)):
        assert student(theta) == pytest.approx(reference.logpdf(theta), abs=1e-12)
    draws, values = zip(*(student.draw(rng) for _ in range(20_000)), strict=True)
    assert values[3] == student(draws[3])
    want = factor @ factor.T * 6.0 / 4.0
    np.testing.assert_allclose(np.cov(np.array(draws).T), want, rtol=0.08)
    total = dblquad(lambda b, a: np.exp(student(np.array([a, b]))), -12, 12, -14, 12, epsabs=1e-4)
    assert total[0] == pytest.approx(1.0, abs=2e-3)


def test_student_fit_maximises_the_likelihood():
    draws = multivariate_t([1.0, -2.0], [[0.5, 0.2], [0.2, 0.3]], df=6.0).rvs(
        3000, random_state=np.random.default_rng(4)
    )
    student = FittedStudent.fit(draws, ("a", "b"))
    scale = student.scale_factor @ student.scale_factor.T
    best = multivariate_t(student.location, scale, df=6.0).logpdf(draws).sum()
    for change in (1e-3 * np.eye(2), -1e-3 * np.eye(2), np.array([[0, 1e-3], [1e-3, 0]])):
        assert multivariate_t(student.location, scale + change, df=6.0).logpdf(draws).sum() < best
    np.testing.assert_allclose(student.location, [1.0, -2.0], atol=0.05)
    np.testing.assert_allclose(scale, [[0.5, 0.2], [0.2, 0.3]], atol=0.04)


def test_bad_pilot_draws():
    names = ("a", "b")
    with pytest.raises(InputError, match="allowed: finite"):
        FittedStudent.fit(np.full((50, 2), np.nan), names)
    with pytest.raises(InputError, match="1 different draws for 2 coordinates"):
        FittedStudent.fit(np.ones((50, 2)), names)
    line = np.linspace(0, 1, 50)[:, None] * np.array([1.0, 1.0])
    with pytest.raises(InputError, match="lie in a plane"):
        FittedStudent.fit(line, names)


def test_weighted_fit_is_the_fit_to_repeated_draws():
    rng = np.random.default_rng(5)
    draws, counts = rng.standard_normal((60, 2)), rng.integers(1, 4, 60)
    weighted = FittedStudent.fit(draws, ("a", "b"), weights=2.5 * counts)
    repeated = FittedStudent.fit(np.repeat(draws, counts, axis=0), ("a", "b"))
    np.testing.assert_allclose(weighted.location, repeated.location, atol=1e-6)
    np.testing.assert_allclose(weighted.scale_factor, repeated.scale_factor, atol=1e-6)
    with pytest.raises(InputError, match="1 different draws"):
        FittedStudent.fit(draws, ("a", "b"), weights=np.eye(60)[0])


def test_student_at_the_mode():
    precision, mean = np.array([[2.0, 0.6], [0.6, 5.0]]), np.array([0.7, -1.1])
    density = FunctionDensity(
        lambda t: -0.5 * float((t - mean) @ precision @ (t - mean)),
        ("a", "b"),
        gradient=lambda t: -precision @ (t - mean),
    )
    student = FittedStudent.at_mode(density, [3.0, 3.0])
    np.testing.assert_allclose(student.location, mean, atol=1e-3)
    scale = student.scale_factor @ student.scale_factor.T
    np.testing.assert_allclose(scale, np.linalg.inv(precision), rtol=1e-5)
    assert 4 < density.n_gradients < 40
    slope = FunctionDensity(lambda t: float(t[0]), ("a",), gradient=lambda t: np.ones(1))
    with pytest.raises(NumericalError, match="no mode found"):
        FittedStudent.at_mode(slope, [0.0])
    with pytest.raises(InputError, match="has no gradient"):
        FittedStudent.at_mode(FunctionDensity(lambda t: 0.0, ("a",)), [0.0])


def test_quality_of_a_stand_in():
    """The log ratio of two normals of variance 1 is normal; its sd is their distance."""
    rng, shift = np.random.default_rng(8), 0.7
    exact = FunctionDensity(lambda t: -0.5 * float(t @ t), ("a",))
    stand_in = FunctionDensity(lambda t: 3.0 - 0.5 * float((t - shift) @ (t - shift)), ("a",))
    x = rng.standard_normal((4000, 1))
    assert log_ratio_sd(exact, stand_in, x) == pytest.approx(shift, rel=0.05)
    hole = FunctionDensity(lambda t: -np.inf, ("a",))
    assert log_ratio_sd(exact, hole, x[:3]) == np.inf
    with pytest.raises(InputError, match="2 draws or more"):
        log_ratio_sd(exact, stand_in, x[:1])
