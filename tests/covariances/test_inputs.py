"""Tables as inputs: numbers, dates and words whatever holds them, names, and labels of rows."""

from __future__ import annotations

import datetime
import logging
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from scipy.stats import multivariate_normal

import gpmcflow as gp
from gpmcflow.covariances.inputs import inputs_of
from gpmcflow.errors import InputError
from gpmcflow.models.description import data_of, describe, model_of

N = 24
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {"x": np.round(np.sort(RNG.uniform(0, 4, N)), 3), "z": RNG.integers(0, 3, N).astype(float)}
)
Y = np.sin(2.0 * FRAME["x"].to_numpy()) + 0.1 * RNG.standard_normal(N)
DAYS = pd.date_range("2020-02-20", periods=N, freq="D")
NEW = pd.DataFrame({"z": [0.0, 1.5, 2.0], "x": [0.5, 1.0, 3.5]})


def _fit(X, covariance=None):
    covariance = gp.SquaredExponential(1.0, 1.5) if covariance is None else covariance
    return gp.approximate(gp.GPModel(X, Y, covariance, gp.Gaussian(0.1)))


def _exact(columns, length=1.0):
    """Log evidence of Y with a squared exponential covariance of the columns (n, p), by scipy."""
    squares = ((columns[:, None] - columns) ** 2).sum(-1) / length**2
    return multivariate_normal.logpdf(
        Y, np.zeros(N), 2.25 * np.exp(-squares / 2) + 0.01 * np.eye(N)
    )


def test_numbers_are_numbers_whatever_holds_them():
    right = _exact(FRAME.to_numpy())
    text = [str(v) for v in FRAME["x"]]
    mixed = [Decimal(t) if k % 2 else t for k, t in enumerate(text)]
    held = {
        "objects": FRAME["x"].astype(object),
        "decimals": [Decimal(t) for t in text],
        "fractions": [Fraction(t) for t in text],
        "text": text,
        "text as objects": pd.Series(text, dtype=object),
        "decimals and text": pd.Series(mixed, dtype=object),
        "nullable": FRAME["x"].astype("Float64"),
        "decimals of arrow": pd.Series(
            [Decimal(t) for t in text], dtype=pd.ArrowDtype(pa.decimal128(8, 3))
        ),
    }
    for name, column in held.items():
        fit = _fit(FRAME.assign(x=column))
        assert fit.log_evidence == pytest.approx(right, abs=1e-7), name
        new = NEW.assign(x=[type(pd.Series(column)[0])(str(v)) for v in NEW["x"]])
        found, wanted = (gp.predict(f, X).latent_mean for f, X in ((fit, new), (_fit(FRAME), NEW)))
        np.testing.assert_allclose(found, wanted, atol=1e-8, err_msg=name)
    flags = FRAME.assign(z=(FRAME["z"] > 1.0).astype(object))
    assert inputs_of(flags).numeric == (0, 1)
    categories = FRAME.assign(z=FRAME["z"].astype(str).astype("category"))
    assert inputs_of(categories).levels == {"z": ("0.0", "1.0", "2.0")}
    with pytest.raises(InputError, match="column 'x', row 3 is missing"):
        _fit(FRAME.assign(x=[None if k == 3 else t for k, t in enumerate(text)]))
    with pytest.raises(InputError, match="column 'x' holds complex numbers"):
        _fit(FRAME.assign(x=pd.Series([1j] * N, dtype=object)))


def test_dates_are_days_whatever_holds_them():
    days = np.arange(N) + float((DAYS[0] - pd.Timestamp("1970-01-01")).days)
    right = _exact(days[:, None], 9.0)
    held = {
        "dates of pandas": DAYS,
        "date": DAYS.date,
        "periods": DAYS.to_period("D"),
        "objects of pandas": DAYS.astype(object),
        "arrow": pd.Series(DAYS.date, dtype=pd.ArrowDtype(pa.date32())),
        "with a zone": DAYS.tz_localize("UTC"),
    }
    covariance = gp.SquaredExponential(9.0, 1.5)
    for name, column in held.items():
        frame = pd.DataFrame({"day": column})
        fit = _fit(frame, covariance)
        np.testing.assert_array_equal(fit.sites.model.X[:, 0], days, err_msg=name)
        assert fit.log_evidence == pytest.approx(right, abs=1e-6), name
        np.testing.assert_allclose(
            gp.predict(fit, frame[:2]).latent_mean, gp.predict(fit, days[:2]).latent_mean
        )
    assert inputs_of(pd.DataFrame({"at": [datetime.datetime(1970, 1, 2, 6)]})).values[0, 0] == 1.25
    model = fit.sites.model.covariance_function.model
    again = model_of(describe(model), xr.DataTree.from_dict(data_of(model)))
    np.testing.assert_array_equal(again.new_inputs(frame), days[:, None])
    for wrong, message in (
        ([datetime.date(2020, 1, 1), "soon"], "holds dates and other values"),
        ([datetime.date(2020, 1, 1), None], "row 1 is missing"),
        ([datetime.timedelta(1)] * 2, "holds dates; convert it to a number, such as days"),
    ):
        with pytest.raises(InputError, match=message):
            inputs_of(pd.DataFrame({"day": pd.Series(wrong, dtype=object)}))


