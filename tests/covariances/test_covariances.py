import pickle
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import gamma, kv
from sklearn.gaussian_process import kernels as peer

import gpmcflow as gp
from gpmcflow.covariances import leaves
from gpmcflow.covariances.binding import bind, leaf_entries
from gpmcflow.covariances.expressions import Leaf
from gpmcflow.covariances.inputs import inputs_of
from gpmcflow.covariances.leaves import (
    LEAVES,
    Categorical,
    Constant,
    Group,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Polynomial,
    RationalQuadratic,
    SquaredExponential,
    White,
)
from gpmcflow.covariances.nodes import SCALE_SLOPE, SIZE
from gpmcflow.covariances.python_covariance import PythonCovariance
from gpmcflow.covariances.tape import CovarianceBuffers, Tape
from gpmcflow.errors import InputError
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.parameters.parameter import Parameter

L, S = (0.7, 1.3), 1.2
PAIR = np.array([[0.3, -1.2], [1.1, 0.5]])
# Values and derivatives by the logs of all parameters (length scales or sds, alpha, period or offset,
# signal sd), from the closed forms with 30 digits.
CLOSED = {
    "squared exponential": (
        SquaredExponential(L, S), 0.3187182814298, [0.416285102276, 0.545027120315, 0.63743656286],
    ),
    "matern12": (
        Matern12(L, S), 0.25358083186555, [0.190709168036, 0.249688658336, 0.507161663731],
    ),
    "matern32": (
        Matern32(L, S), 0.28504035570511, [0.278660316667, 0.36483993568, 0.57008071141],
    ),
    "matern52": (
        Matern52(L, S), 0.2937023925274, [0.315045469862, 0.412477708831, 0.587404785055],
    ),
    "rational quadratic": (
        RationalQuadratic(L, S, 1.7), 0.48922241594001,
        [0.33860433206, 0.443322480242, -0.137191901149, 0.97844483188],
    ),
    "periodic": (
        Periodic(0.7, S, 1.9, columns=0), 0.031085381977961,
        [0.238465957036, 0.0798794995044, 0.0621707639559],
    ),
    "linear": (Linear(L), -0.8523, [0.3234, -2.028]),
    "polynomial": (
        Polynomial(3, L, 0.6), -0.119313478467, [0.235136983158, -1.47451392036, 0.5234960664],
    ),
    "product and sum": (
        SquaredExponential(0.8, S, columns=0) * Periodic(0.7, 1.0, 1.9, columns=0)
        + Linear(0.6, columns=1),
        -0.19714576276149,
        [0.0188542372385, 0.037708474477, 0.14463691424, 0.0484493655319, 0.037708474477, -0.432],
    ),
}  # fmt: skip


def buffers(covariance, X, jitter=0.0, free=True):
    """Buffers of an expression whose parameters are numbers, and its coordinates."""
    inputs = inputs_of(X)
    covariance, columns = bind(covariance, inputs)
    values, places, shared = [], [], {}
    for _, entries in leaf_entries(covariance, columns, inputs.names):
        own = []
        for entry in entries:
            setting = entry.setting
            if isinstance(setting, Parameter):
                if setting.name not in shared:
                    shared[setting.name] = len(values)
                    values.append(setting.value)
                own.append(shared[setting.name])
            else:
                own.append(len(values))
                values.append(setting)
        places.append(np.array(own, dtype=int))
    full = np.log(np.array(values, dtype=float))
    tape = Tape(covariance, columns, places, np.full(len(full), free), inputs.values)
    return CovarianceBuffers(tape, jitter), full


def filled(work, full):
    n = work.tape.n_cases
    K = np.full((n, n), np.nan)
    trace = work.fill(full, K)
    lower = np.tril(K.T)
    return lower + np.tril(lower, -1).T, trace


@pytest.mark.parametrize("name", CLOSED)
def test_values_and_derivatives_are_the_closed_forms(name):
    covariance, value, slopes = CLOSED[name]
    work, full = buffers(covariance, PAIR)
    K, _ = filled(work, full)
    assert K[0, 1] == pytest.approx(value, rel=1e-12)
    assert covariance(PAIR[:1], PAIR[1:])[0, 0] == pytest.approx(value, rel=1e-12)
    S = np.array(
        [[0.0, 0.5], [np.nan, 0.0]]
    )  # (column, row): weight 1 for the pair, once in each triangle
    np.testing.assert_allclose(work.adjoint(full, S), slopes, rtol=2e-11)


