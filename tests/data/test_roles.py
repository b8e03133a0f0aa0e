"""Each small file has one thing that its owner would know; its twin lacks that."""

from __future__ import annotations

import time
from itertools import combinations, permutations
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml

from gpmcflow.analysis.data import data_of, data_tree
from gpmcflow.analysis.models import build_model
from gpmcflow.data import outcome_again
from gpmcflow.data.own_table import prepare_table
from gpmcflow.data.suggestions import suggest
from tests.data.small_files import seen

N = 60
RNG = np.random.default_rng(3)


def noise(n=N):
    return [f"{value:.4f}" for value in RNG.normal(size=n)]


@pytest.mark.parametrize(
    ("name", "dropped"),
    [("", True), ("Unnamed: 0", True), ("rownames", True), ("...1", True), ("X", True),
     ("which", True), ("day", False), ("year", False)],
)  # fmt: skip
def test_row_numbers_are_dropped_and_times_are_not(tmp_path, name, dropped):
    ill = sorted(RNG.integers(0, 2, N))  # so that the number of the row gives it away
    found = seen(tmp_path, "ill", **{name: range(1, N + 1)}, dose=noise(), ill=ill)
    prepared = prepare_table(yaml.safe_load(found.text("own"))["data"], tmp_path)
    assert (prepared.encoding.columns == ["dose"]) == dropped
    assert ("row number" in found.summary()) == dropped


def test_a_column_in_file_order_that_tells_the_outcome_is_a_warning(tmp_path):
    ill = sorted(RNG.integers(0, 2, N))
    score = np.cumsum(RNG.uniform(size=N)).round(4)
    line = "score follows the order of the file and almost determines ill"
    assert any(
        line in note for note in seen(tmp_path, "ill", score=score, a=noise(), ill=ill).notes
    )
    mixed = RNG.permutation(N)
    twin = seen(tmp_path, "ill", score=score[mixed], a=noise(), ill=np.array(ill)[mixed])
    assert not twin.notes
    assert not seen(tmp_path, "ill", score=score, a=noise(), ill=RNG.integers(0, 2, N)).notes


@pytest.mark.parametrize(
    ("names", "ranges", "place"),
    [
        (("lon", "lat"), ((5, 8), (50, 52)), True),
        (("long", "lat"), ((150, 200), (-40, 40)), True),
        (("long", "lat"), ((1500, 2000), (1, 5)), False),
        (("x", "y"), ((0, 10), (0, 60)), False),
        (("x", "y"), ((178000, 182000), (329000, 334000)), True),
        (("easting", "northing"), ((0, 10), (0, 10)), True),
    ],
)
def test_places_by_names_and_ranges(tmp_path, names, ranges, place):
    columns = {
        name: RNG.uniform(low, high, N).round(3)
        for name, (low, high) in zip(names, ranges, strict=True)
    }
    found = seen(tmp_path, "z", **columns, w=noise(), z=noise())
    assert found.settings.coordinates == (names if place else ())
    asked = "if x and y are a place on a map: coordinates: [x, y]" in found.notes
    assert asked == (names == ("x", "y") and not place)


def words(levels, n=N):
    return [levels[i] for i in RNG.integers(0, len(levels), n)]


OUTCOMES = [
    ("absent", RNG.negative_binomial(1, 0.08, N), "counts", "negative_binomial"),
    ("claims", [0, 400, *RNG.poisson(90, N - 2)], "counts", "negative_binomial"),
    ("stations", RNG.poisson(3, N) + 1, "counts", "poisson"),
    ("price", [0, *RNG.integers(100, 90000, N - 1)], "positive", "gaussian"),
    ("score", RNG.integers(0, 100, N), "real", "gaussian"),
    ("year", RNG.integers(1950, 1990, N), "real", "gaussian"),
    ("price", np.exp(RNG.normal(3, 1, N)).round(2), "positive", "log_normal"),
    ("wage", [0.0, *np.exp(RNG.normal(3, 1, N - 1)).round(2)], "positive", "gaussian"),
    ("wage", [1e-9, *np.exp(RNG.normal(3, 0.6, N - 1)).round(2)], "positive", "gaussian"),
    ("x", np.exp(RNG.normal(3, 1, N)).round(2), "positive", "log_normal"),
    ("height", RNG.normal(170, 8, N).round(1), "real", "gaussian"),
    ("cover", RNG.uniform(0, 1, N).round(3), "share", "beta"),
    ("cover", [0.0, *RNG.uniform(0, 1, N - 1).round(3)], "share", "gaussian"),
    ("cover percent", RNG.uniform(5, 95, N).round(1), "share", "beta"),
    ("quality", RNG.integers(3, 9, N), "grades", "ordinal"),
    ("opinion", words(["agree", "neutral", "disagree"]), "grades", "ordinal"),
    ("opinion", words(["agree", "neutral", "disagree", "who knows"]), "grades", "probit"),
    ("species", words(["adelie", "gentoo", "chinstrap"]), "classes", "softmax"),
    ("y", words(["a", "b"]), "binary", "probit"),
    ("y", RNG.integers(0, 2, N), "binary", "probit"),
]


@pytest.mark.parametrize(("name", "cells", "kind", "likelihood"), OUTCOMES)
def test_kind_of_outcome(tmp_path, name, cells, kind, likelihood):
    """Each has a config that can be read, and says what a nearest model does not see."""
    found = seen(tmp_path, name, a=noise(), b=noise(), **{name: cells})
    assert (found.reading.kind, found.likelihood) == (kind, likelihood)
    assert bool(found.reading.why) == (found.reading.model != kind)
    assert found.reading.why in found.text("own")
    model_of(found, tmp_path)


def model_of(found, folder, name=None):
    """The first model of the config, built."""
    loaded = yaml.safe_load(found.text("own"))
    settings = {"likelihood": None, "priors": {}, **loaded}
    data = data_of(data_tree(prepare_table(loaded["data"], folder)))
    return build_model(settings, name or next(iter(loaded["models"])), data, "own")


def test_durations_beside_a_status(tmp_path):
    time, status = RNG.integers(5, 400, N), RNG.integers(0, 3, N)
    found = seen(tmp_path, "time", time=time, status=status, age=noise())
    assert (found.reading.kind, found.reading.model, found.reading.why) == ("survival",) * 2 + ("",)
    assert (found.settings.event, found.settings.event_value, found.settings.drop) == (
        *("status", "2"),
        (),
    )
    (line,) = [note for note in found.notes if "status" in note]
    assert "3 values (0, 1, 2): only 2 is taken as an end" in line
    zero = seen(tmp_path, "time", time=time - time.min(), status=status, age=np.sin(np.arange(N)))
    assert (zero.reading.kind, zero.reading.model) == ("survival", "real")
    assert "a time of 0 has no logarithm" in zero.reading.why
    assert zero.settings.drop == ("status",)
    other = seen(tmp_path, "status", time=time, status=status, age=noise())
    assert (other.reading.kind, other.settings.exposure) == ("classes", None)