def test_columns_of_words_that_no_term_uses_are_named_once(caplog):
    frame = FRAME.assign(ward=np.where(FRAME["z"] > 1.0, "north", "south"), who="me")
    caplog.set_level(logging.WARNING)
    model = gp.GPModel(frame, Y, gp.SquaredExponential(1.0, 1.5), gp.Gaussian(0.1))
    model.with_y(Y + 1.0).take(np.arange(5))
    (record,) = caplog.records
    assert "left out, as they hold words: ward, who" in record.getMessage()
    caplog.clear()
    every = gp.SquaredExponential(1.0, 1.5) + gp.Categorical(columns="ward")
    gp.GPModel(frame.drop(columns="who"), Y, every, gp.Gaussian(0.1))
    gp.GPModel(frame, Y, gp.SquaredExponential(1.0, 1.5, columns=["x"]), gp.Gaussian(0.1))
    gp.GPModel(FRAME, Y, gp.SquaredExponential(1.0, 1.5), gp.Gaussian(0.1))
    assert not caplog.records


def test_names_decide_in_tables_of_any_library():
    """Columns in another order, at learning and at prediction, with a category among them."""
    frame = FRAME.assign(ward=np.where(FRAME["z"] > 1.0, "north", "south"))
    new = NEW.assign(ward=["south", "north", "north"])
    covariance = gp.SquaredExponential(1.0, 1.5, columns=["x"]) + gp.Linear(columns=["z"], sd=0.3)
    covariance += gp.Categorical(0.7, 0.5, columns="ward")
    fit = _fit(frame, covariance)
    right = gp.predict(fit, new).latent_mean.values
    kinds = {
        "polars": pl.from_pandas,
        "polars, lazy": lambda table: pl.from_pandas(table).lazy(),
        "arrow": pa.Table.from_pandas,
        "polars, enum": lambda table: pl.from_pandas(table).with_columns(
            pl.col("ward").cast(pl.Enum(["south", "north"]))
        ),
    }
    for name, of in kinds.items():
        assert _fit(of(frame), covariance).log_evidence == pytest.approx(fit.log_evidence), name
        for order in (["x", "z", "ward"], ["ward", "z", "x"]):
            found = gp.predict(fit, of(new[order])).latent_mean.values
            np.testing.assert_allclose(found, right, err_msg=name)
        with pytest.raises(InputError, match="new inputs: column"):
            gp.predict(fit, of(new[["x", "ward"]]))
    numbers = pl.DataFrame({"x": [Decimal("1.5"), Decimal("2.5")], "z": ["1", "2"]})
    assert inputs_of(numbers).numeric == (0, 1)
    assert inputs_of(pl.Series("x", [1, 2])).names == ("x",)
    day = pl.DataFrame({"day": [datetime.date(1970, 1, 3)]})
    assert inputs_of(day).values[0, 0] == 2.0
    with pytest.raises(InputError, match="column 'x', row 1 is missing"):
        inputs_of(pl.DataFrame({"x": [1.0, None]}))
    with pytest.raises(InputError, match="two columns"):
        inputs_of(pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["a", "a"]))


def test_the_index_of_a_frame_is_the_coordinate_of_predictions():
    fit = _fit(FRAME)
    indices = {
        "default": (pd.RangeIndex(3), [0, 1, 2]),
        "words": (pd.Index(["a", "b", "b"]), ["a", "b", "b"]),
        "dates": (DAYS[:3], DAYS[:3].to_numpy()),
        "numbers": (pd.Index([7, 3, 5], name="patient"), [7, 3, 5]),
    }
    for name, (index, wanted) in indices.items():
        prediction = gp.predict(fit, NEW.set_axis(index))
        np.testing.assert_array_equal(prediction["new_case"], wanted, err_msg=name)
        np.testing.assert_array_equal(prediction.latent_mean, gp.predict(fit, NEW).latent_mean)
    pairs = pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=["ward", "bed"])
    prediction = gp.predict(fit, NEW.set_axis(pairs))
    assert prediction.latent_mean.sel(ward="b", bed=1).size == 1
    array = xr.DataArray(
        NEW.to_numpy(), {"row": [4, 5, 6], "feature": list(NEW)}, dims=("row", "feature")
    )
    np.testing.assert_array_equal(gp.predict(fit, array)["new_case"], [4, 5, 6])
    np.testing.assert_array_equal(gp.predict(fit, FRAME.to_numpy()[:2])["new_case"], [0, 1])
    table = prediction.to_dataframe() if prediction.sizes["new_case"] else None
    assert table is not None


def test_numbers_among_dates_are_refused():
    """pandas would read 5 as nanoseconds since 1970."""
    column = [*DAYS.date[:-1], 5]
    with pytest.raises(InputError, match="holds dates and other values"):
        inputs_of(pd.DataFrame({"day": column}))


def test_text_with_leading_zeros_is_words():
    codes = np.array(["01234", "1234", "00012"])[np.arange(N) % 3]
    letters = np.array(["b", "c", "a"])[np.arange(N) % 3]
    fits = [
        _fit(pd.DataFrame({"code": column}), gp.Group(0.7, columns="code")).log_evidence
        for column in (codes, letters, np.where(codes == "01234", "1234", codes))
    ]
    assert fits[0] == pytest.approx(fits[1], rel=1e-12)
    assert abs(fits[2] - fits[1]) > 0.01  # the first two merged


def test_labels_of_any_index_can_be_saved(tmp_path):
    for index in (
        pd.date_range("2024-01-01", periods=3, freq="D", tz="Europe/Berlin"),
        pd.period_range("2024-01", periods=3, freq="M"),
        pd.Index(["a", 2, None]),
    ):
        found = gp.predict(_fit(FRAME), NEW.set_axis(index))
        assert list(found["new_case"].values) == list(index.astype(str))
        found.to_netcdf(tmp_path / "new.nc", engine="h5netcdf")