def wave(X, X2, p):
    return np.exp(-np.abs(X - X2.T) / p["length"]) * p["height"]


RICH = {
    "SE isotropic": SquaredExponential(0.8, S),
    "SE six columns": SquaredExponential((0.7, 1.3, 2.0, 0.9, 1.1, 3.0), S),
    "SE six columns, one scale": SquaredExponential(2.1, S),
    "matern12 repeats": Matern12((0.7, 1.3), S, columns=(0, 1)),
    "matern12 six columns": Matern12((0.7, 1.3, 2.0, 0.9, 1.1, 3.0), S),
    "matern32 one scale": Matern32(1.7, S),
    "matern52 six columns": Matern52((0.7, 1.3, 2.0, 0.9, 1.1, 3.0), S),
    "matern52 one scale": Matern52(1.7, S, columns=(1, 3)),
    "rational quadratic": RationalQuadratic((0.7, 1.3, 2.0, 0.9, 1.1, 3.0), S, 0.7),
    "rational quadratic, one scale": RationalQuadratic(1.4, S, 2.7, columns=(0, 2)),
    "linear six columns": Linear((0.7, 1.3, 2.0, 0.9, 1.1, 3.0)),
    "polynomial": Polynomial(3, 0.4, 0.6) + Polynomial(2, (0.3, 0.8), 0.2, columns=(0, 1)),
    "categorical": Categorical(0.8, S, columns=(6, 7)) * Categorical((0.8, 2.0), 1.0, columns=(6, 7))
    + Group(0.6, columns=6) + White(0.3) + Constant(0.4),
    "nested": (SquaredExponential(0.8, S, columns=0) + Matern32((0.9, 1.4), 0.7, columns=(1, 2)))
    * (Periodic(0.7, 1.0, 1.9, columns=3) + Linear(0.5, columns=4)) + White(0.2),
    "product of three": SquaredExponential(0.8, S, columns=0) * Linear(0.5, columns=1)
    * Linear(0.9, columns=2),
    "shared": SquaredExponential(Parameter("ell", 0.9), S, columns=0)
    + Matern32(Parameter("ell", 0.9), 0.7, columns=1) * Periodic(Parameter("ell", 0.9), 1.0, 2.2, columns=2),
    "python": PythonCovariance(wave, {"length": 1.3, "height": 0.8}, columns=0)
    * SquaredExponential(0.9, 1.0, columns=1) + Constant(0.3),
}  # fmt: skip


def cases(n, rng):
    X = np.column_stack([rng.standard_normal((n, 6)), rng.integers(0, 3, (n, 2))])
    if n > 3:
        X[3] = X[1]  # a repeated case
    return X


def on_six(covariance):
    """The covariance on the first six columns where it names none."""
    if isinstance(covariance, Leaf):
        fits = covariance.columns or not covariance.scales
        return covariance if fits else replace(covariance, columns=tuple(range(6)))
    return replace(covariance, left=on_six(covariance.left), right=on_six(covariance.right))


@pytest.mark.parametrize("name", RICH)
def test_the_adjoint_is_the_gradient_by_differences(name):
    rng = np.random.default_rng(1)
    work, full = buffers(on_six(RICH[name]), cases(47, rng), jitter=1e-2)
    S = rng.standard_normal((47, 47))
    S = S + S.T
    shift = 0.37

    def value(full):
        K, trace = filled(work, full)
        assert trace == pytest.approx(np.trace(K), rel=1e-13)
        return float((S * K).sum()) + shift * np.trace(K)

    differences = []
    for k in range(len(full)):
        steps = []
        for h in (1e-3, 5e-4):
            e = np.zeros(len(full))
            e[k] = h
            steps.append((value(full + e) - value(full - e)) / (2.0 * h))
        differences.append((4.0 * steps[1] - steps[0]) / 3.0)
    filled(work, full)
    unused = np.where(np.tri(47, dtype=bool).T, S, np.nan)  # (column, row)
    slopes = work.adjoint(full, unused, shift)
    scale = np.abs(S).sum() * 1e-11
    np.testing.assert_allclose(slopes, differences, rtol=2e-8, atol=scale)
    assert np.all(np.abs(slopes) > 0.0)


