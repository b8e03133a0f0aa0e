from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.data.columns import date_text, describe_columns, name_words, parse_dates
from gpmcflow.data.csv_table import CsvTable, parse_numbers

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
        ("caseNo", [str(5 + 2 * i) for i in range(N)], "id", "30 different numbers"),
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
        'row 12, column bmi: "n/a." is not a number; add it to data.missing or correct the cell '
        "(1 more in this column)",
    )
    assert column(["1", "2", "3", "4", "low"]).kind == "whole"  # exactly 80 %
    assert column(["1", "2", "3", "high", "high"]).kind == "category"
    few = column(["1", "2"] * 10 + ["2+"], "stage").problems[0]
    assert few.endswith("or write categorical: [stage]")


@pytest.mark.parametrize("cell", ["{} %", "{}%", "${}", "-$ {}", "€ {}", "{} €", "{}‰"])
@pytest.mark.parametrize("mark", [".", ","])
def test_numbers_with_a_unit_or_currency_are_numbers(cell, mark):
    cells = [cell.format(f"{1.5 * i + 103:.2f}".replace(".", mark)) for i in range(40)]
    found = column(["NA", "0", *cells], name="rate", decimal=mark)
    sign = -1.0 if cell.startswith("-") else 1.0
    np.testing.assert_allclose(found.values[1:3], [0.0, 103.0 * sign])
    assert (found.kind, found.problems) == ("number", ())
    assert f'as "{cells[0]}"' in found.contents


def test_codes_with_digits_are_ids_and_shares_are_numbers():
    assert column(["10 %", "20 %", "50 %"] * 4).values.tolist()[:3] == [10, 20, 50]
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


@pytest.mark.parametrize(
    ("cells", "decimal", "last"),
    [
        (["950", "1,200", "12,500", "1,000,000"], ".", 1e6),
        (["848.00", "2,115.20", "-1,020.50"], ".", -1020.5),
        (["950", "45 000", "1 250 000.5"], ".", 1250000.5),
        (["950", "45'000", "12'000"], ".", 12000),
        (["848,00", "2.115,20", "1.020,50"], ",", 1020.5),
        (["1,234", "2,5", "3,25"], ",", 3.25),
    ],
)
def test_marks_of_thousands_are_left_out(cells, decimal, last):
    found = column(cells, decimal=decimal)
    assert found.kind in ("number", "whole")
    assert found.values[-1] == last


def test_thousands_with_the_other_decimal_mark_are_a_problem():
    cells = ["848,00", "2.115,20", "1.020,50"]
    assert 'write decimal: ","' in column(cells).problems[0]


@pytest.mark.parametrize(
    ("cells", "first"),
    [
        (["May 01, 1973", "June 2, 1973", "Dec 31, 1973"], "1973-05-01"),
        (["01-Jan-20", "28-Feb-20", "03-Mar-20"], "2020-01-01"),
        (["02-Feb-91", "03-Mar-91", "28-Feb-93"], "1991-02-02"),
        (["1. Mai 1973", "2. Juni 1973", "3. Dezember 1973"], "1973-05-01"),
        (["3 de marzo de 2011", "4 de abril de 2011", "5 de mayo de 2011"], "2011-03-03"),
        (["19880806", "19880807", "19881231"], "1988-08-06"),
        (["2020-01", "2020-02", "2021-12"], "2020-01-01"),
        (["1960 Q1", "1960 Q2", "1961 Q4"], "1960-01-01"),
        (["Q3 2001", "Q4 2001", "Q1 2002"], "2001-07-01"),
        (["Jan 1973", "Feb 1973", "Dec 1974"], "1973-01-01"),
        (["1999M07", "1999M08", "2000M01"], "1999-07-01"),
        (["02/13/98", "02/14/98", "12/31/98"], "1998-02-13"),
        (["12/31/2013 11:59 PM", "01/01/2014 1:05 AM", "01/02/2014 12:00 PM"], "2013-12-31"),
    ],
)
def test_dates_as_people_write_them(cells, first):
    found = column(cells, "start")
    assert (found.kind, found.problems) == ("date", ())
    assert date_text(found.values[0]) == first
    assert found.values[-1] == found.values.max()


