"""Basis functions: sizes and errors, spectral scales, terms as blocks of columns, what cannot be one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.special import gammaln

from gpmcflow.covariances import basis_functions
from gpmcflow.covariances.basis_binding import covariance_error
from gpmcflow.covariances.basis_blocks import BasisBlocks, EigenBlock
from gpmcflow.covariances.basis_design import BasisDesign
from gpmcflow.covariances.basis_functions import (
    BasisFunctions,
    axis_size,
    box_width,
    correlation,
    fourier_log_scales,
    log_scales,
    squared_frequencies,
)
from gpmcflow.covariances.leaves import (
    Categorical,
    Constant,
    Group,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    SquaredExponential,
    White,
)
from gpmcflow.covariances.sine_series import SineSeries
from gpmcflow.errors import InputError
from gpmcflow.likelihoods import Gaussian, Probit
from gpmcflow.models.gp_model import GPModel
from gpmcflow.parameters.hyperpriors import Hyperprior

LENGTH = Hyperprior.log_uniform(0.3, 2.0)
SIGNAL = Hyperprior.log_uniform(0.3, 3.0)


def unit_block(nu, shortest, longest, error, D):
    """Functions of the rule for lengths over the data's half width, which is 1."""
    share = BasisFunctions(error=error).axis_error(D)
    box = box_width(nu, longest, share)
    m = axis_size(nu, shortest, box, share)
    ones = np.ones(D)
    return EigenBlock("f", tuple(range(D)), nu, 0 * ones, box * ones, ones, (m,) * D, (0,) * D, 1)


def test_constants_of_the_rule():
    smooth = (np.inf, 2.5, 1.5)
    assert [round(box_width(nu, 10.0, 0.01) / 10 - 0.1, 2) for nu in smooth] == [1.52, 1.79, 1.92]
    sizes = [axis_size(nu, 1e-4, 1.0, 0.01) * 1e-4 for nu in smooth]
    assert np.allclose(sizes, [1.64, 2.57, 3.72], atol=0.005)


@pytest.mark.parametrize("nu", [np.inf, 2.5, 1.5])
@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("error", [0.01, 0.001])
def test_the_error_of_the_rule_holds_over_length_scales(nu, D, error):
    low, high = (0.15, 1.0) if D == 1 else (0.5, 1.0)
    for shortest, longest in ((low, low), (low, high), (high, high)):
        block = unit_block(nu, shortest, longest, error, D)
        for length in np.linspace(shortest, longest, 4):
            assert covariance_error(block, np.full(D, length)) < 2.5 * error
    # the rule is no tighter than it has to be: at both ends of its range it spends what it may
    assert covariance_error(unit_block(nu, low, low, error, D), np.full(D, low)) > 0.7 * error