@pytest.mark.parametrize(
    ("unit", "values", "role"),
    [
        ("n", [20] * N, "trials"),
        ("total", RNG.integers(20, 30, N), "trials"),
        ("population", RNG.integers(1000, 9000, N), "exposure"),
        ("service", RNG.integers(60, 4000, N), "exposure"),
        ("pyears", RNG.uniform(30, 400, N).round(1), "exposure"),
        ("years", RNG.integers(1950, 1990, N), None),
        ("time", range(1, N + 1), None),
    ],
)
def test_what_counts_belong_to(tmp_path, unit, values, role):
    found = seen(
        tmp_path, "deaths", dose=noise(), **{unit: values}, deaths=RNG.binomial(20, 0.3, N)
    )
    roles = {"trials": found.settings.trials, "exposure": found.settings.exposure}
    assert roles == {"trials": None, "exposure": None} | ({role: unit} if role else {})
    assert found.target.kind == ("binomial" if role == "trials" else "counts")
    prepared = prepare_table(yaml.safe_load(found.text("own"))["data"], tmp_path)
    assert (prepared.train.unit is not None) == (role is not None)


@pytest.mark.parametrize(
    ("name", "levels", "category"),
    [("race", 3, True), ("block", 6, True), ("department", 8, True), ("dose", 4, False),
     ("children", 5, False), ("month", 12, True)],
)  # fmt: skip
def test_codes_for_categories(tmp_path, name, levels, category):
    codes = RNG.integers(1, levels + 1, N)
    found = seen(tmp_path, "z", **{name: codes}, b=noise(), z=noise())
    assert (found.columns[name].kind == "category") == category


@pytest.mark.parametrize("name", ["Subject", "unit_of_study"])
def test_subjects_have_levels_of_their_own_and_are_held_out_whole(tmp_path, name):
    subject = np.repeat(300 + np.cumsum([8, 1, 1, 20, 1, 2, 1, 1, 1, 2, 12, 1]), 10)
    found = seen(tmp_path, "z", **{name: subject}, visit=list(range(10)) * 12, z=noise(120))
    assert found.settings.groups == (name,)
    assert found.settings.test_by == name
    assert all(f"group({name})" in covariance for covariance in found.models.values())
    model = model_of(found, tmp_path)
    assert "group.signal_sd" in model.names
    prepared = prepare_table(yaml.safe_load(found.text("own"))["data"], tmp_path)
    n_learnt = prepared.encoding.code(name).n_learnt
    assert set(prepared.train.X[name]) == set(range(n_learnt))
    assert set(prepared.test.X[name]) == set(range(n_learnt, 12))
    assert all("was not seen: treated as a new one" in note for note in prepared.test.note)
    assert 3 * 10 >= len(prepared.test.X) >= 2 * 10


def test_text_of_many_values_is_a_group_and_of_different_ones_an_id(tmp_path):
    town = [f"town {i % 25}" for i in range(100)]
    found = seen(
        tmp_path, "z", town=town, name=[f"n{i}" for i in range(100)], a=noise(100), z=noise(100)
    )
    assert found.settings.groups == ("town",)
    assert found.uses["name"] == "id"


def test_a_group_is_one_level_whatever_the_others(tmp_path):
    """New rows of a known group have its level; those of an unknown one share a new one."""
    subject = np.repeat([f"s{i}" for i in range(25)], 4)
    found = seen(tmp_path, "z", subject=subject, a=noise(100), z=noise(100))
    loaded = yaml.safe_load(found.text("own"))
    new = tmp_path / "new.csv"
    new.write_text("subject,a\ns3,1\nx1,1\n,1\nx1,1\n", encoding="utf-8")
    loaded["data"] |= {"new": "new.csv", "test_fraction": 0}
    prepared = prepare_table(loaded["data"], tmp_path)
    known = prepared.train.X["subject"][list(subject).index("s3")]
    assert prepared.new.X["subject"].tolist()[0] == known
    assert (prepared.new.X["subject"][1:] < 0).all()
    first, empty, again = prepared.new.X["subject"][1:]
    assert first == again != empty
    assert "treated as a new one" in prepared.new.note[1]
    assert type(prepared.encoding).from_json(prepared.encoding.to_json()) == prepared.encoding


def test_words_for_no_value_are_found_and_hold_in_every_column(tmp_path):
    a = [".", *noise(N - 1)]
    b = ["-99" if i % 9 == 0 else f"{i % 7}" for i in range(N)]
    c = [".", *words(["u", "v", "w"], N - 1)]
    found = seen(tmp_path, "z", a=a, b=b, c=c, z=noise())
    assert found.settings.missing[-2:] == (".", "-99")
    assert found.columns["b"].n_missing == 7
    assert found.columns["c"].levels == tuple(found.columns["c"].levels)
    assert "." not in found.columns["c"].levels
    assert any('".", "-99" read as no value' in note for note in found.notes)
    near = ["999" if i % 9 == 0 else f"{900 + 2 * i}" for i in range(N)]
    assert "999" not in seen(tmp_path, "z", a=near, z=noise()).settings.missing


def test_dots_among_words_are_no_value(tmp_path):
    """Not among other signs, and other signs than dots may be answers."""
    answers = np.resize(["yes", "no", "no"], N).astype(object)
    for sign, gaps in ((".", 1), ("-", 0), ("none", 0)):
        answers[7] = sign
        found = seen(tmp_path, "z", a=answers, z=noise())
        assert found.columns["a"].n_missing == gaps
    signs = np.resize([".", "+", "++"], N)
    assert seen(tmp_path, "z", a=signs, z=noise()).columns["a"].n_missing == 0


def test_a_season_is_offered_with_its_period(tmp_path):
    """20 years of months: the period of the numbers is a year, and the last years are held out."""
    time = (1920 + np.arange(240) / 12).round(3)
    y = (10 - 8 * np.cos(2 * np.pi * time) + RNG.normal(0, 2, 240)).round(2)
    found = seen(tmp_path, "temp", time=time, temp=y)
    assert found.season[1] == (1.0, "year")
    assert "periodic(time, period=1)" in found.models["seasons"]
    assert found.settings.test_by == "time"
    assert "smooth" in found.models
    twin = seen(tmp_path, "temp", time=time, temp=RNG.permutation(y))
    assert (twin.season, twin.settings.test_by) == (None, None)


