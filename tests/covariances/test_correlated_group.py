"""Groups of a known correlation: the dense model by hand, its basis, new levels, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import gpmcflow as gp
from gpmcflow.covariances.tape import CovarianceBuffers
from gpmcflow.covariances.text import parse_covariance
from gpmcflow.errors import InputError

NAMES = [f"s{k}" for k in range(8)]
SPLITS = np.array(
    [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]]
)
# branches of a tree in common
SHARED = np.cumprod(SPLITS[:, None] == SPLITS, axis=-1).sum(-1) / 3.0
TREE = pd.DataFrame(SHARED, NAMES, NAMES)
RNG = np.random.default_rng(3)
FRAME = pd.DataFrame(
    {"species": RNG.choice(NAMES[:7], 40), "x": RNG.standard_normal(40)}
)  # s7 is not seen
Y = RNG.standard_normal(40)
LEAF = gp.Group(1.3, TREE, columns="species")


def model_of(covariance, structure="auto", frame=FRAME):
    return gp.GPModel(frame, Y[: len(frame)], covariance, gp.Gaussian(0.4), structure=structure)


@pytest.mark.parametrize("structure", ["dense", "basis"])
def test_it_is_the_dense_model_by_hand(structure):
    fit = gp.approximate(model_of(LEAF, structure).at())
    found = gp.predict(fit, pd.DataFrame({"species": NAMES}))
    A = (FRAME["species"].to_numpy()[:, None] == np.array(NAMES)).astype(float)
    K = 1.3**2 * SHARED
    gain = np.linalg.solve(A @ K @ A.T + 0.4**2 * np.eye(40), A @ K).T
    np.testing.assert_allclose(found.latent_mean, gain @ Y, atol=1e-8)
    variance = np.diag(K - gain @ A @ K)
    np.testing.assert_allclose(found.latent_sd, np.sqrt(variance), atol=1e-7)


def test_its_basis_is_the_dense_covariance_alone_and_in_a_product():
    covariance = gp.Group(correlation=TREE, columns="species") + gp.Linear(columns="x") * LEAF
    own = model_of(covariance, "basis")
    dense = own.with_structure("dense")
    full = own.full(own.prior_median() + 0.4)
    Phi = own.basis_design.matrix() * own.basis.scales(full)[0]
    np.testing.assert_allclose(Phi @ Phi.T, CovarianceBuffers(dense._tape).matrix(full), atol=1e-10)
    assert model_of(LEAF).structure_name == "basis"
    assert "8 functions for 40 cases" in model_of(LEAF).structure_reason


def test_a_singular_correlation_has_fewer_functions():
    twins = TREE.copy()
    twins.loc["s6"], twins["s6"] = twins.loc["s5"].to_numpy(), twins["s5"].to_numpy()
    twins.loc["s6", "s6"] = 1.0
    model = model_of(gp.Group(1.3, twins, columns="species"))
    assert model.basis.size == 7
    found = gp.predict(gp.approximate(model.at()), pd.DataFrame({"species": ["s5", "s6"]}))
    assert found.latent_mean.values[0] == pytest.approx(found.latent_mean.values[1], abs=1e-12)


def test_an_identity_is_a_group():
    identity = pd.DataFrame(np.eye(8), NAMES, NAMES)
    found = gp.Group(2.0, identity, columns="species")(FRAME[["species"]])
    np.testing.assert_array_equal(found, gp.Group(2.0, columns="species")(FRAME[["species"]]))


def test_a_model_is_told_by_its_text_and_its_file_predicts_as_it_does(tmp_path):
    bound = model_of(gp.Group(correlation=TREE, columns="species", name="tree")).covariance
    assert parse_covariance(bound.text()) == bound
    assert "<8 levels>" in repr(bound)
    draws = gp.sample(model_of(bound), n_draws=20, n_chains=2, n_warmup=20, seed=1)
    gp.write_results(draws, tmp_path / "run.nc")
    new = pd.DataFrame({"species": ["s7"]})
    first, second = (gp.predict(run, new) for run in (draws, gp.open_results(tmp_path / "run.nc")))
    np.testing.assert_array_equal(first.latent_mean, second.latent_mean)


def test_another_correlation_is_another_model():
    other = 0.5 * TREE + 0.5 * np.eye(8)
    digests = {model_of(gp.Group(1.3, R, columns="species")).digest() for R in (TREE, other)}
    assert len(digests) == 2


def test_an_array_with_coordinates_and_numbers_for_names():
    table = pd.DataFrame({"animal": [3.0, 1.0, 2.0, 1.0]})
    R = np.array([[1.0, 0.5, 0.25], [0.5, 1.0, 0.5], [0.25, 0.5, 1.0]])
    named = xr.DataArray(R, [("animal", [1, 2, 3]), ("other", [1, 2, 3])])
    found = gp.Group(1.0, named, columns="animal")(table)
    at = table["animal"].to_numpy().astype(int) - 1
    np.testing.assert_array_equal(found, R[np.ix_(at, at)])


def test_effects_of_levels_have_names():
    table = gp.coefficients(gp.approximate(model_of(LEAF + gp.Linear(columns="x") * LEAF)))
    names = table["coefficient"].values.tolist()
    assert [f"species[{name}]" for name in NAMES] == [n for n in names if n.startswith("species")]
    assert [f"x:species[{name}]" for name in NAMES] == [n for n in names if n.startswith("x:")]


def test_a_level_it_does_not_know_is_refused_unless_it_is_new():
    fit = gp.approximate(model_of(LEAF).at())
    new = pd.DataFrame({"species": ["s9"]})
    with pytest.raises(InputError, match="level 's9', which was not seen"):
        gp.predict(fit, new)
    assert gp.predict(fit, new, unseen="new").latent_sd.item() == pytest.approx(1.3)
    table = pd.DataFrame({"animal": [1.0, 2.0] * 5})
    R = pd.DataFrame([[1.0, 0.5], [0.5, 1.0]], [1, 2], [1, 2])
    fit = gp.approximate(model_of(gp.Group(1.0, R, columns="animal"), "dense", table).at())
    with pytest.raises(
        InputError, match="level 7, which Group does not know; allowed: those of the"
    ):
        gp.predict(fit, pd.DataFrame({"animal": [7.0]}))


def changed(i, j, value):
    R = TREE.copy()
    R.iloc[i, j] = value
    return R


WRONG = {
    "array": (lambda: gp.Group(correlation=SHARED), "ndarray; allowed: a square DataFrame"),
    "shape": (lambda: gp.Group(correlation=TREE.iloc[:3]), r"shape \(3, 8\)"),
    "names": (lambda: gp.Group(correlation=TREE.set_axis(NAMES[::-1])), "other names in its rows"),
    "twice": (
        lambda: gp.Group(correlation=pd.DataFrame(np.eye(2), list("aa"), list("aa"))),
        "'a' twice; give each level once",
    ),
    "words": (lambda: gp.Group(correlation=TREE.astype(object).replace(0.0, "no")), "other than numbers"),
    "nan": (lambda: gp.Group(correlation=changed(0, 1, np.nan)), "is nan for 's0' and 's1'"),
    "asymmetric": (
        lambda: gp.Group(correlation=changed(0, 1, 0.1)),
        r"not symmetric: 0.1 for 's0' and 's1', 0.666667 the other .* give \(R \+ R.T\) / 2",
    ),
    "variance": (lambda: gp.Group(correlation=changed(2, 2, 0.0)), "gives 's2' the variance 0"),
    "indefinite": (
        lambda: gp.Group(correlation=pd.DataFrame([[1.0, 1.5], [1.5, 1.0]], list("ab"), list("ab"))),
        r"least eigenvalue is -0.5; allowed: 0 or more; give 0.66 \* R \+ 0.34 \* np.eye\(2\)",
    ),
    "missing": (
        lambda: model_of(gp.Group(correlation=TREE.iloc[2:, 2:], columns="species")),
        "no level 's0' and 1 more, which column 'species' has; add its row and column, or drop",
    ),
    "coordinates": (lambda: gp.Group(correlation=xr.DataArray(SHARED)), "no names of levels"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_refused_in_one_line(name):
    make, message = WRONG[name]
    with pytest.raises(InputError, match=message) as error:
        make()
    assert "\n" not in str(error.value)
