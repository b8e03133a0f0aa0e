"""Models of an analysis with basis functions: their steps, forecast and messages, beside dense ones."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

import gpmcflow as gp
from gpmcflow.analysis import costs, fitting
from gpmcflow.analysis.convergence import parameters
from gpmcflow.analysis.fitting import fit, summarise
from gpmcflow.analysis.report import checks
from gpmcflow.analysis.study import jobs
from gpmcflow.approximations.approximate import approximate
from gpmcflow.approximations.conditional import Conditional
from gpmcflow.approximations.leave_one_out import at_theta
from gpmcflow.approximations.predictive import by_blocks, log_predictive_density
from gpmcflow.errors import InputError, ResourceError
from gpmcflow.jobs.costs import Context
from gpmcflow.pipeline.config import check_config
from gpmcflow.pipeline.forecast import forecast, require_fit
from gpmcflow.pipeline.run import check

PRIORS = {"reach": {"distribution": "norm", "parameters": {"loc": 0.3, "scale": 0.3}}}
TEXTS = {
    "binary": "squared_exponential(age, length_scale=reach) + linear(smoker)",
    "counts": "squared_exponential(east, length_scale=reach) + linear(north)",
    "real": "matern52(length_scale=reach)",
}
N = 300
EVIDENCE = {"temperatures": 20, "particles": 16}


@pytest.fixture(scope="module", params=TEXTS)
def pair(request, data, model):
    """Data of a kind, and the dense model and the one with basis functions."""
    kind = request.param
    own = data(kind, N, incomplete="drop", test_fraction=0.2)
    made = (model(own, TEXTS[kind], PRIORS, structure=name) for name in ("dense", "basis"))
    return kind, own, *made


def test_the_quick_fit_is_near_the_dense_one(pair, at_maximum):
    _, own, dense, basis = pair
    assert (dense.structure_name, basis.structure_name) == ("dense", "basis")
    with at_maximum():
        first, second = (fit(m, own, EVIDENCE, seed=1, key=("x", "a")) for m in (dense, basis))
    theta = second["maximum/theta"].values  # the dense one may lie beyond the central 98 %
    at = approximate(dense.at(theta)).log_evidence - approximate(basis.at(theta)).log_evidence
    assert abs(at) < 0.5
    np.testing.assert_allclose(
        second["evidence/approximate_log_evidence"], second["evidence/log_evidence"], atol=0.3
    )
    densities = [at_theta(own_model, theta) for own_model in (dense, basis)]
    assert abs(np.subtract(*densities)).max() < 0.2
    assert abs(np.subtract(*densities).sum()) < 1.0
    shift = len(densities[1]) * np.log(own.target.scale)
    assert np.isclose(second["leave_one_out/log_density"].sum() + shift, densities[1].sum())
    held_out = [tree["held_out/response_mean"].values for tree in (first, second)]
    assert abs(np.subtract(*held_out)).max() < 0.15 * np.ptp(held_out[0])


def test_draws_and_their_summary(pair, draw):
    _, own, _, basis = pair
    draws = draw(basis, 60)
    assert draws["posterior"]["weight"].shape == (2, 60, basis.n_latents)
    assert draws.attrs["structure"] == "basis"
    assert "weight" not in parameters(draws)
    full = summarise(basis, draws, own, seed=1, key=("x", "a"))
    quick = fit(basis, own, EVIDENCE, seed=1, key=("x", "a"))
    one, two = (tree["leave_one_out/log_density"].values for tree in (full, quick))
    assert abs(one.sum() - two.sum()) < 8.0
    assert np.all(np.isfinite(full["held_out/log_density"]))
    assert set(full.children) >= {"held_out", "leave_one_out"}


def test_leave_one_out_of_a_regression_is_exact(data, model):
    basis = model(data("real", 40), "matern52(length_scale=reach)", PRIORS, structure="basis")
    theta, expected = basis.prior_median(), []
    full = basis.full(theta)
    U = basis.basis_design.matrix() * basis.basis.scales(full)[0]
    noise = basis.likelihood_at(full).noise_sd
    C = U @ U.T + noise**2 * np.eye(basis.n_cases)
    for i in range(basis.n_cases):
        rest = np.delete(np.arange(basis.n_cases), i)
        gain = np.linalg.solve(C[np.ix_(rest, rest)], C[rest, i])
        mean, variance = gain @ basis.y[rest], C[i, i] - gain @ C[rest, i]
        residual = basis.y[i] - mean
        expected.append(-0.5 * (np.log(2.0 * np.pi * variance) + residual**2 / variance))
    np.testing.assert_allclose(at_theta(basis, theta), expected, atol=1e-8)


def test_fewer_draws_are_left_out_of_large_models(pair, monkeypatch):
    *_, dense, basis = pair
    assert fitting.n_left_out(dense) == fitting.n_left_out(basis) == 100
    monkeypatch.setattr(fitting, "LEFT_OUT_WORK", 60 * basis.n_cases * basis.n_latents**2)
    assert fitting.n_left_out(basis) == 60
    monkeypatch.setattr(fitting, "LEFT_OUT_WORK", 1.0)
    assert fitting.n_left_out(basis) == 40


@pytest.mark.parametrize("pair", ["binary"], indirect=True)
def test_an_evidence_that_takes_too_long_is_that_of_ep_and_says_so(pair, monkeypatch, at_maximum):
    _, own, dense, basis = pair
    monkeypatch.setattr(fitting, "MOST_WORK", 1.0)
    assert not fitting.too_much_annealing(dense, EVIDENCE)
    with at_maximum():
        group = fit(basis, own, EVIDENCE, seed=1, key=("x", "a"))["evidence"]
    assert group.attrs["alarm"].startswith("not annealed, as 2")
    assert group["log_evidence"] == group["approximate_log_evidence"]
    assert np.isnan(group["standard_error"])


def test_marks_of_missing_cells_are_slopes_of_their_own(data, model):
    own = data("binary", 80)
    assert own.encoding.inputs_of("age") == ["age", "age missing"]
    basis = model(own, "squared_exponential(age, length_scale=reach)", PRIORS, structure="basis")
    assert "missing.sd" in basis.names
    (block,) = basis.basis.eigen
    assert [basis.inputs.names[c] for c in block.columns] == ["age"]
    text = "squared_exponential(age, length_scale=reach) + linear()"
    assert "missing.sd" not in model(own, text, PRIORS, structure="basis").names
    assert "missing.sd" not in model(own, text, PRIORS).names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("squared_exponential(age, day, smoker, ward)", "has 6 columns; allowed: at most 3 a term"),
        ("squared_exponential(age, day)", "too short for 400 functions; the shortest that fits is"),
        ("matern32(age) * rational_quadratic(day)", r"rational_quadratic\(day\) has no basis"),
    ],
)
def test_what_has_no_basis_is_told_by_its_key(data, model, text, message):
    own = data("binary", 80)
    with pytest.raises(InputError, match=message) as error:
        model(own, text, structure="basis")
    assert str(error.value).startswith("mine.models.a.structure: basis functions: ")
    assert "structure: dense" in str(error.value)
    assert "\n" not in str(error.value)


def write(folder, table, **models):
    table.to_csv(folder / "file.csv", index=False)
    own = {"data": {"csv": "file.csv", "target": "ill"}, "priors": PRIORS, "models": models}
    (folder / "mine.yaml").write_text(yaml.safe_dump(own), encoding="utf-8")
    return own


def test_forecast_of_basis_functions_grows_with_rows_and_not_their_square(
    tmp_path, monkeypatch, table
):
    monkeypatch.chdir(tmp_path)
    costs_of = {}
    for n in (1000, 50_000):
        own = write(
            tmp_path, table("binary", n), a={"covariance": TEXTS["binary"], "structure": "basis"}
        )
        filled = check_config(own, path="mine.yaml")
        context = Context(filled, tmp_path, tmp_path, 2)
        costs_of[n] = {job.rule: costs.COSTS[job.rule](context, job) for job in jobs(filled)}
        assert not context.notes
    processes = (
        3 * context.single(0.0, 0).memory
    )  # of this one and two workers, without their numbers
    for cost in costs_of[50_000].values():
        assert cost.memory - processes < 1e9  # a matrix of n x n is 20 GB
        assert cost.seconds < 120
    few, many = (costs_of[n]["analysis_draw"] for n in (1000, 50_000))
    assert few.memory < many.memory
    assert few.seconds < many.seconds


def test_a_large_dense_model_is_timed_in_part_and_told_of_basis_functions(
    tmp_path, monkeypatch, table, capsys
):
    monkeypatch.chdir(tmp_path)
    own = write(
        tmp_path, table("binary", 3000), a={"covariance": TEXTS["binary"], "structure": "dense"}
    )
    monkeypatch.setattr(costs, "LARGEST_TIMED", 150)
    lines = check("mine.yaml", 2)
    assert lines[1].startswith("analyses.mine.models.a: a dense covariance of n = 2400 cases costs")
    assert lines[1].endswith(
        'GB a chain; structure "basis" fits this covariance with m = 22 weights'
    )
    assert lines[2].startswith("next: ")
    limited = check_config({**own, "memory_limit_gb": 0.1}, path="mine.yaml")
    with pytest.raises(
        ResourceError, match=r"over the limit of 0.1 GB; give its models \"struc.* fits"
    ):
        require_fit(forecast(limited, folder=tmp_path))


def test_checks_leave_out_what_was_not_estimated():
    import pandas as pd

    row = {"role": "model", "name": "a", "log_evidence_se": np.nan, "r_hat": np.nan}
    table = pd.DataFrame([row | {"evidence_alarm": "not annealed, as 9 rows take long"}])
    assert checks(table, "a", "again").empty
    table = pd.DataFrame([row | {"evidence_alarm": "all weight on one particle"}])
    assert checks(table, "a", "again")["alarm"].tolist() == [False, True]


def test_the_density_of_a_known_predictor_and_blocks_of_cases():
    likelihood = gp.Poisson(exposure=np.linspace(0.5, 2.0, 2500))
    mean = np.sin(np.arange(2500.0))[None]
    variance = np.where(np.arange(2500) % 2, 0.3, 0.0)[None]
    eta, y = Conditional(mean, variance, [likelihood]), np.arange(2500.0) % 4
    density = log_predictive_density(eta, y)
    by_hand = likelihood.derivatives(mean[0], y)[0]
    np.testing.assert_allclose(density[::2], by_hand[::2])
    spread = likelihood.tilted(y, mean[0], np.full(2500, 0.3))[0]
    np.testing.assert_allclose(density[1::2], spread[1::2], rtol=1e-9)

    def described(part):
        import xarray as xr

        return xr.Dataset({"rate": ("new_case", part.mean_response())})

    table = by_blocks(eta, described)
    assert table["new_case"].values.tolist() == list(range(2500))
    np.testing.assert_allclose(table["rate"], eta.mean_response())
