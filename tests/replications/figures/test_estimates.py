from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.errors import InputError
from gpmcflow.replications.figures.estimates import best_rows, combine_replicates, focus


def one_group(evidence, method="split_hmc_ep", n_temperatures=100, problem="digits-hard"):
    same = (evidence["method"] == method) & (evidence["n_temperatures"] == n_temperatures)
    return evidence[same & (evidence["problem"] == problem)].copy()


def test_replicates_are_averaged_on_the_scale_of_the_evidence(evidence):
    rows = one_group(evidence)
    rows["log_evidence"], rows["standard_error"] = (
        [-2000.0, -2000.0 + np.log(3), -np.inf],
        [0.1, 0.2, 0],
    )
    point = combine_replicates(rows).iloc[0]
    assert point["log_evidence"] == pytest.approx(-2000.0 + np.log(4 / 3))
    assert point["standard_error"] == pytest.approx(np.hypot(0.1 * 0.25, 0.2 * 0.75))


def test_errors_of_few_replicates_have_wide_intervals(evidence):
    """Three errors of 7 degrees of freedom each, alike: 21 of their mean (Welch and Satterthwaite)."""
    rows = one_group(evidence).assign(log_evidence=-9.0, standard_error=0.3)
    point = combine_replicates(rows).iloc[0]
    assert point["interval"] == pytest.approx(1.95996 * 0.3 / np.sqrt(3), rel=1e-5)
    point = combine_replicates(rows.assign(degrees_of_freedom=[7.0, 7.0, 7.0])).iloc[0]
    assert point["interval"] == pytest.approx(2.07961 * 0.3 / np.sqrt(3), rel=1e-5)
    point = combine_replicates(rows.assign(degrees_of_freedom=[7.0, np.nan, np.inf])).iloc[0]
    assert point["interval"] == pytest.approx(1.99824 * 0.3 / np.sqrt(3), rel=1e-4)  # 63


def test_reverse_runs_average_the_inverse_evidence(evidence):
    rows = one_group(evidence).assign(direction="reverse", log_evidence=[0.0, 0.0, np.log(2)])
    point = combine_replicates(rows).iloc[0]
    assert point["log_evidence"] == pytest.approx(-np.log((1 + 1 + 0.5) / 3))


def test_the_pilot_is_paid_once(evidence):
    point = combine_replicates(one_group(evidence)).iloc[0]
    assert point["seconds"] == pytest.approx(3 * 0.2 * 100 + 2.5)
    assert point["n_gradient"] == 3 * 128 * 12 * 100 + 20000


def test_the_alarm_of_the_worst_replicate_is_kept(evidence):
    rows = one_group(evidence).assign(alarm=["", "bad", "worse"], effective_size=[50.0, 9.0, 2.0])
    assert combine_replicates(rows).iloc[0]["alarm"] == "worse (in 2 of 3 replicates)"
    rows["alarm"] = np.nan  # as an empty cell is read from CSV
    assert combine_replicates(rows).iloc[0]["alarm"] == ""


def test_an_estimate_without_a_time_has_none(evidence):
    rows = one_group(evidence).assign(seconds=np.nan, pilot_seconds=np.nan)
    assert np.isnan(combine_replicates(rows).iloc[0]["seconds"])


def test_best_row_is_the_most_precise_without_an_alarm(evidence):
    rows = evidence[evidence["method"].isin(["hmc_ep", "hmc_prior"])].copy()
    alarmed = (rows["method"] == "hmc_ep") & (rows["n_temperatures"] == 100)
    rows.loc[alarmed, "alarm"] = "largest weight 0.6 > 0.5"
    best = best_rows(combine_replicates(rows)).set_index(["problem", "method"])
    assert best.loc[("digits-hard", "hmc_ep"), "n_temperatures"] == 30
    assert best.loc[("digits-hard", "hmc_prior"), "n_temperatures"] == 100
    assert len(best) == 3


def test_focus_keeps_lines_and_trusted_points_and_leaves_out_the_rest(evidence):
    points = combine_replicates(evidence[evidence["problem"] == "digits-hard"])
    low, high = focus(points, [-106.0892, -105.8158, np.nan])
    assert low < -106.0892
    assert high > -105.8158
    assert high - low < 2.0
    trusted = points[points["alarm"] == ""]
    assert trusted["log_evidence"].between(low, high).all()
    assert not points[points["alarm"] != ""]["log_evidence"].between(low, high).any()


def test_focus_without_trusted_points_shows_the_lines(evidence):
    points = combine_replicates(evidence[evidence["method"] == "hmc_prior"])
    low, high = focus(points, [-106.0892, -105.8158])
    assert low < -106.0892 < -105.8158 < high < -100.0


def test_a_missing_column_is_named(evidence):
    with pytest.raises(InputError, match="'standard_error'"):
        combine_replicates(evidence.drop(columns="standard_error"))
