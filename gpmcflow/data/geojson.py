"""Areas of a GeoJSON file: their outlines by name, and which of them share a border."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.storage.input_files import is_file

MOST_BYTES = 100_000_000  # of a file
MOST_VERTICES = 2_000_000
CONTACT = 1e-6  # of the larger side of a map: closer points are one
_WANTED = "a FeatureCollection of Polygon and MultiPolygon features, as GIS programs export GeoJSON"

Ring = np.ndarray  # vertices (v, 2), the first and the last one the same


class Feature(NamedTuple):
    """An area as the file has it."""

    properties: dict[str, str]  #: texts and whole numbers by key, the id under "id"
    rings: list[Ring]  #: outlines and holes of all its parts


def read_geojson(path: Path) -> list[Feature]:
    """Features of a GeoJSON file.

    Raises `InputError` for a file that is missing, is no JSON, is nested too deeply, or holds anything but
    polygons with finite coordinates.
    """
    if not is_file(path):
        raise InputError(f"{path}: no such file; give the path of a GeoJSON file")
    if path.stat().st_size > MOST_BYTES:
        raise InputError(
            f"{path}: {path.stat().st_size:,} bytes; allowed: {MOST_BYTES:,}; simplify the outlines"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except RecursionError:
        raise InputError(f"{path}: is nested too deeply; allowed: {_WANTED}") from None
    except (ValueError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: is no JSON ({reason}); allowed: {_WANTED}") from None
    kind = content.get("type") if isinstance(content, dict) else None
    features = content.get("features") if isinstance(content, dict) else None
    if kind != "FeatureCollection" or not isinstance(features, list) or not features:
        found = f"type {kind!r}"[:60] if isinstance(content, dict) else type(content).__name__
        raise InputError(f"{path}: found {found}; allowed: {_WANTED}")
    made, total = [], 0
    for number, feature in enumerate(features, start=1):
        where = f"{path}: feature {number}"
        if not isinstance(feature, dict):
            raise InputError(f"{where} is {type(feature).__name__}; allowed: {_WANTED}")
        rings = list(_rings(feature.get("geometry"), where))
        total += sum(map(len, rings))
        if total > MOST_VERTICES:
            raise InputError(f"{path}: more than {MOST_VERTICES:,} vertices; simplify the outlines")
        made.append(Feature(_properties(feature), rings))
    return made


def _properties(feature: Mapping[str, Any]) -> dict[str, str]:
    stated = feature.get("properties")
    stated = dict(stated) if isinstance(stated, dict) else {}
    if "id" in feature:
        stated.setdefault("id", feature["id"])
    return {
        str(key): " ".join(
            f"{value:.15g}".split() if isinstance(value, float) else str(value).split()
        )
        for key, value in stated.items()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    }


def _rings(geometry: Any, where: str) -> Iterator[Ring]:
    if geometry is None:  # an area without a shape, as the format allows
        return
    kind = geometry.get("type") if isinstance(geometry, dict) else type(geometry).__name__
    if kind not in ("Polygon", "MultiPolygon"):
        raise InputError(f"{where} has a geometry {str(kind)[:40]!r}; allowed: {_WANTED}")
    polygons = geometry.get("coordinates")
    polygons = [polygons] if kind == "Polygon" else polygons
    for polygon in _listed(polygons, where):
        for ring in _listed(polygon, where):
            yield _ring(ring, where)


def _listed(value: Any, where: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise InputError(f"{where} has coordinates that are no lists of rings; allowed: {_WANTED}")
    return value


def _ring(ring: Any, where: str) -> Ring:
    points = _listed(ring, where)
    if len(points) < 4:
        raise InputError(f"{where} has a ring of {len(points)} points; allowed: 4 or more")
    out = np.empty((len(points), 2))
    for k, point in enumerate(points):
        plain = (
            isinstance(point, list)
            and len(point) >= 2
            and all(isinstance(x, int | float) and not isinstance(x, bool) for x in point[:2])
        )
        if not plain or not all(_is_finite(x) for x in point[:2]):
            shown = json.dumps(point)[:60]
            raise InputError(f"{where} has the point {shown}; allowed: [x, y] of finite numbers")
        out[k] = point[:2]
    return out


def _is_finite(x: float) -> bool:
    try:
        return math.isfinite(x)
    except OverflowError:  # a whole number beyond all floats
        return False


def touching(areas: Mapping[str, Sequence[Ring]]) -> list[tuple[str, str]]:
    """Pairs of areas that share a piece of a border, not a corner alone.

    Two areas do where corners of either lie on the outline of the other at two places or more, so that an
    outline may have more corners than its neighbour's.
    """
    names = [name for name, rings in areas.items() if rings]
    if not names:
        return []
    points = [np.concatenate(areas[name]) for name in names]
    low = np.array([p.min(0) for p in points])
    high = np.array([p.max(0) for p in points])
    close = CONTACT * float((high.max(0) - low.min(0)).max())
    pairs = []
    for i, name in enumerate(names):
        near = np.flatnonzero(np.all((low <= high[i] + close) & (high >= low[i] - close), axis=1))
        for j in near[near > i]:
            box = np.maximum(low[i], low[j]) - close, np.minimum(high[i], high[j]) + close
            contacts = np.concatenate([
                _on_outline(areas[name], areas[names[j]], box, close),
                _on_outline(areas[names[j]], areas[name], box, close),
            ])  # fmt: skip
            if len(contacts) and np.ptp(contacts, axis=0).max() > 2.0 * close:
                pairs.append((name, names[j]))
    return pairs


def _on_outline(
    of: Sequence[Ring], outline: Sequence[Ring], box: tuple[np.ndarray, np.ndarray], close: float
) -> np.ndarray:
    """Corners of one area within a box that lie on the outline of another, (c, 2)."""
    low, high = box
    corners = np.concatenate(of)
    corners = corners[np.all((corners >= low) & (corners <= high), axis=1)]
    starts = np.concatenate([ring[:-1] for ring in outline])
    ends = np.concatenate([ring[1:] for ring in outline])
    inside = np.all((np.minimum(starts, ends) <= high) & (np.maximum(starts, ends) >= low), axis=1)
    starts, ends = starts[inside], ends[inside]
    if not len(corners) or not len(starts):
        return np.empty((0, 2))
    along = ends - starts
    length = np.maximum((along**2).sum(1), 1e-300)
    kept = []
    for corner in corners:
        share = np.clip(((corner - starts) * along).sum(1) / length, 0.0, 1.0)
        gap = corner - starts - share[:, None] * along
        if ((gap**2).sum(1) <= close * close).any():
            kept.append(corner)
    return np.array(kept).reshape(-1, 2)


def drawn(areas: Mapping[str, Sequence[Ring]], steps: int = 1000) -> dict[str, list[Ring]]:
    """Outlines for a picture: corners on a lattice of so many steps, without those that coincide."""
    every = [ring for rings in areas.values() for ring in rings]
    if not every:
        return {name: [] for name in areas}
    points = np.concatenate(every)
    step = max(float(np.ptp(points, axis=0).max()), 1e-300) / steps
    out: dict[str, list[Ring]] = {}
    for name, rings in areas.items():
        out[name] = []
        for ring in rings:
            near = np.round(ring / step) * step
            moved = np.append(True, np.any(np.diff(near, axis=0) != 0.0, axis=1))
            kept = ring[moved]
            if len(kept) >= 3:
                out[name].append(np.round(kept / step * 10.0) * step / 10.0)
    return out
