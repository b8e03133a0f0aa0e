from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from gpmcflow.errors import InputError, NumericalError
from gpmcflow.likelihoods import Gaussian, Logistic, Poisson, Probit
from gpmcflow.models.joint_model import JointModel, checked_inputs
from gpmcflow.parameters.hyperpriors import Hyperprior

LENGTH = Hyperprior.log_uniform(0.1, 10.0)
SIGNAL = Hyperprior("norm", {"scale": 0.5})
OFFSET = Hyperprior("norm", {"loc": 0.5, "scale": 0.4})


def model(p=3, n=11, likelihood=None, seed=0, **settings):
    rng = np.random.default_rng(seed)
    likelihood = likelihood or Logistic()
    y = likelihood.simulate(rng, rng.standard_normal(n))
    given = {"length": LENGTH, "signal": SIGNAL, "jitter": 1e-3} | settings
    return JointModel(likelihood, rng.random((n, p)), y, **given)


def grid(first=4, second=3):
    axes = np.sort(np.random.default_rng(7).random(first)), np.linspace(-1, 1, second)
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)


def covariance(X, lengths, sd, jitter):
    distances = ((X[:, None] / lengths - X[None] / lengths) ** 2).sum(-1)
    return sd**2 * (np.exp(-0.5 * distances) + jitter * np.eye(len(X)))


@pytest.mark.parametrize("p", [1, 3, 6])
def test_covariance(p):
    m = model(p)
    theta = m.draw_prior(np.random.default_rng(1))
    lengths, sd, c = m.hyperparameters(theta)
    assert c == 0.0
    assert np.allclose(np.log([*lengths, sd]), theta)
    expected = covariance(m.X, lengths, sd, 1e-3)
    assert np.allclose(m.covariance(theta), expected, rtol=1e-13, atol=1e-15)
    assert m.prior_variance(theta) == pytest.approx(expected[0, 0])
    cross = m.cross_covariance(theta, m.X[:4])
    assert np.allclose(cross, (expected - sd**2 * 1e-3 * np.eye(11))[:4], atol=1e-13)


def test_isotropic_covariance():
    m = model(6, isotropic=True)
    assert m.names == ("log_length", "log_signal_sd")
    theta = np.array([-0.3, 0.2])
    expected = covariance(m.X, np.exp(-0.3), np.exp(0.2), 1e-3)
    assert np.allclose(m.covariance(theta), expected, rtol=1e-13)


def test_log_density_is_the_sum_of_its_parts():
    m = model(2, likelihood=Poisson(exposure=1.7), offset=OFFSET)
    rng = np.random.default_rng(2)
    theta, f = m.draw_prior(rng), rng.standard_normal(11)
    assert m.names == ("log_length_1", "log_length_2", "log_signal_sd", "offset")
    expected = (
        sum(p.log_density(t) for p, t in zip((LENGTH, LENGTH, SIGNAL, OFFSET), theta, strict=True))
        + multivariate_normal(np.zeros(11), m.covariance(theta)).logpdf(f)
        + Poisson(exposure=1.7).log_density(f + theta[-1], m.y)
    )
    assert m.log_density(theta, f) == pytest.approx(expected, rel=1e-11)
    assert m.log_likelihood(np.stack([f, f + 1]), theta).shape == (2,)


def test_fixed_coordinates():
    m = model(2, likelihood=Poisson(), length=[0.3, LENGTH], signal=2.0, offset=np.log(2.0))
    assert m.names == ("log_length_2",)
    assert m.dim == 1
    assert np.allclose(m.full(np.array([0.7])), [np.log(0.3), 0.7, np.log(2.0), np.log(2.0)])


def test_standard_normal_coordinates_of_theta():
    m = model(2, likelihood=Poisson(), offset=OFFSET)
    x = np.array([0.3, -1.2, 0.8, 2.0])
    assert m.to_normal(m.from_normal(x)) == pytest.approx(x)
    slopes = [
        (m.from_normal(x + 1e-6 * e) - m.from_normal(x - 1e-6 * e)).sum() / 2e-6 for e in np.eye(4)
    ]
    assert m.normal_slopes(x) == pytest.approx(slopes, rel=1e-6)


@pytest.mark.parametrize("p", [3, 7])
def test_one_length_scale_moved(p):
    m = model(p)
    rng = np.random.default_rng(3)
    old, moved, again = m.factor(), m.factor(), m.factor()
    lengths = m.draw_prior(rng)[:-1]
    assert old.fill(lengths)
    lengths[1] += 0.8
    assert moved.fill_from(old, lengths, 1)
    assert again.fill(lengths)
    assert np.allclose(moved.dense(), again.dense(), rtol=1e-11, atol=1e-13)
    assert moved.log_det == pytest.approx(again.log_det)
    assert len({old.stamp, moved.stamp, again.stamp}) == 3


