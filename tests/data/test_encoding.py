from __future__ import annotations

import gc

import numpy as np
import pytest

from gpmcflow.data.codes import Encoding
from gpmcflow.data.csv_table import read_csv
from gpmcflow.data.own_table import encode_new, prepare_table
from gpmcflow.errors import InputError

HEADER = "age,bmi,day,ward,sex,y\n"
ROWS = [
    (20 + i, "" if i in (3, 8) else 18 + i * i / 4, f"2024-01-{1 + 2 * i:02d}", "abca"[i % 4],
     "f" if i % 3 else "m", i % 2)
    for i in range(12)
]  # fmt: skip


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "own.csv", HEADER + "".join(",".join(map(str, row)) + "\n" for row in ROWS))
    return tmp_path


@pytest.fixture
def prepared(folder):
    return prepare_table({"csv": "own.csv", "target": "y", "test_fraction": 0}, folder)


def new_rows(prepared, folder, *rows):
    path = write(folder / "new.csv", "ward,sex,age,bmi,day\n" + "\n".join(rows) + "\n")
    return encode_new(prepared.encoding, path)


def test_names_of_inputs_and_map_from_columns(prepared):
    encoding = prepared.encoding
    assert encoding.names == [
        "age", "bmi", "bmi missing", "day", "ward=a", "ward=b", "ward=c", "sex=m",
    ]  # fmt: skip
    assert encoding.inputs_of("bmi") == ["bmi", "bmi missing"]
    assert encoding.inputs_of("ward") == ["ward=a", "ward=b", "ward=c"]
    assert encoding.columns == ["age", "bmi", "day", "ward", "sex"]
    with pytest.raises(InputError, match="did you mean 'ward'"):
        encoding.inputs_of("wards")


def test_numbers_are_standardised_and_categories_are_0_and_1(prepared):
    X = prepared.train.X
    age = np.arange(20.0, 32)
    np.testing.assert_allclose(X["age"], (age - age.mean()) / age.std(ddof=1), rtol=1e-14)
    bmi = np.array([np.nan if row[1] == "" else row[1] for row in ROWS])
    bmi[[3, 8]] = np.nanmedian(bmi)
    np.testing.assert_allclose(X["bmi"], (bmi - bmi.mean()) / bmi.std(ddof=1), rtol=1e-13)
    assert np.flatnonzero(X["bmi missing"]).tolist() == [3, 8]
    np.testing.assert_allclose(X["day"], X["age"], atol=1e-13)  # equal steps, another unit
    assert X["ward=b"].tolist() == [float(row[3] == "b") for row in ROWS]
    assert X["sex=m"].tolist() == [float(row[4] == "m") for row in ROWS]
    assert set(X.dtypes) == {np.dtype(float)}


def test_natural_and_standardised_are_inverse(prepared):
    encoding = prepared.encoding
    np.testing.assert_allclose(encoding.natural("age", prepared.train.X["age"]), np.arange(20, 32))
    np.testing.assert_allclose(encoding.natural("day", prepared.train.X["day"]), np.arange(12) * 2)
    assert encoding.standardised("age", encoding.natural("age", 0.3)) == pytest.approx(0.3)
    with pytest.raises(InputError, match="'sex' holds names"):
        encoding.natural("sex", 0.0)


def test_new_rows_use_the_codes_of_the_learning_rows(prepared, folder):
    part = new_rows(prepared, folder, "b,m,25,19,2024-01-03")
    twin = prepared.encoding.standardised("age", 25)
    assert part.X.loc[0].tolist()[0] == twin
    assert part.X.loc[0, ["ward=a", "ward=b", "ward=c", "sex=m"]].tolist() == [0, 1, 0, 1]
    assert part.X.loc[0, "day"] == pytest.approx(prepared.train.X.loc[1, "day"])
    assert list(part.X.columns) == list(prepared.train.X.columns)
    assert (part.note, part.y, part.outcome, part.row.tolist()) == ([""], None, None, [2])
    assert part.table.loc[0].tolist() == ["25", "19", "2024-01-03", "b", "m"]


def test_what_new_rows_have_and_learning_rows_have_not_is_noted(prepared, folder):
    part = new_rows(
        prepared,
        folder,
        "d,m,25,19,2024-01-03",
        "a,x,25,,2024-01-03",
        "a,,40,10,2025-01-03",
        ",f,,20,2023-12-31",
        "a,f,31,48.25,2024-01-23",
        "a,f,20,18,2024-01-01",
    )
    assert part.note == [
        'ward "d" was not seen: treated as unknown',
        'bmi is empty: middle value 25.625 taken; sex "x" was not seen: treated as unknown',
        "age 40 is above 20 to 31 seen in learning; bmi 10 is below 18 to 48.25 seen in learning; "
        "day 2025-01-03 is after 2024-01-01 to 2024-01-23 seen in learning; "
        "sex is empty: treated as unknown",
        "age is empty: middle value 25.5 taken; day 2023-12-31 is before 2024-01-01 to 2024-01-23 "
        "seen in learning; ward is empty: treated as unknown",
        "",
        "",
    ]
    assert part.X.loc[0, ["ward=a", "ward=b", "ward=c"]].tolist() == [0, 0, 0]
    assert part.X["sex=m"].tolist() == [1, 4 / 12, 4 / 12, 0, 0, 0]  # unknown: the learning share
    assert part.X["bmi missing"].tolist() == [0, 1, 0, 0, 0, 0]
    assert prepared.encoding.natural("bmi", part.X.loc[1, "bmi"]) == pytest.approx(25.625)
    assert part.X.loc[3, ["ward=a", "ward=b", "ward=c"]].tolist() == [0, 0, 0]


