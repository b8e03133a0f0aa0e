"""Times that are known to an interval only: what the two columns of its ends say, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import yaml

from gpmcflow.data.own_table import prepare_table
from gpmcflow.data.suggestions import suggest
from gpmcflow.data.times import counts_of, ends_of, middle_of
from gpmcflow.errors import InputErrors

ROWS = [  # left, right -> outcome, event, until
    ("5", "5", 5.0, 1.0, np.nan),
    ("5", "8", 5.0, 1.0, 8.0),
    ("5", "", 5.0, 0.0, np.nan),
    ("6", "NA", 6.0, 0.0, np.nan),
    ("7", "Inf", 7.0, 0.0, np.nan),
    ("", "8", 8.0, -1.0, np.nan),
    ("NA", "9", 9.0, -1.0, np.nan),
    ("0", "4", 4.0, -1.0, np.nan),
    ("2.5", "3", 2.5, 1.0, 3.0),
    ("3", "3.0", 3.0, 1.0, np.nan),
]
NOTHING = [("", ""), ("0", "Inf"), ("NA", "")]
UNTIL = {"csv": "file.csv", "target": "left", "until": "right", "test_fraction": 0.0}


def prepared(folder, rows=(), settings=None):
    """A table of rows (left, right), beside two columns of numbers."""
    lines = [f"{k % 7},{k % 3},{left},{right}" for k, (left, right) in enumerate(rows)]
    (folder / "file.csv").write_text("\n".join(["dose,times,left,right", *lines]) + "\n")
    return prepare_table({**UNTIL, **(settings or {})}, folder)


def test_ends_are_read_as_interval2_of_r(tmp_path):
    cells = [row[:2] for row in ROWS]
    table = prepared(tmp_path, [*cells[:5], *NOTHING, *cells[5:]])
    part, (outcome, event, until) = table.train, np.array([row[2:] for row in ROWS]).T
    np.testing.assert_array_equal(part.outcome, outcome)
    np.testing.assert_array_equal(part.unit, event)
    np.testing.assert_array_equal(part.until, until)
    use = table.rows.set_index("row")["use"]
    assert list(use[use != "learning"].items()) == [(row, "no outcome") for row in (7, 8, 9)]
    target = table.target
    assert (target.kind, target.unit, target.until) == ("survival", "right", True)
    middle = [5.0, 6.5, 5.0, 6.0, 7.0, 4.0, 4.5, 2.0, 2.75, 3.0]
    np.testing.assert_array_equal(middle_of(*ends_of(outcome, event, until)), middle)
    assert target.scale == pytest.approx(np.exp(np.log(middle).mean()))
    np.testing.assert_allclose(part.y, outcome / target.scale)
    assert list(part.X.columns) == ["dose", "times"]
    assert counts_of(*ends_of(outcome, event, until)) == {
        "seen": 2, "within": 2, "before": 3, "later": 3
    }  # fmt: skip


def test_a_row_of_weight_2_is_two_with_the_same_ends(tmp_path):
    cells = [(left, right) for left, right, *_ in ROWS]
    table = prepared(tmp_path, [*cells, *cells], {"weights": "times"})
    weights = [k % 3 for k in range(2 * len(cells))]
    until = np.repeat(2 * [row[4] for row in ROWS], weights)
    np.testing.assert_array_equal(table.train.until, until)


def test_columns_say_what_they_are(tmp_path):
    columns = prepared(tmp_path, [row[:2] for row in ROWS]).columns.set_index("column")
    assert list(columns.loc["left"]) == [
        "number, 2 cells missing", "the outcome: time to the end, which came between it and right"
    ]  # fmt: skip
    assert list(columns.loc["right"]) == [
        "number, 3 to 9, 3 missing",
        "upper end of left: the same where the end was seen, empty where it had not ended",
    ]


def test_new_rows_need_no_ends(tmp_path):
    (tmp_path / "new.csv").write_text("dose,times\n3,1\n4,0\n")
    table = prepared(tmp_path, [row[:2] for row in ROWS], {"new": "new.csv"})
    assert (len(table.new.row), table.new.unit, table.new.until) == (2, None, None)


ROW = [("5", "8"), ("4", "6"), ("4", "7")] * 3
POSITIVE = (
    "is not above 0, and a time has to be; correct the cell (half a day for an end on the first day) or "
    "empty it"
)


@pytest.mark.parametrize(
    ("rows", "settings", "line"),
    [
        ([("8", "5"), ("9", "7")], {}, 'row 11, column right: "5" is below "8" of left, and an upper end is '
         "not; correct the row (1 more in this column)"),
        ([("-1", "5")], {}, f'row 11, column left: "-1" {POSITIVE}'),
        ([("", "0")], {}, f'row 11, column right: "0" {POSITIVE}'),
        ([("3", "4")], {"event": "dose"}, "data: event and until are both given; until is empty where a time "
         "had not ended; leave out event and write until: right"),
        ([("3", "4")], {"exposure": "dose"}, "data: exposure and until are both given; counts have exposure, "
         "times have an until; keep one"),
        ([("3", "4")], {"outcome": "real"}, "data.until: the outcome is real, and only times to an end have "
         "an until; leave it out or write outcome: survival"),
        ([("3", "4")], {"until": "rihgt"}, 'data.until: no column "rihgt" in file.csv; did you mean '
         '"right"?'),
        ([("3", "4")], {"until": "left"}, "data.until: 'left' is the target; leave it out here"),
        ([("3", "4")], {"until": None, "outcome": "survival"}, "data.event: a survival outcome needs the "
         "column that says whether the end was seen; name it, or that of the upper ends of intervals as "
         "until, or if all ends were seen write outcome: positive"),
    ],
)  # fmt: skip
def test_what_is_wrong_gets_a_line(tmp_path, rows, settings, line):
    with pytest.raises(InputErrors) as error:
        prepared(tmp_path, [*ROW, *rows], settings)
    assert line in error.value.problems


@pytest.mark.parametrize("right", ["", "late"])
def test_upper_ends_are_numbers(tmp_path, right):
    with pytest.raises(InputErrors) as error:
        prepared(tmp_path, [(str(k), right) for k in range(1, 13)])
    holds = "no cell filled in" if not right else "always the same"
    assert error.value.problems == [
        f"data.until: column right holds {holds}; allowed: numbers, upper ends of left; name another column"
    ]


def test_rows_of_which_none_had_ended_are_refused(tmp_path):
    rows = [("3", "4") if k == 6 else (str(k + 1), "") for k in range(11)]  # of the largest dose
    settings = {"test_fraction": 0.09, "test_by": "dose"}
    with pytest.raises(
        InputErrors, match=r"none of the 10 rows to learn from has ended \(right is empty\)"
    ):
        prepared(tmp_path, rows, settings)


# What `gpmcflow new` takes for two ends.


def visits(left: str = "left", right: str = "right", n: int = 40) -> pd.DataFrame:
    """Times between visits each 10 weeks; some end before the first, some not before the last."""
    rng = np.random.default_rng(1)
    time = rng.exponential(20.0, n).round(1)
    low = np.minimum(np.floor(time / 10.0), 4.0) * 10.0
    high = np.where(low < 40.0, low + 10.0, np.nan)
    return pd.DataFrame({"dose": rng.normal(50.0, 5.0, n).round(1), left: low, right: high})


def found(folder, table, target):
    table.to_csv(folder / "file.csv", index=False)
    return suggest(folder / "file.csv", target)


@pytest.mark.parametrize("target", ["left", "right"])
@pytest.mark.parametrize("end", ["", "Inf"])
def test_new_writes_both_ends(tmp_path, target, end):
    table = visits()
    table["right"] = table["right"].map(lambda x: end if np.isnan(x) else f"{x:g}")
    made = found(tmp_path, table, target)
    text = made.text("mine")
    own = yaml.safe_load(text)
    assert [own["data"].get(key) for key in ("target", "until", "outcome", "event", "drop")] == [
        "left", "right", "survival", None, []
    ]  # fmt: skip
    assert own["likelihood"] == "survival"
    later = int((table["right"] == end).sum())
    before = int((table["left"] == 0.0).sum())
    assert (
        f"  # no cell of right is below left: ends of times, of which {40 - later - before} lie in an "
        f"interval, {before} ended before they were first looked at, {later} had not ended\n"
        "  until: right   # if that is wrong, take it out and write another outcome\n" in text
    )
    assert "right (the upper end, empty where it had not ended)" in made.summary()
    assert [name for name, use in made.uses.items() if use == "input"] == ["dose"]
    prepare_table(own["data"], tmp_path)


@pytest.mark.parametrize(
    ("left", "right"),
    [("lower", "upper"), ("L", "R"), ("time1", "time2"), ("time_left", "time_right"),
     ("from_week", "to_week"), ("LeftTime", "RightTime"), ("l", "u")],
)  # fmt: skip
def test_names_of_two_ends(tmp_path, left, right):
    own = found(tmp_path, visits(left, right), left).settings
    assert (own.target, own.until) == (left, right)


ALL = np.array([10.0, 20.0] * 20)


@pytest.mark.parametrize(
    "table",
    [
        visits("first", "second"),  # other names
        visits("from", "to"),  # of what?
        visits("t1", "t2"),  # any two measurements
        visits("left_eye", "right_eye"),
        visits().assign(left=ALL, right=ALL + 10.0),  # no end is missing
        visits("lower", "upper").assign(lower=ALL - 10.0, upper=ALL),  # bounds of an estimate
        visits("time1", "time2").assign(time1=ALL - 10.0, time2=ALL),  # at risk, some from 0 on
        visits().assign(right=np.where(ALL > 10.0, 5.0, np.nan)),  # below the lower end
        visits().assign(left=-ALL),
        visits().assign(status=[0, 1] * 20),  # says how times ended
        visits(n=8),  # so few may be in order by chance
    ],
)
def test_other_pairs_are_no_ends(tmp_path, table):
    assert found(tmp_path, table, table.columns[1]).settings.until is None