@pytest.mark.parametrize("n", [1, 2, 3, 44, 45, 46, 63, 64, 65, 513, 2049])
def test_every_panel_has_the_values_of_the_formula(n):
    rng = np.random.default_rng(2)
    X = cases(n, rng)
    covariance = SquaredExponential(1.1, S, columns=(0, 1)) * Periodic(
        0.7, 1.0, 1.9, columns=2
    ) + Matern32(tuple(np.linspace(1, 2, 6)), 0.8, columns=tuple(range(6)))
    work, full = buffers(covariance, X)
    K, _ = filled(work, full)
    rows = rng.integers(0, n, 40), rng.integers(0, n, 40)
    d = X[rows[0]] - X[rows[1]]
    r = np.sqrt((d[:, :6] ** 2 / np.linspace(1, 2, 6) ** 2).sum(1)) * np.sqrt(3.0)
    smooth = S**2 * np.exp(-0.5 * (d[:, :2] ** 2).sum(1) / 1.1**2)
    expected = smooth * np.exp(-2.0 * np.sin(np.pi * d[:, 2] / 1.9) ** 2 / 0.49)
    expected += 0.64 * (1.0 + r) * np.exp(-r)
    np.testing.assert_allclose(K[rows], expected, rtol=1e-13, atol=1e-15)
    cross = work.cross(full, X[:5])
    np.testing.assert_allclose(cross, K[:5], rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(work.diagonal(full, X[:5]), np.diag(K)[:5], rtol=1e-13)


def test_scikit_learn_has_the_same_values():
    rng = np.random.default_rng(3)
    X, X2 = rng.standard_normal((30, 1)), rng.standard_normal((7, 1))
    pairs = [
        (SquaredExponential(0.8, S), S**2 * peer.RBF(0.8)),
        (Matern12(0.8, S), S**2 * peer.Matern(0.8, nu=0.5)),
        (Matern32(0.8, S), S**2 * peer.Matern(0.8, nu=1.5)),
        (Matern52(0.8, S), S**2 * peer.Matern(0.8, nu=2.5)),
        (RationalQuadratic(0.8, S, 1.7), S**2 * peer.RationalQuadratic(0.8, 1.7)),
        (Periodic(0.8, S, 1.9), S**2 * peer.ExpSineSquared(0.8, 1.9)),
        (Polynomial(3, 1.0, 0.6), peer.DotProduct(0.6) ** 3),
        (
            (SquaredExponential(0.8, S) + Matern32(0.5, 0.9)) * Periodic(0.7, 1.0, 1.9)
            + White(0.3),
            (S**2 * peer.RBF(0.8) + 0.81 * peer.Matern(0.5, nu=1.5)) * peer.ExpSineSquared(0.7, 1.9)
            + peer.WhiteKernel(0.09),
        ),
    ]
    for mine, theirs in pairs:
        np.testing.assert_allclose(mine(X), theirs(X), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(mine(X, X2), theirs(X, X2), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(mine.diagonal(X2), theirs.diag(X2), rtol=1e-13)


def test_one_length_scale_that_moves_is_the_same_matrix():
    rng = np.random.default_rng(4)
    covariance = Matern52(tuple(np.linspace(1, 2, 6)), S) + SquaredExponential(0.9, 0.5, columns=0)
    X = rng.standard_normal((70, 6))
    (work, full), (other, _) = buffers(covariance, X), buffers(covariance, X)
    K, moved = np.empty((70, 70)), np.empty((70, 70))
    work.fill(full, K)
    for place in range(len(full)):
        after = full.copy()
        after[place] += 0.3
        other.fill_from(work, after, full, place, moved)
        work_again, _ = buffers(covariance, X)
        expected = np.empty((70, 70))
        work_again.fill(after, expected)
        np.testing.assert_allclose(np.triu(moved), np.triu(expected), rtol=1e-12, atol=1e-14)


def test_the_exponential_and_logarithm_are_exact_to_rounding():
    x = np.concatenate([np.linspace(0.0, 40.0, 200), [1e-300, 599.9]])
    K = SquaredExponential(1.0, 1.0)(np.zeros((1, 1)), np.sqrt(x)[:, None])[0]
    exact = np.array([float(mpmath.exp(-(mpmath.mpf(float(np.sqrt(v))) ** 2) / 2)) for v in x])
    np.testing.assert_allclose(K, exact, rtol=2e-15 * 300)
    K = RationalQuadratic(1.0, 1.0, 0.5)(np.zeros((1, 1)), np.sqrt(x)[:, None])[0]
    np.testing.assert_allclose(K, 1.0 / np.sqrt(1.0 + x), rtol=4e-15)


FREE = Hyperprior("norm")


def test_what_is_left_out_has_one_amplitude_a_term():
    def amplitudes(covariance):
        bound, _ = bind(covariance, inputs_of(PAIR))
        return [leaf.signal_sd == 1.0 for leaf in bound.leaves()]

    def plain():
        return SquaredExponential(columns=0)

    assert amplitudes(plain() + plain()) == [False, False]
    assert amplitudes(plain() * plain() * plain()) == [False, True, True]
    assert amplitudes(plain() * SquaredExponential(signal_sd=2.0)) == [True, False]
    assert amplitudes(plain() * (plain() + plain())) == [True, False, False]
    assert amplitudes((plain() + plain()) * (plain() + plain())) == [False, False, True, False]


def test_names_of_terms_are_numbered_where_they_repeat():
    covariance, columns = bind(
        SquaredExponential(columns="age", name="trend")
        + Matern32(columns="age")
        + Matern32(ard=True)
        + White(),
        inputs := inputs_of(PAIR)._replace(names=("age", "bmi")),
    )
    names = [
        f"{term}.{entry.name}"
        for term, entries in leaf_entries(covariance, columns, inputs.names)
        for entry in entries
    ]
    assert names == [
        "trend.length_scale", "trend.signal_sd", "matern32_1.length_scale", "matern32_1.signal_sd",
        "matern32_2.length_scale[age]", "matern32_2.length_scale[bmi]", "matern32_2.signal_sd",
        "white.signal_sd",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("covariance", "message"),
    [
        (SquaredExponential(1.0, FREE, columns=0) * Matern32(1.0, FREE, columns=1),
         "SquaredExponential and Matern32 are both free in one product"),
        (SquaredExponential(columns="agee"), "did you mean 'age'"),
        (SquaredExponential(columns="sex"), "holds words"),
        (Categorical(), "no columns are named"),
        (SquaredExponential((1.0, 2.0, 3.0)), "3 entries for 2 columns"),
        (Periodic(period=1.0), "2 columns"),
        (White(columns="age"), "has no inputs"),
        (SquaredExponential(columns=5), "column 5"),
    ],
)  # fmt: skip
def test_what_cannot_be_bound_is_one_line(covariance, message):
    inputs = inputs_of(np.column_stack([PAIR, [0, 1]]))
    inputs = inputs._replace(names=("age", "bmi", "sex"), levels={"sex": ("f", "m")})
    with pytest.raises(InputError, match=message):
        leaf_entries(*bind(covariance, inputs), inputs.names)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Periodic(), "period is missing"),
        (lambda: SquaredExponential(-1.0), "length_scale is -1.0"),
        (lambda: SquaredExponential((1.0, 0.0)), r"length_scale\[1\] is 0.0"),
        (lambda: Polynomial(degree=0), "degree is 0"),
        (lambda: SquaredExponential(FREE)(PAIR), "allowed: numbers"),
    ],
)
def test_wrong_settings_are_one_line(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_every_leaf_is_in_the_registry():
    own = [
        kind for kind in vars(leaves).values() if isinstance(kind, type) and "term" in vars(kind)
    ]
    assert {kind.term for kind in own} == set(LEAVES)
    other_form = {"group": "CorrelatedGroup"}  # what `Group` makes where it has a correlation
    assert all(LEAVES[kind.term] is kind or kind.__name__ == other_form[kind.term] for kind in own)


class Matern72(leaves.Stationary):
    term = "matern72"

    @staticmethod
    def values_loop(head, h, v, u, bar):
        for i in range(int(head[SIZE])):
            a = np.sqrt(7.0 * h[i])
            h[i] = a
            v[i] = (1.0 + a + 0.4 * a * a + a * a * a / 15.0) * np.exp(-a)

    @staticmethod
    def slopes_loop(head, h, v, u, bar):
        total = 0.0
        for i in range(int(head[SIZE])):
            a = h[i]
            polynomial = 1.0 + a + 0.4 * a * a + a * a * a / 15.0
            bar[i] *= 7.0 / 15.0 * (3.0 + 3.0 * a + a * a) * v[i] / polynomial
            total += bar[i] * a * a / 7.0
        head[SCALE_SLOPE] = total


@pytest.mark.parametrize("lengths", [0.7, (0.7, 1.3)])
def test_a_covariance_is_a_class_with_two_loops(lengths):
    """Values of the Bessel formula, derivatives by differences, and the same from a pickled tape."""
    rng = np.random.default_rng(3)
    X, S = rng.standard_normal((50, 2)), rng.standard_normal((50, 50))
    S += S.T
    leaf = Matern72(lengths, 1.2)
    a = np.sqrt(7.0) * cdist(X / lengths, X / lengths) + np.eye(50)
    bessel = 1.44 * 2.0**-2.5 / gamma(3.5) * a**3.5 * kv(3.5, a)
    off = ~np.eye(50, dtype=bool)
    np.testing.assert_allclose(leaf(X)[off], bessel[off], rtol=1e-12)
    work, full = buffers(leaf + Constant(1.0), X)
    work.fill(full, np.empty((50, 50)))
    found = work.adjoint(full, S)
    by_differences = [
        np.sum(S * (work.matrix(full + step) - work.matrix(full - step))) / 2e-6
        for step in 1e-6 * np.eye(len(full))
    ]
    np.testing.assert_allclose(found, by_differences, rtol=1e-6)
    copy = pickle.loads(pickle.dumps(work.tape))
    assert "loops" not in copy.__dict__  # addresses are those of a process
    np.testing.assert_array_equal(CovarianceBuffers(copy).matrix(full), work.matrix(full))


def test_one_length_scale_of_many_columns_is_that_of_each():
    rng = np.random.default_rng(6)
    X, X2 = rng.standard_normal((60, 6)), rng.standard_normal((5, 6))
    one, each = Matern32(1.7, S), Matern32((1.7,) * 6, S)
    np.testing.assert_allclose(one(X), each(X), rtol=1e-13)
    np.testing.assert_allclose(one(X, X2), each(X, X2), rtol=1e-13)
    (work, full), (other, _) = buffers(one + each, X), buffers(one + each, X)
    K, moved = np.empty((60, 60)), np.empty((60, 60))
    work.fill(full, K)
    for place in (0, 2, 5):  # one length scale; one of six; the amplitude
        after = full.copy()
        after[place] -= 0.4
        other.fill_from(work, after, full, place, moved)
        fresh, _ = buffers(one + each, X)
        fresh.fill(after, K)
        np.testing.assert_allclose(np.triu(moved), np.triu(K), rtol=1e-12, atol=1e-14)
        S_ = rng.standard_normal((60, 60))
        np.testing.assert_allclose(other.adjoint(after, S_), fresh.adjoint(after, S_), rtol=1e-9)
        work.fill(full, K)


def test_numbers_are_factors_and_constants_of_that_variance():
    x = np.array([0.0, 0.4, 1.5])
    k = gp.Matern32(0.7, 1.5)
    np.testing.assert_allclose((2.0 * k)(x), 2.0 * k(x), rtol=1e-14)
    np.testing.assert_allclose((k * 2)(x), 2.0 * k(x), rtol=1e-14)
    np.testing.assert_allclose((k + 3.0)(x), k(x) + 3.0, rtol=1e-14)
    np.testing.assert_allclose((3.0 + k)(x), k(x) + 3.0, rtol=1e-14)
    np.testing.assert_allclose(sum([k, k], 1.0)(x), 1.0 + 2.0 * k(x), rtol=1e-14)
    with pytest.raises(InputError, match=r"found -1 beside \+ or \*; allowed: a variance > 0"):
        k + (-1)
    for other in (True, "2", None):
        with pytest.raises(TypeError):
            k * other


def test_a_stated_factor_is_the_amplitude_of_its_product():
    model = gp.GPModel(np.arange(3.0), np.ones(3), 2.0 * gp.Matern32(), gp.Gaussian(0.1))
    assert model.names == ("matern32.length_scale",)
    variance = model.prior_variance(model.full(np.zeros(1)), model.X)
    np.testing.assert_allclose(variance, 2.0, rtol=1e-5)