def test_columns_that_are_the_outcome_again_are_dropped(tmp_path):
    """Each would give the outcome away; a column of much the same content does not."""
    n = 120
    y = RNG.gamma(3.0, 10.0, n).round(2)
    a = RNG.normal(size=n).round(3)
    near = (y + RNG.normal(0, 1, n)).round(2)
    start = RNG.uniform(0, 100, n).round(2)
    again = {
        "rest": (240 - y).round(2),
        "cents": (100 * y).round(0),
        "end": (start + y).round(2),
        "high": ["no" if value < 30 else "yes" for value in y],
    }
    found = seen(tmp_path, "y", a=a, near=near, start=start, **again, y=y)
    assert set(found.settings.drop) == set(again)
    assert "follows from y" in found.summary()
    low = seen(tmp_path, "low", a=a, weight=y, low=["no" if value < 30 else "yes" for value in y])
    assert low.settings.drop == ("weight",)
    gap = np.where(a > 0, a + 1, a)  # two classes that a column separates, far apart
    apart = seen(tmp_path, "group", a=gap, b=near, group=["no" if v <= 0 else "yes" for v in a])
    assert apart.settings.drop == ()


def test_shares_of_trials_and_counts_per_effort_are_the_outcome_again(tmp_path):
    n, y = RNG.integers(10, 40, N), RNG.binomial(9, 0.5, N)
    found = seen(tmp_path, "ill", a=noise(), n=n, ill=y, p=(y / n).round(9))
    assert (found.settings.trials, found.settings.drop) == ("n", ("p",))


def test_names_of_rows_and_ends_of_cases(tmp_path):
    """Different in every row and named like subjects; status columns beside a duration."""
    county = RNG.permutation(1000 + 3 * np.arange(N))
    found = seen(tmp_path, "z", county=county, a=noise(), z=noise())
    assert found.settings.drop == ("county",)
    spell = RNG.integers(1, 30, N)
    censors = {f"censor{k}": RNG.integers(0, 2, N) for k in (1, 2)}
    found = seen(tmp_path, "spell", spell=spell, **censors, age=noise())
    assert (found.reading.kind, found.settings.event) == ("survival", "censor1")
    assert found.settings.drop == ("censor2",)


def test_counts_without_a_zero_and_small_words_of_effort(tmp_path):
    total = RNG.negative_binomial(1, 0.02, N) + 1
    found = seen(
        tmp_path, "total", population=RNG.integers(10**5, 10**7, N), a=noise(), total=total
    )
    assert (found.reading.kind, found.settings.exposure) == ("counts", "population")
    idle = [0, 0, *RNG.integers(60, 4000, N - 2)]
    found = seen(
        tmp_path, "incidents", a=noise(), service=idle, incidents=[0, 0, *RNG.poisson(4, N - 2)]
    )
    assert found.settings.exposure == "service"
    smoking = seen(
        tmp_path, "visits", yearsSmoking=RNG.integers(1, 40, N), a=noise(), visits=RNG.poisson(3, N)
    )
    assert smoking.settings.exposure is None


def test_parts_are_found_beside_columns_with_gaps_and_not_by_chance(tmp_path):
    """Over more rows than are tried first, of which a column may know none."""
    n = 900
    a, b = RNG.integers(0, 30, (2, n))
    late = ["" if i % 9 or i % 5 == 0 else f"{i}" for i in range(n)]
    found = seen(tmp_path, "total", a=a, b=b, late=late, c=noise(n), total=a + b)
    assert found.settings.drop == ("a", "b")
    for other, drop in ((1, ("a", "b")), (100, ())):  # a cell mistyped; a sum of something else
        total = (a + b).copy()
        total[-other:] += 1
        assert seen(tmp_path, "total", a=a, b=b, c=noise(n), total=total).settings.drop == drop


def test_pairs_taken_many_at_a_time_are_those_taken_one_by_one(monkeypatch):
    """Sums, differences and quotients among columns with gaps, constants, huge and tiny numbers."""
    rng = np.random.default_rng(3)
    n = 150
    y = rng.normal(10.0, 2.0, n)
    part, base = rng.normal(0.0, 3.0, n), rng.uniform(1.0, 9.0, n)
    values = {
        "part": part, "rest": np.where(rng.random(n) < 0.3, np.nan, y - part),
        "more": y + part, "base": base, "scaled": y * base,
        "under": base / y, "flat": np.full(n, 4.0),
        "zero": np.zeros(n), "yes": (rng.random(n) < 0.5) * 1.0, "huge": 1e300 * rng.random(n),
        "tiny": 1e-200 * rng.random(n), "noise": rng.normal(size=n),
        "gone": np.where(np.arange(n) < 140, np.nan, part),
    }  # fmt: skip
    columns = {name: SimpleNamespace(values=value) for name, value in values.items()}
    names = list(values)
    y[[3, 70]] = np.nan
    with np.errstate(all="ignore"):
        single = [
            pair
            for pair in combinations(names, 2)
            if outcome_again._may_make(*map(values.get, pair), y)
        ]
        rates = [
            (x, r)
            for x, r in permutations(names, 2)
            if outcome_again._on_a_line(values[r], outcome_again._ratio(y, values[x]))
        ]
        many = list(outcome_again._pairs_that_may_make(names, columns, y))
        near = list(
            outcome_again._pairs_near_a_line(names, outcome_again._matrix(names, columns), y)
        )
    assert {("part", "rest"), ("part", "more"), ("base", "scaled"), ("base", "under")} <= set(
        single
    )
    assert ("scaled", "under") not in single
    assert len(rates) >= 1
    assert [pair for pair in many if pair in single] == single
    assert [pair for pair in near if pair in rates] == rates
    assert ("yes", "noise") not in many


def test_a_table_of_a_thousand_columns_is_read_in_seconds(tmp_path):
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.normal(size=(60, 1001)).round(3))
    table.columns = [*(f"c{k}" for k in range(1000)), "y"]
    table["y"] = table["c3"] + table["c998"]
    table.to_csv(tmp_path / "wide.csv", index=False)
    began = time.process_time()
    suggestion = suggest(tmp_path / "wide.csv", "y")
    assert time.process_time() - began < 20.0  # 1 s for each 25,000 pairs one by one: 20 s and more
    assert "gives y together with c998" in suggestion.summary()


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("contacts", RNG.poisson(30, N) + 5, "counts"),
        ("applications", RNG.negative_binomial(1, 0.001, N) + 100, "counts"),
        ("grams", RNG.poisson(30, N) + 5, "real"),
        ("thickness", RNG.poisson(30, N) + 5, "real"),
        ("trips", 10 * (RNG.poisson(30, N) + 5), "counts"),  # a word for counts
        ("contacts", 10 * (RNG.poisson(30, N) + 5), "real"),  # rounded
        ("conc", [0, *np.minimum(RNG.normal(9, 2, N - 1), 9.5).round(2)], "positive"),
        ("re78", [0.0, *np.exp(RNG.normal(3, 1, N - 1)).round(2)], "positive"),
        ("temp", [0, *np.minimum(RNG.normal(9, 2, N - 1), 9.5).round(2)], "real"),
    ],
)
def test_counts_by_plurals_and_amounts_that_may_be_none(tmp_path, name, values, kind):
    assert seen(tmp_path, name, a=noise(), b=noise(), **{name: values}).reading.kind == kind


