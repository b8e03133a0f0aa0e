"""Walks, autoregression and areas: closed forms, derivatives, bases, and what they refuse."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import make_smoothing_spline

import gpmcflow as gp
from gpmcflow.covariances.areas import graph_of, scaled_structure
from gpmcflow.covariances.known_levels import eigen_basis
from gpmcflow.covariances.tape import CovarianceBuffers
from gpmcflow.covariances.text import parse_covariance
from gpmcflow.errors import InputError

RNG = np.random.default_rng(5)
TIMES = np.sort(RNG.choice(np.arange(2000.0, 2040.0), 25, replace=False))
RING = [(f"a{k:02d}", f"a{(k + 1) % 12:02d}") for k in range(12)]
CHAIN = [(f"c{k}", f"c{k + 1}") for k in range(4)]
AREAS = [f"a{k:02d}" for k in range(12)] + [f"c{k}" for k in range(5)] + ["isle"]
FRAME = pd.DataFrame({
    "year": TIMES, "x": RNG.standard_normal(25),
    "area": [*RNG.permutation(AREAS)[:15], *RNG.choice(AREAS[:12], 10)], "group": RNG.choice(list("uvw"), 25),
})  # fmt: skip
MAP = gp.Areal(RING + CHAIN, columns="area")
LEAVES = {
    "wiener": gp.Wiener(columns="year"),
    "integrated wiener": gp.IntegratedWiener(columns="year") + gp.Linear(columns="x"),
    "ar1": gp.AR1(columns="year"),
    "areas": MAP,
    "areas in a product": MAP * gp.Linear(columns="x") + gp.AR1(columns="year") * gp.Group(columns="group"),
}  # fmt: skip


def generator():
    return np.random.default_rng(7)


def model_of(covariance, structure="dense", **options):
    return gp.GPModel(
        FRAME, generator().standard_normal(25), covariance + gp.Constant(2.0), gp.Gaussian(),
        structure=structure, **options,
    )  # fmt: skip


@pytest.mark.parametrize("name", LEAVES)
def test_the_adjoint_is_the_gradient_by_differences(name):
    model, S = model_of(LEAVES[name]), generator().standard_normal((25, 25))
    S += S.T
    work, full = CovarianceBuffers(model._tape), model.full(model.prior_median() + 0.3)
    work.fill(full, np.empty((25, 25)))
    found = work.adjoint(full, S)
    h = 1e-5 * np.eye(len(full))
    slopes = [np.sum(S * (work.matrix(full + e) - work.matrix(full - e))) / 2e-5 for e in h]
    free = model._free
    np.testing.assert_allclose(found[free], np.array(slopes)[free], rtol=1e-6, atol=1e-6)
    X = model.X
    np.testing.assert_allclose(work.diagonal(full, X), np.diag(work.cross(full, X)), rtol=1e-12)
    np.testing.assert_allclose(work.cross(full, X), work.matrix(full), rtol=1e-12, atol=1e-12)


def test_autoregression_is_a_matern_of_one_half():
    rho, step = 0.7, 2.5
    same = gp.Matern12(-step / np.log(rho), 1.3)(TIMES)
    np.testing.assert_allclose(gp.AR1(rho, 1.3, step)(TIMES), same, rtol=1e-13)
    taken = gp.AR1(0.5, 1.0)(np.array([0.0, 3.0, 4.5]))  # neighbours are 1.5 apart
    np.testing.assert_allclose(taken[0], [1.0, 0.25, 0.125])


def test_a_walk_has_independent_steps_and_its_integral_is_the_trapezium_of_many():
    a = np.linspace(0.0, 1.0, 2001)
    walk = gp.Wiener(1.0, start=0.0, span=1.0)(a)
    np.testing.assert_allclose(
        np.diff(np.diff(walk, axis=0), axis=1), np.eye(2000) / 2000, atol=1e-14
    )
    steps = np.tril(np.ones((2001, 2001))) / 2000.0
    integral = steps @ walk @ steps.T
    exact = gp.IntegratedWiener(1.0, start=0.0, span=1.0)(a)
    np.testing.assert_allclose(integral, exact, atol=2e-3)
    np.testing.assert_allclose(exact[-1, -1], 1.0 / 3.0)


@pytest.mark.parametrize("kind", [gp.Wiener, gp.IntegratedWiener])
def test_a_walk_goes_to_both_sides_of_its_start(kind):
    x = np.array([-2.0, -0.5, 0.0, 1.0, 3.0])
    both, right = kind(1.0, start=0.0, span=2.0)(x), kind(1.0, start=0.0, span=2.0)(x[2:])
    np.testing.assert_array_equal(both[2:, 2:], right)
    np.testing.assert_array_equal(both[:2, :2], kind(1.0, start=0.0, span=2.0)(-x[:2]))
    assert not both[:2, 2:].any()


def test_the_posterior_mean_is_the_smoothing_spline():
    x, noise, s = np.sort(generator().uniform(3.0, 9.0, 20)), 0.3, 5.0
    y = np.sin(x) + noise * generator().standard_normal(20)
    k = gp.IntegratedWiener(s) + gp.Linear(1e4) + gp.Constant(1e4)
    model = gp.GPModel(x, y, k, gp.Gaussian(noise))
    new = np.linspace(x[0], x[-1], 40)
    mean = gp.predict(gp.approximate(model.at()), new).latent_mean.values
    spline = make_smoothing_spline(x, y, lam=np.ptp(x) ** 3 * noise**2 / s**2)
    np.testing.assert_allclose(mean, spline(new), atol=1e-5)


def test_structures_are_scaled_in_each_part():
    places = {area: k for k, area in enumerate(AREAS)}
    pairs = tuple((places[a], places[b]) for a, b in RING + CHAIN)
    C = scaled_structure(len(AREAS), pairs)
    for part in (slice(0, 12), slice(12, 17)):
        own = C[part, part]
        assert np.exp(np.log(np.diag(own)).mean()) == pytest.approx(1.0)
        np.testing.assert_allclose(own.sum(1), 0.0, atol=1e-12)
    assert np.linalg.matrix_rank(C) == 11 + 4 + 1
    assert C[17, 17] == 1.0
    assert not C[17, :17].any()
    assert not C[:12, 12:].any()


def test_areas_are_the_model_of_their_precision_matrix():
    """u = s (sqrt(1 - phi) v + sqrt(phi) w) by precision matrices: posterior mean of each area, 1e-8."""
    phi, s, noise = 0.7, 1.3, 0.4
    frame = FRAME.iloc[:24]
    y = generator().standard_normal(24)
    leaf = gp.Areal(RING + CHAIN, phi, s, columns="area")
    model = gp.GPModel(frame, y, leaf, gp.Gaussian(noise), structure="dense")
    names = [*AREAS[:17]] + (["isle"] if "isle" in set(frame["area"]) else [])
    found = gp.predict(gp.approximate(model.at()), pd.DataFrame({"area": names})).latent_mean.values
    places = {area: k for k, area in enumerate(names)}
    W = np.zeros((len(names),) * 2)
    for a, b in RING + CHAIN:
        W[places[a], places[b]] = W[places[b], places[a]] = 1.0
    precision = np.diag(W.sum(1)) - W
    scaled = precision.copy()
    for part in (slice(0, 12), slice(12, 17)):
        scaled[part, part] *= np.exp(np.log(np.diag(np.linalg.pinv(precision[part, part]))).mean())
    scaled[17:, 17:] = np.eye(len(names) - 17)
    basis = np.linalg.svd(scaled)[0][:, : np.linalg.matrix_rank(scaled)]
    A = (frame["area"].to_numpy()[:, None] == np.array(names)).astype(float)
    both = np.hstack([A * s * np.sqrt(1 - phi), A @ basis * s * np.sqrt(phi)])
    Q = np.zeros((both.shape[1],) * 2)
    Q[: len(names), : len(names)] = np.eye(len(names))
    Q[len(names) :, len(names) :] = basis.T @ scaled @ basis
    w = np.linalg.solve(Q + both.T @ both / noise**2, both.T @ y / noise**2)
    mean = s * np.sqrt(1 - phi) * w[: len(names)] + s * np.sqrt(phi) * basis @ w[len(names) :]
    np.testing.assert_allclose(found, mean, atol=1e-8)


def test_without_neighbours_areas_are_groups():
    table = FRAME[["area"]]
    group = gp.Group(1.3, columns="area")(table)
    leaf = gp.Areal(RING + CHAIN, 1e-12, 1.3, columns="area")(table)
    np.testing.assert_allclose(leaf, group, atol=1e-10)


def test_the_basis_of_areas_is_the_dense_covariance():
    frame = pd.concat([FRAME] * 3, ignore_index=True)
    covariance = gp.Areal(RING + CHAIN, columns="area") + gp.Linear(columns="x")
    y = generator().standard_normal(75)
    own = gp.GPModel(frame, y, covariance, gp.Gaussian())
    assert own.structure_name == "basis"
    assert "19 functions" in repr(own)
    full = own.full(own.prior_median() + 0.4)
    s, slopes = own.basis.scales(full)
    Phi = own.basis_design.matrix() * s
    dense = own.with_structure("dense")
    np.testing.assert_allclose(Phi @ Phi.T, CovarianceBuffers(dense._tape).matrix(full), atol=1e-10)
    found = np.zeros((len(s), len(full)))
    for rows, (place, slope) in slopes:
        found[rows, place] += slope
    h = 1e-5 * np.eye(len(full))
    logs = [
        (np.log(own.basis.scales(full + e)[0]) - np.log(own.basis.scales(full - e)[0])) / 2e-5
        for e in h
    ]
    np.testing.assert_allclose(found, np.transpose(logs), atol=1e-8)
    new = pd.DataFrame({"area": ["a00", "c3", "isle"], "x": [0.3, 1.0, -1.0]})
    first, second = (
        gp.predict(gp.approximate(m.at(own.prior_median())), new) for m in (own, dense)
    )
    for name in ("latent_mean", "latent_sd"):
        np.testing.assert_allclose(first[name], second[name], atol=1e-6)  # jitter of the dense form


@pytest.fixture
def turned(monkeypatch):
    """LAPACK with other vectors at each call, where eigenvalues are equal, and other signs."""
    plain, rng = np.linalg.eigh, np.random.default_rng(0)

    def eigh(C):
        c, U = plain(C)
        for first in np.flatnonzero(np.append(True, np.diff(c) > 1e-10)):
            own = np.abs(c - c[first]) < 1e-10
            U[:, own] = U[:, own] @ np.linalg.qr(rng.standard_normal((own.sum(),) * 2))[0]
        return c, U

    monkeypatch.setattr(np.linalg, "eigh", eigh)


def test_eigenvectors_do_not_depend_on_those_of_lapack(turned):
    places = {area: k for k, area in enumerate(AREAS)}
    C = scaled_structure(len(AREAS), tuple((places[a], places[b]) for a, b in RING + CHAIN))
    (c, U), (again, V) = eigen_basis(C), eigen_basis(C)
    assert np.sum(np.diff(c) < 1e-12) >= 5  # of a ring
    np.testing.assert_allclose(again, c, atol=1e-12)
    np.testing.assert_allclose(V, U, atol=1e-10)
    np.testing.assert_allclose(U.T @ U, np.eye(len(C)), atol=1e-13)
    np.testing.assert_allclose((U * c) @ U.T, C, atol=1e-12)


def test_weights_of_a_symmetric_map_mean_the_same_when_its_model_is_made_again(turned, tmp_path):
    frame = pd.concat([FRAME] * 3, ignore_index=True)
    model = gp.GPModel(frame, generator().standard_normal(75), MAP, gp.Gaussian(0.5))
    assert model.structure_name == "basis"
    draws = gp.sample(model, n_draws=20, n_chains=2, n_warmup=20, seed=1, keep_latents=True)
    gp.write_results(draws, tmp_path / "run.nc")
    new = pd.DataFrame({"area": AREAS})
    own = gp.predict(draws, new, model=model).latent_mean
    for run in (draws, gp.open_results(tmp_path / "run.nc")):
        np.testing.assert_allclose(gp.predict(run, new).latent_mean, own, atol=1e-8)
    counts = gp.GPModel(frame, np.arange(75) % 4, MAP, gp.Poisson())
    draws = gp.sample(counts, n_draws=20, n_chains=2, n_warmup=20, seed=1)
    own = gp.predict(draws, new, model=counts).latent_mean
    np.testing.assert_allclose(gp.predict(draws, new).latent_mean, own, atol=1e-8)


def test_an_area_without_rows_is_predicted_and_an_unknown_one_refused():
    seen = FRAME[FRAME["area"] != "a05"]
    model = gp.GPModel(seen, np.ones(len(seen)), MAP, gp.Gaussian(), structure="dense")
    fit = gp.approximate(model.at(model.prior_median()))
    assert np.isfinite(gp.predict(fit, pd.DataFrame({"area": ["a05"]})).latent_mean).all()
    with pytest.raises(InputError, match="level 'a5', which was not seen"):
        gp.predict(fit, pd.DataFrame({"area": ["a5"]}))


@pytest.mark.parametrize("structure", ["dense", "basis"])
def test_a_new_area_is_an_island(structure):
    frame = pd.concat([FRAME] * 3)
    leaf = gp.Areal(RING + CHAIN, 0.7, 1.5, columns="area")
    model = gp.GPModel(frame, np.ones(75), leaf, gp.Gaussian(0.3), structure=structure)
    new = pd.DataFrame({"area": ["new", "new", "other", "a00"]})
    draws = gp.draws_at(gp.approximate(model.at()), new, n_draws=8000, seed=1, unseen="new")
    values = next(iter(draws.data_vars.values())).values.reshape(-1, 4)
    np.testing.assert_allclose(values[:, :3].std(0), 1.5, rtol=0.05)
    np.testing.assert_array_equal(values[:, 0], values[:, 1])
    assert abs(np.corrcoef(values[:, 0], values[:, 2])[0, 1]) < 0.05


def test_numbers_name_areas_too():
    table = pd.DataFrame({"code": [3.0, 1.0, 2.0, 1.0]})
    by_number = gp.Areal([(1, 2), (2, 3)], 0.6, 1.0, columns="code")(table)
    words = table.assign(code=table["code"].map({1.0: "p", 2.0: "q", 3.0: "r"}))
    by_word = gp.Areal([("p", "q"), ("q", "r")], 0.6, 1.0, columns="code")(words)
    np.testing.assert_allclose(by_number, by_word, rtol=1e-13)


def test_three_ways_to_write_a_graph():
    table = pd.DataFrame([[0, 1, 0], [1, 0, 1], [0, 1, 0]], index=list("pqr"), columns=list("pqr"))
    pairs = (("p", "q"), ("q", "r"))
    assert graph_of(table) == graph_of({"q": ["p", "r"], "p": ["q"]}) == pairs
    assert graph_of(pd.DataFrame(pairs)) == graph_of([("r", "q"), ("q", "p"), ("p", "q")]) == pairs


@pytest.mark.parametrize("name", ["wiener", "integrated wiener", "ar1", "areas"])
def test_a_model_is_told_by_its_text(name):
    bound = model_of(LEAVES[name]).covariance
    assert parse_covariance(bound.text()) == bound
    again = gp.GPModel(FRAME.iloc[:9], np.ones(9), bound, gp.Gaussian())
    assert again.covariance == bound  # start, span and step stay those of the first data


def test_a_results_file_predicts_as_the_draws_do(tmp_path):
    covariance = LEAVES["wiener"] + gp.Areal(RING, 0.6, columns="area") + gp.AR1(columns="year")
    draws = gp.sample(model_of(covariance), n_draws=20, n_chains=2, n_warmup=20, seed=1)
    gp.write_results(draws, tmp_path / "run.nc")
    new = pd.DataFrame({"year": [2031.5], "area": ["a11"]})
    first, second = (gp.predict(run, new) for run in (draws, gp.open_results(tmp_path / "run.nc")))
    np.testing.assert_array_equal(first.latent_mean, second.latent_mean)


WRONG = {
    "self": (lambda: gp.Areal([("a", "a")]), "'a' as its own neighbour"),
    "no pair": (lambda: gp.Areal([]), "no pair of neighbours"),
    "no graph": (lambda: gp.Areal(columns="area"), "graph is missing"),
    "not pairs": (lambda: gp.Areal(["abc"]), "allowed: pairs of neighbours"),
    "asymmetric": (
        lambda: gp.Areal(pd.DataFrame([[0, 1, 0], [0, 0, 1], [0, 1, 0]], list("pqr"), list("pqr"))),
        "0 for 'q' beside 'p'|1 for 'p' beside 'q'",
    ),
    "mix": (lambda: gp.Areal(RING, 1.5), "mix is 1.5; allowed: a number between 0 and 1"),
    "rho": (lambda: gp.AR1(gp.Hyperprior.log_uniform(0.1, 1.0)), "rho is a probability"),
    "step": (lambda: gp.AR1(step=0.0), "AR1: step is 0.0; allowed: a positive number"),
    "span": (lambda: gp.Wiener(span=-1.0), "Wiener: span is -1.0"),
    "two columns": (lambda: gp.Wiener(1.0)(np.ones((3, 2))), "2 columns; allowed: one"),
    "constant": (lambda: gp.Wiener(1.0)(np.ones(3)), "column 'x1' is constant"),
    "words": (
        lambda: gp.Areal(RING, 0.5, 1.0, columns="x")(FRAME[["x"]]),
        "holds numbers, graph names such as 'a00'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_refused_in_one_line(name):
    make, message = WRONG[name]
    with pytest.raises(InputError, match=message) as error:
        make()
    assert "\n" not in str(error.value)
