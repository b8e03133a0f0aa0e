"""Results tell their structure and the error of a basis; a large dense model is told its cost."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest
import xarray as xr

from gpmcflow.covariances.basis_functions import BasisFunctions
from gpmcflow.covariances.leaves import Matern32, Periodic, SquaredExponential
from gpmcflow.likelihoods import Probit
from gpmcflow.models.gp_model import GPModel
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.samplers import JointSplitHMC
from gpmcflow.samplers.sampling import sample
from gpmcflow.samplers.structure_notes import advise, structure_attributes

LENGTH = Hyperprior.log_uniform(0.3, 1.0)
x = np.linspace(-1, 1, 60)
Y = np.where(np.sin(5 * x) > 0, 1.0, -1.0)


def draws(structure, **more):
    model = GPModel(x, Y, SquaredExponential(LENGTH, **more), Probit(), structure=structure)
    return sample(model, JointSplitHMC(rounds=(30, 40)), n_chains=2, n_draws=60, seed=1)


def test_results_tell_structure_and_error(caplog):
    with caplog.at_level(logging.WARNING):
        tree = draws(BasisFunctions())
    assert tree.attrs["structure"] == "basis"
    (entry,) = json.loads(tree.attrs["basis_error"])
    lengths = tree.posterior.length_scale.values
    ends = np.exp(np.quantile(np.log(lengths), [0.01, 0.99]))  # the central 98 % of the draws
    assert [*entry["shortest"], *entry["longest"]] == pytest.approx(ends)
    assert 0 < entry["error_at_longest"] < 0.025
    assert 0 < entry["error_at_shortest"] < 0.025
    assert entry["m"] == list(GPModel(x, Y, SquaredExponential(LENGTH), Probit(),
                                      structure="basis").basis.eigen[0].sizes)  # fmt: skip
    assert not [r for r in caplog.records if "are off by" in r.getMessage()]
    assert draws("dense").attrs["structure"] == "dense"
    assert tree.posterior.sizes["weight_dim"] == sum(entry["m"])
    assert "latent" not in tree.posterior


def test_a_basis_that_is_too_small_is_warned_of_with_one_that_would_do(caplog):
    with caplog.at_level(logging.WARNING):
        tree = draws(BasisFunctions(m=5, boundary=1.2))
    (entry,) = json.loads(tree.attrs["basis_error"])
    (said,) = [r.getMessage() for r in caplog.records if "are off by" in r.getMessage()]
    named = said.split("m = ")[1]
    m, boundary = int(named.split(" ")[0]), float(named.split("boundary = ")[1].split(" ")[0])
    better = GPModel(
        x, Y, SquaredExponential(LENGTH), Probit(), structure=BasisFunctions(m=m, boundary=boundary)
    )
    caplog.clear()
    attributes = structure_attributes(better, tree, True)
    (mended,) = json.loads(attributes["basis_error"])
    assert max(mended["error_at_shortest"], mended["error_at_longest"]) < 0.025
    assert max(entry["error_at_shortest"], entry["error_at_longest"]) > 0.1
    assert not caplog.records


@pytest.mark.parametrize("length", [0.5, 0.05])
def test_waves_that_are_too_few_for_the_length_scales_drawn_are_warned_of(length, caplog):
    model = GPModel(x, Y, Periodic(LENGTH, 1.0, period=0.8), Probit(), structure="basis")
    theta = np.full((2, 30, 1), np.log(length))
    tree = xr.DataTree.from_dict(
        {"posterior": xr.Dataset({"theta": (("chain", "draw", "theta_dim"), theta)})}
    )
    with caplog.at_level(logging.WARNING):
        (entry,) = json.loads(structure_attributes(model, tree, True)["basis_error"])
    (wave,) = model.basis.waves
    assert entry["m"] == [wave.size]
    assert entry["error_at_shortest"] == pytest.approx(wave.left_out(length))
    assert ("the waves of periodic leave out" in caplog.text) == (length == 0.05)


@pytest.mark.parametrize(
    ("covariance", "said"),
    [
        (Matern32(LENGTH), 'structure "basis" fits this covariance with m = 30'),
        (
            Periodic(period=Hyperprior.log_uniform(0.9, 1.1)),
            "does not fit, since basis functions: periodic",
        ),
    ],
)
def test_a_large_dense_model_is_told_its_cost(covariance, said, caplog):
    X = np.linspace(0, 1, 3000)
    labels = np.where(X > 0.4, 1.0, -1.0)
    with caplog.at_level(logging.WARNING):
        advise(GPModel(X, labels, covariance, Probit(), structure="dense"))
    (line,) = [r.getMessage() for r in caplog.records]
    assert "n = 3000" in line
    assert "0.36 GB" in line
    assert said in line
    caplog.clear()
    advise(GPModel(X[:50], labels[:50], covariance, Probit()))
    advise(GPModel(X, labels, Matern32(LENGTH), Probit(), structure="basis"))
    assert not caplog.records


def test_basis_functions_that_nobody_asked_for_are_told(caplog):
    X = np.linspace(0, 1, 3000)
    model = GPModel(X, np.where(X > 0.4, 1.0, -1.0), Matern32(LENGTH), Probit())
    with caplog.at_level(logging.WARNING):
        advise(model)
    (line,) = [r.getMessage() for r in caplog.records]
    assert "30 functions for 3000 cases, with errors of up to 2.5 % of the variance" in line
    assert 'structure="dense" is exact' in line
