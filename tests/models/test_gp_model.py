"""GPModel: construction, names, fixed-theta models, factors, predictions at new inputs, bad input."""

from __future__ import annotations

import pickle
import tracemalloc
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import multivariate_normal

import gpmcflow as gp
from gpmcflow.approximations.conditional import State, conditional
from gpmcflow.covariances.leaves import (
    Categorical,
    Constant,
    Group,
    Linear,
    Matern32,
    Periodic,
    SquaredExponential,
    White,
)
from gpmcflow.covariances.python_covariance import PythonCovariance
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.likelihoods import (
    Binomial,
    Gaussian,
    HeteroscedasticGaussian,
    Logistic,
    NegativeBinomial,
    Poisson,
    Probit,
    StudentT,
)
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.marginal_likelihood import MarginalLikelihood
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.parameters.parameter import Parameter
from gpmcflow.samplers.joint.problem import JointProblem
from gpmcflow.samplers.joint.representations import representation
from gpmcflow.samplers.joint.workspace import JointWorkspace

LENGTH = Hyperprior.log_uniform(0.1, 10.0)
SIGNAL = Hyperprior("norm", {"scale": 0.5})
MEAN = Hyperprior("norm", {"loc": 0.5, "scale": 0.4})
SE = SquaredExponential(LENGTH, SIGNAL)
ARD = SquaredExponential(LENGTH, SIGNAL, ard=True)
FRAME = pd.DataFrame(
    {
        "age": [0.2, 1.1, -0.3, 0.7, -1.2],
        "dose": [1.0, 0.0, 2.0, 1.0, 3.0],
        "clinic": ["north", "south", "north", "west", "south"],
    }
)
LABELS = np.array([1.0, -1.0, 1.0, 1.0, -1.0])


def model(p=3, n=11, likelihood=None, seed=0, covariance=ARD, **settings):
    rng = np.random.default_rng(seed)
    likelihood = likelihood or Logistic()
    values = [1.5] * len(likelihood.entries())
    y = likelihood.with_values(values).simulate(rng, rng.standard_normal(n))
    return GPModel(rng.random((n, p)), y, covariance, likelihood, **({"jitter": 1e-3} | settings))


def grid(first=4, second=3):
    axes = np.sort(np.random.default_rng(7).random(first)), np.linspace(-1, 1, second)
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)


def matrix(X, lengths, sd, jitter):
    distances = ((X[:, None] / lengths - X[None] / lengths) ** 2).sum(-1)
    return sd**2 * (np.exp(-0.5 * distances) + jitter * np.eye(len(X)))


# -- data ------------------------------------------------------------------------------------------


def test_arrays_frames_and_xarray_give_the_same_model():
    numbers = FRAME[["age", "dose"]]
    variable = xr.DataArray(
        numbers.values, dims=("case", "feature"), coords={"feature": ["age", "dose"]}
    )
    models = [GPModel(X, LABELS, ARD, Probit()) for X in (numbers.values, numbers, variable)]
    assert models[0].names == ("length_scale[x1]", "length_scale[x2]", "signal_sd")
    assert (
        models[1].names
        == models[2].names
        == ("length_scale[age]", "length_scale[dose]", "signal_sd")
    )
    theta = models[0].draw_prior(np.random.default_rng(0))
    expected = matrix(numbers.values, np.exp(theta[:2]), np.exp(theta[2]), 1e-6)
    for m in models:
        assert np.allclose(m.covariance_matrix(theta), expected, rtol=1e-13)
    assert GPModel(FRAME["age"].values, LABELS, SE, Probit()).X.shape == (5, 1)


def test_columns_of_words():
    covariance = SquaredExponential(0.8, 1.3, columns="age") + Categorical(
        0.5, 0.7, columns="clinic"
    )
    m = GPModel(FRAME, LABELS, covariance + Group(2.0, columns="clinic"), Probit())
    assert m.inputs.levels == {"clinic": ("north", "south", "west")}
    assert m.X[:, 2].tolist() == [0, 1, 0, 2, 1]
    same = (m.X[:, 2][:, None] == m.X[:, 2]).astype(float)
    expected = matrix(m.X[:, :1], 0.8, 1.3, 0.0) + 0.49 * np.exp(-(1 - same) / 0.5) + 4.0 * same
    assert np.allclose(m.at().predictor_covariance, expected, rtol=1e-12)


# -- parameters ------------------------------------------------------------------------------------