def test_answers_from_0_to_4_are_grades_where_counts_would_go_on(tmp_path):
    answers = np.minimum(RNG.poisson(1.2, 2000), 4)
    assert seen(tmp_path, "blue", a=noise(2000), blue=answers).reading.kind == "grades"
    few = np.append(np.minimum(RNG.poisson(1.2, N - 1), 4), 4)
    assert seen(tmp_path, "blue", a=noise(), blue=few).reading.kind == "counts"
    counts = RNG.poisson(0.5, 2000)
    assert seen(tmp_path, "blue", a=noise(2000), blue=counts).reading.kind == "counts"


@pytest.mark.parametrize(
    ("name", "least", "most", "kind"),
    [
        ("lrscale", 0, 10, "grades"),
        ("trust", 1, 10, "grades"),
        ("correct", 0, 10, "counts"),
        ("trips", 0, 10, "counts"),
        ("lrscale", 0, 11, "counts"),
        ("hours", 0, 10, "positive"),
    ],
)
def test_answers_from_0_to_10_are_grades(tmp_path, name, least, most, kind):
    """Not tasks solved, or trips; nor where numbers go on."""
    y = np.resize(np.arange(least, most + 1), 1200)
    found = seen(tmp_path, name, a=noise(1200), b=noise(1200), **{name: y})
    assert found.reading.kind == kind


def test_answers_beside_others_on_their_scale_are_grades(tmp_path):
    """Of some hundred people, to questions of one sheet, from 0 to 10."""
    y, other = (np.append([0, 10], RNG.binomial(10, share, 98)) for share in (0.5, 0.6))
    y[:11] = np.arange(11)
    for most, kind in ((10, "grades"), (9, "counts")):
        found = seen(tmp_path, "mood", a=noise(100), trust=other.clip(0, most), mood=y)
        assert found.reading.kind == kind


def test_ten_answers_of_few_are_counts(tmp_path):
    """Of trips to 10 at most, by a name of their own, where more would be rare."""
    y = np.append(np.arange(11), RNG.poisson(2.0, 1189).clip(0, 10))
    found = seen(tmp_path, "outings", a=noise(1200), b=noise(1200), outings=y)
    assert found.reading.kind == "counts"


def test_a_number_of_things_is_whole(tmp_path):
    """So the isotope delta 15 N is no exposure."""
    y, n = RNG.poisson(5, N), RNG.integers(10, 40, N)
    for name, values, exposure in (("d15N", n + 0.37, None), ("pop", n + 0.37, "pop")):
        found = seen(tmp_path, "eggs", a=noise(), eggs=y, **{name: values})
        assert found.settings.exposure == exposure


def test_a_spread_that_grows_with_the_level_is_on_the_log_scale(tmp_path):
    """Of a series whose swings grow with its trend; swings of one size, and groups, are not."""
    time = np.arange(1950, 1970, 1 / 12).round(3)
    swing = 1 + 0.2 * np.sin(2 * np.pi * time)
    level = np.linspace(100, 500, len(time))
    grown = (level * swing).round(1)
    assert seen(tmp_path, "x", time=time, x=grown).reading.model == "positive"
    even = (level + 100 * swing).round(1)
    assert seen(tmp_path, "x", time=time, x=even).reading.model == "real"
    town = np.repeat([f"t{k}" for k in range(10)], 20)
    level = np.repeat(np.linspace(50, 200, 10), 20)
    grown = (level * RNG.normal(1, 0.1, 200)).round(2)  # which a column may explain
    assert seen(tmp_path, "x", town=town, x=grown).reading.kind == "real"


def test_many_classes_are_one_against_the_rest(tmp_path):
    kinds = np.append(np.repeat([f"k{k}" for k in range(30)], 6), ["k7"] * 9)
    found = seen(tmp_path, "kind", a=noise(189), kind=kinds)
    assert (found.reading.kind, found.reading.model) == ("classes", "binary")
    assert found.settings.positive == "k7"


def test_regions_named_east_and_north_are_no_place(tmp_path):
    east, north = RNG.integers(0, 2, (2, N))
    found = seen(tmp_path, "z", a=noise(), east=east, north=north, z=noise())
    assert found.settings.coordinates == ()


def test_names_made_of_numbers(tmp_path):
    """007 and 136A are names; numbers of teachers are not, though teachers have numbers."""
    family = np.repeat([f"{k:03d}" for k in range(1, 40)], 4)
    lettered = np.where(family == "012", "12A", np.char.lstrip(family, "0"))
    for names in (family, lettered):
        found = seen(tmp_path, "z", family=names, a=noise(156), z=noise(156))
        assert (found.settings.groups, found.problems) == (("family",), [])
    assert "family" not in found.settings.drop
    teachers = RNG.poisson(5, 100) + 2
    assert seen(tmp_path, "z", teacher=teachers, z=noise(100)).settings.groups == ()
    numbered = RNG.integers(1, 13, 100)
    assert seen(tmp_path, "z", teacher=numbered, z=noise(100)).settings.groups == ("teacher",)
    subject = np.tile(range(3, 13), 10)  # in a design
    assert seen(tmp_path, "z", subject=subject, z=noise(100)).settings.groups == ("subject",)


def test_the_last_word_of_a_name_says_whether_it_is_a_code(tmp_path):
    values = RNG.choice([51, 55, 60, 70], N)
    for name, category in (("StateOpinion", False), ("State", True), ("fregion", True)):
        found = seen(tmp_path, "z", **{name: values}, a=noise(), z=noise())
        assert (found.columns[name].kind == "category") == category


def test_a_number_of_failures_is_no_status_and_a_second_status_is_left_out(tmp_path):
    time = np.append(0, RNG.integers(0, 50, N - 1))
    ends = {f"{what} censor": RNG.integers(0, 2, N) for what in ("block", "drug")}
    found = seen(tmp_path, "onset", failures=RNG.integers(0, 3, N), **ends, a=noise(), onset=time)
    assert found.reading.kind == "survival"
    assert found.settings.drop == ("block censor", "drug censor")
    assert "drug censor: whole number, complete -> dropped: says how something" in found.text("x")


