from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.datasets.cells import parse_numbers
from gpmcflow.datasets.columns import describe_columns, name_words
from gpmcflow.datasets.csv_table import CsvTable
from gpmcflow.datasets.dates import parse_dates

N = 30


def column(cells, name="x", **settings):
    table = CsvTable(path=None, columns={name: list(cells)}, rows=np.arange(2, 2 + len(cells)))
    return describe_columns(table, **settings)[name]


NUMBERS = [f"{i / 4}" for i in range(N)]
DATES = [f"2023-01-{1 + i % 28:02d}" for i in range(N)]


@pytest.mark.parametrize(
    ("name", "cells", "kind", "words"),
    [
        ("bmi", NUMBERS, "number", "number, complete"),
        ("bmi", [*NUMBERS[:-2], "", "NA"], "number", "number, 2 cells missing"),
        ("bmi", [*NUMBERS[:-1], "?"], "number", "number, 1 cell missing"),
        ("age", [str(20 + i % 7) for i in range(N)], "whole", "whole number, complete"),
        ("ward", ["a", "b", "c", "a", "a", ""] * 5, "category", "3 categories, 5 cells missing"),
        ("day", DATES, "date", "dates, 2023-01-01 to 2023-01-28"),
        ("code", [f"P-{i}" for i in range(N)], "id", "30 different texts"),
        ("patient_id", [str(100 + 3 * i) for i in range(N)], "id", "30 different numbers"),
        ("caseNo", [str(5 + i) for i in range(N)], "id", "30 different numbers"),
        ("caseNo", [str(5 + 2 * i) for i in range(N)], "whole", "whole number, complete"),
        ("age", [str(5 + i) for i in range(N)], "whole", "whole number, complete"),
        ("idle", [str(5 + i) for i in range(N)], "whole", "whole number, complete"),
        ("site", ["St. Anna"] * N, "constant", "always the same"),
        ("site", ["1", "1.0", ""] * 10, "constant", "always the same where filled in, 10 cells missing"),
        ("x", ["", "NA", "?"] * 10, "empty", "no cell filled in"),
        ("x", [f"word {i % 21}" for i in range(2 * N)], "text", "21 different texts"),
        ("x", ["TRUE", "FALSE", "TRUE"], "category", "2 categories"),
    ],
)  # fmt: skip
def test_kinds(name, cells, kind, words):
    found = column(cells, name)
    assert (found.kind, found.contents, found.problems) == (kind, words, ())


def test_categories_that_hold_numbers_have_one_spelling_and_most_frequent_first():
    grades = column(["2", "1", "2.0", "3", "2", "1.0"], categorical=["x"])
    assert (grades.kind, grades.levels) == ("category", ("2", "1", "3"))


def test_missing_words_are_settings():
    cells = [*NUMBERS[:-2], "-999.0", "NA"]
    assert column(cells, missing=["-999", "NA"]).n_missing == 2
    assert column(cells, missing=["-999"]).problems[0].startswith('row 31, column x: "NA" is not')
    assert column(["NA", "EU"] * 5, missing=[]).levels == ("EU", "NA")


def test_a_few_words_in_a_number_column_are_bad_cells_not_categories():
    bmi = column([*NUMBERS[:10], "n/a.", *NUMBERS[10:], "<5"], "bmi")
    assert bmi.kind == "number"
    assert bmi.problems == (
        'row 12, column bmi: "n/a." is not a number; add it to data.missing or mend the cell '
        "(1 more in this column)",
    )
    assert column(["1", "2", "3", "4", "low"]).kind == "whole"  # exactly 80 %
    assert column(["1", "2", "3", "high", "high"]).kind == "category"
    few = column(["1", "2"] * 10 + ["2+"], "stage").problems[0]
    assert few.endswith("or write categorical: [stage]")


@pytest.mark.parametrize("cell", ["{} %", "{}%", "${}", "-$ {}", "€ {}", "{} €", "{}‰", "$1,{}"])
@pytest.mark.parametrize("mark", [".", ","])
def test_numbers_with_a_unit_are_to_be_mended_not_ids(cell, mark):
    cells = [cell.format(f"{1.5 * i + 103:.2f}".replace(".", mark)) for i in range(40)]
    with_unit = column(["NA", "0", *cells], name="rate")
    assert with_unit.kind == "text"
    line = (
        f'row 4, column rate: "{cells[0]}" is a number with a unit or currency; write the numbers'
    )
    assert with_unit.problems == (f"{line} of this column alone (39 more in this column)",)


def test_few_different_shares_are_categories_and_codes_are_ids():
    assert column(["10 %", "20 %", "50 %"] * 4).kind == "category"
    assert column([f"P{i}" for i in range(40)]).kind == "id"
    assert column([f"{i}-{i}" for i in range(40)]).kind == "id"


