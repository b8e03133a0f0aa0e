"""What a column is, where neither its name nor its values alone say it; each beside one that is not so."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

from gpmcflow.data.own_table import prepare_table
from tests.data.small_files import seen

N = 120
RNG = np.random.default_rng(5)
Z = RNG.normal(size=N).round(4)


def settings(folder, target="z", /, **columns):
    """What is set for a file of these columns, with an outcome z where none is given."""
    return seen(folder, target, **(columns if target in columns else columns | {"z": Z})).settings


@pytest.mark.parametrize(
    ("name", "share"),
    [("cons", False), ("acceleration", False), ("accuracy", True), ("acceleration.ratio", True)],
)
def test_amounts_below_1_are_no_shares(tmp_path, name, share):
    values = RNG.uniform(0.2, 0.8, N).round(3)
    kind = seen(tmp_path, name, a=Z, **{name: values}).reading.kind
    assert (kind == "share") == share


def test_marks_of_a_school_test_are_no_counts(tmp_path):
    marks = RNG.integers(1, 60, N) ** 2 // 60 + 1
    kinds = {n: seen(tmp_path, n, a=Z, **{n: marks}).reading.kind for n in ("sat", "sats")}
    assert kinds == {"sat": "real", "sats": "counts"}


@pytest.mark.parametrize(
    ("target", "beside", "width", "place"),
    [
        ("z", {}, 6.0, True),
        ("elevation", {}, 15.0, True),
        ("z", {}, 60.0, False),  # other units
        ("weight", {}, 6.0, False),
        ("z", {"w": Z}, 6.0, False),
    ],
)
def test_heights_over_x_and_y_alone(tmp_path, target, beside, width, place):
    x, y = RNG.uniform(0, 6, N).round(2), RNG.uniform(0, width, N).round(2)
    found = settings(tmp_path, target, x=x, y=y, **beside, **{target: 100 + Z})
    assert found.coordinates == (("x", "y") if place else ())


def test_cells_of_a_grid_are_places_where_nothing_else_is_known(tmp_path):
    row, col = np.repeat(range(1, 11), 12), np.tile(range(1, 13), 10)
    assert settings(tmp_path, row=row, col=col).coordinates == ("col", "row")
    assert settings(tmp_path, row=row, col=col, dose=RNG.normal(size=N)).coordinates == ()
    twice = np.where(col == 12, 11, col)  # and some cells never
    assert settings(tmp_path, row=row, col=twice).coordinates == ()
    few = {"row": row[:48], "col": col[:48], "z": Z[:48]}  # four rows, as of a Latin square
    assert settings(tmp_path, "z", **few).coordinates == ()


@pytest.mark.parametrize(
    ("names", "trials"),
    [
        (("qt", "tt", "qc", "tc"), "tt"),
        (("event.c", "n.c", "event.e", "n.e"), "n.c"),
        (("qt", "tt", "qc", "vc"), None),  # no totals of the other arm
        (("qt", "vt", "qc", "vc"), None),
    ],
)
def test_totals_of_the_same_arm(tmp_path, names, trials):
    """Those of the other arm stand first in the file and are as large."""
    n = RNG.integers(40, 90, (2, N))
    cells = dict(
        zip(names, (RNG.binomial(n[0], 0.3), n[0], RNG.binomial(n[1], 0.2), n[1]), strict=True)
    )
    columns = {name: cells[name] for name in (*names[2:], *names[:2])}
    assert settings(tmp_path, names[0], a=Z, **columns).trials == trials


def test_a_total_below_some_successes_is_no_total_of_an_arm(tmp_path):
    n = RNG.integers(40, 90, (2, N))
    cells = {"qt": RNG.binomial(n[0], 0.3), "tt": n[0], "qc": n[1].copy(), "tc": n[1]}
    cells["qc"][3] = cells["tc"][3] + 1
    assert settings(tmp_path, "qt", a=Z, **cells).trials is None


def test_parts_of_a_total_are_counts(tmp_path):
    """Large ones and no zero among them; one part of hardly any has the total as its exposure."""
    parts = {
        name: RNG.integers(low, 40 * low, N)
        for name, low in (("smith", 20), ("baker", 3000), ("meyer", 2000))
    }
    total = sum(parts.values())
    for name, trials, exposure in (("smith", None, "total"), ("baker", "total", None)):
        found = seen(tmp_path, name, a=Z, **parts, total=total)
        assert found.reading.kind == ("counts" if exposure else "binomial")
        assert (found.settings.trials, found.settings.exposure) == (trials, exposure)
        total_of_more = total + np.append(1, np.zeros(N - 1, dtype=int))
        found = seen(tmp_path, name, a=Z, **parts, total=total_of_more)
        assert found.reading.kind in ("real", "positive")
        assert (found.settings.trials, found.settings.exposure) == (None, None)


def test_classes_numbered_within_schools(tmp_path):
    """12.3 is class 3 of school 12, where both are there; and not if one row has another number."""
    school, room = np.repeat(range(1, 31), 4), np.tile([1, 1, 2, 2], 30)
    label = np.array([f"{a}.{b}" for a, b in zip(school, room, strict=True)])
    assert "unit" in settings(tmp_path, school=school, room=room, unit=label).groups
    label[5] = "2.2"
    assert "unit" not in settings(tmp_path, school=school, room=room, unit=label).groups
    assert "unit" not in settings(tmp_path, school=school, unit=label).groups


@pytest.mark.parametrize(
    ("name", "step", "levels", "group"),
    [("hospital", 0.1, 10, True), ("hospital", 0.01, 10, False), ("hospital", 0.1, 30, False),
     ("city", 0.1, 10, False), ("hospital.rate", 0.1, 10, False)],
)  # fmt: skip
def test_codes_with_a_decimal(tmp_path, name, step, levels, group):
    """Of subjects with many rows; fuel used in the city is an amount."""
    codes = (2.1 + 13 * step * np.arange(levels)).round(2)
    found = settings(tmp_path, **{name: RNG.permutation(np.resize(codes, N))})
    assert found.groups == ((name,) if group else ())


@pytest.mark.parametrize(
    ("name", "sizes", "category"),
    [("car", (40, 40, 40), True), ("car", (70, 40, 10), False), ("cars", (40, 40, 40), False),
     ("sensor", (30, 30, 60), True), ("sensor depth", (40, 40, 40), False)],
)  # fmt: skip
def test_apparatus_used_as_often(tmp_path, name, sizes, category):
    """Numbers of cars that people have are not, few have three."""
    cells = RNG.permutation(np.repeat([1, 2, 3], sizes))
    assert settings(tmp_path, **{name: cells}).categorical == ((name,) if category else ())


def test_numbers_of_samples_that_are_measured_as_often(tmp_path):
    """Where some come more often than others, they may be numbers within something else."""
    samples = np.tile(range(1, 25), 5)
    assert settings(tmp_path, SampleNumber=samples).groups == ("SampleNumber",)
    assert settings(tmp_path, childNumber=samples).groups == ()
    samples[0] = 2
    assert settings(tmp_path, SampleNumber=samples).groups == ()


def test_blocks_numbered_in_another_order_than_the_file_has(tmp_path):
    """As earthquakes numbered by date and sorted by strength; ranks beside what they rank are not."""
    order = RNG.permutation(np.arange(1, 25))
    quake = np.repeat(order, 5)
    assert settings(tmp_path, quake=quake).groups == ("quake",)
    assert settings(tmp_path, quake=np.sort(quake)).groups == ()
    assert settings(tmp_path, quake=2 * quake).groups == ()
    assert settings(tmp_path, rating=quake).groups == ()
    assert settings(tmp_path, quake=RNG.permutation(quake)).groups == ()
    size = np.repeat(RNG.normal(size=24).round(3), 5)
    assert settings(tmp_path, quake=quake, size=size).groups == ()


def test_a_time_of_day_is_an_input_in_hours(tmp_path):
    """In learning and in rows to predict; 08:30 and 9:15 am alike."""
    starts = [f"{8 + k % 9:02d}:{15 * (k % 4):02d}" for k in range(N)]
    found = seen(tmp_path, "z", start=starts, a=Z, z=RNG.normal(size=N).round(3))
    prepared = prepare_table(yaml.safe_load(found.text("own"))["data"], tmp_path)
    (code,) = (code for code in prepared.encoding.codes if code.column == "start")
    assert (code.low, code.high) == (8.0, 16.75)
    np.testing.assert_array_equal(code.read(["08:30", "9:15 am"], "."), [8.5, 9.25])
