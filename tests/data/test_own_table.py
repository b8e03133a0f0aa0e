from __future__ import annotations

import hashlib
import pickle

import numpy as np
import pytest

from gpmcflow.data.csv_table import find_separator
from gpmcflow.data.layout import permutation
from gpmcflow.data.outcome_again import Leak
from gpmcflow.data.own_table import encode_new, prepare_table, read_table
from gpmcflow.errors import InputError, InputErrors

N = 40


def csv(folder, header="name,x,g,y", rows=None, name="own.csv", **changes):
    """Write a file of good rows but for those changed: line -> text."""
    cells = rows or [f"n{i},{i / 2},{'abcde'[i % 5]},{('no', 'yes')[i % 3 == 0]}" for i in range(N)]
    lines = dict(enumerate([header, *cells], start=1))
    lines |= {int(key[1:]): value for key, value in changes.items()}
    (folder / name).write_text("\n".join(lines.values()) + "\n", encoding="utf-8")
    return folder


def prepare(folder, target="y", seed=0, **settings):
    return prepare_table({"csv": "own.csv", "target": target, **settings}, folder, seed=seed)


def problems(folder, target="y", **settings):
    with pytest.raises(InputErrors) as caught:
        prepare(folder, target, **settings)
    assert all(len(line.splitlines()) == 1 for line in caught.value.problems)
    return caught.value.problems


def one(folder, target="y", **settings):
    lines = problems(folder, target, **settings)
    assert len(lines) == 1, lines
    return lines[0]


def counts(n=N):
    return [f"{i},{1 + i % 4},{i % 6}" for i in range(n)]


# every row has its place


def test_every_row_of_the_file_has_one_use(tmp_path):
    csv(tmp_path, L5="n3,2,b,", L9="n7,,b,yes", L12=",,,", L20="", L30="n28,1,b,NA")
    prepared = prepare(tmp_path, incomplete="drop", seed=3)
    rows = prepared.rows
    assert rows.row.tolist() == [line for line in range(2, N + 2) if line != 20]
    uses = rows.set_index("row").use
    assert uses[[5, 9, 12, 30]].tolist() == ["no outcome", "incomplete", "empty", "no outcome"]
    assert uses.value_counts()["learning"] == len(prepared.train.row) == 28
    assert uses.value_counts()["held out"] == len(prepared.test.row) == 7
    assert prepared.train.row.tolist() == uses.index[uses == "learning"].tolist()
    assert prepared.test.row.tolist() == uses.index[uses == "held out"].tolist()


def test_held_out_rows_are_the_permutation_of_the_seed_in_file_order(tmp_path):
    csv(tmp_path)
    test = prepare(tmp_path, seed=7, test_fraction=0.25).test
    assert test.row.tolist() == sorted(permutation(7, N)[:10] + 2)
    assert prepare(tmp_path, seed=8, test_fraction=0.25).test.row.tolist() != test.row.tolist()
    assert prepare(tmp_path, test_fraction=0).test is None


def test_standardised_over_learning_rows_only(tmp_path):
    prepared = prepare(csv(tmp_path))
    np.testing.assert_allclose(prepared.train.X["x"].mean(), 0, atol=1e-14)
    np.testing.assert_allclose(prepared.train.X["x"].std(), 1)
    learnt = (prepared.train.row - 2) / 2
    expected = ((prepared.test.row - 2) / 2 - learnt.mean()) / learnt.std(ddof=1)
    np.testing.assert_allclose(prepared.test.X["x"], expected, rtol=1e-12)


def test_whole_groups_are_held_out_and_are_no_input(tmp_path):
    prepared = prepare(csv(tmp_path), test_by="g", test_fraction=0.3)
    groups = [{"abcde"[(row - 2) % 5] for row in part.row} for part in prepared[2:4]]
    assert not groups[0] & groups[1]
    assert len(prepared.test.row) == 16  # two groups of eight: the first number from 12 up
    assert prepared.encoding.columns == ["x"]
    csv(tmp_path, rows=[f"n{i},{i},{'aab'[i % 3]},{'yes' if i % 4 else 'no'}" for i in range(N)])
    assert len(prepare(tmp_path, test_by="g", test_fraction=0.7).test.row) in (13, 27)
    done = prepared.columns.set_index("column").done
    assert done["g"] == "not an input: it chooses the rows held out"


