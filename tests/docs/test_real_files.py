"""The field test of `gpmcflow new`: a wrong reading is reported, a right one is not."""

from __future__ import annotations

import bz2
import gzip

import pandas as pd
import pytest

from benchmarks.real_files import __main__ as command
from benchmarks.real_files import comparison, record, sources
from benchmarks.real_files.comparison import compare, expected_uses, shares
from benchmarks.real_files.reading import Reading, read_config, read_file

EXPECTED = {
    "target": "ill",
    "outcome": "binary",
    "number": ["dose"],
    "category": ["ward"],
    "number or category": ["grade"],
    "dropped": ["id"],
}
RIGHT = Reading(
    "binary",
    {"": "dropped", "dose": "number", "ward": "category", "grade": "category", "id": "dropped"},
)


def test_a_right_reading_is_not_reported():
    verdict = compare("toy", EXPECTED, RIGHT)
    assert verdict.agrees
    assert verdict.aspects == {"outcome", "row names", "number", "category", "dropped"}


@pytest.mark.parametrize(
    ("column", "use", "aspect"),
    [
        ("", "number", "row names"),
        ("dose", "category", "number"),
        ("ward", "dropped", "category"),
        ("grade", "dropped", "number"),
        ("id", "group", "dropped"),
    ],
)
def test_a_wrong_use_of_a_column_is_reported(column, use, aspect):
    verdict = compare("toy", EXPECTED, Reading("binary", RIGHT.uses | {column: use}))
    (difference,) = verdict.differences
    assert (difference.aspect, difference.found) == (aspect, use)
    assert difference.column == (column or "row names")


def test_a_wrong_outcome_a_column_without_a_line_and_a_refusal_are_reported():
    assert [d.found for d in compare("toy", EXPECTED, Reading("real", RIGHT.uses)).differences] == [
        "real"
    ]
    unnamed = {name: use for name, use in RIGHT.uses.items() if name != "dose"}
    (difference,) = compare("toy", EXPECTED, Reading("binary", unnamed)).differences
    assert (difference.column, difference.found) == ("dose", "not named")
    refused = compare("toy", EXPECTED, Reading("refused", message="three classes"))
    assert [d.found for d in refused.differences] == ["refused: three classes"]
    assert shares([refused])["number"] == (0, 1)


@pytest.mark.parametrize(
    ("expected", "found", "agrees"),
    [
        (12, [12.0], True),
        (365.25, [365.0], True),
        (12, [], False),
        ("none", [], True),
        ("none", [7.0], False),
    ],
)
def test_seasons(expected, found, agrees):
    verdict = compare("toy", EXPECTED | {"season": expected}, Reading("binary", RIGHT.uses, found))
    assert verdict.agrees is agrees


def test_shares_count_data_sets_that_have_the_aspect():
    wrong = compare("b", {"target": "y", "outcome": ["real", "positive"]}, Reading("counts"))
    counts = shares([compare("a", EXPECTED, RIGHT), wrong])
    assert counts["all aspects"] == (1, 2)
    assert counts["outcome"] == (1, 2)
    assert counts["dropped"] == (1, 1)
    assert "season" not in counts


def test_a_config_is_read_by_its_keys_covariances_and_comments():
    text = """
data:
  target: y
  outcome: counts   # whole numbers
  exposure: years
  # rownames: whole numbers 1 to 90 -> dropped: row number
  # years: number, 1 to 9 -> effort: twice the years, twice the y expected
  # day: date -> days since the first
  # age: number, 20 to 70 -> middle value, and a column "missing"
  # ward: 3 categories -> one column each
  coordinates: [east, north]
  drop: []
models:
  seasons: {covariance: "squared_exponential(day) + periodic(day, period=365.25) + group('doctor no')"}
"""
    reading = read_config(text, "y")
    assert reading.outcome == "counts"
    assert reading.seasons == [365.25]
    assert reading.uses == {
        "rownames": "dropped", "years": "exposure", "day": "date", "age": "number", "ward": "category",
        "east": "coordinates", "north": "coordinates", "doctor no": "group",
    }  # fmt: skip


def test_a_file_goes_through_the_command():
    rows = "".join(f"{k % 7 + 0.5 * (k % 3)},{'abc'[k % 3]},{k * 37 % 11}.5\n" for k in range(40))
    reading = read_file(f"dose,ward,y\n{rows}".encode(), "y")
    assert reading.uses == {"dose": "number", "ward": "category"}
    assert read_file(b"dose,y\n", "y").outcome == "refused"