def test_names_and_natural_values():
    covariance = (
        SquaredExponential(LENGTH, columns="age", name="trend")
        + SquaredExponential(LENGTH, columns="age") * Periodic(2.0, period=1.5, columns="dose")
        + SquaredExponential(LENGTH, columns=("age", "dose"), ard=True)
        + Linear(5.0)
    )
    counts = NegativeBinomial(exposure=np.arange(1.0, 6.0))
    m = GPModel(FRAME, np.arange(5.0), covariance, counts, MEAN)
    assert m.names == (
        "trend.length_scale",
        "trend.signal_sd",
        "squared_exponential_1.length_scale",
        "squared_exponential_1.signal_sd",
        "squared_exponential_2.length_scale[age]",
        "squared_exponential_2.length_scale[dose]",
        "squared_exponential_2.signal_sd",
        "mean",
        "size",
    )
    assert m.dim == 9
    theta = np.linspace(-0.4, 0.4, 9)
    natural = m.natural(theta)
    assert [natural[name] for name in m.names] == pytest.approx(
        [*np.exp(theta[:7]), theta[7], np.exp(theta[8])]
    )
    fixed = {
        "periodic.length_scale": 2.0,
        "periodic.period": 1.5,
        "periodic.signal_sd": 1.0,
        "linear.sd": 5.0,
    }
    assert {name: natural[name] for name in fixed} == pytest.approx(fixed)
    assert m.theta_of({name: natural[name] for name in m.names}) == pytest.approx(theta)
    assert m.parameters.to_normal(m.parameters.normal.theta(theta)[0]) == pytest.approx(theta)
    kinds = [m.touches(place) for place in m.free]
    assert kinds == ["covariance"] * 7 + ["mean", "likelihood"]
    m = GPModel(FRAME["age"].values, LABELS, SE, StudentT(scale=LENGTH, df=4.0))
    assert m.names == ("length_scale", "signal_sd", "scale")
    assert [m.touches(place) for place in m.free] == ["covariance", "scale", "likelihood"]


def test_a_shared_parameter_is_one_coordinate():
    ell = Parameter("ell", LENGTH)
    shared = SquaredExponential(ell, 1.0, columns="age") + Matern32(ell, 1.0, columns="dose")
    m = GPModel(FRAME, LABELS, shared, Probit())
    assert m.names == ("ell",)
    other = SquaredExponential(0.6, 1.0, columns="age") + Matern32(0.6, 1.0, columns="dose")
    expected = GPModel(FRAME, LABELS, other, Probit(), jitter=1e-6).covariance_matrix([])
    assert np.allclose(m.covariance_matrix(np.log([0.6])), expected, rtol=1e-13)


def test_fixed_parameters():
    covariance = SquaredExponential([0.3, LENGTH], 2.0)
    m = model(2, likelihood=Poisson(), covariance=covariance, mean=np.log(2.0))
    assert m.names == ("length_scale[x2]",)
    assert np.allclose(m.full(np.array([0.7])), [np.log(0.3), 0.7, np.log(2.0), np.log(2.0)])


def test_repr_is_short():
    text = repr(GPModel(FRAME, LABELS, SquaredExponential(0.5, 1.0, columns="age"), Probit(), 0.2))
    assert text == (
        "GPModel(n=5, p=3, SquaredExponential(length_scale=0.5, signal_sd=1.0, columns=('age',)), "
        "Probit(), mean=0.2, structure='dense')"
    )


def test_repr_of_a_mean_has_no_scale_as_a_mean_is_any_number():
    mean = Hyperprior("norm", {"loc": 5.5, "scale": 2.9})
    text = repr(GPModel(FRAME, LABELS, SquaredExponential(0.5, 1.0, columns="age"), Probit(), mean))
    assert "mean=Hyperprior('norm', {'loc': 5.5, 'scale': 2.9}), structure" in text


# -- values ----------------------------------------------------------------------------------------


def test_covariance_cross_covariance_and_variances():
    m = model(3)
    theta = m.draw_prior(np.random.default_rng(1))
    full, lengths, sd = m.full(theta), np.exp(theta[:3]), np.exp(theta[3])
    expected = matrix(m.X, lengths, sd, 1e-3)
    assert np.allclose(m.covariance_matrix(theta), expected, rtol=1e-13, atol=1e-15)
    assert np.allclose(m.prior_variance(full, m.X[:2]), sd**2 * 1.001)
    cross = m.cross_covariance(full, m.X[:4])
    assert np.allclose(cross, (expected - sd**2 * 1e-3 * np.eye(11))[:4], atol=1e-13)


def test_log_density_is_the_sum_of_its_parts():
    exposure = np.linspace(0.5, 3.0, 11)
    m = model(2, likelihood=Poisson(exposure), mean=MEAN)
    rng = np.random.default_rng(2)
    theta, f = m.draw_prior(rng), rng.standard_normal(11)
    priors = (LENGTH, LENGTH, SIGNAL, MEAN)
    expected = (
        sum(p.log_density(t) for p, t in zip(priors, theta, strict=True))
        + multivariate_normal(np.zeros(11), m.covariance_matrix(theta)).logpdf(f)
        + Poisson(exposure).log_density(f + theta[-1], m.y)
    )
    assert m.log_density(theta, f) == pytest.approx(expected, rel=1e-11)
    assert m.log_likelihood(np.stack([f, f + 1]), theta).shape == (2,)