def test_last_rows_by_a_date_or_number_are_held_out(tmp_path):
    rows = [f"2024-01-{1 + (7 * i) % 31:02d},{i},{i}.5" for i in range(31)]
    csv(tmp_path, "day,x,y", [*rows, ",3,1.5"])
    prepared = prepare(tmp_path, test_by="day", test_fraction=0.25)
    days = [int(cell[8:]) for cell in prepared.test.table["day"]]
    assert sorted(days) == list(range(24, 32))
    assert "day" in prepared.encoding.names
    assert set(prepare(tmp_path, test_by="x", test_fraction=0.1).test.row) == {30, 31, 32}


def test_ids_come_first_and_are_no_inputs(tmp_path):
    prepared = prepare(
        csv(tmp_path, "x,name,g,y", [f"{i},n{i},a{i % 2},{i % 2}" for i in range(N)])
    )
    assert prepared.encoding.ids == ("name",)
    assert list(prepared.train.table.columns) == ["name", "x", "g"]
    assert prepared.encoding.names == ["x", "g=a1"]


def test_an_index_column_without_a_name_is_an_id(tmp_path):
    prepared = prepare(csv(tmp_path, ",x,y", [f"{i},{i * i % 17},{i % 2}" for i in range(N)]))
    assert prepared.encoding.ids == ("index",)


def test_repeated_rows_are_kept_and_the_checksum_is_the_files(tmp_path):
    csv(tmp_path, L3="n99,3,b,no", L4="n98,3,b,no", L5="n97,3,b,yes")
    prepared = prepare(tmp_path)
    used = {*prepared.train.row, *prepared.test.row}
    assert {3, 4, 5} <= used  # a row that repeats an earlier one is a row
    assert prepared.checksum == hashlib.sha256((tmp_path / "own.csv").read_bytes()).hexdigest()


# the outcome


@pytest.mark.parametrize(
    ("labels", "settings", "positive", "negative"),
    [
        (("no", "yes"), {}, "yes", "no"),
        (("No", "yes"), {}, "yes", "No"),
        (("ja", "nein"), {}, "ja", "nein"),
        (("2", "10"), {}, "10", "2"),
        (("0", "1.0"), {}, "1", "0"),
        (("a", "b"), {}, "b", "a"),
        (("a", "b"), {"positive": "a"}, "a", "b"),
        (("no", "yes"), {"positive": True}, "yes", "no"),  # YAML reads yes as true
        (("no", "yes"), {"positive": False}, "no", "yes"),
        (("1", "2"), {}, "2", "1"),
        (("1", "none"), {}, "1", "none"),
        (("1", "yes"), {}, "yes", "1"),
        (("0", "1"), {}, "1", "0"),
        (("1", "2"), {"positive": 1}, "1", "2"),
        (("1", "2"), {"positive": "1.0"}, "1", "2"),
        (("a", "b", "c"), {"positive": "c"}, "c", "not c"),
        (("1", "2", "3"), {"positive": 2}, "2", "not 2"),
    ],
)
def test_two_classes_or_one_against_the_rest(tmp_path, labels, settings, positive, negative):
    cells = [labels[i % len(labels)] for i in range(N)]
    csv(tmp_path, "x,y", [f"{i},{cell}" for i, cell in enumerate(cells)])
    prepared = prepare(tmp_path, test_fraction=0, **settings)
    target = prepared.target
    assert (target.kind, target.positive, target.negative) == ("binary", positive, negative)
    plain = [cell.removesuffix(".0") for cell in cells]
    assert prepared.train.outcome.tolist() == [float(cell == positive) for cell in plain]
    assert set(prepared.train.y[prepared.train.outcome == 1]) == {1.0}
    assert set(prepared.train.y[prepared.train.outcome == 0]) == {-1.0}


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([i % 9 for i in range(N)], "counts"),
        ([i % 4 * 100 for i in range(N)], "counts"),  # few different ones, and a zero
        ([3 * i for i in range(N)], "counts"),  # many and large, from 0
        ([3 * i + 7 for i in range(N)], "real"),
        ([2001 + i % 20 for i in range(N)], "real"),  # years
        ([1 + i % 5 for i in range(N)], "real"),  # marks
        ([i % 9 - 1 for i in range(N)], "real"),
        ([i % 9 / 2 for i in range(N)], "real"),
    ],
)
def test_kind_of_outcome_by_its_values(tmp_path, cells, kind):
    csv(tmp_path, "x,y", [f"{i},{cell}" for i, cell in enumerate(cells)])
    assert prepare(tmp_path).target.kind == kind
    assert prepare(tmp_path, outcome="real").target.kind == "real"


