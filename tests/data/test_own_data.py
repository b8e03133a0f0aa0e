from __future__ import annotations

import gc
import hashlib

import numpy as np
import pytest

from gpmcflow.data import csv_table, load_csv
from gpmcflow.errors import InputError

GOOD = "age,glu,type\n20,1.5,No\n30,2.5,Yes\n40,0.5,No\n55,3.5,Yes\n"


@pytest.fixture
def write(tmp_path):
    def to_file(text: str | bytes, name: str = "own.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return to_file


def test_good_file(write):
    path = write(GOOD)
    dataset = load_csv(path, "type", standardise=False)
    assert dataset.X.values.tolist() == [[20, 1.5], [30, 2.5], [40, 0.5], [55, 3.5]]
    assert dataset.y.values.tolist() == [-1, 1, -1, 1]
    assert dataset.feature.values.tolist() == ["age", "glu"]
    assert dataset.file_row.values.tolist() == [2, 3, 4, 5]
    attrs = dataset.attrs
    assert attrs["label_coding"] == "+1 = Yes, -1 = No (column type)"
    assert attrs["source"] == "own.csv"  # no absolute path
    assert attrs["source_checksum"] == hashlib.sha256(GOOD.encode()).hexdigest()
    assert attrs["preprocessing"] == "none"
    assert all(isinstance(value, (str, int, float)) for value in attrs.values())


def test_target_may_stand_anywhere_and_str_paths_do(write):
    path = write("type,age\n b ,1\na, 2\n")
    assert load_csv(str(path), "type").y.values.tolist() == [1, -1]


def test_standardised_by_default(write):
    dataset = load_csv(write(GOOD), "type")
    np.testing.assert_allclose(dataset.X.mean("case"), 0, atol=1e-15)
    np.testing.assert_allclose(dataset.X.std("case", ddof=1), 1, rtol=1e-14)
    assert "n-1" in dataset.attrs["preprocessing"]


@pytest.mark.parametrize(
    ("labels", "positive", "expected", "coding"),
    [
        (["0", "1", "1"], None, [-1, 1, 1], "+1 = 1, -1 = 0"),
        (["10", "9", "10"], None, [1, -1, 1], "+1 = 10, -1 = 9"),  # by size, not alphabet
        (["-1", "+1", "-1.0"], None, [-1, 1, -1], "+1 = +1, -1 = -1"),
        (["1", "2", "1.0"], 1, [1, -1, 1], "+1 = 1, -1 = 2"),
        (["1", "2", "2"], "1.0", [1, -1, -1], "+1 = 1, -1 = 2"),
        (["good", "bad", "bad"], None, [1, -1, -1], "+1 = good, -1 = bad"),
        (["good", "bad", "bad"], "bad", [-1, 1, 1], "+1 = bad, -1 = good"),
        (["True", "False", "True"], False, [-1, 1, -1], "+1 = False, -1 = True"),
    ],
)
def test_any_two_labels_are_coded(write, labels, positive, expected, coding):
    text = "x,y\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels))
    dataset = load_csv(write(text), "y", positive=positive)
    assert dataset.y.values.tolist() == expected
    assert dataset.attrs["label_coding"] == f"{coding} (column y)"


def test_split(write):
    text = "x,y\n" + "".join(f"{i},{i % 2}\n" for i in range(40))
    path = write(text)
    dataset = load_csv(path, "y", test_fraction=0.25, seed=4)
    assert dataset.sizes == {"case": 30, "test_case": 10, "feature": 1}
    rows, test_rows = dataset.file_row.values, dataset.test_file_row.values
    assert sorted([*rows, *test_rows]) == list(range(2, 42))
    assert rows.tolist() == sorted(rows)
    np.testing.assert_array_equal(dataset.y == 1, rows % 2 == 1)
    np.testing.assert_array_equal(dataset.y_test == 1, test_rows % 2 == 1)
    x = rows - 2.0
    expected = (test_rows - 2 - x.mean()) / x.std(ddof=1)
    np.testing.assert_allclose(dataset.X_test.values[:, 0], expected, rtol=1e-13)
    assert "seed 4" in dataset.attrs["preprocessing"]
    assert dataset.identical(load_csv(path, "y", test_fraction=0.25, seed=4))
    other = load_csv(path, "y", test_fraction=0.25, seed=5)
    assert other.test_file_row.values.tolist() != test_rows.tolist()


def test_regression_and_counts(write):
    path = write("x,y\n1,0\n2,3\n4,0\n")
    assert load_csv(path, "y", task="counts").y.values.tolist() == [0, 3, 0]
    dataset = load_csv(write("x,y\n1,0.25\n2,-3e1\n"), "y", task="regression")
    assert dataset.y.values.tolist() == [0.25, -30]
    assert dataset.attrs["task"] == "regression"


def test_duplicate_rows_are_kept_and_counted(write):
    dataset = load_csv(write("x,y\n1,0\n2,1\n1,0\n1,1\n"), "y")
    assert dataset.sizes["case"] == 4
    assert dataset.attrs["n_duplicate_rows"] == 2


def test_blank_lines_byte_order_mark_and_line_ends(write):
    text = b"\xef\xbb\xbfx,y\r\n1,0\r\n\r\n2,1\r\n,\r\n\r\n"
    dataset = load_csv(write(text), "y", standardise=False)
    assert dataset.X.values.tolist() == [[1], [2]]
    assert dataset.file_row.values.tolist() == [2, 4]
    assert load_csv(write(b"x,y\r1,0\r2,1\r"), "y").sizes["case"] == 2


def test_decimals_are_read_to_the_last_bit(write):
    texts = ["0.1234567890123456789", "3.0000000000000004e-17", "9007199254740993"]
    path = write("x,y\n" + "".join(f"{t},{i % 2}\n" for i, t in enumerate(texts)))
    dataset = load_csv(path, "y", standardise=False)
    assert dataset.X.values[:, 0].tolist() == [float(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("", ("the file is empty",)),
        ("\n \n", ("the file is empty",)),
        ("x,y\n", ("no data rows",)),
        ("x,z\n1,0\n2,1\n", ("target column", "'y'", "(allowed: x, z)")),
        ("x;y\n1;0\n2;1\n", ("target column", "comma-separated?")),
        ("y\n0\n1\n", ("no column beside the target 'y'",)),
        (",x,y\n0,1,0\n1,2,1\n", ("column 1 has no name",)),
        ("x,x,y\n0,1,0\n1,2,1\n", ("columns 1 and 2", "both named 'x'")),
        ("x,y\n1,0\nabc,1\n", ("column 'x'", "row 3", "'abc'", "a finite number")),
        ("x,y\n1,0\n\ndef,1\ng,0\n", ("column 'x'", "row 4", "'def'", "1 more such cell")),
        ("x,y\n1,0\nnan,1\n", ("column 'x'", "row 3", "missing value 'nan'")),
        ("x,y\n,0\n2,1\n", ("column 'x'", "row 2", "missing value ''")),
        ("x,y\n1,0\n2,1\n-inf,1\n", ("column 'x'", "row 4", "'-inf'", "a finite number")),
        ("x,y\n1,0\n2,\n", ("column 'y'", "row 3", "missing value ''")),
        ("x,y\n1,0\n2,inf\n", ("column 'y'", "row 3", "'inf'")),
        ("x,y\n1,a\n2,b\n3,c\n", ("column 'y'", "3 distinct values", "'a', 'b', 'c'", "needs 2")),
        ("x,y\n1,a\n2,a\n", ("column 'y'", "1 distinct value ('a')", "needs 2")),
        ("x,z,y\n1,5,0\n2,5,1\n", ("column 'z' constant", "2 training cases", "drop the column")),
        ("x,y\n1,0\n1,2,3\n", ("row 3 has 3 cells", "the header has 2")),
        ('x,"a\nb",y\n1,2,0\n1,q,1\n', ("column 'a b'", "row 4", "'q'")),
        ('x,y\n1,"a\nb"\n2,c\n3,d\n', ("3 distinct values", "'a b'")),
        ('x,y\n1,"0\n2,1\n', ("row 2", "unexpected end of data")),
        (b"x,y\n1,\0\n", ("bytes that no text has", "save the table as CSV")),
    ],
)
def test_wrong_files(write, fails, text, texts):
    path = write(text)
    with fails(InputError, str(path), *texts):
        load_csv(path, "y")


def test_nearest_target_is_offered(write, fails):
    with fails(InputError, "own.csv", "'typ'", "did you mean 'type'"):
        load_csv(write(GOOD), "typ")


def test_missing_file(tmp_path, fails):
    with fails(InputError, str(tmp_path / "none.csv"), "no such file"):
        load_csv(tmp_path / "none.csv", "y")


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ({"task": "classificaton"}, ("task", "did you mean 'classification'")),
        ({"positive": "yes"}, ("column 'type'", "'yes'", "did you mean 'Yes'")),
        ({"test_fraction": 1.0}, ("test_fraction is 1.0", "0 to below 1")),
        ({"test_fraction": "half"}, ("test_fraction is 'half'",)),
        ({"test_fraction": 0.01}, ("0.01 of 4 cases", "leaves 0 for the test")),
        ({"test_fraction": 0.75}, ("1 training case",)),
        ({"test_fraction": 0.75, "standardise": False}, ("all 1 training cases", "seed")),
        ({"seed": -1, "test_fraction": 0.5}, ("seed is -1",)),
        ({"task": "regression"}, ("column 'type'", "row 2", "'No'", "a finite number")),
    ],
)
def test_wrong_options(write, fails, options, texts):
    with fails(InputError, *texts):
        load_csv(write(GOOD), "type", **options)