@pytest.mark.parametrize("jitter", [None, 0.01])
def test_at_is_the_model_of_latents_at_theta(jitter):
    covariance = Matern32(LENGTH, SIGNAL) * Periodic(2.0, period=0.9, columns=0) + Linear(SIGNAL)
    dispersion = Hyperprior("norm", {"loc": 1.0, "scale": 0.3})
    m = model(
        2, likelihood=NegativeBinomial(dispersion), covariance=covariance, mean=MEAN, jitter=jitter
    )
    theta, rng = m.draw_prior(np.random.default_rng(3)), np.random.default_rng(4)
    at, natural = m.at(theta), m.natural(theta)
    a = np.sqrt(3) * np.sqrt(((m.X[:, None] - m.X) ** 2).sum(-1)) / natural["matern32.length_scale"]
    wave = np.sin(np.pi * (m.X[:, :1] - m.X[:, 0]) / 0.9) ** 2
    K = natural["matern32.signal_sd"] ** 2 * (1 + a) * np.exp(-a) * np.exp(-2 * wave / 2.0**2)
    K += (1e-6 if jitter is None else jitter) * np.diag(np.diag(K))  # a line needs none
    K += natural["linear.sd"] ** 2 * m.X @ m.X.T
    assert np.allclose(at.predictor_covariance, K, rtol=1e-10)
    assert np.allclose(at.predictor_mean, natural["mean"])
    eta = rng.standard_normal(11)
    expected = NegativeBinomial(natural["size"]).log_density(eta, m.y)
    assert float(at.likelihood.log_density(eta, at.y)) == pytest.approx(float(expected))
    new = rng.random((3, 2))
    assert np.allclose(at.covariance_function(new, m.X), m.cross_covariance(m.full(theta), new))


def test_predictions_at_new_inputs_of_a_fixed_model():
    X, new = np.linspace(0, 1, 9), np.array([0.3, 1.7])
    m = GPModel(X, np.sin(6 * X), SquaredExponential(0.3, 1.2), Gaussian(0.2), jitter=1e-8)
    f = np.random.default_rng(0).standard_normal((2, 9))
    K = matrix(X[:, None], 0.3, 1.2, 1e-8)
    k = 1.44 * np.exp(-0.5 * ((new[:, None] - X) / 0.3) ** 2)
    expected = (k @ np.linalg.solve(K, f.T)).mean(1)
    found = conditional(State(m.at(), f), new).mean_response()
    assert np.allclose(found, expected, rtol=1e-6)


def test_new_inputs_of_frames():
    covariance = SquaredExponential(LENGTH, columns="age") + Categorical(LENGTH, columns="clinic")
    m = GPModel(FRAME, LABELS, covariance, Probit())
    shuffled = FRAME[["clinic", "dose", "age"]].assign(more=1.0)
    used = [0, 2]  # dose is in no covariance: nobody has to give it
    assert np.array_equal(m.new_inputs(shuffled)[:, used], m.X[:, used])
    assert np.array_equal(m.new_inputs(FRAME[["clinic", "age"]])[:, used], m.X[:, used])
    with pytest.raises(
        InputError, match=r"new inputs: column: unknown name 'age'.*did you mean 'agee'"
    ):
        m.new_inputs(FRAME.rename(columns={"age": "agee"}))
    with pytest.raises(
        InputError, match=r"new inputs have 1 columns; allowed: 3: age, dose, clinic"
    ):
        m.new_inputs(np.zeros(4))


def test_levels_that_were_not_seen():
    new = FRAME.assign(clinic=["north", "east", "east", "abroad", "west"])
    covariance = Constant(1.0) + Categorical(0.5, 0.7, columns="clinic")
    m = GPModel(FRAME, LABELS, covariance, Probit())
    with pytest.raises(
        InputError, match=r"column 'clinic', row 1 has the level 'east'.*unseen=\"new\""
    ):
        m.new_inputs(new)
    with pytest.raises(InputError, match=r"unseen: unknown name 'nwe'.*did you mean 'new'"):
        m.new_inputs(new, unseen="nwe")
    rows = m.new_inputs(new, unseen="new")
    assert rows[[0, 4], 2].tolist() == [0, 2]
    cross = m.cross_covariance(m.full([]), rows)
    apart = 1.0 + 0.49 * np.exp(-1 / 0.5)
    assert np.allclose(cross[1:4], apart)
    groups = GPModel(FRAME, LABELS, Constant(1.0) + Group(0.7, columns="clinic"), Probit())
    assert np.allclose(groups.cross_covariance(groups.full([]), groups.new_inputs(new))[1:4], 1.0)
    both = GPModel(FRAME, LABELS, covariance + Group(0.7, columns="clinic"), Probit())
    with pytest.raises(InputError, match="was not seen"):
        both.new_inputs(new)
    with pytest.raises(InputError, match="columns clinic hold words; give a DataFrame"):
        m.new_inputs(np.zeros((2, 3)))
    with pytest.raises(InputError, match="column 'clinic', row 1 is missing"):
        m.new_inputs(FRAME.assign(clinic=["north", None, "south", "west", "west"]))
    codes = GPModel(np.arange(5.0), LABELS, Categorical(0.5, 0.7, columns=0), Probit())
    with pytest.raises(
        InputError, match=r"has the level '99.0', which was not seen; allowed: 0, 1"
    ):
        codes.new_inputs(np.array([1.0, 99.0]))