def test_a_column_named_like_a_count_needs_no_zero(tmp_path):
    csv(tmp_path, "x,n_visits", [f"{i},{1 + i % 9}" for i in range(N)])
    assert prepare(tmp_path, "n_visits").target.kind == "counts"


def test_real_outcomes_are_standardised_by_the_learning_rows(tmp_path):
    csv(tmp_path, "x,y", [f"{i},{i * 1.5 + 3}" for i in range(N)])
    prepared = prepare(tmp_path)
    target, train, test = prepared.target, prepared.train, prepared.test
    np.testing.assert_allclose([train.y.mean(), train.y.std(ddof=1)], [0, 1], atol=1e-14)
    np.testing.assert_allclose(test.y * target.scale + target.shift, test.outcome, rtol=1e-14)
    np.testing.assert_array_equal(test.outcome, (test.row - 2) * 1.5 + 3)


def test_counts_with_an_exposure_and_successes_of_trials(tmp_path):
    csv(tmp_path, "x,hours,y", counts(), L7="5,,2")
    prepared = prepare(tmp_path, exposure="hours")
    assert (prepared.target.kind, prepared.target.unit) == ("counts", "hours")
    np.testing.assert_array_equal(prepared.train.unit, 1 + (prepared.train.row - 2) % 4)
    np.testing.assert_array_equal(prepared.train.y, (prepared.train.row - 2) % 6)
    assert prepared.encoding.names == ["x"]
    assert prepared.rows.set_index("row").use[7] == "no hours"
    csv(tmp_path, "x,n,y", [f"{i},{5 + i % 2},{i % 6}" for i in range(N)])
    assert prepare(tmp_path, trials="n").target.kind == "binomial"


def test_rows_in_which_nothing_came_of_nothing_are_not_used(tmp_path):
    csv(tmp_path, "x,hours,y", counts(), L7="5,0,0")
    prepared = prepare(tmp_path, exposure="hours")
    assert prepared.rows.set_index("row").use[7] == "hours 0"
    assert (prepared.train.unit > 0).all()
    csv(tmp_path, "x,hours,y", counts(), L7="5,0,2")
    assert 'row 7, column hours: "0"; positive numbers' in one(tmp_path, exposure="hours")
    csv(tmp_path, "x,n,y", [f"{i},{5 + i % 2},{i % 6}" for i in range(N)], L7="5,0,0")
    assert prepare(tmp_path, trials="n").rows.set_index("row").use[7] == "n 0"


def test_a_column_that_leaks_the_outcome_is_named(tmp_path):
    """The file is sorted by the outcome, and a column without a telling name counts its rows."""
    rows = [f"{i % 7},{3 * i + i % 2},{int(i >= N // 2)}" for i in range(N)]
    csv(tmp_path, "dose,sample,ill", rows)
    assert prepare(tmp_path, target="ill").leak == Leak("sample", in_order=True)
    shuffled = np.random.default_rng(0).permutation(N)
    csv(tmp_path, "dose,sample,ill", [rows[i] for i in shuffled])
    assert prepare(tmp_path, target="ill").leak is None


