"""Models made of the columns of a frame: coding of outcomes, units, missing cells, messages."""

from __future__ import annotations

import json
import logging

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import expit
from scipy.stats import multivariate_normal

import gpmcflow as gp
from gpmcflow.errors import InputError
from gpmcflow.models.description import data_of, describe, model_of

N = 40
FRAME = pd.DataFrame(
    {
        "age": np.linspace(20.0, 80.0, N),
        "ward": np.tile(["a", "b", "c", "b"], N // 4),
        "hours": np.tile([0.5, 1.0, 2.0, 4.0], N // 4),
        "visits": np.tile([0, 3, 2, 7, 1], N // 5),
        "well": np.tile([1, 0, 0, 1, 0], N // 5),
        "score": np.tile([10.5, 12.0, 17.25, 9.0], N // 4),
        "day": pd.date_range("2026-01-01", periods=N),
        "patient": [f"p{k}" for k in range(N)],
    },
    index=pd.Index([f"row {k}" for k in range(N)]),
)
TEXT = "matern32(age) + group(ward)"


def of(y="well", covariance=TEXT, likelihood=None, frame=FRAME, **settings):
    return gp.GPModel.from_frame(frame, y, covariance, likelihood, **settings)


def test_it_is_the_model_that_arrays_make():
    model = of("visits", likelihood="poisson", exposure="hours", mean=0.5, priors=None)
    age_sd = np.std(FRAME.age)
    length = gp.Hyperprior("norm", {"loc": np.log(age_sd), "scale": 1.0})
    by_hand = gp.GPModel(
        FRAME[["age", "ward"]],
        FRAME.visits,
        gp.Matern32(length, columns="age") + gp.Group(columns="ward"),
        gp.Poisson(exposure=FRAME.hours.to_numpy()),
        mean=0.5,
    )
    assert model.digest() == by_hand.digest()


def _labels(words):
    return FRAME.assign(well=np.array(words, dtype=object)[FRAME.well.to_numpy()])


@pytest.mark.parametrize(
    ("frame", "labels"),
    [
        (FRAME, ("0", "1")),
        (FRAME.assign(well=2.0 * FRAME.well - 1.0), ("-1", "1")),
        (FRAME.assign(well=FRAME.well.astype(bool)), ("False", "True")),
        (FRAME.assign(well=FRAME.well.astype("boolean")), ("False", "True")),
        (_labels(["no", "yes"]), ("no", "yes")),
        (_labels(["ill", "y"]), ("ill", "y")),
        (
            FRAME.assign(well=pd.Categorical.from_codes(FRAME.well, ["well", "ill"], ordered=True)),
            ("well", "ill"),
        ),
    ],
    ids=["0/1", "-1/+1", "bool", "nullable bool", "words", "y is yes", "ordered"],
)
@pytest.mark.parametrize("likelihood", [None, "logistic", gp.Logistic()])
def test_two_labels_are_minus_and_plus_one(frame, labels, likelihood):
    if labels == ("-1", "1") and likelihood is None:
        likelihood = "logistic"
    model = of(frame=frame, likelihood=likelihood)
    np.testing.assert_array_equal(model.y, 2.0 * FRAME.well - 1.0)
    assert model.likelihood == gp.Logistic()
    assert model.outcome == ("well", labels)
    assert model.digest() == of(frame=FRAME).digest()


def test_the_positive_label_may_be_stated():
    np.testing.assert_array_equal(of(positive=0).y, 1.0 - 2.0 * FRAME.well)
    several = of("ward", "matern32(age)", positive="c")
    assert several.outcome.response == "P(ward = c)"
    np.testing.assert_array_equal(several.y == 1.0, FRAME.ward == "c")
    with pytest.raises(InputError, match=r"positive: unknown name 'd'"):
        of("ward", "matern32(age)", positive="d")


def test_ordered_categories_are_grades():
    levels = ["poor", "fair", "good", "unused"]
    grades = pd.Categorical.from_codes(np.arange(N) % 3, levels, ordered=True)
    model = of("grade", frame=FRAME.assign(grade=grades))
    assert model.likelihood.levels == ("poor", "fair", "good")
    np.testing.assert_array_equal(model.y, np.arange(N) % 3 + 1.0)


def test_an_enum_of_polars_is_ordered():
    import polars as pl

    grade = pl.Series("grade", ["low", "mid", "high", "mid"] * 3, pl.Enum(["low", "mid", "high"]))
    model = of("grade", "matern32(x)", frame=pl.DataFrame({"x": np.arange(12.0), "grade": grade}))
    assert model.likelihood.levels == ("low", "mid", "high")


def test_settings_of_a_likelihood_by_name_are_not_columns():
    model = of("visits", likelihood="zero_inflated", base="poisson")
    assert model.likelihood.base.name == "poisson"
    assert of("score", likelihood="gaussian", noise_sd=0.5).likelihood.noise_sd == 0.5
    np.testing.assert_array_equal(
        of("score", likelihood="gaussian", noise_sd="hours").likelihood.noise_sd, FRAME.hours
    )


def test_a_mean_left_out_lies_where_the_response_is_the_average_of_y():
    assert expit(of().mean.parameters["loc"]) == pytest.approx(FRAME.well.mean(), rel=1e-9)
    counts = of("visits", likelihood="poisson", exposure="hours").mean.parameters
    assert np.exp(counts["loc"]) == pytest.approx(FRAME.visits.sum() / FRAME.hours.sum(), rel=1e-9)
    assert counts["scale"] == 1.0
    real = of("score")
    assert real.mean.parameters == pytest.approx(
        {"loc": FRAME.score.mean(), "scale": np.std(FRAME.score)}
    )
    beside = of("score", TEXT + " + constant()")
    assert beside.mean == pytest.approx(FRAME.score.mean())


def test_slopes_alone_have_their_level_as_a_term_where_a_row_is_at_their_centre():
    frame = FRAME.assign(dose=np.tile([0.0, 1.0, 2.0, 3.0, 4.0], N // 5))
    model = of("score", "linear(dose)", frame=frame)
    width = float(np.std(FRAME.score))
    assert model.covariance.text().endswith(f" + constant(signal_sd={width!r})")
    assert model.mean == pytest.approx(FRAME.score.mean())
    assert model.names == ("linear.sd", "noise_sd")
    assert of("score", "linear(dose) + group(ward)", frame=frame).names[-2:] == ("mean", "noise_sd")
    with pytest.raises(InputError, match=r"add Constant\(\)"):
        of("score", "linear(dose)", frame=frame, mean=3.0)


def test_units_of_columns_and_of_y_change_nothing_but_the_units():
    text = "matern32(age) * linear(hours) + linear(age) + group(ward) + polynomial(hours)"
    model = of("score", text)
    other = of(
        "score", text, frame=FRAME.assign(age=12 * FRAME.age, score=FRAME.score * 0.1 + 5.0,
                                          hours=60 * FRAME.hours)
    )  # fmt: skip
    assert model.names == other.names
    theta, of_other = model.prior_median(), other.prior_median()
    np.testing.assert_allclose(
        other.prior_variance(other.full(of_other), other.X),
        0.01 * model.prior_variance(model.full(theta), model.X),
        rtol=1e-10,
    )
    noise = model.natural(theta)["noise_sd"], other.natural(of_other)["noise_sd"]
    assert noise[1] == pytest.approx(0.1 * noise[0])
    K, of_K = model.covariance_matrix(theta), other.covariance_matrix(of_other)
    np.testing.assert_allclose(of_K, 0.01 * K, rtol=1e-7, atol=1e-12)


def test_columns_of_slopes_are_about_their_mean_at_new_rows_and_in_results_too():
    model = of("score", "linear(age) + matern32(day)")
    age = FRAME.age.to_numpy()
    np.testing.assert_allclose(model.X[:, 0], age - age.mean())
    new = model.new_inputs({"age": [50.0, 51.0], "day": pd.Timestamp("2026-01-03")})
    np.testing.assert_allclose(new[:, 0], np.array([50.0, 51.0]) - age.mean())
    assert new[0, 1] == model.X[2, 1]
    tree = data_of(model)
    np.testing.assert_allclose(tree["constant_data"].X[:, 0], age)
    again = model_of(json.loads(json.dumps(describe(model))), xr.DataTree.from_dict(tree))
    np.testing.assert_allclose(again.X, model.X, atol=1e-12)
    assert again.outcome == model.outcome


def test_missing_cells_are_counted_and_refused_or_dropped(caplog):
    gaps = FRAME.copy()
    gaps.loc[["row 1", "row 5"], "age"] = np.nan
    gaps.loc["row 5", "ward"] = None
    gaps.loc["row 7", "hours"] = np.nan
    gaps.loc["row 9", "score"] = np.nan  # which is not used
    call = {"y": "visits", "likelihood": "poisson", "exposure": "hours", "frame": gaps}
    with pytest.raises(
        InputError,
        match=r'3 of 40 rows have missing cells: age \(2\), ward \(1\), hours \(1\); .*missing="drop"',
    ):
        of(**call)
    with caplog.at_level(logging.WARNING):
        model = of(**call, missing="drop")
    assert "3 of 40 rows have missing cells" in caplog.text
    kept = ~FRAME.index.isin(["row 1", "row 5", "row 7"])
    assert model.n_cases == 37
    np.testing.assert_array_equal(model.y, FRAME.visits[kept])
    np.testing.assert_array_equal(model.likelihood.exposure, FRAME.hours[kept])
    by_array = of(**(call | {"exposure": FRAME.hours.to_numpy()}), missing="drop")
    assert by_array.n_cases == 38


def test_an_offset_is_the_log_of_an_exposure(caplog):
    frame = FRAME.assign(log_hours=np.log(FRAME.hours))
    counts = {"y": "visits", "likelihood": "poisson", "frame": frame}
    by_exposure = of(**counts, exposure="hours")
    for offset in ("log_hours", frame.log_hours.to_numpy()):
        model = of(**counts, offset=offset)
        np.testing.assert_allclose(model.likelihood.exposure, FRAME.hours, rtol=1e-15)
        assert model.names == by_exposure.names
        assert "log_hours" not in model.inputs.names
    np.testing.assert_allclose(of(**counts, offset=0.5, exposure="hours").likelihood.exposure,
                               np.exp(0.5) * FRAME.hours)  # fmt: skip
    gaps = frame.copy()
    gaps.loc["row 3", "log_hours"] = np.nan
    with pytest.raises(InputError, match=r"log_hours \(1\)"):
        of(**(counts | {"frame": gaps}), offset="log_hours")
    assert of(**(counts | {"frame": gaps}), offset="log_hours", missing="drop").n_cases == N - 1


SHARED = FRAME.assign(times=np.tile([1, 3, 0, 2], N // 4))


@pytest.mark.parametrize(
    ("y", "stated"),
    [
        ("well", {"likelihood": "logistic"}),
        ("visits", {"likelihood": "poisson", "exposure": "hours"}),
        ("score", {"likelihood": "gaussian"}),
        ("score", {"likelihood": "gaussian", "noise_sd": np.linspace(0.5, 2.0, N)}),
    ],
)
def test_a_row_of_weight_three_is_three_equal_rows(y, stated):
    """The same cases, and by `weights` of a column or an array the same evidence to the last bit."""
    places = np.repeat(np.arange(N), SHARED.times)
    arrays = {k: v[places] if np.ndim(v) else v for k, v in stated.items()}
    repeated = of(y, frame=FRAME.iloc[places], **arrays)
    for weights in ("times", SHARED.times.to_numpy()):
        frame = SHARED if isinstance(weights, str) else FRAME
        model = of(y, frame=frame, weights=weights, **stated)
        assert "times" not in model.inputs.names
        assert model.n_cases == SHARED.times.sum()
        found, expected = (gp.approximate(own).log_evidence for own in (model, repeated))
        assert found == expected


def test_weighted_labels_are_binomial_counts_and_weighted_readings_their_means():
    """log p(y | f) sums over equal rows: of labels that of counts up to the number of orders; a Gaussian's
    evidence is that of means with noise sd / sqrt(w), in closed form."""
    pairs = pd.DataFrame({"age": [1.0, 1.0, 2.0, 3.0], "well": [1, 0, 1, 0], "n": [3, 2, 4, 1]})
    labels = of("well", "matern32(age)", "logistic", frame=pairs, weights="n")
    f = np.repeat([0.3, 0.3, -0.2, 0.7], pairs.n)
    p = expit(np.array([0.3, -0.2, 0.7]))
    exact = 3 * np.log(p[0]) + 2 * np.log1p(-p[0]) + 4 * np.log(p[1]) + np.log1p(-p[2])
    theta = labels.theta_of({"length_scale": 1.0, "signal_sd": 1.0, "mean": 0.0})
    assert labels.log_likelihood(f, theta) == pytest.approx(exact)
    x, y, w, sd = np.array([0.0, 1.0, 3.0]), np.array([0.4, -0.2, 1.1]), np.array([3, 1, 2]), 0.5
    frame = pd.DataFrame({"x": x, "y": y})
    model = of("y", gp.SquaredExponential(1.5, 1.2, columns="x"), gp.Gaussian(sd), frame=frame,
               weights=w, mean=0.3)  # fmt: skip
    K = 1.44 * np.exp(-0.5 * ((x[:, None] - x) / 1.5) ** 2) + np.diag(sd**2 / w)
    closed = multivariate_normal.logpdf(y, np.full(3, 0.3), K)
    closed -= np.sum(0.5 * (w - 1) * np.log(2.0 * np.pi * sd**2) + 0.5 * np.log(w))
    assert gp.approximate(model).log_evidence == pytest.approx(closed, abs=1e-5)


def test_weights_that_count_no_rows_are_refused():
    for weights, found in (([0.5] * N, "0.5"), ([-1] * N, "-1"), (np.full(N, np.inf), "inf")):
        with pytest.raises(
            InputError, match=f"weights hold {found}; allowed: whole numbers, how many"
        ):
            of(weights=weights)
    with pytest.raises(InputError, match="weights hold a; allowed: whole numbers"):
        of(covariance="matern32(age)", weights="ward")
    with pytest.raises(InputError, match="all weights are 0"):
        of(weights=0)
    for large in (1e12, 1e19):
        with pytest.raises(
            InputError, match=r"weights sum to .*e\+\d\d rows; allowed: up to 10,000,000"
        ):
            of(weights=large)
    gaps = SHARED.astype({"times": float})
    gaps.loc["row 3", "times"] = np.nan
    with pytest.raises(InputError, match=r"times \(1\)"):
        of(frame=gaps, weights="times")


@pytest.mark.parametrize("library", ["polars", "pyarrow", "dict"])
def test_frames_of_other_libraries(library):
    own = FRAME[["age", "ward", "hours", "visits"]]
    if library == "polars":
        import polars as pl

        frame = pl.DataFrame({name: own[name].to_list() for name in own})
    elif library == "pyarrow":
        import pyarrow as pa

        frame = pa.table({name: own[name].to_list() for name in own})
    else:
        frame = {name: own[name].to_list() for name in own}
    settings = {"y": "visits", "likelihood": "poisson", "exposure": "hours"}
    assert of(frame=frame, **settings).digest() == of(**settings).digest()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"y": "visit"}, r"y: column: unknown name 'visit'; did you mean 'visits'"),
        ({"covariance": "matern32(agee)"}, r"matern32: column: unknown name 'agee'; did you mean 'age'"),
        ({"covariance": "matern32(well)"}, r"matern32 takes 'well', which is the outcome"),
        ({"covariance": 3}, r"covariance is 3; allowed: text such as"),
        ({"y": "visits"}, r'whole numbers; write likelihood="poisson"'),
        ({"y": "visits", "likelihood": "probit"}, r"has 5 different labels \(0, 1, 2, 3, \.\.\)"),
        (
            {"y": "ward", "covariance": "matern32(age)", "likelihood": "probit"},
            r'3 different labels .* likelihood="softmax" .* or positive="a"',
        ),
        ({"y": "ward", "likelihood": "poisson", "covariance": "linear(age)"}, r"holds words; allowed with"),
        ({"y": "ward", "likelihood": "ordinal", "covariance": "linear(age)"}, r"without an order"),
        ({"likelihood": "logit"}, r"unknown name 'logit'; did you mean 'logistic'"),
        ({"exposure": "hours"}, r"the logistic likelihood has no exposure; allowed: none"),
        ({"offset": "hours"}, "the logistic likelihood has no offset; allowed: none; counts take one"),
        ({"y": "visits", "likelihood": "poisson", "offset": "ward"}, "offset holds words"),
        ({"y": "visits", "likelihood": "poisson", "exposure": "hour"}, r"exposure: column: .*'hours'"),
        ({"y": "visits", "likelihood": "poisson", "exposure": [1.0]}, r"exposure has shape \(1,\) for 40"),
        ({"y": "score", "positive": 9.0, "likelihood": "gaussian"}, r"positive has no use with the gaussian"),
        ({"frame": FRAME.to_numpy()}, r"frame is ndarray; allowed: a frame of pandas"),
        ({"missing": "skip"}, r"missing: unknown name 'skip'"),
        ({"y": 3}, r"y is 3; allowed: the name of a column"),
        ({"y": "day"}, r"holds dates; give numbers"),
        ({"frame": FRAME.iloc[:0]}, r"the frame has no rows"),
        ({"frame": FRAME.assign(well="no")}, r"has one label \(no\); allowed: two"),
        ({"y": "score", "frame": FRAME.assign(score=[np.inf] + [0.5] * (N - 1))}, r"is 'inf'; give finite"),
        ({"covariance": "constant()"}, r"names no column; add a term of one, such as matern32\(age\)"),
    ],
)  # fmt: skip
def test_messages_say_what_to_write(settings, message):
    with pytest.raises(InputError, match=r"^from_frame: .*" + message):
        of(**settings)


def test_areas_of_the_graph_without_rows_are_known():
    """Of three areas in a row the middle one has no data; given both ends its mean is theirs."""
    ends = {"area": ["a", "c"], "rise": [1.0, 3.0]}
    line = gp.Areal([("a", "b"), ("b", "c")], mix=0.5, signal_sd=10.0, columns="area")
    noise = gp.Gaussian(1e-4)
    model = gp.GPModel.from_frame(ends, "rise", line + gp.Constant(100.0), noise)
    middle = gp.predict(gp.approximate(model), {"area": ["b"]})
    np.testing.assert_allclose(middle["latent_mean"], 2.0, rtol=1e-2)


def test_terms_of_one_kind_are_named_by_their_columns():
    model = of(
        covariance="group(ward) + group(patient) + matern32(age) + matern12(day, name='trend')"
    )
    assert [name for name in model.names if "group" in name] == [
        "group(ward).signal_sd", "group(patient).signal_sd",
    ]  # fmt: skip
    assert "matern32.length_scale" in model.names
    assert "trend.length_scale" in model.names


def test_a_model_prints_as_it_was_written():
    fixed = "matern32(age, length_scale=20.0, signal_sd=1.0) + group(ward)"
    model = of("well", fixed, likelihood="probit")
    lines = str(model).splitlines()
    assert lines[0] == "P(well = 1) ~ matern32(age, length_scale=20, signal_sd=1) + group(ward)"
    assert lines[1] == "probit likelihood, 40 rows, dense"
    assert [line.split()[0] for line in lines[3:]] == ["group.signal_sd", "mean"]
    assert lines[3].endswith("1 (0.141 to 7.1)")
    page = model._repr_html_()
    assert "<td>group.signal_sd</td><td>1</td><td>0.141 to 7.1</td>" in page
    counts = of("visits", "group(ward, signal_sd=1.0)", "poisson", exposure="hours", mean=0.0)
    assert str(counts) == (
        "visits ~ group(ward, signal_sd=1)\n"
        "poisson likelihood with exposure of each row, 40 rows, basis (exact: 3 functions for 40 cases)"
    )
    assert "<table>" not in counts._repr_html_()


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("2.0 * matern32(age)", "2 * matern32(age)"),
        ("matern32(age) * group(ward) + 1.0", "matern32(age) * group(ward) + 1"),
        ("linear(age) * group(ward)", "linear(age) * group(ward)"),
        (
            "(matern32(age) + 4.0) * group(ward, signal_sd=0.5)",
            "(matern32(age) + 4) * group(ward, signal_sd=0.5)",
        ),
        ("periodic(age, period=7.0)", "periodic(age, period=7)"),
    ],
)
def test_a_model_prints_its_fixed_numbers(written, shown):
    assert str(of(covariance=written)).splitlines()[0].endswith(f" ~ {shown}")


def test_results_keep_the_names_of_the_outcome_and_of_the_columns():
    draws = gp.sample(of(covariance="linear(age, sd=0.1) + group(ward, signal_sd=1.0)", mean=0.0),
                      n_chains=1, n_draws=20)  # fmt: skip
    told = gp.predict(draws, {"age": [30, 60], "ward": "a"})
    assert told.response_mean.attrs["long_name"] == "P(well = 1)"
    assert list(draws.constant_data.feature.values) == ["age", "ward"]
    at = gp.draws_at(draws, FRAME.iloc[:3])
    assert at["mean"].attrs["long_name"] == "P(well = 1)"
    assert list(at.new_case.values) == ["row 0", "row 1", "row 2"]
