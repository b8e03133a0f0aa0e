"""The table beside other packages, and what README and site say of it, come from the committed rows."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def module():
    folder = str(ROOT / "benchmarks")
    sys.path.insert(0, folder)
    yield importlib.import_module("peers.table")
    sys.path.remove(folder)


@pytest.fixture
def rows(module):
    return module.read()


def test_ratios_are_those_of_the_rates(rows):
    """Of rates ours over theirs; of seconds theirs over ours."""
    own = rows[rows["ratio"].notna()]
    slower_is_less = own["unit"].str.startswith("seconds")
    for value, ratio in (("value", "ratio"), ("all", "ratio_all")):
        quotient = own[f"ours_{value}"] / own[f"peer_{value}"]
        quotient = quotient.where(~slower_is_less, 1.0 / quotient)
        np.testing.assert_allclose(own[ratio], quotient, rtol=1e-3)


def test_verdicts_are_those_of_ratios_and_goals(rows, module):
    compared = ~rows["reached"].isin(module.UNCOMPARED)
    own = rows[rows["goal"].notna() & rows["job"].lt(6) & compared]
    assert (own["reached"] == np.where(own["ratio"] >= own["goal"], "yes", "no")).all()
    assert (rows[rows["goal"].isna()]["reached"] == "shown").all()
    still = (rows["job"] > 1) & rows["peer_draws"].lt(10.0) & (rows["reached"] != "means differ")
    assert (rows["reached"] == "the peer did not mix").equals(still)
    missed = rows[(rows["reached"] == "no") | rows["ratio"].lt(1.0)]
    # a reason, more than the share of the goal
    reasons = missed["why"].str.replace(r"^\d+% of the goal(; )?", "", regex=True)
    assert (reasons != "").all(), missed[["problem", "quantity"]]


@pytest.mark.parametrize(
    ("ratio", "goal", "apart", "draws", "expected"),
    [
        (30.0, 20.0, 1.0, 500.0, "yes"),
        (10.0, 20.0, 1.0, 500.0, "no"),
        (10.0, np.nan, 1.0, 500.0, "shown"),
        (30.0, 20.0, 4.1, 500.0, "means differ"),
        (30.0, 20.0, 1.0, 9.9, "the peer did not mix"),
        (30.0, np.nan, 1.0, 3.0, "the peer did not mix"),
        (30.0, 20.0, 4.1, 3.0, "means differ"),
    ],
)
def test_a_ratio_counts_where_means_agree_and_the_peer_mixed(
    module, ratio, goal, apart, draws, expected
):
    verdict = importlib.import_module("peers.common").verdict
    assert verdict(ratio, goal, apart, draws) == expected


def test_means_agree_or_a_side_is_named(rows, module):
    apart = rows[rows["gap"] > 4.0]  # joint standard errors
    assert (apart["not_converged"] != "").all()
    assert (apart["reached"] == "means differ").all()
    assert (rows.drop(apart.index)["not_converged"] == "").all()


def test_each_row_is_there_once_with_its_versions_and_date(rows):
    key = ["job", "problem", "quantity", "ours", "peer"]
    assert not rows.duplicated(key).any()
    assert (
        rows[["version", "settings", "machine", "versions", "search_seconds"]]
        .notna()
        .all(axis=None)
    )
    assert pd.to_datetime(rows["date"]).notna().all()


def test_the_readme_says_what_the_rows_say(rows, module):
    assert module.summary(rows) in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_of_the_site_has_every_row(rows, module):
    table = module.table(rows)
    assert len(table) == len(rows)
    for shown, (_, row) in zip(table["ratio"], rows.iterrows(), strict=True):
        compared = row["reached"] not in module.UNCOMPARED  # else there is no ratio of speeds
        assert shown.split(" ")[0] == (module.number(row["ratio"]) if compared else "-")


def test_the_picture_has_a_point_for_each_ratio(rows, module):
    axes = module.picture(rows).axes[0]
    shown = module.compared(rows)
    points = {
        round(float(x), 6)
        for line in axes.lines
        if line.get_marker() == "o"
        for x in line.get_xdata()
    }
    assert points == set(shown["ratio"].round(6)) | set(shown["ratio_all"].round(6))
    assert len(axes.get_yticks()) == len(shown.drop_duplicates(["job", "problem", "peer"]))


def test_second_runs_are_of_rows_of_the_table_and_their_factor_is_of_the_two_ratios(rows, module):
    again = pd.read_csv(module.AGAIN)
    both = rows.merge(again, on=module.KEY, suffixes=("", "_again"))
    assert len(both) == len(again)
    of_seeds = both.query("job == 6 and ratio.isna()")  # scores of the same splits
    assert len(of_seeds) == 14
    for side in ("ours_value", "peer_value"):
        np.testing.assert_allclose(of_seeds[side], of_seeds[f"{side}_again"], rtol=1e-4)
    again = again.dropna(subset="ratio")
    shown = module.repeats(rows, again)
    assert len(shown) == len(again)
    first = rows.merge(again[module.KEY])["ratio"].to_numpy()
    second = rows[module.KEY].merge(again)["ratio"].to_numpy()
    larger = np.maximum(first, second) / np.minimum(first, second)
    np.testing.assert_allclose(shown["factor"].astype(float), larger, atol=0.005)