@pytest.mark.parametrize("outcome", ["price", "sold"])
def test_a_column_that_almost_determines_the_outcome_is_named(tmp_path, outcome):
    """The last bid and the price, or whether there was one; three of the kind are measures of one thing."""
    rng = np.random.default_rng(1)
    price = np.exp(rng.normal(3.0, 0.5, 90)).round(2)
    bids = (price[:, None] * np.exp(0.02 * rng.normal(size=(90, 3)))).round(2)
    y = price if outcome == "price" else (price > np.median(price)) * 1
    bids = bids if outcome == "price" else bids + 40 * y[:, None]
    unlike = np.exp(rng.normal(3.0, 0.5, 90)).round(2)

    def leak(n_bids, order=slice(None), lone=False):
        names = [f"bid{k}" for k in range(n_bids)]
        other = [] if lone else [unlike[order]]
        rows = zip(*bids[order].T[:n_bids], *other, y[order], strict=True)
        header = ",".join([*names, *([] if lone else ["size"]), outcome])
        csv(tmp_path, header, [",".join(map(str, row)) for row in rows])
        return prepare(tmp_path, target=outcome).leak

    found = leak(1)
    assert found == Leak("bid0", in_order=False)
    assert "alone almost determines" in found.words(outcome)
    assert "drop: [bid0]" in found.words(outcome)
    assert leak(2).column in ("bid0", "bid1")
    assert leak(3) is leak(1, lone=True) is None
    assert leak(0) is None
    if outcome == "price":
        grown = np.argsort(price + rng.normal(0.0, 2.0, 90))  # as over the years
        assert leak(1, grown) is None


def test_a_column_that_tells_less_of_the_outcome_is_not_named(tmp_path):
    """A rank correlation of 0.95, and numbers that only a few of those have whom they tell of."""
    rng = np.random.default_rng(2)
    price, size = np.exp(rng.normal(3.0, 0.5, (2, 90))).round(2)
    late = np.arange(90) % 2

    def leak(x, y):
        csv(tmp_path, "x,size,y", [f"{a},{b},{c}" for a, b, c in zip(x, size, y, strict=True)])
        return prepare(tmp_path, target="y").leak

    assert leak((price * np.exp(0.18 * rng.normal(size=90))).round(2), price) is None
    some = np.where((late == 1) & (rng.random(90) < 0.4), np.arange(90), 0)
    assert leak(some, late) is None
    for sign in (1, -1):
        assert leak(sign * (50 * late + rng.permutation(90) % 45), late) == Leak("x", False)
    rare = (np.arange(1000) >= 997) * 1
    rows = [f"{i % 7},{3 * i + i % 2},{rare[i]}" for i in range(1000)]
    csv(tmp_path, "dose,sample,ill", rows)
    assert prepare(tmp_path, target="ill").leak == Leak("sample", in_order=True)


def test_new_rows_without_an_exposure_count_for_one_unit(tmp_path):
    csv(tmp_path, "x,hours,y", counts())
    csv(tmp_path, "hours,x", ["2.5,3", ",4", "1,99"], "new.csv")
    new = prepare(tmp_path, exposure="hours", new="new.csv", test_fraction=0).new
    assert new.unit.tolist() == [2.5, 1, 1]
    assert new.note == ["", "hours is empty: 1 taken", "x 99 is above 0 to 39 seen in learning"]


# what is wrong is said, all of it


def test_all_problems_at_once(tmp_path):
    csv(tmp_path, L5="n3,n/a.,b,no")
    csv(tmp_path, "name,x", ["a,1"], "new.csv")
    lines = problems(tmp_path, drop=["nam"], new="new.csv")
    assert lines == [
        'data.drop: no column "nam" in own.csv; did you mean "name"?',
        'row 5, column x: "n/a." is not a number; add it to data.missing or correct the cell',
        'no column "g" in new.csv; there are: name, x',
    ]
    error = InputErrors(lines)
    assert str(error) == lines[0] + " (and 2 more)"
    assert pickle.loads(pickle.dumps(error)).problems == lines


def test_columns_that_cannot_be_used_are_dropped_and_told(tmp_path):
    rows = [f"n{i},{i},,{i % 2},5,word {i % 30},{i}" for i in range(N)]
    csv(tmp_path, "name,x,e,y,c,t,u", rows)
    columns = prepare(tmp_path, drop=["u"]).columns
    assert columns.values.tolist() == [
        ["name", "40 different texts", "dropped: different in every row"],
        ["x", "whole number, complete", "as it is"],
        ["e", "no cell filled in", "dropped: empty"],
        ["y", "1, 0", "the outcome; 1 counts as 1"],
        ["c", "always the same", "dropped: constant"],
        ["t", "30 different texts", "dropped: text; to use it: categorical: [t]"],
        ["u", "whole number, complete", "dropped: named in drop"],
    ]