def test_numbers_from_1_on_that_are_measured_are_no_row_numbers(tmp_path):
    """An age, and x beside y; a case is a row number."""
    for name, target, kept in (("age", "z", True), ("x", "y", True), ("case", "z", False)):
        columns = {name: range(1, N + 1), "a": noise(), target: noise()}
        found = seen(tmp_path, target, **columns)
        assert (found.uses[name] == "input") == kept
    revenue = RNG.permutation(1000 + 3 * np.arange(N))
    assert "bcode" in seen(tmp_path, "z", bcode=revenue, a=noise(), z=noise()).dropped
    found = seen(tmp_path, "z", PatientRevenue=revenue, a=noise(), z=noise())
    assert found.dropped == {}
    person = RNG.permutation(np.append(np.arange(1, N), 7))  # one of them came twice
    assert "person" in seen(tmp_path, "z", person=person, a=noise(), z=noise()).dropped


def test_numbers_that_stand_for_names_are_groups(tmp_path):
    """Of states beside their names, of schools and towns by their own."""
    number = np.repeat(np.arange(3, 66, 3), 6)
    RNG.shuffle(number)
    state = [f"state {k}" for k in number]
    n = len(number)
    found = seen(tmp_path, "z", state=state, statenum=number, z=noise(n))
    assert set(found.settings.groups) == {"state", "statenum"}
    found = seen(tmp_path, "z", state=state, size=number, z=noise(n))
    assert found.settings.groups == ("state",)
    names = {
        "schidkn": True,
        "schools": False,
        "nr": True,
        "no": False,
        "townid": True,
        "GEOID": True,
        "acid": False,
    }
    for name, grouped in names.items():
        found = seen(tmp_path, "z", **{name: number}, a=noise(n), z=noise(n))
        assert (found.settings.groups == (name,)) == grouped


def test_numbers_of_families_and_cases_that_hardly_come_again(tmp_path):
    many = RNG.integers(1, 400, 500)  # most of them in one row or two
    for name, grouped in (("family", True), ("size", False)):
        found = seen(tmp_path, "z", **{name: many}, a=noise(500), z=noise(500))
        assert (found.settings.groups == (name,)) == grouped
    often = RNG.integers(10_000, 10_750, 500)  # nearly three quarters of them once
    assert len(set(often)) > 0.7 * len(often)
    for name, grouped in (("user_id", True), ("user_income", False)):
        found = seen(tmp_path, "z", **{name: often}, a=noise(500), z=noise(500))
        assert (found.settings.groups == (name,)) == grouped
    cases = np.cumsum(RNG.integers(1, 5, N))
    for name, use in (("case", "id"), ("score", "input")):
        found = seen(tmp_path, "z", **{name: cases}, a=noise(), z=noise())
        assert found.uses[name] == use


def test_levels_that_columns_of_0_and_1_mark_are_categories(tmp_path):
    income = RNG.integers(1, 5, N)
    marks = {f"in{k}": 1 * (income == k) for k in (1, 2, 3)}
    found = seen(tmp_path, "z", income=income, **marks, z=noise())
    assert found.settings.categorical == ("income",)
    marks["in2"][0] = 1 - marks["in2"][0]
    assert seen(tmp_path, "z", income=income, **marks, z=noise()).settings.categorical == ()


def test_few_blocks_are_categories_and_places_in_a_grid_are_neither(tmp_path):
    block, within = np.repeat(np.arange(1, 6), 12), np.tile(np.arange(1, 13), 5)
    found = seen(tmp_path, "z", expt=block, run=within, z=noise())
    assert (found.settings.groups, "expt" in found.settings.categorical) == ((), True)
    found = seen(tmp_path, "z", go=block, step=within, z=noise())
    assert (found.settings.groups, found.settings.categorical) == ((), ("go",))
    found = seen(tmp_path, "z", colpos=block, rowpos=within, z=noise())
    assert (found.settings.groups, found.settings.categorical) == ((), ())
    assert seen(tmp_path, "z", child5=block - 1, z=noise()).settings.categorical == ()
    assert seen(tmp_path, "z", LandCover=block, z=noise()).settings.categorical == ("LandCover",)
    found = seen(tmp_path, "z", exper=block, a=within, z=noise())
    assert found.settings.categorical == ("exper",)


def test_the_status_is_the_one_named_after_the_time(tmp_path):
    """Others that say the same are dropped; one in other codes is a column like any other."""
    time = RNG.integers(5, 400, N)
    ends = {f"{what}.stat": RNG.integers(0, 2, N) for what in ("aids", "death")}
    found = seen(tmp_path, "death.time", **ends, a=noise(), **{"death.time": time})
    assert (found.settings.event, found.settings.drop) == ("death.stat", ("aids.stat",))
    relapse, before = RNG.integers(0, 2, N), RNG.integers(1, 3, N)
    found = seen(tmp_path, "t2", remstat=before, relapse=relapse, a=noise(), t2=time)
    assert (found.reading.kind, found.settings.event) == ("survival", "relapse")
    assert found.settings.drop == ()
    found = seen(tmp_path, "t2", remstat=relapse + 1, relapse=relapse, a=noise(), t2=time)
    assert found.settings.drop == ("remstat",)


@pytest.mark.parametrize(
    ("target", "status", "named"),
    [
        ("srv", "srv.s", True),
        ("srv", "srvstat", True),
        ("srv", "relstat", False),
        ("rec", "rec_status", True),
        ("edrel", "rel", True),
        ("life", "dead", True),
        ("ageatdeath", "death", True),
        ("T", "E", True),
        ("t", "C", True),
        ("T", "e2", False),
        ("duration", "observed", True),
        ("speed", "observed", False),
        ("srv", "rec.s", False),
        ("price", "prices", False),
        ("speed", "d", False),
        ("relation", "rel", False),
        ("houseprice", "price", False),
        ("ndeaths", "death", False),
        ("deaths", "death", False),
    ],
)
def test_a_time_is_known_by_the_name_of_its_status(tmp_path, target, status, named):
    y = RNG.gamma(20.0, 3.0, N).round(1)
    found = seen(tmp_path, target, **{target: y, status: RNG.integers(0, 2, N)}, a=noise())
    assert (found.reading.kind == "survival") == named
    assert found.settings.event == (status if named else None)