def test_other_observations_and_some_of_the_cases():
    covariance = SquaredExponential(LENGTH, columns="age") + Group(SIGNAL, columns="clinic")
    counts = Poisson(exposure=np.arange(1.0, 6.0))
    m = GPModel(FRAME, np.arange(5.0), covariance, counts, MEAN)
    other = m.with_y(np.ones(5))
    assert other.y.tolist() == [1.0] * 5
    assert other.inputs.levels == m.inputs.levels
    theta, cases = m.prior_median(), np.array([3, 0])
    some = m.take(cases)
    assert some.names == m.names
    K = m.covariance_matrix(theta)
    assert np.allclose(some.covariance_matrix(theta), K[np.ix_(cases, cases)])
    assert some.likelihood.exposure.tolist() == [4.0, 1.0]
    assert some.new_inputs(FRAME)[:, 2].tolist() == m.X[:, 2].tolist()  # levels stay


def test_simulation_has_the_stated_covariance():
    m = model(1, n=3, likelihood=Gaussian(0.1), mean=2.0)
    theta, rng = np.array([-1.0, 0.4]), np.random.default_rng(5)
    f, y = np.moveaxis([m.simulate(rng, theta) for _ in range(4000)], 1, 0)
    assert np.allclose(np.cov(f.T), m.covariance_matrix(theta), atol=0.15)
    assert np.allclose((y - f).mean(0), 2.0, atol=0.01)
    assert np.allclose((y - f).std(0), 0.1, atol=0.01)


def test_pickle_and_digest():
    m = model(2, likelihood=Poisson(), covariance=ARD, mean=MEAN)
    copy = pickle.loads(pickle.dumps(m))
    assert copy.digest() == m.digest()
    renamed = pd.DataFrame(m.X, columns=["a", "b"])
    others = [
        replace(m, X=m.inputs, jitter=1e-4),
        replace(m, X=m.inputs, mean=0.3),
        m.with_y(m.y + 1.0),
        replace(m, X=m.inputs, likelihood=Poisson(2.0)),
        replace(m, X=m.inputs, covariance=SE),
        replace(m, X=renamed),
        replace(m, X=m.X + 1.0),
        m.take(np.arange(5)),
        replace(m, X=m.inputs, covariance=SquaredExponential(LENGTH, LENGTH, ard=True)),
    ]
    digests = {m.digest(), *(other.digest() for other in others)}
    X, y = grid(), np.ones(12)
    digests |= {GPModel(X, y, ARD, Poisson(), structure=s).digest() for s in ("dense", "kronecker")}
    assert len(digests) == 12


# -- factors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [3, 7])
def test_one_length_scale_moved(p):
    m = model(p)
    old, moved, again = m.factor(), m.factor(), m.factor()
    full = m.full(m.draw_prior(np.random.default_rng(3)))
    assert old.fill(full)
    full[1] += 0.8
    assert moved.fill_from(old, full, 1)
    assert again.fill(full)
    assert np.allclose(moved.dense(), again.dense(), rtol=1e-11, atol=1e-13)
    assert moved.log_det == pytest.approx(again.log_det)
    assert len({old.stamp, moved.stamp, again.stamp}) == 3


BOTH = Parameter("s", SIGNAL)  # no scale of K, where it is in a term of the other axis too
FACTORS = {
    "lengths": ARD,
    "isotropic": SE,
    "product": Matern32(LENGTH, SIGNAL, columns=0) * Periodic(LENGTH, period=0.8, columns=1),
    "shared": Matern32(LENGTH, BOTH, columns=0)
    * (SquaredExponential(LENGTH, BOTH, columns=1) + Constant(1.0)),
}


