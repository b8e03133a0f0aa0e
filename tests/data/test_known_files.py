"""Files of neighbours, correlations and maps beside a table: the ways to write them, and what is refused."""

from __future__ import annotations

import json

import pytest

from gpmcflow.data.known_files import NamedLevels, read_correlation, read_graph, read_map
from gpmcflow.errors import InputError

PAIRS = [["east", "north"], ["east", "south"]]
GRAPHS = {
    "pairs": "north,east\neast,south\n",
    "a header": "area,neighbour\nnorth,east\neast,south\n",
    "both ways": "a;b\nnorth;east\neast;north\nsouth;east\n",
    "adjacency": "east\tnorth\tsouth\nnorth\teast\nsouth\teast\n",
    "blanks": "east: north south\nnorth: east\n",
    "square": ",north,east,south\nnorth,0,1,0\neast,1,0,1\nsouth,0,1,0\n",
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_is_read_however_it_is_written(name, tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text(GRAPHS[name])
    assert read_graph(path, ["north", "east", "south"]) == PAIRS


def test_the_format_of_inla(tmp_path):
    path = tmp_path / "map.graph"
    path.write_text("3\n1 1 2\n2 2 1 3\n3 1 2\n")
    assert read_graph(path, ["1", "2", "3"]) == [["1", "2"], ["2", "3"]]


def test_a_first_pair_of_areas_is_no_header(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("p,q\nnorth,east\n")
    assert read_graph(path, ["p", "north"]) == [["east", "north"], ["p", "q"]]
    assert read_graph(path, ["north"]) == [["east", "north"]]


@pytest.mark.parametrize(
    "rows", ["a,b\na,1,0.5\nb,0.5,1\n", ",a,b\na,1,0.5\nb,0.5,1\n", "a,b\n1,0.5\n0.5,1\n"]
)
def test_a_correlation_has_names_in_its_header(rows, tmp_path):
    path = tmp_path / "tree.csv"
    path.write_text(rows)
    assert read_correlation(path) == [["a", "b"], [1.0, 0.5, 1.0]]


WRONG = {
    "alone": (read_graph, "north\neast\n", "no pair of neighbours"),
    "self": (read_graph, "north,north\n", "'north' as its own neighbour"),
    "empty": (read_graph, "\n\n", "is empty"),
    "halves": (read_graph, ",a,b\na,0,1\nb,0,0\n", "not of 0 and 1, the same both ways"),
    "no square": (read_correlation, "a,b\n1,0.5\n", "2 names and 1 rows"),
    "words": (read_correlation, "a,b\n1,x\n0.5,1\n", "the row of a has a cell that is no number"),
    "asymmetric": (read_correlation, "a,b\n1,0.5\n0.4,1\n", "not symmetric: 0.5 for a and b, 0.4"),
    "infinite": (read_correlation, "a,b\n1,inf\ninf,1\n", "not finite"),
    "twice": (read_correlation, "a,a\n1,0\n0,1\n", "two levels have one name"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_files_are_refused_in_one_line(name, tmp_path):
    read, rows, message = WRONG[name]
    path = tmp_path / "file.csv"
    path.write_text(rows)
    with pytest.raises(InputError, match=message) as error:
        read(path, ["north"]) if read is read_graph else read(path)
    assert "\n" not in str(error.value)


def map_of(folder, names):
    def ring(k):
        return [[k, 0], [k + 1, 0], [k + 1, 1], [k, 1], [k, 0]]

    features = [
        {"type": "Feature", "properties": {"id": k, "name": name},
         "geometry": {"type": "Polygon", "coordinates": [ring(k)]}}
        for k, name in enumerate(names)
    ]  # fmt: skip
    path = folder / "map.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


def test_a_map_is_of_the_column_that_has_its_names(tmp_path):
    path = map_of(tmp_path, ["p", "q", "r"])
    columns = NamedLevels({"town": ["x", "y"], "area": ["p", "q"]}, "data")
    column, outlines, pairs = read_map(path, columns)
    assert column == "area"
    assert set(outlines) == {"p", "q", "r"}
    assert pairs == [["p", "q"], ["q", "r"]]


def test_a_map_without_an_area_of_the_data_is_refused(tmp_path):
    path = map_of(tmp_path, ["p", "q"])
    with pytest.raises(
        InputError, match="no feature has name 's' and 1 more, which column area has"
    ):
        read_map(path, NamedLevels({"area": ["p", "s", "t"]}, "data"))
    with pytest.raises(InputError, match=r"none of its names .* is in column area"):
        read_map(path, NamedLevels({"area": ["s"]}, "data"))
    with pytest.raises(InputError, match=r"write groups: \[the column with them\] under data"):
        read_map(path, NamedLevels({}, "data"))