@pytest.mark.parametrize(("text", "value"), [("1_000", None), ("inf", None), ("-3e-2", -0.03)])
def test_numbers(text, value):
    number = parse_numbers([text])[0]
    assert np.isnan(number) if value is None else number == value


def test_decimal_comma():
    np.testing.assert_array_equal(parse_numbers(["3,5", "4", "1.5"], ","), [3.5, 4, np.nan])
    assert column(["3,5", "4,25", "7"], decimal=",").values.tolist() == [3.5, 4.25, 7]
    line = column(["3,5", "4,25", "7"]).problems[0]
    assert line.startswith('row 2, column x: "3,5" looks like a number')
    assert 'decimal: ","' in line


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["2023-02-03", "2023-03-04"], "YYYY-MM-DD"),
        (["03.02.2023", "4.3.2023"], "DD.MM.YYYY"),
        (["03/02/2023", "13/02/2023"], "DD/MM/YYYY"),
        (["03/02/2023", "02/13/2023"], "MM/DD/YYYY"),
        (["2023/02/03", "2023/02/13"], "YYYY/MM/DD"),
    ],
)
def test_the_file_decides_the_format_of_dates(cells, words):
    dates = column(cells)
    assert (dates.kind, dates.date_format, dates.problems) == ("date", words, ())
    expected = {"DD/MM/YYYY": 10, "MM/DD/YYYY": -17, "YYYY-MM-DD": 29, "YYYY/MM/DD": 10}
    assert np.diff(dates.values)[0] == expected.get(words, 29)


def test_order_of_day_and_month_that_the_file_cannot_tell_is_said():
    assert "it could be MM/DD/YYYY" in column(["03/02/2023", "04/02/2023"]).contents


def test_times_of_day_and_zones_are_parts_of_days():
    cells = ["1970-01-02T06:00", "1970-01-02 12:00:00Z", "1970-01-02T12:00+06:00", "1970-13-01"]
    np.testing.assert_array_equal(parse_dates(cells, "YYYY-MM-DD"), [1.25, 1.5, 1.25, np.nan])


def test_dates_in_two_formats_are_refused_with_a_row_of_each():
    mixed = column([*DATES[:5], "03.02.2023", *DATES[5:]], "day")
    assert mixed.problems == (
        'column day: dates in two formats, row 2 has "2023-01-01" (YYYY-MM-DD) and row 7 has '
        '"03.02.2023" (DD.MM.YYYY); write them in one',
    )
    strokes = column(["13/01/2023", "14/01/2023", "01/15/2023", "01/02/2023"], "day").problems[0]
    assert 'row 2 has "13/01/2023" (DD/MM/YYYY) and row 4 has "01/15/2023" (MM/DD/YYYY)' in strokes


def test_a_date_that_is_none_is_a_bad_cell():
    line = column([*DATES, "2023-02-30"], "day").problems[0]
    assert line.startswith('row 32, column day: "2023-02-30" is not a date like YYYY-MM-DD')


def test_words_of_names():
    assert name_words("patientID_no 2") == {"patient", "id", "no", "2"}
    assert name_words("XPosition") == {"x", "position"}


def test_thousands_are_not_taken_for_decimals():
    line = column(["950", "1,200", "12,500", "1,000,000"]).problems[0]
    assert line.startswith('row 3, column x: "1,200" has its thousands set off')


@pytest.mark.parametrize(
    ("cells", "mark"),
    [
        (["848.00", "2,115.20", "-1,020.50"], ","),
        (["950", "45 000", "1 250 000.5"], " "),
        (["950", "45'000", "12'000"], "'"),
    ],
)
def test_thousands_are_to_be_mended_whatever_sets_them_off(cells, mark):
    grouped = column(cells)
    assert (grouped.kind, grouped.contents) == ("text", "numbers in another notation")
    line = (
        f'row 3, column x: "{cells[1]}" has its thousands set off by {mark!r}; take the marks out'
    )
    assert grouped.problems == (line,)


def test_thousands_with_a_decimal_comma():
    cells = ["848,00", "2.115,20", "1.020,50"]
    assert column(cells, decimal=",").problems[0].endswith("set off by '.'; take the marks out")
    assert 'write decimal: ","' in column(cells).problems[0]


def test_a_true_minus_is_a_minus():
    assert column(["\u22120.25", "0.5", "-1"]).values.tolist() == [-0.25, 0.5, -1.0]


def test_words_for_missing_among_dates_with_strokes():
    dates = column(["03/02/2023", "N/A", "04/02/2023", "05/02/2023"])
    assert dates.contents == (
        "dates, 2023-02-03 to 2023-02-05 (read as DD/MM/YYYY; it could be MM/DD/YYYY), "
        "1 cell missing"
    )