def test_a_status_that_a_threshold_makes_is_none(tmp_path):
    """Overweight beside the index; those who had not ended when the study did are above one, too."""
    bmi = RNG.normal(25.0, 4.0, N).round(1)
    found = seen(tmp_path, "bmi", bmi=bmi, bmi_status=1 * (bmi >= 25), a=noise())
    assert (found.reading.kind, found.settings.event) == ("real", None)
    assert found.dropped == {"bmi_status": "cut from bmi"}
    stopped = np.minimum(bmi, 26.0)
    found = seen(tmp_path, "bmi", bmi=stopped, bmi_status=1 * (bmi < 26), a=noise())
    assert (found.reading.kind, found.settings.event) == ("survival", "bmi_status")


@pytest.mark.parametrize(
    ("target", "entry", "status", "later", "kind"),
    [
        ("age", "ageentry", "death", 300, "survival"),
        ("exit.age", "age.start", "death", 300, "survival"),
        ("exit", "entry", "fail", 300, "survival"),
        ("age", "ageentry", "smoker", 300, "real"),
        ("age", "age2", "death", 300, "real"),
        ("age", "weight_entry", "death", 300, "real"),
        ("age", "ageentry", "death", -300, "real"),
    ],
)  # fmt: skip
def test_a_time_is_known_by_the_entry_before_it(tmp_path, target, entry, status, later, kind):
    begin = RNG.integers(400, 500, N)
    end = begin + later + RNG.integers(-90, 90, N)
    ended = RNG.integers(0, 2, N)
    found = seen(tmp_path, target, a=noise(), **{entry: begin, target: end, status: ended})
    assert found.reading.kind == kind
    assert found.uses[entry] == "input"


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("bac", RNG.uniform(0.01, 0.19, N).round(3), "real"),
        ("rate", RNG.uniform(0.01, 0.19, N).round(3), "share"),
        ("price.stb", RNG.uniform(0.2, 0.7, N).round(2), "real"),
        ("tsales", RNG.negative_binomial(1, 0.001, N) + 101, "positive"),
        ("value", [0, *np.exp(RNG.normal(9, 2, N - 1)).round(0)], "positive"),
        ("import", [0, 2 * 10**7, *np.exp(RNG.normal(9, 2, N - 2)).round(0)], "positive"),
        ("visitors", [0, 2 * 10**7, *np.exp(RNG.normal(9, 2, N - 2)).round(0)], "counts"),
        ("value", RNG.integers(0, 50, N), "real"),
        ("perctakers", RNG.integers(0, 90, N), "real"),
        ("takers", RNG.integers(0, 90, N), "counts"),
        ("seizure.rate", RNG.integers(0, 90, N), "counts"),
        ("verbal_sat", RNG.integers(420, 600, N), "real"),
        ("brainwt", np.linspace(0.2, 0.5, N).round(3), "real"),
        ("brain", np.linspace(0.2, 0.5, N).round(3), "share"),
        ("lowincome", np.linspace(0.2, 0.5, N).round(3), "share"),
        ("hincome", np.arange(N), "real"),
        ("tenure", np.arange(N), "real"),
        ("tenants", np.arange(N), "counts"),
        ("gdp", 500 + 100 * np.arange(N) + np.arange(N) ** 2, "positive"),
        ("bedrooms", np.arange(N) % 5 + 1, "counts"),
        ("answer", np.arange(N) % 5 + 1, "grades"),
        ("Top10perc", 1 + np.arange(N) ** 2 // 40, "real"),
        ("Top10", 1 + np.arange(N) ** 2 // 40, "counts"),
    ],
)
def test_low_numbers_large_amounts_and_percents(tmp_path, name, values, kind):
    assert seen(tmp_path, name, a=noise(), b=noise(), **{name: values}).reading.kind == kind


def test_numbers_that_stand_for_no_value_alone_below_0(tmp_path):
    hours = np.where(np.arange(N) % 9 == 0, -99, RNG.integers(0, 169, N))
    assert "-99" in seen(tmp_path, "z", hours=hours, z=noise()).settings.missing
    hours[1] = -50
    assert "-99" not in seen(tmp_path, "z", hours=hours, z=noise()).settings.missing


def test_dates_with_gaps_and_dates_of_six_digits(tmp_path):
    days = [f"{1 + i % 12}/{13 + i % 15}/{2005 + i % 3}" for i in range(N)]
    found = seen(tmp_path, "z", seen=[".", *days[1:]], a=noise(), z=noise())
    assert (found.columns["seen"].kind, found.columns["seen"].n_missing) == ("date", 1)
    short = [f"8{i % 7}{1 + i % 12:02d}{1 + i % 28:02d}" for i in range(N)]
    for name, kind in (("date", "date"), ("price", "whole")):
        assert seen(tmp_path, "z", **{name: short}, z=noise()).columns[name].kind == kind


def test_a_family_of_1_is_a_number_of_people_in_a_large_file(tmp_path):
    """Where few are large; families of much the same size are groups."""
    n = 2000
    for sizes, grouped in (
        (np.minimum(RNG.geometric(0.4, n), 13), ()),
        (RNG.integers(1, 14, n), ("family",)),
    ):
        assert seen(tmp_path, "z", family=sizes, z=noise(n)).settings.groups == grouped


def test_row_names_that_begin_with_a_subject(tmp_path):
    """As R leaves them of a long table, where 1.10 is 1.1 as a number; not doses, or other wholes."""
    subject, occasion = np.repeat(np.arange(1, 9), 11), np.tile(np.arange(1, 12), 8)
    names = [f"{s}.{k}" for s, k in zip(subject, occasion, strict=True)]
    others = {"id": subject, "z": noise(88)}
    for name, drop in (("", True), ("rownames", True), ("dose", False)):
        found = seen(tmp_path, "z", **{name: names}, **others)
        assert ("row names" in found.dropped.values()) == drop
    mixed = {"id": subject[::-1], "z": noise(88)}
    assert seen(tmp_path, "z", **{"": names}, **mixed).dropped == {}


def test_a_table_of_classes_by_themselves_has_no_groups(tmp_path):
    """Each pair of the same levels stands once; 8 plants at 9 places, or at times, are plants."""
    rows = np.repeat(np.arange(1, 9), 8)
    found = seen(tmp_path, "z", son=rows, father=np.tile(np.arange(1, 9), 8), z=noise(64))
    assert found.settings.groups == found.settings.categorical == ()
    found = seen(tmp_path, "z", son=rows, time=np.tile(np.arange(1, 9), 8), z=noise(64))
    assert found.settings.groups == ("son",)
    rows = np.repeat(np.arange(1, 9), 9)
    found = seen(tmp_path, "z", son=rows, father=np.tile(np.arange(1, 10), 8), z=noise(72))
    assert found.settings.groups == ("son",)


