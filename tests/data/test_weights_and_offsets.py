"""Columns that say how many rows a row stands for, or what is added to the log of expected counts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gpmcflow.data.own_table import encode_new, prepare_table
from gpmcflow.data.suggestions import suggest
from gpmcflow.errors import InputErrors

N = 30


def written(folder, name="own.csv", **changes):
    """A file of counts, but for the columns given."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(20, 80, N).round(1),
            "ward": rng.choice(["a", "b", "c"], N),
            "n": rng.integers(0, 4, N),
            "hours": rng.choice([0.5, 1.0, 4.0], N),
            "ill": rng.choice(["no", "yes"], N),
            "visits": rng.poisson(3.0, N),
        }
    )
    frame["log_hours"] = np.log(frame["hours"])
    frame = frame.assign(**changes)
    frame.to_csv(folder / name, index=False)
    return frame


def prepared(folder, target, csv="own.csv", **settings):
    return prepare_table({"csv": csv, "target": target, **settings}, folder)


@pytest.mark.parametrize("target", ["ill", "visits", "age"])
def test_a_row_of_weight_three_is_three_rows(tmp_path, target):
    frame = written(tmp_path)
    frame.loc[frame.index.repeat(frame["n"])].to_csv(tmp_path / "long.csv", index=False)
    drop = [*{"hours", "log_hours", "ill", "visits"} - {target}]
    short = prepared(tmp_path, target, weights="n", test_fraction=0.0, drop=drop)
    long = prepared(tmp_path, target, csv="long.csv", test_fraction=0.0, drop=[*drop, "n"])
    pd.testing.assert_frame_equal(short.train.X, long.train.X)
    np.testing.assert_array_equal(short.train.y, long.train.y)
    assert short.target == long.target
    uses = short.rows.set_index("row")["use"]
    assert (uses == "n 0").sum() == (frame["n"] == 0).sum()
    assert len(uses) == N
    assert "n" not in short.encoding.columns


def test_copies_of_a_row_are_held_out_together(tmp_path):
    written(tmp_path)
    table = prepared(tmp_path, "ill", weights="n", drop=["hours", "log_hours", "visits"])
    assert not set(table.train.row) & set(table.test.row)
    assert len(set(table.test.row)) < len(table.test.row)


def test_an_offset_is_the_log_of_an_exposure(tmp_path):
    written(tmp_path)
    rest = ["n", "ill"]
    of_logs = prepared(tmp_path, "visits", offset="log_hours", drop=[*rest, "hours"])
    of_hours = prepared(tmp_path, "visits", exposure="hours", drop=[*rest, "log_hours"])
    np.testing.assert_allclose(of_logs.train.unit, of_hours.train.unit)
    np.testing.assert_array_equal(of_logs.train.y, of_hours.train.y)
    assert of_logs.encoding.columns == of_hours.encoding.columns == ["age", "ward"]
    pd.DataFrame({"age": [30, 40], "ward": ["a", "b"], "log_hours": [np.log(8.0), None]}).to_csv(
        tmp_path / "new.csv", index=False
    )
    new = encode_new(of_logs.encoding, tmp_path / "new.csv")
    np.testing.assert_allclose(new.unit, [8.0, 1.0])
    assert new.note[1] == "log_hours is empty: 0 taken"


@pytest.mark.parametrize(
    ("target", "settings", "changes", "says"),
    [
        ("ill", {"weights": "n"}, {"n": 0.5}, 'column n: "0.5"; whole numbers from 0, how many'),
        ("ill", {"weights": "ward"}, {}, "column ward: found"),
        ("ill", {"weights": "n"}, {"n": 1e7}, "the weights sum to 3e+08 rows; up to 10,000,000"),
        ("ill", {"weights": "m"}, {}, 'data.weights: no column "m"'),
        ("ill", {"weights": "n", "drop": ["n"]}, {}, "'n' is also in data.drop"),
        (
            "ill",
            {"offset": "log_hours"},
            {},
            "the outcome is binary, and only counts have an offset",
        ),
        (
            "visits",
            {"offset": "log_hours", "exposure": "hours"},
            {},
            "exposure and offset are both",
        ),
        ("visits", {"offset": "log_hours"}, {"log_hours": 900.0}, "write exposure: log_hours"),
        ("visits", {"offset": "ward"}, {}, "column ward: found"),
    ],
)
def test_what_is_wrong_has_a_line_that_says_what_is_allowed(
    tmp_path, target, settings, changes, says
):
    first = {name: [value, *written(tmp_path)[name][1:]] for name, value in changes.items()}
    if changes.get("n") == 1e7:
        first = changes
    written(tmp_path, **first)
    if settings.get("offset") and target == "ill":
        settings = settings | {"outcome": "binary"}
    with pytest.raises(InputErrors) as caught:
        prepared(tmp_path, target, **settings)
    assert says in " | ".join(caught.value.problems)


def test_a_suggestion_takes_what_is_stated_of_columns(tmp_path):
    written(tmp_path)
    own = suggest(tmp_path / "own.csv", "visits", offset="log_hours", weights="n")
    assert own.settings.exposure is None
    assert own.target.kind == "counts"
    assert not any("log_hours" in text or "n)" in text for text in own.models.values())
    text = own.text("own")
    assert "  offset: log_hours   # offset: added to the log of the visits expected" in text
    assert "  weights: n   # how many equal rows each row stands for" in text
    with pytest.raises(InputErrors, match="no column"):
        suggest(tmp_path / "own.csv", "visits", offset="minutes")