def test_constant_in_the_learning_rows(tmp_path):
    csv(tmp_path, "x,z,y", [f"{i},{int(i == 39)},{i % 2}" for i in range(N)])
    prepared = prepare(tmp_path, test_by="x", test_fraction=0.1)
    assert prepared.encoding.names == ["x"]
    assert prepared.columns.values.tolist()[1][1:] == [
        "always the same in the learning rows",
        "dropped: constant",
    ]


@pytest.mark.parametrize(
    ("target", "settings", "text"),
    [
        ("Y", {}, 'data.target: no column "Y" in own.csv; did you mean "y"?'),
        ("g", {"outcome": "binary"}, "data.target: column g has 5 classes (a 8, b 8, c 8, d 8, e 8); one"),
        ("name", {}, "data.target: column name has 40 classes (n0 1, n1 1,"),
        ("name", {}, "n13 1, ...); two are needed; choose another target"),
        ("g", {"positive": "A1"}, 'data.positive: no value "A1" in column g; did you mean "a"?'),
        ("g", {"outcome": "real"}, "data.target: column g holds 5 categories, the outcome is real"),
        ("x", {"positive": 1, "outcome": "real"}, "data.positive: found 1, and the outcome is real"),
        ("y", {"exposure": "x", "outcome": "binary"}, "data.exposure: the outcome is binary"),
        ("y", {"coordinates": ["x", "g"]}, "data.coordinates: column g holds 5 categories;"),
        ("y", {"categorical": ["gg"]}, 'data.categorical: no column "gg" in own.csv; did you mean "g"?'),
        ("y", {"exposure": "hour"}, 'data.exposure: no column "hour" in own.csv; there are: name, x'),
        ("y", {"drop": ["y"]}, "data.drop: 'y' is the target; leave it out here"),
        ("y", {"drop": ["x"], "categorical": ["x"]}, "data.categorical: 'x' is also in data.drop"),
        ("y", {"drop": ["x", "g"]}, "own.csv: no column is left to learn from beside the target"),
        ("y", {"separator": ";"}, 'own.csv: the header has no separator ";", but ","; write separator'),
        ("y", {"new": "none.csv"}, "none.csv: no such file"),
        ("y", {"test_fraction": 0.8}, "own.csv: 8 rows to learn from and 32 held out, of 40; at least"),
    ],
)  # fmt: skip
def test_wrong_settings(tmp_path, target, settings, text):
    assert any(text in line for line in problems(csv(tmp_path), target, **settings))


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["name,x,x,y", "a,1,2,0"], "columns 2 and 3 are both named 'x'; rename one"),
        (["name;x;y", "a;1,5;0"], 'has no separator ",", but ";"; write separator: ";"'),
        (["name\tx\ty", "a\t1,5\t0"], 'has no separator ",", but "\\t"; write separator: "\\t"'),
        ([""], "the file is empty"),
        (["x,y"], "found a header and no data rows"),
        (["x,y", "1,0", "2,1"], "2 rows to learn from and 0 held out, of 2; at least 10"),
        (["x,y", *(["1,no", "2,no"] * 9)], 'column y is always "no"; choose another target'),
        (["x,y", *(["1,", "2,NA"] * 9)], "column y has no cell filled in; choose another target"),
        (["x,y", *(["1,0", "2,1"] * 9), "1,2,3"], "row 20 has 3 cells, the header has 2"),
        (["d,y", "2023-01-02,0", "03.04.2023,1"], 'row 3 has "03.04.2023" (DD.MM.YYYY)'),
    ],
)
def test_wrong_files(tmp_path, lines, text):
    (tmp_path / "own.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert text in one(tmp_path)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8-sig"])
def test_text_of_other_programs_is_read(tmp_path, encoding):
    rows = "".join(f"{i}.5,{('Zürich', 'Genf')[i % 2]},{i % 7}\n" for i in range(N))
    (tmp_path / "own.csv").write_bytes(f"x,Ort,y\n{rows}".encode(encoding))
    prepared = prepare(tmp_path)
    assert prepared.encoding.code("Ort").levels == ("Zürich", "Genf")
    table = read_table(tmp_path / "own.csv", ",")
    assert bool(table.notes) == (encoding != "utf-8-sig")