def test_more_than_two_classes_come_as_codes(write, fails):
    dataset = load_csv(write("x,y\n1,0\n2,2\n3,1\n"), "y", task="multiclass")
    assert dataset.y.values.tolist() == [0, 2, 1]
    path = write("x,y\n1,1\n2,2\n3,3\n")
    with fails(InputError, str(path), "y holds 3", "allowed: 0, 1, ..., 2"):
        load_csv(path, "y", task="multiclass")


def test_options_that_do_not_fit_the_task(write, fails):
    path = write("x,y\n1,0\n2,1.5\n3,2\n")
    with fails(InputError, "positive is 1", "task='classification'"):
        load_csv(path, "y", task="regression", positive=1)
    with fails(InputError, str(path), "column 'y'", "row 3", "'1.5'", "counts 0, 1, 2"):
        load_csv(path, "y", task="counts")


def test_a_large_file_is_read_in_steps_and_without_looking_at_its_rows_again(write, monkeypatch):
    rows = [f"{k},{k + 0.5}" for k in range(2000)]
    path = write("a,b\n" + "\n".join(rows) + "\n")
    monkeypatch.setattr(csv_table, "ROWS_AT_ONCE", 7)
    before = gc.get_threshold()
    gc.set_threshold(100, 1, 1)
    try:
        passes = sum(of["collections"] for of in gc.get_stats())
        table = csv_table.read_csv(path)
        seen = sum(of["collections"] for of in gc.get_stats()) - passes
        broken = write('a,b\n"1,2\n', "broken.csv")
        with pytest.raises(InputError):
            csv_table.read_csv(broken)
    finally:
        gc.set_threshold(*before)
    assert seen <= 3  # before and behind the rows
    assert gc.isenabled()
    assert list(zip(table.columns["a"], table.columns["b"], strict=True)) == [
        tuple(row.split(",")) for row in rows
    ]