@pytest.mark.parametrize("wrong", ["too few functions", "too narrow a box"])
def test_a_wrong_rule_is_caught(wrong):
    block = unit_block(2.5, 0.3, 1.0, 0.01, 1)
    m, box = block.sizes[0], block.half_widths
    changed = {"too few functions": (m // 2, box), "too narrow a box": (m, 0.6 * box)}
    size, width = changed[wrong]
    other = EigenBlock("f", (0,), 2.5, np.zeros(1), width, np.ones(1), (size,), (0,), 1)
    assert max(covariance_error(other, np.full(1, at)) for at in (0.3, 1.0)) > 2.5 * 0.01


@pytest.mark.parametrize("nu", [np.inf, 0.5, 1.5, 2.5])
def test_scales_are_the_spectral_density(nu):
    """In one dimension by Fourier's integral; the derivatives by central differences."""
    length = 0.7
    squares = squared_frequencies([1.5], [3])
    value, slope = log_scales(nu, squares, np.log([length]))
    for k, omega in enumerate(np.sqrt(squares[0])):
        integral = quad(lambda r: correlation(nu, r / length), 0, 60, weight="cos", wvar=omega)[0]
        assert value[k] == pytest.approx(0.5 * np.log(2 * integral), abs=1e-6)
    up, down = (log_scales(nu, squares, np.log([length]) + h)[0] for h in (1e-5, -1e-5))
    assert np.allclose(slope[0], (up - down) / 2e-5, atol=1e-8)


LEAVES = {"se": SquaredExponential, "12": Matern12, "32": Matern32, "52": Matern52}


@pytest.mark.parametrize("kind", LEAVES)
@pytest.mark.parametrize("D", [1, 2, 3])
def test_scales_of_several_columns(kind, D):
    """k = sum s^2 phi phi' at points in the middle of a wide box; rough covariances take many functions."""
    leaf, lengths = LEAVES[kind], tuple(np.linspace(0.9, 1.1, D))
    m = {1: 390, 2: 19, 3: 7}[D] if kind != "se" else {1: 40, 2: 18, 3: 7}[D]
    box = {1: 4.5, 2: 3.5, 3: 2.6}[D]
    nu = leaf.smoothness
    ones = np.ones(D)
    block = EigenBlock("f", tuple(range(D)), nu, 0 * ones, box * ones, ones, (m,) * D, (0,) * D, 1)
    X = 0.4 * np.random.default_rng(0).uniform(-1, 1, (12, D))
    functions = BasisDesign(BasisBlocks([block]), X).matrix()
    scales, _ = log_scales(nu, block.squares, np.log(lengths))
    approximation = (functions * np.exp(2 * scales)) @ functions.T
    exact = leaf(lengths if D > 1 else lengths[0], 1.0)(X)
    far = ~np.eye(12, dtype=bool)  # cusps at zero distance take longest
    limit = {"se": 0.05, "52": 0.06, "32": 0.1, "12": 0.35}[kind] if D > 1 else 0.01
    assert np.max(np.abs(approximation - exact)[far]) < limit


def test_the_exponent_of_matern_without_the_dimension_is_caught(monkeypatch):
    X = np.random.default_rng(0).uniform(-1, 1, (30, 2))
    model = GPModel(X, np.zeros(30), Matern52(0.8, 1.0), Gaussian(0.1), structure="basis")
    block = model.basis.eigen[0]
    assert covariance_error(block, np.full(2, 0.8)) < 0.025
    whole = basis_functions.log_scales

    def without(nu, squares, log_lengths):
        scaled = np.exp(2.0 * log_lengths)[:, None] * squares
        value, slopes = whole(nu, squares, log_lengths)
        return value + 0.5 * np.log(2.0 * nu + scaled.sum(0)), slopes

    monkeypatch.setattr("gpmcflow.covariances.basis_binding.log_scales", without)
    assert covariance_error(block, np.full(2, 0.8)) > 0.1


# -- terms -----------------------------------------------------------------------------------------

rng = np.random.default_rng(3)
TABLE = pd.DataFrame({
    "a": rng.uniform(-1, 1, 40), "b": rng.uniform(0, 3, 40),
    "town": rng.choice(["Leeds", "York", "Bath"], 40), "day": rng.integers(0, 5, 40),
})  # fmt: skip
Y = np.where(rng.random(40) < 0.5, 1.0, -1.0)
EXACT = {
    "constant": Constant(1.3),
    "linear": Linear((0.7, 1.4), columns=("a", "b")),
    "linear, one sd": Linear(0.7, columns=("a", "b")),
    "group": Group(0.8, columns="town"),
    "group of two columns": Group(0.8, columns=("town", "day")),
    "categorical": Categorical(0.6, 1.2, columns="day"),
}


def matrix(model):
    """Phi S^2 Phi' of a model with fixed parameters, from products with its columns."""
    scales, _ = model.basis.scales(model.full(()))
    design = model.basis_design
    columns = [design.multiply(e, np.empty(design.n)) for e in np.diag(scales)]
    return np.array(columns).T @ np.array(columns)


@pytest.mark.parametrize("name", EXACT)
def test_terms_that_are_columns_are_exact(name):
    model = GPModel(TABLE, Y, EXACT[name] + Constant(0.5), Probit(), structure="basis")
    assert np.allclose(matrix(model), EXACT[name](TABLE) + 0.25, atol=1e-12)


@pytest.mark.parametrize("length", [0.1, 0.5, 3.0])
def test_a_periodic_term_is_its_fourier_series(length):
    """Within the error that was asked for, with as many waves as that takes."""
    term = Periodic(length, 1.2, period=0.9, columns="b")
    for error in (0.01, 1e-6):
        structure = BasisFunctions(error=error)
        model = GPModel(TABLE, Y, term + Constant(0.5), Probit(), structure=structure)
        wrong = np.max(np.abs(matrix(model) - term(TABLE) - 0.25)) / 1.2**2
        assert wrong <= error
        (wave,) = model.basis.waves
        assert wave.left_out(length) <= error
        if wave.n_waves > 2:
            assert replace(wave, n_waves=wave.n_waves - 1).left_out(length) > error


def test_the_scales_of_waves_far_from_where_bessel_functions_are_numbers():
    """Where they underflow, by their first term; the slopes by differences."""
    for log_length in (-4.0, 0.0, 4.0, 9.0):
        logs, slopes = fourier_log_scales(60, log_length)
        assert np.isfinite(logs).all()
        up, down = (fourier_log_scales(60, log_length + h)[0] for h in (1e-5, -1e-5))
        assert np.allclose(slopes, (up - down) / 2e-5, rtol=1e-6, atol=1e-6)
    expected = 0.5 * (np.log(2.0) - 60 * np.log(2.0) - 2 * 60 * 9.0 - gammaln(61.0))
    assert np.isclose(fourier_log_scales(60, 9.0)[0][-1], expected, rtol=1e-7)


SUMS = {
    "waves": Periodic(1.0, 1.3, period=0.4, columns="a") + Linear(columns="b"),
    "one column": SquaredExponential(1.0, 1.3, columns="a") + Linear(columns="b"),
    "two columns": SquaredExponential((0.8, 2.0), 1.3, columns=("a", "b")) + Group(columns="day"),
    "two of two": SquaredExponential(1.1, 1.3, columns=("a", "b"))
    + Categorical(columns="town")
    + Group(0.7, columns="day")
    + Constant(),
    "three": Matern52((1.0, 3.0, 4.0), 1.0, columns=("a", "b", "day")),
}


@pytest.mark.parametrize("name", SUMS)
def test_products_agree_with_the_columns_written_out(name):
    model = GPModel(TABLE, Y, SUMS[name], Probit(), structure=BasisFunctions(error=0.1))
    design, m = model.basis_design, model.n_latents
    whole = design.matrix()
    w, v = np.random.default_rng(0).random((2, 40))
    c = np.random.default_rng(1).standard_normal(m)
    assert np.allclose(design.multiply(c, np.empty(40)), whole @ c, atol=1e-12)
    assert np.allclose(design.pull_back(v), whole.T @ v, atol=1e-12)
    assert np.allclose(design.gram(w).dense(), whole.T @ (w[:, None] * whole), atol=1e-12)


@pytest.mark.parametrize("n", [511, 512, 513, 1100])
@pytest.mark.parametrize("sizes", [(1,), (4,), (11,), (3, 1), (2, 9), (3, 2, 6)])
def test_sums_of_sines_are_those_of_sines(n, sizes):
    """Over several tiles, the last one of any length, and numbers of terms that are no multiple of four."""
    rng, D = np.random.default_rng(0), len(sizes)
    angles, factors = rng.uniform(0.3, 2.8, (D, n)), rng.random((D, n))
    series, whole = SineSeries(angles, factors, sizes), np.ones((n, 1))
    for t, factor, m in zip(angles, factors, sizes, strict=True):
        own = factor[:, None] * np.sin(np.outer(t, np.arange(1, m + 1)))
        whole = (whole[:, :, None] * own[:, None, :]).reshape(n, -1)
    b, v, out = rng.standard_normal(whole.shape[1]), rng.standard_normal(n), np.ones(n)
    series.add(b, out)
    assert np.allclose(out, 1.0 + whole @ b, atol=1e-12)
    assert np.allclose(series.pull_back(v), whole.T @ v, atol=1e-11)
    assert np.allclose(series.tile(0, min(n, 512)), whole[:512], atol=1e-13)


def test_sums_of_400_sines_near_the_ends_of_a_box():
    """The box of least width, where recurrences are worst: to 1e-11 of the largest term's sum."""
    x = np.linspace(-1.0, 1.0, 2001)
    t = np.pi / 2.4 * (x + 1.2)
    series, b = (
        SineSeries(t[None], np.ones((1, 2001)), (400,)),
        np.random.default_rng(0).standard_normal(400),
    )
    whole, out = np.sin(np.outer(t, np.arange(1, 401))), np.zeros(2001)
    series.add(b, out)
    assert np.max(np.abs(out - whole @ b)) < 1e-11 * np.sum(np.abs(b))
    assert np.max(np.abs(series.pull_back(x) - whole.T @ x)) < 1e-11 * 2001


def test_scales_follow_every_parameter():
    covariance = (
        SquaredExponential(LENGTH, SIGNAL, columns=("a", "b"), ard=True)
        + Matern32(LENGTH, SIGNAL, columns="b")
        + Categorical(LENGTH, SIGNAL, columns="town")
        + Linear(SIGNAL, columns=("a", "b"), ard=True)
        + Group(SIGNAL, columns="day")
        + Periodic(LENGTH, SIGNAL, period=0.7, columns="b")
    )
    model = GPModel(TABLE, Y, covariance, Probit(), structure=BasisFunctions(error=0.1))
    full = model.full(model.prior_median())
    _, slopes = model.basis.scales(full)
    total = np.zeros((len(full), model.n_latents))
    for own, (place, slope) in slopes:
        total[place, own] += slope
    for place, e in enumerate(1e-5 * np.eye(len(full))):
        up, down = (np.log(model.basis.scales(full + h)[0]) for h in (e, -e))
        assert np.allclose(total[place], (up - down) / 2e-5, atol=1e-8)


# -- what cannot be one ----------------------------------------------------------------------------

WIDE = Hyperprior.log_uniform(0.001, 2.0)
WRONG = {
    "in a product": (SquaredExponential(columns="a") * White(1.0), {}, "white.* has no basis; allowed: sums"),
    "no basis": (White(1.0), {}, "white.* has no basis; allowed: sums and products of"),
    "a free period": (Periodic(period=LENGTH, columns="a"), {}, "has a free period; allowed: a number"),
    "four columns": (
        SquaredExponential(LENGTH, columns=("a", "b", "day", "c")), {}, "has 4 columns; allowed: at most 3",
    ),
    "too short": (SquaredExponential(WIDE, columns="a"), {}, "the shortest that fits is 0.0.* for a"),
    "one level": (Group(columns="one"), {}, "has one level; allowed: two or more"),
    "constant": (SquaredExponential(LENGTH, columns="one"), {}, "'one'.* is constant"),
    "m too large": (
        SquaredExponential(LENGTH, columns=("a", "b")), {"m": (30, 20)}, "30 x 20 functions",
    ),
    "m of another term": (SquaredExponential(LENGTH, columns="a"), {"m": (3, 4)}, "m has 2 entries"),
    "sum too large": (
        Matern32(LENGTH, columns="a") + Matern32(LENGTH, columns="b"), {"m": 250}, "250 . 250 functions",
    ),
    "levels of two columns": (Categorical(columns=("town", "day")), {}, "has 2 columns; allowed: one"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_terms_are_refused_in_one_line(name):
    covariance, settings, message = WRONG[name]
    table = TABLE.assign(c=np.arange(40.0), one=1.0)
    with pytest.raises(InputError, match=message) as refused:
        GPModel(table, Y, covariance, Probit(), structure=BasisFunctions(**settings))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("columns", ["a", ("a", "b")])
def test_the_shortest_length_scale_named_does_fit(columns):
    covariance = SquaredExponential(WIDE, columns=columns)
    with pytest.raises(InputError, match="shortest that fits") as refused:
        GPModel(TABLE, Y, covariance, Probit(), structure="basis")
    named = float(str(refused.value).split("shortest that fits is ")[1].split(" ")[0])
    for factor, fits in ((1.03, True), (0.9, False)):
        # the central 80 % of a uniform distribution of logs
        low = np.log(factor * named)
        high = np.log(2.0) - 0.1 * (np.log(2.0) - np.log(0.001))
        margin = 0.1 * (high - low) / 0.8
        prior = Hyperprior.log_uniform(np.exp(low - margin), np.exp(high + margin))
        make = lambda prior=prior: GPModel(  # noqa: E731
            TABLE, Y, SquaredExponential(prior, columns=columns), Probit(), structure="basis"
        )
        if fits:
            assert make().n_latents <= 400
        else:
            with pytest.raises(InputError, match="shortest that fits"):
                make()


def test_the_largest_share_of_the_hyperprior_that_fits_is_taken():
    """Normal logs: 98 % within 2.326 sd, 90 % within 1.645, 80 % within 1.282."""
    x, y = np.linspace(-1.0, 1.0, 40), Y

    def sizes(sd, error=0.01):
        prior = Hyperprior("norm", {"loc": -1.0, "scale": sd})
        settings = BasisFunctions(error=error)
        model = GPModel(x, y, Matern32(prior, 1.0), Probit(), structure=settings)
        (block,) = model.basis.eigen
        return block.sizes[0], block.half_widths[0]

    for sd, deviations in ((0.8, 2.3263), (1.0, 1.6449), (1.3, 1.2816)):
        m, half_width = sizes(sd)
        shortest, longest = np.exp(-1.0 + np.array([-1.0, 1.0]) * deviations * sd)
        box = box_width(1.5, longest, 0.01)
        assert half_width == pytest.approx(box, rel=1e-3)
        assert m == pytest.approx(axis_size(1.5, shortest, box, 0.01), abs=1)
        assert m <= 400


@pytest.mark.parametrize(
    "settings",
    [{"m": 0}, {"m": 2.5}, {"m": (3, 401)}, {"boundary": 1.0}, {"error": 0.0}, {"error": "a"}],
)
def test_wrong_settings(settings):
    with pytest.raises(InputError, match=f"BasisFunctions: {next(iter(settings))} is"):
        BasisFunctions(**settings)