@pytest.mark.parametrize(
    ("above", "separator"),
    [
        ("sep=;\n", ";"),
        ("sep=,\n", ","),
        ("Table 3: yields, by plot\n\n", ","),
        ("Yields of 2003,,\n,,\n", ","),
        ("# made by a logger\n# a, b\n", "\t"),
    ],
)
def test_lines_above_the_header_are_skipped(tmp_path, above, separator):
    rows = [f"{i}.5,{i % 3},{i % 7}" for i in range(N)]
    body = "\n".join(["x,z,y", *rows]).replace(",", separator)
    path = tmp_path / "own.csv"
    path.write_text(above + body + "\n", encoding="utf-8")
    assert find_separator(path) == separator
    table = read_table(path, separator)
    assert list(table.columns) == ["x", "z", "y"]
    assert table.rows[0] == 2 + above.count("\n")
    assert bool(table.notes) == ("sep=" not in above)


def test_a_header_with_a_name_too_few_is_no_title(tmp_path):
    csv(tmp_path, "x,y", [f"{i},{i % 2},{i % 3}" for i in range(N)])
    assert "row 2 has 3 cells, the header has 2" in one(tmp_path)


@pytest.mark.parametrize(
    ("settings", "changed", "text"),
    [
        ({"exposure": "n"}, "5,0,3", 'row 7, column n: "0"; positive numbers are allowed'),
        ({"exposure": "n"}, "5,2,-3", 'row 7, column y: "-3" is not a count; counts are 0, 1, 2'),
        ({"exposure": "n"}, "5,2,1.5", 'row 7, column y: "1.5" is not a count'),
        ({"exposure": "n"}, "5,two,3", 'row 7, column n: "two" is not a number'),
        ({"trials": "n"}, "5,2,3", 'row 7, column y: "3" of 2 trials (n); correct the row'),
        ({"trials": "n"}, "5,7.5,3", 'row 7, column n: "7.5"; whole numbers from 1 are allowed'),
        ({"exposure": "n", "trials": "n"}, "5,7,3", "exposure and trials are both given"),
    ],
)
def test_wrong_counts_and_units(tmp_path, settings, changed, text):
    csv(tmp_path, "x,n,y", [f"{i},{6 + i % 2},{i % 6}" for i in range(N)], L7=changed)
    assert any(text in line for line in problems(tmp_path, **settings))


def test_semicolons_and_decimal_commas(tmp_path):
    csv(tmp_path, "x;y", [f"{i},5;{i % 2}" for i in range(N)])
    prepared = prepare(tmp_path, separator=";", decimal=",", test_fraction=0)
    assert prepared.encoding.natural("x", prepared.train.X["x"]) == pytest.approx(
        np.arange(N) + 0.5
    )
    csv(tmp_path, "x;z", ["3,25;1"], "new.csv")
    part = encode_new(prepared.encoding, tmp_path / "new.csv")
    assert prepared.encoding.natural("x", part.X["x"])[0] == pytest.approx(3.25)


def test_wrong_new_files(tmp_path, fails):
    csv(tmp_path, "x,hours,g,y", [f"{i},{1 + i % 4},{'ab'[i % 2]},{i % 6}" for i in range(N)])
    encoding = prepare(tmp_path, exposure="hours").encoding
    csv(tmp_path, "x,hour", ["1,1"], "new.csv")
    with fails(InputErrors, 'no column "g" in new.csv', "(and 1 more)"):
        encode_new(encoding, tmp_path / "new.csv")
    csv(tmp_path, "x,hours,g", ["1,1,a", "many,0,a"], "new.csv")
    with pytest.raises(InputErrors) as caught:
        encode_new(encoding, tmp_path / "new.csv")
    assert caught.value.problems == [
        'new.csv: row 3, column hours: "0"; positive numbers are allowed; correct the cell or empty it',
        'new.csv: row 3, column x: "many" is not a number; correct or empty the cell',
    ]
    with fails(InputErrors, "none.csv: no such file"):
        encode_new(encoding, tmp_path / "none.csv")


def test_a_table_needs_a_file_and_a_target(tmp_path):
    with pytest.raises(InputErrors) as caught:
        prepare_table({}, tmp_path)
    assert caught.value.problems == [
        "data.csv: missing; give the path of a CSV file",
        "data.target: missing; give the name of a column",
    ]