def test_json_keeps_every_bit(prepared, folder):
    again = Encoding.from_json(prepared.encoding.to_json())
    assert again == prepared.encoding
    path = folder / "own.csv"
    assert encode_new(again, path).X.equals(encode_new(prepared.encoding, path).X)


def test_two_coordinates_share_one_scale(tmp_path):
    rng = np.random.default_rng(3)
    east, north = rng.uniform(0, 100, 40), rng.uniform(0, 5, 40)
    rows = [f"{e},{n},{i % 3}" for i, (e, n) in enumerate(zip(east, north, strict=True))]
    write(tmp_path / "map.csv", "e,n,y\n" + "\n".join(rows) + "\n")
    data = {"csv": "map.csv", "target": "y", "test_fraction": 0}
    X = prepare_table(data | {"coordinates": ["e", "n"]}, tmp_path).train.X
    np.testing.assert_allclose(np.ptp(X["e"]) / np.ptp(X["n"]), np.ptp(east) / np.ptp(north))
    np.testing.assert_allclose((X.var(ddof=1)).mean(), 1, rtol=1e-13)
    np.testing.assert_allclose(X.mean(), 0, atol=1e-14)


def test_categories_written_as_numbers_match_in_another_spelling(tmp_path):
    rows = "".join(f"{1 + i % 3},{i % 2}\n" for i in range(12))
    write(tmp_path / "own.csv", "batch,y\n" + rows)
    data = {"csv": "own.csv", "target": "y", "categorical": ["batch"], "test_fraction": 0}
    prepared = prepare_table(data, tmp_path)
    assert prepared.encoding.names == ["batch=1", "batch=2", "batch=3"]
    part = encode_new(prepared.encoding, write(tmp_path / "new.csv", "batch,z\n2.0,1\n4,1\n"))
    assert part.X.values.tolist() == [[0, 1, 0], [0, 0, 0]]
    assert part.note == ["", 'batch "4" was not seen: treated as unknown']


def test_a_category_of_one_level_counts_by_being_filled_in(tmp_path):
    write(
        tmp_path / "own.csv", "t,x,y\n" + "".join(f"{i},{'x' * (i % 2)},{i}.5\n" for i in range(12))
    )
    data = {"csv": "own.csv", "target": "y", "test_fraction": 0}
    assert prepare_table(data, tmp_path).encoding.names == ["t"]
    used = prepare_table(data | {"categorical": ["x"]}, tmp_path)
    assert used.train.X["x missing"].tolist() == [1, 0] * 6
    part = encode_new(used.encoding, write(tmp_path / "new.csv", "t,x\n5,\n5,x\n"))
    assert part.note == ["x is empty: treated like the cells empty in learning", ""]


def test_no_two_rows_without_a_name_and_no_unknown_name_share_a_code(tmp_path):
    """Among rows to learn from, held out and new: each is a level that no other row tells about."""
    wards = ["", "a", "b", "a", "", "b"] * 8
    lines = [f"{ward},{k},{k % 7}" for k, ward in enumerate(wards)]
    write(tmp_path / "own.csv", "ward,x,y\n" + "\n".join(lines) + "\n")
    write(tmp_path / "new.csv", "ward,x\nc,1\n,2\nc,3\nd,4\na,5\n")
    data = {"csv": "own.csv", "target": "y", "outcome": "real", "groups": ["ward"]}
    prepared = prepare_table({**data, "test_fraction": 0.5, "new": "new.csv"}, tmp_path)
    learnt, held_out, new = (
        part.X["ward"].to_numpy() for part in (prepared.train, prepared.test, prepared.new)
    )
    nameless = np.concatenate([learnt[learnt < 0], held_out[held_out < 0]])
    assert len(nameless) == 16
    assert len({*nameless, *new[:4]}) == 16 + 3
    assert new[0] == new[2]
    assert new[4] in learnt


def test_an_unknown_name_of_a_group_is_told_with_the_nearest_one(tmp_path):
    """Unless digits differ: ward 3 is another ward than ward 2."""
    lines = [f"{('north', 'south', 'ward 2')[k % 3]},{k},{k % 7}" for k in range(30)]
    write(tmp_path / "own.csv", "ward,x,y\n" + "\n".join(lines) + "\n")
    write(tmp_path / "new.csv", "ward,x\nNroth,1\nward 3,2\nNroth,3\nsouth,4\n")
    data = {"csv": "own.csv", "target": "y", "outcome": "real", "groups": ["ward"]}
    prepared = prepare_table({**data, "test_fraction": 0, "new": "new.csv"}, tmp_path)
    typo = 'ward "Nroth" was not seen (did you mean "north"?): treated as a new one'
    other = 'ward "ward 3" was not seen: treated as a new one'
    assert prepared.new.note == [typo, other, typo, ""]


def test_many_cases_are_encoded_without_passes_of_the_garbage_collector(prepared, folder):
    new_rows(prepared, folder, "a,f,30,20,2024-01-02")  # loads what is loaded once
    table = read_csv(write(folder / "many.csv", "ward,sex,age,bmi,day\n" + 5000 * "z,f,99,,\n"))
    before = gc.get_threshold()
    gc.set_threshold(1000, 1, 1)
    passes = sum(of["collections"] for of in gc.get_stats())
    try:
        _, notes = prepared.encoding.encode(table)
        passes = sum(of["collections"] for of in gc.get_stats()) - passes
    finally:
        gc.set_threshold(*before)
    assert passes <= 2  # a list for each case: a pass after each 1,000 of them
    assert len(set(notes)) == 1
    assert [part.split()[0] for part in notes[0].split("; ")] == ["age", "bmi", "day", "ward"]
