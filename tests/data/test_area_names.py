"""What `gpmcflow new` and `check` say about areas: how many, islands, and names that nothing else has."""

from __future__ import annotations

from gpmcflow.data.area_names import AreaNames
from gpmcflow.data.known_files import NamedLevels, read_known
from gpmcflow.data.own_settings import TableSettings

ROWS = ["Leeds", "York", "Hull", "Lundy"]


def test_areas_pairs_and_islands_are_counted():
    pairs = [("Leeds", "York"), ("York", "Leeds"), ("Hull", "York"), ("Hull", "Ripon")]
    own = AreaNames("town", ROWS, pairs, "pairs.csv", outlined=["Leeds", "York", "Ripon", "Scilly"])
    assert own.counted() == "6 areas, 3 pairs of neighbours; 2 islands: Lundy, Scilly"
    assert own.notes() == []


def test_a_misspelt_name_is_told_with_the_nearest_one():
    pairs = [("Leeds", "York"), ("Leeds", "Hul"), ("Yorck", "Leeds"), ("Leeds", "Ripon")]
    (line,) = AreaNames("town", ROWS, pairs, "pairs.csv").notes()
    assert line.startswith(
        'pairs.csv: no row for "Hul" (did you mean "Hull"?), "Ripon" and "Yorck" (did you mean "York"?);'
    )
    (line,) = AreaNames("town", ROWS, pairs, "pairs.csv", outlined=[*ROWS, "Ripon"]).notes()
    assert 'no row or outline on the map for "Hul" (did you mean "Hull"?) and "Yorck"' in line


def test_codes_that_differ_in_digits_are_other_areas_but_for_islands():
    pairs = [("d12", "d13"), ("d13", "d14")]
    (line,) = AreaNames("district", ["d12", "d13"], pairs, "pairs.csv").notes()
    assert line.startswith('pairs.csv: no row for "d14"; correct')
    (line,) = AreaNames("district", ["d12", "d13", "d1A"], pairs, "pairs.csv").notes()
    assert line.startswith('pairs.csv: no row for "d14" (did you mean "d1A"?); correct')


def test_many_misspelt_names_are_cut_short():
    pairs = [(f"x{k}", "York") for k in range(9)]
    (line,) = AreaNames("town", ROWS, pairs, "pairs.csv").notes()
    assert '"x4" and 4 more; correct' in line


def test_areas_are_those_of_the_map_and_else_of_the_pairs(tmp_path):
    (tmp_path / "pairs.csv").write_text("Leeds,York\nYork,Hul\n")
    settings = TableSettings("cases.csv", "deaths", graphs={"edges": "pairs.csv"})
    columns = NamedLevels({"shop": ["a", "b"], "town": ROWS}, "data")
    known, names, (own,), problems = read_known(settings, columns, tmp_path)
    assert not problems
    assert known.column == own.column == "town"
    assert own.file == "pairs.csv"
    assert own.islands == ["Hull", "Lundy"]
    assert own.unplaced == ["Hul"]
    assert set(names["town"]) == {"Leeds", "York", "Hul"}