def test_the_three_ways_a_table_is_written():
    table = pd.DataFrame(
        {"rownames": [1, 2], "x": [1.0, None], "sure": [True, False], "level": [None, "some"]}
    )
    gaps = {"level": "none"}
    assert (
        sources.written(table, "site", gaps)
        == "rownames,x,sure,level\n1,1,True,none\n2,,False,some\n"
    )
    assert sources.written(table, "plain", {}) == "x,sure,level\n1,True,.\n.,False,some\n"
    r = sources.written(table, "r", {}).splitlines()
    assert r == ['"","x","sure","level"', '"1",1,TRUE,NA', '"2",NA,FALSE,"some"']
    named = table.assign(rownames=["first", "second"])
    assert {sources.way_of(f"a/{k}", named) for k in range(30)} == {"site", "r"}
    assert {sources.way_of(f"a/{k}", table) for k in range(30)} == {"site", "r", "plain"}


def test_the_record_keeps_what_was_first_written_down():
    first = record.add_rows({}, {"apart": {"a/b": EXPECTED}}, {"a/b": "file"}, "old")
    assert first["a/b"]["code"] == "old"
    assert not first["a/b"]["changed"]
    same = record.add_rows(first, {"open": {"a/b": EXPECTED}}, {}, "new")
    assert same["a/b"] == first["a/b"] | {"table": "open"}
    changed = record.add_rows(
        first, {"apart": {"a/b": EXPECTED | {"outcome": "counts"}}}, {}, "new"
    )
    assert changed["a/b"]["changed"].startswith("new ")
    assert changed["a/b"]["expected"] == first["a/b"]["expected"]


def test_the_tables_are_in_order_and_in_the_record():
    tables = {key: command.load_table(path) for key, path in command.TABLES.items()}
    assert not set(tables["open"]) & set(tables["apart"])
    rows = record.read_record()
    known = {*comparison.SETTINGS, *comparison.ALLOWED}
    for key, entries in tables.items():
        assert list(entries) == sorted(entries)
        for name, entry in entries.items():
            assert {part for use in entry for part in use.split(" or ")} <= known
            columns = [
                column for use in entry if use not in comparison.SETTINGS for column in entry[use]
            ]
            assert len(columns) == len(expected_uses(entry)), name
            digest = record.entry_digest(entry)
            assert rows[name]["table"] == key
            assert digest == (rows[name]["changed"].split()[-1:] or [rows[name]["expected"]])[0], (
                name
            )


def test_figures_stand_between_the_marks_of_the_readme():
    first, last = command.MARKS
    readme = command.with_figures(f"# Title\n{first}\nold\n{last}\nrest", "new")
    assert readme == f"# Title\n{first}\nnew\n{last}\nrest"
    assert (command.HERE / "README.md").read_text(encoding="utf-8").count(first) == 1


def test_yaml_keeps_names_as_text():
    for path in command.TABLES.values():
        for name, entry in command.load_table(path).items():
            for use, columns in entry.items():
                if use not in ("season", "missing", "outcome"):
                    assert all(isinstance(column, str) for column in columns), (name, use)


def test_a_file_that_a_package_ships_stays_as_it_is_and_a_packed_one_is_unpacked(
    tmp_path, monkeypatch
):
    """The package need not be imported; one that is not installed is named with what installs it."""
    text = b"a;b\r\n1,5;.\r\n"
    (tmp_path / "field_test_toy" / "data").mkdir(parents=True)
    (tmp_path / "field_test_toy" / "__init__.py").write_text("raise RuntimeError")
    (tmp_path / "field_test_toy" / "data" / "as_is.csv").write_bytes(text)
    for end, pack in (("bz2", bz2.compress), ("gz", gzip.compress)):
        (tmp_path / "field_test_toy" / "data" / f"packed.csv.{end}").write_bytes(pack(text))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sources, "SHIPPED", tmp_path / "shipped.csv")
    files = {"toy/one": "as_is.csv", "toy/two": "packed.csv.bz2", "toy/three": "packed.csv.gz"}
    rows = (f"{name},field_test_toy/data/{file}" for name, file in files.items())
    absent = "toy/four,field_test_absent/data/as_is.csv"
    sources.SHIPPED.write_text("\n".join(("name,path", *rows, absent)))
    sources.shipped.cache_clear()
    try:
        assert [sources.csv_bytes(name) for name in files] == [text] * 3
        with pytest.raises(
            LookupError, match=r"field_test_absent is not installed; .*README.md says how"
        ):
            sources.csv_bytes("toy/four")
    finally:
        sources.shipped.cache_clear()