def test_more_than_two_states_of_a_marriage_are_categories(tmp_path):
    """Not years of it, nor whether there is one."""
    values = RNG.integers(1, 7, N)
    for name, category in (("married", True), ("marstat", True), ("yearsmarried", False)):
        found = seen(tmp_path, "z", **{name: values}, a=noise(), z=noise())
        assert (found.settings.categorical == (name,)) == category
    found = seen(tmp_path, "z", married=values % 2, a=noise(), z=noise())
    assert found.settings.categorical == ()


def test_codes_are_groups_however_many_there_are(tmp_path):
    many = np.tile(np.arange(1010, 7010, 10), 3)
    RNG.shuffle(many)
    for name, groups in (("dcode", ("dcode",)), ("tract", ("tract",)), ("income", ())):
        found = seen(tmp_path, "z", **{name: many}, a=noise(1800), z=noise(1800))
        assert found.settings.groups == groups


def test_row_names_without_a_name_beside_an_index(tmp_path):
    """As write.csv leaves them, of a table that has a column index itself."""
    index = RNG.integers(1, 50, N)
    found = seen(tmp_path, "z", **{"": range(1, N + 1), "index": index}, z=noise())
    assert found.uses == {"Unnamed: 0": "id", "index": "input", "z": "target"}


def test_who_is_seen_when_makes_no_season(tmp_path):
    """People with high values come every fourth day; of people unknown it is a season."""
    day = np.repeat(np.arange(80), 2)
    high = (day % 4 == 1) & (np.arange(160) % 2 == 1)
    value = np.where(high, 9.0, 0.0) + RNG.normal(0, 0.3, 160)
    pid = 40 * high + RNG.integers(1, 30, 160)
    assert seen(tmp_path, "value", pid=pid, day=day, value=value.round(3)).season is None
    assert seen(tmp_path, "value", day=day, value=value.round(3)).season[1].period == 4.0


def test_counts_are_offered_only_where_none_is_below_0(tmp_path):
    for low, offered in ((-5, False), (3, True)):
        text = seen(tmp_path, "mark", a=noise(), mark=RNG.integers(low, 90, N)).text("own")
        assert ("any number; or counts" in text) == offered


@pytest.mark.parametrize(
    ("unit", "form", "slack"),
    [(1.0, "%Y-%m-%d", 0.4), (7.0, "%d.%m.%Y", 0.4), (365.25, "%Y-%m", 0.0)],
)
def test_a_date_that_is_another_and_the_outcome_later_is_dropped(tmp_path, unit, form, slack):
    """In days, weeks, or years by months; a date that is not, and the one of the start, stay."""
    start = pd.Timestamp("1990-01-01") + pd.to_timedelta(RNG.integers(0, 900, N), unit="D")
    stay = RNG.integers(40, 2000, N)
    later = start + pd.to_timedelta(RNG.integers(1, 2000, N), unit="D")
    dates = {
        "admitted": start.strftime(form),
        "year_month_of_last_observation": (start + pd.to_timedelta(stay, unit="D")).strftime(form),
        "moved": later.strftime(form),
    }
    y = (stay + RNG.uniform(-slack, slack, N)) / unit
    found = seen(tmp_path, "stay", **dates, a=noise(), stay=y.round(4))
    assert found.settings.drop == ("year_month_of_last_observation",)
    assert "admitted and stay later" in found.summary()


