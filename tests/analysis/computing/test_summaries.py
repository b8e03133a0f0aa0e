"""What a fit and draws say: predictions, densities, shares, effects, maps and reach."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, special, stats

import gpmcflow as gp
from gpmcflow.analysis.fitting import answer, fit, summarise
from gpmcflow.analysis.summaries import N_AVERAGES, Places, _map_inputs, describe, reach
from gpmcflow.approximations.approximate import approximate
from gpmcflow.approximations.conditional import regression_predictor
from gpmcflow.approximations.prediction import predictors

EVIDENCE = {"temperatures": 5, "particles": 8}
KINDS = {"binary": "squared_exponential(age)", "counts": "matern32()", "binomial": "matern32()",
         "many": "matern32(age) + linear(ward)"}  # fmt: skip


@pytest.fixture(scope="module", params=KINDS)
def fitted(request, data, model, draw, at_maximum):
    """Data, model, quick fit, draws and their summary of each kind of outcome."""
    kind = request.param
    own = data(kind, 24, test_fraction=0.3)
    made = model(own, KINDS[kind])
    with at_maximum():
        quick = fit(made, own, EVIDENCE, seed=1, key=("x", "a"))
    draws = draw(made)
    full = summarise(made, draws, own, seed=1, key=("x", "a"))
    return kind, own, made, quick, draws, full


def test_predictions_are_those_of_predict_in_natural_units(fitted):
    kind, own, made, _, draws, full = fitted
    rows = own.held_out
    same = gp.predict(draws, rows.X, model=made, **rows.units(own.target.kind))
    group, target = full["held_out"].to_dataset(), own.target
    shift, scale = (target.shift, target.scale) if kind == "many" else (0.0, 1.0)
    for name in ("response_mean", "response_quantile"):
        natural = same[name].values * scale + shift
        np.testing.assert_allclose(group[name].values, natural, rtol=1e-10)
    np.testing.assert_allclose(group["response_sd"], same["response_sd"] * scale, rtol=1e-10)
    np.testing.assert_allclose(group["latent_quantile"], same["latent_quantile"], rtol=1e-10)
    if kind == "many":
        assert group["response_mean"].mean() > 50.0  # the outcome is near 100


@pytest.mark.parametrize("fitted", ["counts", "binomial"], indirect=True)
def test_units_scale_what_is_expected(fitted):
    kind, own, made, quick, _, _ = fitted
    best = approximate(made)
    eta = predictors(best, n_draws=1)[0].moments(made.new_inputs(own.held_out.X))
    mean, sd = eta.mean[0], np.sqrt(eta.variance[0])
    link = np.exp if kind == "counts" else special.expit
    expected = [
        integrate.quad(lambda z, m=m, s=s: link(m + s * z) * stats.norm.pdf(z), -9, 9)[0]
        for m, s in zip(mean, sd, strict=True)
    ]
    np.testing.assert_allclose(
        quick["held_out/response_mean"], own.held_out.unit * expected, rtol=1e-6
    )


def test_densities_of_held_out_rows_by_quadrature(fitted):
    kind, own, made, quick, _, _ = fitted
    rows, best = own.held_out, approximate(made)
    (predictor,) = predictors(best, n_draws=1)
    eta = predictor.moments(made.new_inputs(rows.X))
    mean, sd = eta.mean[0], np.sqrt(eta.variance[0])
    density = quick["held_out/log_density"].values
    if kind == "many":
        noise = predictor.likelihood.noise_sd
        target = own.target
        expected = stats.norm.logpdf(
            rows.outcome,
            target.shift + target.scale * mean,
            target.scale * np.sqrt(sd**2 + noise**2),
        )
        np.testing.assert_allclose(density, expected, rtol=1e-8)
        return
    if kind == "binary":
        sign = 2.0 * rows.outcome - 1.0
        np.testing.assert_allclose(
            density, stats.norm.logcdf(sign * mean / np.sqrt(1.0 + sd**2)), rtol=1e-8
        )
        return

    def observed(i, eta):
        if kind == "counts":
            return stats.poisson.pmf(rows.outcome[i], rows.unit[i] * np.exp(eta))
        return stats.binom.pmf(rows.outcome[i], rows.unit[i], special.expit(eta))

    expected = [
        integrate.quad(
            lambda z, i=i: observed(i, mean[i] + sd[i] * z) * stats.norm.pdf(z), -9, 9, limit=200
        )[0]
        for i in range(len(rows.row))
    ]
    np.testing.assert_allclose(density, np.log(expected), atol=1e-4)


def test_evidence_is_of_outcomes_in_natural_units(fitted):
    kind, own, made, quick, _, _ = fitted
    best, group = approximate(made), quick["evidence"].to_dataset()
    shift = -len(own.learning.row) * np.log(own.target.scale)
    assert float(group["approximate_log_evidence"]) == pytest.approx(best.log_evidence + shift)
    if kind == "many":
        assert shift < -10.0
        assert float(group["log_evidence"]) == pytest.approx(best.log_evidence + shift)
        assert float(group["standard_error"]) == 0.0
        natural = stats.multivariate_normal(
            np.full(len(made.y), own.target.shift), own.target.scale**2 * noisy(made, best.theta)
        )
        assert float(group["log_evidence"]) == pytest.approx(
            natural.logpdf(own.learning.outcome), abs=1e-3
        )
    else:
        assert shift == 0.0
        assert float(group["log_evidence"]) == pytest.approx(best.log_evidence, abs=1.0)
        assert float(group["standard_error"]) > 0.0
    np.testing.assert_array_equal(quick["maximum/theta"], best.theta)
    assert dict(
        zip(quick["maximum/parameter"].values, quick["maximum/value"].values, strict=True)
    ) == pytest.approx(dict(best.parameters))


def noisy(model, theta):
    factor = regression_predictor(model, theta).factor
    return factor @ factor.T


def test_leave_one_out_is_in_natural_units(fitted):
    _, own, made, quick, _, full = fitted
    from gpmcflow.approximations.leave_one_out import at_theta

    density = at_theta(made, approximate(made).theta) - np.log(own.target.scale)
    np.testing.assert_allclose(quick["leave_one_out/log_density"], density, rtol=1e-10)
    assert np.all(quick["leave_one_out/pareto_k"] == 0.0)
    apart = full["leave_one_out/log_density"] - quick["leave_one_out/log_density"]
    assert abs(float(apart.mean())) < 0.5


@pytest.mark.parametrize("fitted", ["counts"], indirect=True)
def test_shares_of_counts_sum_to_one(fitted):
    _, own, made, quick, _, full = fitted
    for tree in (quick, full):
        share = tree["held_out/share"].values
        np.testing.assert_allclose(share.sum(0), 1.0, atol=1e-12)
        assert share.shape == (8, len(own.held_out.row))
    best = approximate(made)
    eta = predictors(best, n_draws=1)[0].moments(made.new_inputs(own.held_out.X))
    z, weight = np.polynomial.hermite_e.hermegauss(60)
    rate = own.held_out.unit[:, None] * np.exp(
        eta.mean[0][:, None] + np.sqrt(eta.variance[0])[:, None] * z
    )
    weight = weight / weight.sum()
    share = quick["held_out/share"].values
    for count in range(7):
        exact = stats.poisson.pmf(count, rate) @ weight
        np.testing.assert_allclose(share[count], exact, atol=0.04)
    np.testing.assert_allclose(share[7], stats.poisson.sf(6, rate) @ weight, atol=0.04)
    latent = quick["held_out/latent_quantile"].values
    np.testing.assert_allclose(quick["held_out/rate_quantile"], np.exp(latent))


@pytest.mark.parametrize("fitted", ["binary", "binomial", "many"], indirect=True)
def test_effects_are_in_natural_units_for_one_unit(fitted):
    kind, _, _, quick, _, full = fitted
    column = "dose" if kind == "binomial" else "age"
    for tree in (quick, full):
        averages = tree[f"effects/{column}/average"].values
        assert len(averages) == N_AVERAGES  # of 60 draws eight each, or of one fit all
        if kind == "many":
            assert 80.0 < averages.mean() < 130.0
        else:
            assert np.all((averages >= 0.0) & (averages <= 1.0))
            assert np.mean(averages[:, -1] - averages[:, 0]) > 0.05  # rising by how it was made
    unused = {"binary": "ward", "many": "smoker"}.get(kind)
    if unused:
        averages = full[f"effects/{unused}/average"].values
        np.testing.assert_allclose(np.ptp(averages, axis=1), 0.0, atol=1e-6)


def test_a_fixed_seed_gives_the_same(fitted):
    _, own, made, quick, draws, full = fitted
    again = summarise(made, draws, own, seed=1, key=("x", "a"))
    assert again.identical(full)
    other = fit(made, own, EVIDENCE, seed=2, key=("x", "a"))
    if "effects" in quick.children:
        name = next(iter(quick["effects"].children))
        assert not other[f"effects/{name}"].identical(quick[f"effects/{name}"])


def test_inputs_of_columns_are_coded_once_for_all_settings(data, model, monkeypatch):
    """Also where there are no held-out rows, no new ones and no curve."""
    own = data("binary", 24, test_fraction=0.0)
    made = model(own, KINDS["binary"])
    own = own._replace(new=None)
    coded, code = [], type(made).new_inputs
    monkeypatch.setattr(type(made), "new_inputs", lambda *a, **b: coded.append(1) or code(*a, **b))
    places = Places(own, Places.of(own, np.random.default_rng(0)).swept, None)
    assert not places.tables
    fit = approximate(made)
    times = []
    for n in (1, 3):
        coded.clear()
        describe(
            [p for _ in range(n) for p in predictors(fit, n_draws=1)],
            n,
            places,
            np.random.default_rng(0),
        )
        times.append(len(coded))
    assert times[0] == times[1] > 0


def test_a_map_spans_the_learning_rows(data, table):
    rows = table("counts", 40)
    rows["north"] = rows["north"] / 4.0
    rows["height"] = np.random.default_rng(0).normal(size=40)
    own = data("counts", rows=rows)
    X = own.learning.X
    grid = _map_inputs(own, ["east", "north"], 41)
    for name in ("east", "north"):
        assert grid[name].min() == pytest.approx(X[name].min())
        assert grid[name].max() == pytest.approx(X[name].max())
    assert grid["east"].nunique() == 41
    ratio = np.ptp(X["north"]) / np.ptp(X["east"])
    assert grid["north"].nunique() == round(41 * ratio)
    places = Places.of(own, np.random.default_rng(0))
    assert [sweep.column for sweep in places.swept] == ["height", "east, north"]
    assert set(places.tables) == {"held_out"}
    rows = len(places.cells.inputs) // len(places.cells.values)
    block = places.cells.inputs.iloc[:rows]
    assert block["east"].nunique() == 1
    assert set(block["height"]) <= set(X["height"])
    assert rows == 16


def test_a_corner_that_no_row_is_near_is_left_empty(data, table):
    rows = table("counts", 200)
    rows = rows[~((rows["east"] > 10.0) & (rows["north"] > 10.0))].reset_index(drop=True)
    own = data("counts", rows=rows)
    grid = Places.of(own, np.random.default_rng(0)).grid
    X = own.learning.X
    away = np.linalg.norm(grid.to_numpy()[:, None] - X.to_numpy(), axis=2).min(1)
    assert away.max() < 0.2 * np.ptp(X["east"])
    east, north = (own.encoding.natural(name, grid[name]) for name in ("east", "north"))
    assert not np.any((east > 15.0) & (north > 15.0))
    assert len(grid) > 900


@pytest.mark.parametrize("full", [False, True])
def test_a_map_averages_over_the_other_columns(data, model, draw, full):
    """f at the mean of a column is not the mean of f: 5 z^2 + 10 is 15 on average, and 10 at z = 0."""
    rng = np.random.default_rng(3)
    x, y, z = rng.uniform(0.0, 10.0, 60), rng.uniform(0.0, 10.0, 60), rng.normal(size=60)
    rows = pd.DataFrame({"x": x, "y": y, "z": z, "yield": 5.0 * z**2 + 10.0 + rng.normal(size=60)})
    own = data("real", rows=rows, coordinates=["x", "y"])
    made = model(own, "squared_exponential(z) + squared_exponential(x, y, signal_sd=0.05)")
    tree = fit(made, own, EVIDENCE, seed=1, key=("x", "a"))
    if full:
        tree = summarise(made, draw(made), own, seed=1, key=("x", "a"))
    places = Places.of(own, np.random.default_rng(0))
    mean = tree["map/mean"].values
    chosen = places.cells.inputs["z"].iloc[
        :16
    ]  # of another generator, so only their spread is known
    assert len(mean) == len(places.cells.values)
    assert len(chosen) == 16
    assert mean.mean() > 12.0
    assert np.ptp(mean) < 0.3 * np.std(rows["yield"])
    assert np.all((tree["map/low"] <= mean) & (mean <= tree["map/high"]))


def test_a_curve_for_one_column_of_numbers(data):
    own = data("real")
    z = own.learning.X["dose"]
    line = Places.of(own, np.random.default_rng(0)).grid["dose"]
    assert 101 <= len(line) <= 101 + len(z)
    assert abs(line.to_numpy()[:, None] - z.to_numpy()).min(0).max() < 1e-12  # of all rows
    assert np.diff(line).max() < 0.0111 * np.ptp(z)
    assert line.min() == pytest.approx(z.min() - 0.05 * np.ptp(z))
    assert line.max() == pytest.approx(z.max() + 0.05 * np.ptp(z))
    assert Places.of(data("many"), np.random.default_rng(0)).grid is None


def test_a_curve_for_one_column_of_days_or_times(data):
    days = pd.date_range("2008-01-01", periods=60, freq="MS")
    rows = pd.DataFrame({"month": days.strftime("%Y-%m-%d"), "yield": np.sin(np.arange(60.0))})
    own = data("real", rows=rows)
    line = Places.of(own, np.random.default_rng(0)).grid["month"].to_numpy()
    days = own.encoding.natural("month", line)
    np.testing.assert_allclose(days, np.round(days), atol=1e-9)
    times = [f"2020-01-{k // 24 + 1:02d} {k % 24:02d}:00" for k in range(60)]
    own = data("real", rows=rows.assign(month=times))
    line = Places.of(own, np.random.default_rng(0)).grid["month"].to_numpy()
    assert np.diff(own.encoding.natural("month", line)).max() <= 1.1 * (59.0 / 24.0) / 100.0
    code = own.encoding.code("month")
    assert code.text(0.25 - code.origin % 1.0) == "2020-01-01 06:00"


def test_a_curve_for_one_column_with_empty_cells(data):
    rows = pd.DataFrame({"dose": [*range(40), *[""] * 10], "yield": np.sin(np.arange(50.0))})
    own = data("real", rows=rows.astype(object))
    grid = Places.of(own, np.random.default_rng(0)).grid
    assert list(grid) == ["dose", "dose missing"]
    assert (grid["dose missing"] == 0.0).all()
    assert own.encoding.natural("dose", grid["dose"]).max() > 39.0


@pytest.mark.parametrize(
    ("term", "half"),
    [("matern32", 1.6783469900166605 / np.sqrt(3.0)),
     ("squared_exponential", np.sqrt(2.0 * np.log(2.0)))],
)  # fmt: skip
def test_reach_is_where_the_correlation_is_one_half(data, model, term, half):
    if term == "matern32":
        a = half * np.sqrt(3.0)
        assert (1.0 + a) * np.exp(-a) == pytest.approx(0.5)
    own = data("counts", 40)
    made = model(own, f"{term}(ard=True)")
    values = {f"length_scale[{name}]": scale for name, scale in (("east", 0.5), ("north", 1.1))}
    theta = made.theta_of({**values, "signal_sd": 3.0, "mean": 0.0})
    distances = reach(made, np.stack([theta, theta]), own)["distance"].values
    assert distances.shape == (2, 2)
    for k, (name, scale) in enumerate((("east", 0.5), ("north", 1.1))):
        unit = own.encoding.code(name).scale
        step = 2.0 * np.ptp(own.learning.X, axis=0).max() / 400 * unit
        assert 0.0 <= distances[0, k] - half * scale * unit <= step


def test_reach_is_infinite_where_places_stay_alike(data, model):
    own = data("counts", 40)
    made = model(own, "matern32(east, length_scale=0.1)")
    east, north = reach(made, made.prior_median()[None], own)["distance"].values[0]
    assert np.isfinite(east)
    assert np.isinf(north)
    made = model(own, "linear() + constant(signal_sd=9.0)")
    assert np.all(np.isinf(reach(made, made.prior_median()[None], own)["distance"]))


def test_reach_is_of_the_terms_that_fade(data, model, table):
    own = data("counts", rows=table("counts").assign(tide=np.arange(40) % 7))
    alone = model(own, "matern32(east, north, length_scale=0.5)")
    east, north = reach(alone, alone.prior_median()[None], own)["distance"].values[0]
    assert east == north < np.inf  # one length scale
    more = " + linear() + constant(signal_sd=9.0) + matern32(tide, signal_sd=9.0)"
    made = model(own, "matern32(east, north, length_scale=0.5)" + more)
    distances = reach(made, made.prior_median()[None], own)["distance"].values[0]
    np.testing.assert_array_equal(distances, [east, north])


def test_several_explanations_have_curves_in_natural_units(data, model):
    """A slow wave with a fast one, about 100: short length scales or noise explain it."""
    rng = np.random.default_rng([77, 2])
    time = np.linspace(0.0, 5.0, 30)
    wave = np.sin(1.3 * time) + 0.7 * np.sin(25.0 * time) + 0.1 * rng.standard_normal(30)
    own = data("real", rows=pd.DataFrame({"time": time, "yield": 100.0 + wave}), test_fraction=0.0)
    any_scale = {"distribution": "uniform", "parameters": {"loc": -4.3, "scale": 6.9}}
    covariance = "squared_exponential(length_scale=any_scale)"
    made = model(own, covariance, priors={"any_scale": any_scale})
    draws = gp.sample(made, n_chains=2, n_draws=300, predictive=False, seed=1)
    tree = answer(made, own, draws, seed=1, key=("x", "a"))
    group = tree["explanations/time"].to_dataset()
    slow, fast = group.attrs["in_words"].split("; ")
    assert slow.endswith("% with slower change, more noise")
    assert fast.endswith("% with faster change, less noise")
    shares = [float(name.split()[0]) for name in group.explanation.values]
    fast_share = 100.0 * float((draws["posterior"]["noise_sd"] < 0.35).mean())
    assert shares == pytest.approx([100.0 - fast_share, fast_share], abs=2)
    assert group["mean"].mean() == pytest.approx(100.0, abs=0.5)
    moves = np.abs(group["mean"].diff("value")).sum("value")
    assert moves[1] > 2.0 * moves[0]