@pytest.mark.parametrize("structure", ["dense", "kronecker"])
@pytest.mark.parametrize("name", FACTORS)
def test_operations_of_the_factors(name, structure):
    X, rng = grid(), np.random.default_rng(4)
    m = GPModel(X, np.ones(12), FACTORS[name], Probit(), jitter=1e-2, structure=structure)
    assert m.kronecker == (structure == "kronecker")
    full = m.full(0.3 * rng.standard_normal(m.dim))
    F, s = m.filled_factor(full), m.scale(full)
    assert (m.scale_place is None) == (name == "shared")
    assert s == (1.0 if name == "shared" else np.exp(full[m.scale_place]))
    K = m.cross_covariance(full, X) / s**2
    if m.kronecker:  # the jitter stands on each axis
        first, second = K[::3, ::3] / K[0, 0], K[:3, :3]
        share = 1.0  # of what needs a jitter: a constant does not
        if name == "shared":
            share = np.exp(2.0 * full[1]) / (1.0 + np.exp(2.0 * full[1]))
        K = np.kron(first + 0.01 * np.eye(4), second + 0.01 * share * K[0, 0] * np.eye(3))
    else:
        K += 0.01 * np.diag(np.diag(K))
    L = np.linalg.cholesky(K)
    v, rows = rng.standard_normal(12), rng.standard_normal((3, 12))
    assert np.allclose(F.dense(), L, atol=1e-12)
    assert np.allclose(F.multiply(v), L @ v)
    assert np.allclose(F.transposed(v), L.T @ v)
    assert np.allclose(F.solve(v), np.linalg.solve(L, v), atol=1e-10)
    assert np.allclose(F.multiply_rows(rows.copy(), 1.3), 1.3 * rows @ L.T)
    assert F.log_det == pytest.approx(np.log(np.diag(L)).sum())
    assert np.allclose(F.diagonal, np.diag(K))
    w, out = rng.random(12), np.zeros((12, 12))
    F.weighted_gram(w, 1.3, out)
    assert np.allclose(np.tril(out.T), np.tril(1.69 * L.T @ np.diag(w) @ L))
    assert np.allclose(np.tril(F.gram().T), np.tril(L.T @ L))


def test_exponentials_far_apart_do_not_fail():
    m = GPModel(np.array([0.0, 1e3, 2e3]), np.ones(3), SquaredExponential(LENGTH, 1.0), Probit())
    K = m.covariance_matrix(np.array([0.0]))
    assert np.allclose(K, np.eye(3) * (1 + 1e-6), rtol=1e-15, atol=1e-99)


def test_a_covariance_that_does_not_factorise():
    covariance = SquaredExponential(LENGTH, 1.0)
    m = GPModel(np.linspace(0, 1, 60), np.ones(60), covariance, Logistic(), jitter=0.0)
    with pytest.raises(NumericalError, match=r"not positive definite.*larger jitter than 0"):
        m.filled_factor(m.full([1.0]))


# -- bad input -------------------------------------------------------------------------------------