def test_the_outcome_with_marks_and_numbers_that_begin_again_are_dropped(tmp_path):
    """<0.006 is the outcome below a limit; other marked numbers stay. no. runs anew in each arm."""
    y = RNG.choice(np.linspace(0.006, 0.25, 25), N)
    marked = [f"<{v:.4f}" if v < 0.05 else f"{v:.4f}" for v in y]
    other = [f"<{v:.4f}" if v < 0.05 else f"{v:.4f}" for v in RNG.permutation(y)]
    numbered = [*range(1, N // 2 + 1)] * 2
    values = {"a": noise(), "as_read": marked, "lead_as_read": other, "no.": numbered}
    found = seen(tmp_path, "ammonia", **values, dose=numbered, ammonia=[f"{v:.4f}" for v in y])
    assert set(found.settings.drop) == {"as_read", "no."}
    assert "ammonia with marks" in found.summary()


def test_places_named_by_what_they_are_the_centre_of(tmp_path):
    rng = np.random.default_rng(8)
    lon, lat = rng.uniform(-73.8, -73.5, N).round(4), rng.uniform(45.4, 45.6, N).round(4)
    found = seen(tmp_path, "cars", centroid_lat=lat, centroid_lon=lon, cars=noise())
    assert found.settings.coordinates == ("centroid_lon", "centroid_lat")
    far = {"X_CENTROID": rng.uniform(-400, 400, N), "Y_CENTROID": rng.uniform(-300, 300, N)}
    assert seen(tmp_path, "cars", **far, cars=noise()).settings.coordinates == tuple(far)


def test_subjects_may_be_numbered_from_0(tmp_path):
    """As many rows each; a number of fish is often 0 and never 7 without a 6."""
    rng = np.random.default_rng(9)
    columns = {"subject": [*range(10)] * 6, "month": np.repeat(range(6), 10), "score": noise()}
    assert seen(tmp_path, "score", **columns).settings.groups == ("subject",)
    columns["subject"] = rng.poisson(3, N)
    assert seen(tmp_path, "score", **columns).settings.groups == ()


def test_neighbourhoods_of_which_most_stand_in_one_row_are_groups(tmp_path):
    names = [f"{'abcdefghij'[k // 10]}{'klmnopqrst'[k % 10]}wood" for k in range(36)]
    column = [*names, *names[: N - 36]]
    found = seen(tmp_path, "y", neighborhood=column, a=noise(), y=noise())
    assert found.settings.groups == ("neighborhood",)
    assert seen(tmp_path, "y", remark=column, a=noise(), y=noise()).settings.groups == ()


def test_lines_of_an_order_are_numbers_and_plots_of_a_site_are_groups(tmp_path):
    lengths = [30, 12, 27, 8, 30, 21, 25, 14]
    lines = [line for n in lengths for line in range(1, n + 1)]
    columns = {"order_id": np.repeat(range(11, 19), lengths), "y": noise(len(lines))}
    for name, groups in (("order_line", set()), ("plot", {"plot"})):
        found = seen(tmp_path, "y", **{name: lines}, **columns)
        assert set(found.settings.groups) - {"order_id"} == groups


@pytest.mark.parametrize(
    ("name", "levels", "codes"),
    [("weekday", range(7), True), ("season", range(1, 5), True), ("season", range(4), True),
     ("season", range(1, 4), False), ("dow", range(1, 6), False), ("month", range(1, 13), True),
     ("month", range(3, 10), False)],
)  # fmt: skip
def test_a_whole_cycle_is_of_categories_and_a_part_of_numbers(tmp_path, name, levels, codes):
    column = np.random.default_rng(1).permutation(np.resize(list(levels), 2 * N))
    found = seen(tmp_path, "y", **{name: column}, a=noise(2 * N), y=noise(2 * N))
    assert found.settings.categorical == ((name,) if codes else ())


def test_counts_expected_are_known_by_their_sum_and_a_share_of_people_is_no_effort(tmp_path):
    rng = np.random.default_rng(12)
    expected = np.exp(rng.normal(3.5, 0.7, N)).round(2)
    deaths = rng.poisson(expected)
    expected = (expected * deaths.sum() / expected.sum()).round(2)
    share = rng.uniform(0.04, 0.25, N).round(3)
    columns = {"POP65": share, "e64": expected, "deaths": deaths}
    assert seen(tmp_path, "deaths", **columns).settings.exposure == "e64"
    columns["POP65"] = (1000 * share).astype(int)
    assert seen(tmp_path, "deaths", **columns).settings.exposure == "POP65"
    steeper = expected**1.4  # twice of it is not twice the count
    columns = {"bill": (steeper * deaths.sum() / steeper.sum()).round(2), "deaths": deaths}
    assert seen(tmp_path, "deaths", **columns).settings.exposure is None


def test_whole_numbers_called_cnt_are_counts(tmp_path):
    rentals = np.random.default_rng(2).normal(4500, 1900, N).round().clip(22).astype(int)
    assert seen(tmp_path, "cnt", a=noise(), cnt=rentals).reading.kind == "counts"


@pytest.mark.parametrize(
    ("name", "dropped"),
    [("y_pred", True), ("predicted_price", True), ("residuals", True), ("y_hat", True),
     ("pred", False), ("residual sugar", False), ("predicted_demand", False)],
)  # fmt: skip
def test_predictions_of_a_model_are_dropped(tmp_path, name, dropped):
    """Not what is predicted of something else, nor a predator."""
    found = seen(tmp_path, "price", **{name: noise()}, a=noise(), price=noise())
    assert found.dropped == ({name: "what a model predicted"} if dropped else {})


@pytest.mark.parametrize(
    ("name", "values", "dropped"),
    [("train", ("TRUE", "FALSE"), True), ("is_train", ("False", "True"), True),
     ("split", ("train", "test"), True), ("dataset", ("Training", "Validation", "Holdout"), True),
     ("train", (0, 1), False), ("test", ("TRUE", "FALSE"), False), ("split", ("left", "right"), False)],
)  # fmt: skip
def test_rows_to_learn_from_are_marked_by_a_column_that_is_no_input(
    tmp_path, name, values, dropped
):
    """A training on the job is 0 or 1, and a test has a result."""
    column = np.random.default_rng(4).permutation(np.resize(list(values), N))
    found = seen(tmp_path, "y", **{name: column}, a=noise(), y=noise())
    assert (name in found.dropped) == dropped


def test_a_target_is_found_with_the_blanks_that_its_header_has(tmp_path):
    found = seen(tmp_path, "TOTAL  VALUE ", **{"TOTAL  VALUE ": noise(), " a": noise()})
    assert found.target.name == "TOTAL VALUE"
    assert "a" in found.columns


def test_places_are_the_numbers_in_points_as_geographic_programs_write_them(tmp_path):
    x, y = np.random.default_rng(6).uniform(1, 900, (2, N)).round(2)
    points = [f"POINT ({a} {b})" for a, b in zip(x, y, strict=True)]
    columns = {"Y": y, "X": x, "income": noise(), "trips": noise()}
    found = seen(tmp_path, "trips", geometry=points, **columns)
    assert found.settings.coordinates == ("X", "Y")
    assert "geometry" not in found.settings.groups
    assert seen(tmp_path, "trips", **columns).settings.coordinates == ()
    for other in ("POINT (1 2)", "POINT (-- e)"):
        points[3] = other
        assert seen(tmp_path, "trips", geometry=points, **columns).settings.coordinates == ()


def test_alternatives_of_choices_are_categories_and_the_choices_groups(tmp_path):
    """Altitudes and numbers of options stay numbers."""
    chosen = np.eye(3, dtype=int)[np.random.default_rng(7).integers(0, 3, N)].ravel()
    columns = {"chid": np.repeat(range(1, N + 1), 3), "price": noise(3 * N), "choice": chosen}
    for name, alternatives, code in (
        ("alt", [1, 2, 3], True), ("alternative", [1, 2, 3], True), ("alt", [100, 300, 900], False),
        ("options", [2, 4, 3], False),
    ):  # fmt: skip
        found = seen(tmp_path, "choice", **{name: np.resize(alternatives, 3 * N)}, **columns)
        assert found.settings.categorical == ((name,) if code else ())
        assert found.settings.groups == ("chid",)


def test_numbers_of_persons_may_begin_anywhere_and_zones_of_traffic_are_groups(tmp_path):
    zones = np.random.default_rng(8).integers(1, 25, 4 * N)
    found = seen(tmp_path, "y", PERSONID=range(6000, 6000 + 4 * N), HOMETAZ=zones, y=noise(4 * N))
    assert set(found.dropped) == {"PERSONID"}
    assert found.settings.groups == ("HOMETAZ",)


@pytest.mark.parametrize(
    ("name", "code"),
    [("SUR_COND", True), ("cond", True), ("cond_national", False), ("second", False)],
)
def test_conditions_are_categories_where_a_name_ends_so(tmp_path, name, code):
    column = np.random.default_rng(9).permutation(np.resize([1, 2, 3, 4, 9], 2 * N))
    found = seen(tmp_path, "y", **{name: column}, a=noise(2 * N), y=noise(2 * N))
    assert found.settings.categorical == ((name,) if code else ())


def test_temperatures_are_not_amounts_however_skewed(tmp_path):
    values = np.exp(np.random.default_rng(10).normal(3, 0.8, N)).round(1)
    for name, kind in (("Max_Temp", "real"), ("tmax", "real"), ("ozone", "positive")):
        assert seen(tmp_path, name, **{name: values}, a=noise()).reading.kind == kind


def test_an_outcome_of_0_and_1_beside_a_time_says_whether_it_ended(tmp_path):
    rng = np.random.default_rng(11)
    time = rng.exponential(300.0, N).astype(int) + 1
    for outcome, kind in ((rng.integers(0, 2, N), "survival"), (rng.integers(0, 3, N), "positive")):
        found = seen(tmp_path, "time", dose=noise(), outcome=outcome, time=time)
        assert found.reading.kind == kind
        assert found.settings.event == ("outcome" if kind == "survival" else None)