@pytest.mark.parametrize("cells", [["Q1-92", "Q2-92", "Q4-95"], ["q1 '92", "q3 '92", "q4 '95"]])
def test_quarters_of_years_of_two_digits_are_dates_where_a_name_says_time(cells):
    found = column(cells, "QuarterYear")
    assert (found.kind, found.problems) == ("date", ())
    assert (date_text(found.values[0]), date_text(found.values[-1])) == ("1992-01-01", "1995-10-01")
    assert column(cells, "question").kind != "date"


def test_times_of_day_of_twelve_hours():
    found = column(["12/31/2013 11:59 PM", "01/01/2014 12:30 AM", "01/02/2014 12:00 PM"], "start")
    np.testing.assert_allclose(found.values % 1, [(23 + 59 / 60) / 24, 0.5 / 24, 0.5])


def test_numbers_that_are_no_dates_stay_numbers():
    assert column(["19880806", "19889999", "19881231"]).kind == "whole"
    assert column([str(20000000 + 37 * i) for i in range(N)]).kind == "whole"


def test_dates_in_an_unknown_notation_are_reported():
    cells = [f"{1 + i % 28}/{1 + i % 12}/98 BC" for i in range(N)]
    assert "dates in a notation that is not read" in column(cells).contents


@pytest.mark.parametrize(
    ("name", "kind"),
    [("rownames", "id"), ("Unnamed: 0", "id"), ("...1", "id"), ("rowid", "id"), ("obs", "id"),
     ("index", "id"), ("time", "whole"), ("dose", "whole")],
)  # fmt: skip
def test_row_numbers_by_name(name, kind):
    table = CsvTable(
        None, {name: [str(1 + 2 * i) for i in range(N)], "x": NUMBERS, "y": NUMBERS}, np.arange(N)
    )
    assert describe_columns(table)[name].kind == kind
    lone = CsvTable(None, {name: [str(1 + i) for i in range(N)], "y": NUMBERS}, np.arange(N))
    assert describe_columns(lone)[name].kind == (
        "id" if name in ("index", "obs", "rowid") else "whole"
    )


def test_words_among_many_numbers_are_bad_cells_not_classes():
    found = column([*(f"{i / 7:.3f}" for i in range(100)), *["n.d."] * 40])
    assert found.kind == "number"
    assert "is not a number; add it to data.missing" in found.problems[0]


@pytest.mark.parametrize(
    ("cells", "hours"),
    [
        (["08:30", "9:00", "23:15:36"], [8.5, 9.0, 23.26]),
        (["8:30 am", "12:00 AM", "12:06 p.m.", "11:45PM"], [8.5, 0.0, 12.1, 23.75]),
        (["", "NA", "08:30"], [np.nan, np.nan, 8.5]),
        (["08:30", "25:10"], None),  # minutes and seconds, or goals of two teams
        (["3:1", "16:9"], None),
        (["08:60", "08:3"], None),
        (["08:30", "7"], None),
        (["2024-03-01 08:30"], None),
    ],
)
def test_times_of_day_are_hours(cells, hours):
    read = parse_numbers(cells)
    if hours is None:
        assert not np.isfinite(read[[":" in cell for cell in cells]]).any()
    else:
        np.testing.assert_allclose(read, hours, rtol=1e-12)


def test_times_of_day_are_numbers_unless_they_are_named_as_categories():
    cells = ["08:30", "16:00", "09:15", "16:00"] * 9
    found = column(cells)
    assert (found.kind, found.contents) == ("number", 'number of hours (as "08:30"), complete')
    found = column(cells, categorical=["x"])
    assert (found.kind, found.levels) == ("category", ("16:00", "08:30", "09:15"))
    assert found.values is None