BAD = {
    "unknown column": (
        {"covariance": SquaredExponential(columns="agee")},
        r"SquaredExponential: column: unknown name 'agee'.*did you mean 'age'",
    ),
    "words in a column of numbers": (
        {"covariance": SquaredExponential(columns="clinic")},
        r"column 'clinic' holds words \(north, south, west.*categorical and group only",
    ),
    "two amplitudes": (
        {"covariance": SE * Matern32(LENGTH, SIGNAL)},
        r"amplitudes of SquaredExponential and Matern32 are both free in one product",
    ),
    "exposure": (
        {"likelihood": Poisson, "exposure": [1.0, 2.0, 0.0, 1.0, 1.0]},
        r"exposure\[2\] is 0; allowed: a positive number",
    ),
    "exposure of other cases": (
        {"likelihood": Poisson, "exposure": [1.0, 2.0]},
        r"exposure has 2 entries, y has 5",
    ),
    "k above n": ({"likelihood": Binomial, "trials": 3, "y": [1, 2, 3, 4, 0]}, r"y\[3\] is 4.*3"),
    "negative count": (
        {"likelihood": Poisson, "y": [1.0, -2.0, 3.0, 0.0, 0.0]},
        r"poisson likelihood: y\[1\] is -2",
    ),
    "no count": (
        {"likelihood": Poisson, "y": [1.0, 2.5, 3.0, 0.0, 0.0]},
        r"poisson likelihood: y\[1\] is 2.5",
    ),
    "zero variance": (
        {"X": [0.5, 0.0, 1.0, 2.0, 3.0], "covariance": Linear()},
        r"prior variance of case 1 is 0; add Constant\(\) or White\(\)",
    ),
    "duplicates": (
        {"X": [0.0, 0.5, 0.0, 1.0, 2.0], "jitter": 0.0},
        r"cases 0 and 2 have the same inputs and jitter is 0",
    ),
    "duplicates in the columns in use": (
        {"covariance": SquaredExponential(columns="dose"), "jitter": 0.0},
        r"cases 0 and 3 have the same inputs",
    ),
    "no grid": (
        {"X": [[0, 4], [1, 2], [2, 0], [3, 1], [4, 3]], "structure": "kronecker"},
        r"Kronecker grid: 5 cases at 5 x 5 distinct coordinates are no grid: 5 of the 25 cells have a case; "
        r"allowed: one in 4 or more; take structure",
    ),
    "Gaussian noise with a missing cell": (
        {
            "X": [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1]],
            "likelihood": Gaussian,
            "structure": "kronecker",
        },
        r"Kronecker grid: 5 cases are not the cells of the grid row by row, which Gaussian noise and several "
        r"functions ask for; take structure",
    ),
    "three columns": (
        {"X": np.arange(15.0).reshape(5, 3), "structure": "kronecker"},
        r"Kronecker grid: 3 columns; allowed: 2; take structure=\"dense\"",
    ),
    "one column": (
        {"X": np.arange(5.0), "structure": "kronecker"},
        r"Kronecker grid: 1 columns; allowed: 2",
    ),
    "missing number": (
        {"X": FRAME.assign(dose=[1.0, np.nan, 0.0, 1.0, 2.0])},
        r"X: column 'dose', row 1 is missing",
    ),
    "missing word": (
        {"X": FRAME.assign(clinic=["north", "west", None, "west", "west"])},
        r"X: column 'clinic', row 2 is missing",
    ),
    "y": ({"y": [1.0, -1.0]}, r"X has shape \(5, 3\), y \(2,\)"),
    "missing y": ({"y": [1.0, np.nan, 1.0, 1.0, 1.0]}, r"y\[1\] is nan"),
    "entries": (
        {"covariance": SquaredExponential([LENGTH, LENGTH, LENGTH])},
        r"length_scale has 3 entries for 2 columns \(age, dose\)",
    ),
    "covariance": (
        {"covariance": 3.0},
        r"covariance is 3.0; allowed: covariances .* or their text",
    ),
    "likelihood": ({"likelihood": str}, r"likelihood is ''; allowed: a likelihood"),
    "jitter": ({"jitter": -1.0}, r"jitter is -1.0"),
    "mean": ({"mean": np.inf}, r"model: mean is inf; allowed: a finite number"),
    "structure": (
        {"structure": "kroneker"},
        r"structure: unknown name 'kroneker'.*did you mean 'kronecker'",
    ),
    "one name": (
        {
            "covariance": SquaredExponential(columns="age", name="a")
            + SquaredExponential(columns="dose", name="a")
        },
        r"have one name, 'a.length_scale'",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    settings, message = BAD[name]
    given = {"X": FRAME, "y": LABELS, "covariance": SE, "likelihood": Logistic} | settings
    constants = {key: given.pop(key) for key in ("exposure", "trials") if key in given}
    counted = isinstance(given["likelihood"], type) and given["likelihood"] in (Poisson, Binomial)
    if counted and "y" not in settings:
        given["y"] = np.ones(5)
    with pytest.raises(InputError, match=message) as error:
        GPModel(**(given | {"likelihood": given["likelihood"](**constants)}))
    assert "\n" not in str(error.value)


def test_a_period_without_a_value():
    with pytest.raises(InputError, match=r"Periodic: period is missing, and has no default"):
        Periodic(LENGTH)


def test_a_grid_whose_columns_share_a_covariance():
    X, y = grid(), np.ones(12)
    for covariance in (Matern32(LENGTH), SE + Constant(), SE + White()):
        with pytest.raises(InputError, match=r"Kronecker grid: .*needs both columns|white noise"):
            GPModel(X, y, covariance, Logistic(), structure="kronecker")
        assert not GPModel(X, y, covariance, Logistic()).kronecker


def test_scattered_inputs_are_found_to_be_no_grid_without_one_being_made():
    X = np.random.default_rng(0).random((4000, 2))
    tracemalloc.start()
    try:
        assert not GPModel(X, np.ones(4000), SE, Logistic()).kronecker
        assert tracemalloc.get_traced_memory()[1] < 4000 * 4000
    finally:
        tracemalloc.stop()


def test_duplicates_with_noise_of_their_own():
    X = [0.0, 0.5, 0.0]
    for covariance, likelihood in ((SE, Gaussian(0.1)), (SE + White(), Probit())):
        assert GPModel(X, np.ones(3), covariance, likelihood, jitter=0.0).n_cases == 3


def test_wrong_theta_and_starts():
    m = model(2)
    with pytest.raises(
        InputError, match=r"allowed: \(3,\): length_scale\[x1\], length_scale\[x2\]"
    ):
        m.full(np.zeros(2))
    with pytest.raises(
        InputError, match=r"parameter: unknown name 'signal'.*did you mean 'signal_sd'"
    ):
        m.theta_of({"signal": 1.0})
    values = {"length_scale[x1]": 1.0, "length_scale[x2]": 1.0}
    with pytest.raises(InputError, match=r"no value for signal_sd"):
        m.theta_of(values)
    with pytest.raises(InputError, match=r"signal_sd is -1.0; allowed: a positive number"):
        m.theta_of(values | {"signal_sd": -1.0})
    start = m.theta_of(values | {"length_scale[x2]": 30.0, "signal_sd": 1.0})
    with pytest.raises(InputError, match=r"start of length_scale\[x2\] is 3.4.*no density"):
        JointProblem.of(m, start)


def test_named_features_are_matched_by_name():
    X = xr.DataArray(np.random.default_rng(0).random((5, 2)), dims=("case", "feature"))
    X = X.assign_coords(feature=["a", "b"])
    m = GPModel(X, LABELS, SE, Probit())
    swapped = X.isel(feature=[1, 0])
    assert np.array_equal(m.new_inputs(swapped), X.values)


@pytest.mark.parametrize("rep", ["fixed", "prior-white", "surr-site"])
def test_a_parameter_of_covariance_and_likelihood_moves_both(rep):
    s = Parameter("s", SIGNAL)
    covariance = SquaredExponential(1.0, s, columns=0) + Matern32(1.0, 1.0, columns=1)
    X = np.random.default_rng(1).random((9, 2))
    m = GPModel(X, np.linspace(-1.0, 1.0, 9), covariance, StudentT(s, 4.0))
    assert m.names == ("s",)
    chain, moved = JointWorkspace(m, representation(rep)), np.array([0.4])
    chain.start(np.zeros(1), np.full(9, 0.3))
    chain.begin_sweep(np.random.default_rng(2))
    chain.accept(chain.propose(m.full(moved), int(m.free[0])))
    expected = m.log_density(moved, chain.point.f) - m.log_prior(moved)
    assert chain.complete_log_likelihood() == pytest.approx(expected, rel=1e-10)


def wave(X, X2, p):
    return np.exp(-np.abs(X - X2.T) / p["s"])


def test_an_amplitude_that_a_function_shares_is_no_common_scale():
    s = Parameter("s", SIGNAL)
    covariance = SquaredExponential(1.0, s, columns=0) * PythonCovariance(wave, {"s": s}, columns=1)
    X = np.random.default_rng(1).random((5, 2))
    m = GPModel(X, LABELS, covariance, Probit(), jitter=0.0)
    assert m.scale_place is None
    K = 1.2**2 * np.exp(-0.5 * (X[:, :1] - X[:, 0]) ** 2) * wave(X[:, 1:], X[:, 1:], {"s": 1.2})
    assert np.allclose(m.covariance_matrix(np.log([1.2])), K, rtol=1e-10)


def test_gaussian_noise_on_a_grid_is_one_model():
    ticks = np.arange(4.0)
    X = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 2)
    y = np.random.default_rng(0).standard_normal(16)
    for structure, kronecker in (("auto", False), ("kronecker", True)):
        m = GPModel(X, y, SE, Gaussian(0.3), jitter=1e-2, structure=structure)
        assert m.kronecker == kronecker
        theta = np.array([0.2, 0.1])
        C = m.covariance_matrix(theta) + 0.09 * np.eye(16)
        exact = multivariate_normal(np.zeros(16), C).logpdf(y)
        assert MarginalLikelihood(m).value(m.full(theta)) == pytest.approx(exact, rel=1e-10)


