"""Maps of areas: which share a border, outlines for pictures, and hostile files."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gpmcflow.data.geojson import drawn, read_geojson, touching
from gpmcflow.errors import InputError


def square(x, y, size=1.0):
    return np.array(
        [[x, y], [x + size, y], [x + size, y + size], [x, y + size], [x, y]], dtype=np.float64
    )


def feature(coordinates, kind="Polygon", **properties):
    geometry = {"type": kind, "coordinates": coordinates}
    return {"type": "Feature", "properties": properties, "geometry": geometry}


def written(folder, content):
    path = folder / "map.geojson"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def collection(*features):
    return {"type": "FeatureCollection", "features": list(features)}


def test_areas_share_a_border_and_not_a_corner():
    areas = {
        "big": [square(0, 0, 2.0)],  # two small ones beside it, of which it has no corner between
        "low": [square(2, 0)],
        "high": [square(2, 1)],
        "diagonal": [square(3, 2)],  # touches high at a corner
        "isle": [square(9, 9)],
        "ring": [square(20, 0, 3.0), square(21, 1)[::-1]],
        "inner": [square(21, 1)],  # fills its hole
        "nothing": [],
    }
    pairs = {frozenset(pair) for pair in touching(areas)}
    assert pairs == {
        frozenset(pair)
        for pair in [("big", "low"), ("big", "high"), ("low", "high"), ("ring", "inner")]
    }


def test_many_parts_and_a_gap_below_the_tolerance():
    shifted = square(1 + 1e-8, 0)
    areas = {"a": [square(0, 0), square(5, 5)], "b": [shifted], "c": [square(6, 5)]}
    assert touching(areas) == [("a", "b"), ("a", "c")]


def test_outlines_keep_the_lattice_and_lose_what_no_one_sees():
    angle = np.linspace(0.0, 2.0 * np.pi, 20_001)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    out = drawn({"round": [circle], "dot": [1e-9 * circle]})
    assert len(out["round"][0]) < 4000
    np.testing.assert_allclose(np.hypot(*np.array(out["round"][0]).T), 1.0, atol=2e-3)
    assert out["dot"] == []


def test_features_have_properties_and_rings(tmp_path):
    parts = [[square(0, 0).tolist()], [square(5, 5).tolist(), square(5.2, 5.2, 0.1).tolist()]]
    one = {**feature(parts, "MultiPolygon", name=" North  Shore ", n=3, x=1.0, deep=[1]), "id": 7}
    empty = {"type": "Feature", "properties": {"name": "sea"}, "geometry": None}
    first, second = read_geojson(written(tmp_path, collection(one, empty)))
    assert first.properties == {"name": "North Shore", "n": "3", "x": "1", "id": "7"}
    assert [len(ring) for ring in first.rings] == [5, 5, 5]
    assert second.rings == []


def polygon(*points):
    return collection(feature([list(points)]))


LINE = [[0, 0], [1, 0], [1, 1], [0, 0]]
HOSTILE = {
    "no json": ("{", "is no JSON"),
    "empty": ("", "is no JSON"),
    "nested": ("[" * 200_000 + "]" * 200_000, "nested too deeply"),
    "nested rings": (
        '{"type": "FeatureCollection", "features": [{"geometry": {"type": "Polygon", "coordinates": '
        + "[" * 900 + "]" * 900 + "}}]}",
        "ring of 1 points",
    ),
    "list": ([1, 2], "found list; allowed: a FeatureCollection"),
    "topology": ({"type": "Topology", "arcs": []}, "found type 'Topology'"),
    "no features": (collection(), "found type 'FeatureCollection'"),
    "features": ({"type": "FeatureCollection", "features": {"a": 1}}, "allowed: a FeatureCollection"),
    "a number": (collection(3), "feature 1 is int"),
    "points": (collection(feature([0, 0], "Point")), "feature 1 has a geometry 'Point'"),
    "geometry": (collection({"geometry": "x"}), "feature 1 has a geometry 'str'"),
    "coordinates": (collection(feature("abc")), "coordinates that are no lists"),
    "short": (polygon([0, 0], [1, 1]), "a ring of 2 points; allowed: 4 or more"),
    "words": (polygon(*LINE[:3], ["a", "b"]), r'the point \["a", "b"\]; allowed: \[x, y\] of finite'),
    "yes": (polygon(*LINE[:3], [True, False]), "has the point"),
    "nan": (json.dumps(polygon(*LINE[:3], [float("nan"), 0])), r"the point \[NaN, 0\]"),
    "infinite": (json.dumps(polygon(*LINE[:3], [float("inf"), 0])), r"the point \[Infinity, 0\]"),
    "huge": (polygon(*LINE[:3], [10**400, 0]), "the point"),
    "digits": ('{"type": ' + "9" * 5000 + "}", "is no JSON"),
    "flat": (polygon([0], [1], [2], [3]), r"the point \[0\]"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_in_one_line(name, tmp_path):
    content, message = HOSTILE[name]
    with pytest.raises(InputError, match=message) as error:
        read_geojson(written(tmp_path, content))
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


def test_a_missing_file_and_one_that_is_too_large(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="no such file"):
        read_geojson(tmp_path / "none.geojson")
    monkeypatch.setattr("gpmcflow.data.geojson.MOST_BYTES", 10)
    with pytest.raises(InputError, match="simplify the outlines"):
        read_geojson(written(tmp_path, collection()))