def test_an_exposure_with_no_cell_filled_in(tmp_path):
    csv(tmp_path, "x,hours,y", [f"{i},,{i % 6}" for i in range(N)])
    text = "column hours: found no cell filled in; positive numbers are needed"
    assert one(tmp_path, exposure="hours") == text


def test_places_that_do_not_differ(tmp_path):
    csv(tmp_path, "e,n,y", [f"{i},{int(i == 39)},{i % 6}" for i in range(N)])
    settings = {"coordinates": ["e", "n"], "test_by": "e", "test_fraction": 0.1}
    assert one(tmp_path, **settings) == "own.csv: all rows to learn from have the same n"


def test_numbers_whose_squares_overflow_are_a_line(tmp_path):
    rows = [
        f"{k % 7},{1e308 if k == 5 else k % 5},{-1e200 if k == 7 else k % 3}" for k in range(60)
    ]
    (tmp_path / "far.csv").write_text("a,b,y\n" + "\n".join(rows))
    with pytest.raises(InputErrors) as error:
        prepare_table({"csv": "far.csv", "target": "y"}, tmp_path)
    assert sorted(line.split(" is beyond")[0] for line in error.value.problems) == [
        'row 7, column b: "1e+308"',
        'row 9, column y: "-1e+200"',
    ]


def test_a_table_parted_by_spaces_is_read_with_and_without_row_names(tmp_path):
    """As R's write.table makes it, aligned, with text in quotes, and with no name above the row names."""
    path = tmp_path / "own.txt"
    rows = [f'{i}.5  "ward {i % 3}"   {i % 7}' for i in range(N)]
    for header, names, first in (
        ('x "the ward" y', ["x", "the ward", "y"], ""),
        ('"x" "the ward" "y"', ["index", "x", "the ward", "y"], '"{}" '),
    ):
        lines = [header, *(f"{first.format(i + 1)}{row} " for i, row in enumerate(rows))]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        assert find_separator(path) == " "
        table = read_table(path, " ")
        assert list(table.columns) == names
        assert table.columns["the ward"][:2] == ["ward 0", "ward 1"]
        assert table.columns["y"][-1] == str((N - 1) % 7)


@pytest.mark.parametrize(
    "text",
    [
        "the price\n1\n2\n",
        "name\nA B\nC\n",
        "a b c\n1 2\n3 4 5\n",
        "a b\n",
        "a b,c\n1 2,3\n4 5,6\n",
    ],
)
def test_spaces_part_no_cells_where_they_cut_rows_unlike_or_another_mark_parts(tmp_path, text):
    path = tmp_path / "own.csv"
    path.write_text(text, encoding="utf-8")
    assert find_separator(path) == ","


def test_blanks_before_quotes_and_quotes_behind_a_backslash(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text('name,  team, y\n"a, b",  "X", 1\n"c ""d""", "Y",  2\n', encoding="utf-8")
    table = read_table(path, ",")
    assert table.columns == {"name": ["a, b", 'c "d"'], "team": ["X", "Y"], "y": ["1", "2"]}
    path.write_text('name, y\n"H. \\"Barney\\" E.", 1\n"b", 2\n', encoding="utf-8")
    assert read_table(path, ",").columns["name"] == ['H. "Barney" E.', "b"]
    path.write_text('size, y\n5", 1\n "b" c, 2\n', encoding="utf-8")  # as before: quotes are text
    assert read_table(path, ",").columns["size"] == ['5"', '"b" c']
    path.write_text('name, y\n"a" b, 1\n', encoding="utf-8")
    with pytest.raises(InputError, match="row 2: cannot be read as separated text"):
        read_table(path, ",")


def test_lines_beyond_what_is_looked_at_do_not_decide_the_separator(tmp_path):
    """The last line is cut at 64 kB; in a table parted by spaces all lines have to be alike."""
    path, names = tmp_path / "wide.txt", [f"v{k}" for k in range(400)]
    rows = [" ".join(f"{k * r % 97 / 7:.5f}" for k in range(400)) for r in range(1, 40)]
    path.write_text("\n".join([" ".join(names), *rows]) + "\n", encoding="utf-8")
    assert path.stat().st_size > 65536
    assert find_separator(path) == " "