def test_digests_tell_functions_and_long_arrays_apart():
    X, y = np.arange(5.0), LABELS

    def digest(function):
        return GPModel(X, y, PythonCovariance(function, {"s": 1.0}), Probit()).digest()

    functions = [
        partial(wave_of_power, power=1.0),
        partial(wave_of_power, power=2.0),
        lambda X, X2, p: wave(X, X2, p) + 1.0,
        lambda X, X2, p: wave(X, X2, p) + 2.0,
    ]
    assert len({digest(function) for function in functions}) == 4

    @dataclass(frozen=True)
    class Own(Probit):
        weights: np.ndarray

    weights = np.ones(1200)
    other = weights.copy()
    other[600] = 2.0
    assert Own(weights).digest() != Own(other).digest()


def wave_of_power(X, X2, p, power):
    return wave(X, X2, p) ** power


def test_a_series_in_another_order_than_its_frame_is_refused():
    """Rows are paired by place: shuffled responses would be fitted to the rows of others."""
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=["i", "j", "k"])
    y = pd.Series([0.5, 1.5, 2.5], index=["i", "j", "k"])
    shuffled = y.loc[["k", "i", "j"]]
    with pytest.raises(InputError, match=r"other indices.*y\.loc\[X\.index\]"):
        GPModel(frame, shuffled, Linear(3.0), Gaussian(0.1))
    kept = GPModel(frame, shuffled.loc[frame.index], Linear(3.0), Gaussian(0.1))
    np.testing.assert_array_equal(kept.y, y)
    np.testing.assert_array_equal(
        GPModel(frame, shuffled.to_numpy(), Linear(3.0), Gaussian(0.1)).y, shuffled
    )