@pytest.mark.parametrize("kronecker", [False, True])
@pytest.mark.parametrize("isotropic", [False, True])
def test_operations_of_the_factors(kronecker, isotropic):
    X = grid()
    m = JointModel(
        Probit(),
        X,
        np.ones(12),
        LENGTH,
        SIGNAL,
        jitter=1e-2,
        kronecker=kronecker,
        isotropic=isotropic,
    )
    rng = np.random.default_rng(4)
    theta = np.array([-0.5, 0.1]) if isotropic else np.array([-0.5, 0.3, 0.1])
    F = m.filled_factor(theta)
    lengths = np.broadcast_to(np.exp(theta[:-1]), 2)
    if kronecker:
        axes = np.unique(X[:, 0])[:, None], np.unique(X[:, 1])[:, None]
        K = np.kron(
            *(covariance(a, length, 1.0, 1e-2) for a, length in zip(axes, lengths, strict=True))
        )
    else:
        K = covariance(X, lengths, 1.0, 1e-2)
    L = np.linalg.cholesky(K)
    v, rows = rng.standard_normal(12), rng.standard_normal((3, 12))
    assert np.allclose(F.dense(), L, atol=1e-12)
    assert np.allclose(F.multiply(v), L @ v)
    assert np.allclose(F.transposed(v), L.T @ v)
    assert np.allclose(F.solve(v), np.linalg.solve(L, v), atol=1e-10)
    assert np.allclose(F.multiply_rows(rows.copy(), 1.3), 1.3 * rows @ L.T)
    assert F.log_det == pytest.approx(np.log(np.diag(L)).sum())
    assert F.diagonal == pytest.approx(K[0, 0])
    w, out = rng.random(12), np.zeros((12, 12))
    F.weighted_gram(w, 1.3, out)
    assert np.allclose(np.tril(out.T), np.tril(1.69 * L.T @ np.diag(w) @ L))
    assert np.allclose(np.tril(F.gram().T), np.tril(L.T @ L))
    assert m.prior_variance(theta) == pytest.approx(np.exp(0.2) * K[0, 0])


def test_exponentials_far_apart_do_not_fail():
    m = JointModel(Probit(), np.array([0.0, 1e3, 2e3]), np.ones(3), LENGTH)
    assert np.allclose(
        m.covariance(np.array([0.0])), np.eye(3) * (1 + 1e-6), rtol=1e-15, atol=1e-99
    )


def test_simulation_has_the_stated_covariance():
    m = model(1, n=3, likelihood=Gaussian(0.1))
    theta, rng = np.array([-1.0, 0.4]), np.random.default_rng(5)
    draws = np.array([m.simulate(rng, theta)[0] for _ in range(4000)])
    assert np.allclose(np.cov(draws.T), m.covariance(theta), atol=0.15)


def test_pickle_and_digest():
    m = model(2)
    copy = pickle.loads(pickle.dumps(m))
    assert copy.digest() == m.digest()
    others = [model(2, jitter=1e-4), model(2, signal=LENGTH), m.with_y(-m.y), model(2, seed=1)]
    assert len({m.digest(), *(other.digest() for other in others)}) == 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"likelihood": Poisson(), "y": [1.0, -2.0, 3.0]}, r"poisson likelihood: y\[1\] is -2"),
        ({"likelihood": Poisson(), "y": [1.0, 2.5, 3.0]}, r"poisson likelihood: y\[1\] is 2.5"),
        ({"offset": OFFSET}, r"offset is Hyperprior.* with the logistic likelihood.*leave it out"),
        ({"offset": 0.3}, r"offset is 0.3 with the logistic likelihood"),
        ({"X": [0.0, 0.5, 0.0], "jitter": 0.0}, r"cases 0 and 2 have the same inputs and jitter is 0"),
        ({"X": [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]], "kronecker": True}, r"3 cases at 2 x 2 distinct"),
        ({"kronecker": True}, r"Kronecker grid: found 1 features; allowed: 2"),
        ({"X": [0.0, np.nan, 1.0]}, r"X\[1, 0\] is nan"),
        ({"y": [1.0, -1.0]}, r"X has shape \(3, 1\), y \(2,\)"),
        ({"length": [LENGTH, LENGTH]}, r"length has 2 entries; allowed: one for all, or 1"),
        ({"length": -0.5}, r"length\[0\] is -0.5; allowed: a positive number"),
        ({"signal": {"distribution": "nrom"}}, r"joint model: signal: .*did you mean 'norm'"),
        ({"jitter": -1.0}, r"jitter is -1.0"),
    ],
)  # fmt: skip
def test_bad_input(settings, message):
    given = {
        "likelihood": Logistic(),
        "X": [0.0, 0.5, 1.0],
        "y": [1.0, -1.0, 1.0],
        "length": LENGTH,
    }
    with pytest.raises(InputError, match=message) as found:
        JointModel(**(given | settings))
    assert "\n" not in str(found.value)


def test_a_grid_that_is_not_sorted():
    X = grid()[[0, 1, 2, 4, 3, *range(5, 12)]]
    with pytest.raises(InputError, match=r"case 3 is at .*sort the cases, or take kronecker=False"):
        JointModel(Logistic(), X, np.ones(12), LENGTH, kronecker=True)


def test_wrong_theta_and_new_inputs():
    m = model(2)
    with pytest.raises(
        InputError, match=r"allowed: \(3,\): log_length_1, log_length_2, log_signal"
    ):
        m.full(np.zeros(2))
    with pytest.raises(InputError, match=r"new inputs have shape \(4, 1\)"):
        checked_inputs(m, np.zeros(4))


def test_a_covariance_that_does_not_factorise():
    m = JointModel(Logistic(), np.linspace(0, 1, 60), np.ones(60), LENGTH, jitter=0.0)
    with pytest.raises(NumericalError, match=r"not positive definite.*larger jitter than 0"):
        m.filled_factor(np.array([1.0]))