def test_data_are_copied_and_words_for_responses_refused():
    X = np.random.default_rng(0).random((5, 2))
    m = GPModel(X, LABELS, SE, Probit())
    before = m.digest()
    X[0, 0] = 9.0
    assert m.digest() == before
    with pytest.raises(InputError, match="y holds other than numbers"):
        GPModel(X, ["yes", "no", "yes", "no", "yes"], SE, Gaussian())
    with pytest.raises(InputError, match="holds dates; convert it to a number"):
        GPModel(X, pd.date_range("2020-01-01", periods=5), SE, Probit())
    with pytest.raises(InputError, match="have the same inputs and jitter is 0"):
        GPModel(X, LABELS, Constant(1.0), Probit(), jitter=0.0, structure="dense")
    with pytest.raises(InputError, match="a parameter is named 'theta'"):
        GPModel(X, LABELS, SquaredExponential(Parameter("theta", SIGNAL)), Probit())


@pytest.mark.parametrize(
    ("covariance", "settings", "message"),
    [
        (SE + Constant(SIGNAL), {"mean": MEAN}, "a free mean beside a free Constant"),
        (SE + White(SIGNAL), {"likelihood": Gaussian(SIGNAL)}, "free White beside free noise"),
        (Periodic(1.0, 1.0, SIGNAL, columns=0), {}, "more than a factor of 2"),
    ],
)
def test_what_cannot_be_told_apart_is_warned_of(covariance, settings, message, caplog):
    likelihood = settings.pop("likelihood", Probit())
    GPModel(np.arange(5.0), LABELS, covariance, likelihood, **settings)
    assert message in caplog.text
    caplog.clear()
    GPModel(np.arange(5.0), LABELS, SE + Constant(1.0) + White(0.1), likelihood, mean=0.5)
    assert not caplog.text


def test_units_of_y_that_hyperpriors_do_not_allow(caplog):
    """Said of y in 1e6 and 1e-6 under default hyperpriors, of no y that they or the user's own allow."""
    x, rng = np.linspace(0.0, 5.0, 30), np.random.default_rng(0)
    y = np.sin(x) + 0.2 * rng.standard_normal(30)
    wide, level = Hyperprior.log_uniform(1e4, 1e8), Hyperprior("norm", {"loc": 5e6, "scale": 1e6})
    for units, covariance, likelihood, mean, told in (
        (1e6, Matern32(), Gaussian(), 0.0, True),
        (1e6, Matern32() + Linear(), StudentT(), 0.0, True),
        (1e-6, Matern32(), Gaussian(), 0.0, True),
        (1.0, Matern32(), Gaussian(), 0.0, False),
        (1.0, Matern32() + Linear(), StudentT(), 0.0, False),
        (1e6, Matern32(1.0, wide), Gaussian(wide), 0.0, False),
        (1e6, Matern32(1.0, wide), Gaussian(wide), level, False),
    ):
        caplog.clear()
        GPModel(x, units * y + (5e6 if mean is level else 0.0), covariance, likelihood, mean)
        assert ("standardise y" in caplog.text) == told, (units, covariance, likelihood)
    for units, told in ((1e6, True), (1e-6, True), (1.0, False)):
        caplog.clear()
        functions = {"mean": Matern32(), "log_sd": Matern32()}
        GPModel(x, units * y, functions, HeteroscedasticGaussian())
        assert ("standardise y" in caplog.text) == told, units
    caplog.clear()
    GPModel(x, np.full(30, 1e6), Matern32(), Poisson())
    assert not caplog.text  # counts have no units


def test_a_covariance_may_be_text():
    frame = pd.DataFrame({"age": [1.0, 2.0, 4.0], "ward": ["a", "b", "a"]})
    text = "matern32(age) + group(ward, signal_sd=2.0)"
    of_text = gp.GPModel(frame, np.ones(3), text, gp.Gaussian(0.1))
    made = gp.Matern32(columns="age") + gp.Group(2.0, columns="ward")
    assert of_text.covariance == gp.GPModel(frame, np.ones(3), made, gp.Gaussian(0.1)).covariance
    with pytest.raises(InputError, match=r"model: covariance: .* did you mean 'matern32'"):
        gp.GPModel(frame, np.ones(3), "mattern32(age)", gp.Gaussian(0.1))
