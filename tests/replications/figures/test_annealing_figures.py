from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_hex
from scipy.special import logsumexp

from gpmcflow.replications.rmhmc_ais.figures import (
    acceptance_and_step_size,
    effective_size_by_temperature,
    log_weights,
)


def upright(axes):
    """Places of vertical lines, solid (log mean weight) first."""
    lines = [line for line in axes.lines if len(set(line.get_xdata())) == 1]
    return [
        line.get_xdata()[0] for line in sorted(lines, key=lambda line: line.get_linestyle() != "-")
    ]


def test_log_weights_have_a_panel_per_ladder_with_estimate_and_bound(evidence_tree):
    figure = log_weights(evidence_tree, "digits-hard")
    titles = [axes.get_title() for axes in figure.axes]
    assert [title.split(":")[0] for title in titles] == [
        "10 temperatures",
        "30 temperatures",
        "30 temperatures, reverse",
        "100 temperatures",
    ]
    weights = evidence_tree["annealing_t0010"]["log_weight_increment"].sum("temperature").values
    expected = [logsumexp(weights) - np.log(weights.size), weights.mean()]
    np.testing.assert_allclose(upright(figure.axes[0]), expected)
    backward = evidence_tree["annealing_t0030_reverse"]["log_weight_increment"].sum("temperature")
    expected = np.log(backward.size) - logsumexp(-backward.values)
    assert upright(figure.axes[2])[0] == pytest.approx(expected)
    assert [axes.get_xlabel() for axes in figure.axes][2:] == 2 * ["final log weight (nats)"]
    assert len(figure.legends[0].get_texts()) == 4


def test_log_weights_show_all_particles_and_all_weight(evidence_tree):
    axes = log_weights(evidence_tree, "").axes[0]
    bars = [patch.get_height() for patch in axes.patches if hasattr(patch, "get_height")]
    assert sum(bars) == pytest.approx(1.0)
    outline = next(patch for patch in axes.patches if not hasattr(patch, "get_height"))
    assert outline.get_path().vertices[1:-1:2, 1].sum() == pytest.approx(1.0)


def test_effective_size_of_the_longest_forward_ladder(evidence_tree):
    figure = effective_size_by_temperature({"split_hmc_ep": evidence_tree}, "", ["split_hmc_ep"])
    left, right = figure.axes
    assert left.get_ylabel() == "effective size / particles"
    assert right.get_xlabel() == "inverse temperature β"
    (line,) = left.lines
    assert len(line.get_xdata()) == 100
    increments = evidence_tree["annealing_t0100"]["log_weight_increment"].values
    weights = np.exp(np.cumsum(increments, axis=-1) + 105.0)
    sizes = weights.sum(1) ** 2 / (weights**2).sum(1) / 64
    np.testing.assert_allclose(line.get_ydata(), sizes.mean(0))
    np.testing.assert_allclose(right.lines[0].get_xdata()[-1], 1.0)


def test_a_collapse_is_shown_on_a_log_scale_with_the_limit(evidence_tree, prior_tree):
    trees = {"split_hmc_ep": evidence_tree, "hmc_prior": prior_tree}
    figure = effective_size_by_temperature(trees, "", list(trees))
    left, right = figure.axes
    assert left.get_yscale() == "log"
    assert right.get_xscale() == "log"
    assert len(left.lines) == 3  # two methods and the limit
    assert left.lines[-1].get_ydata()[0] == pytest.approx(10 / 64)
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["split_hmc_ep (100 temperatures)", "hmc_prior (50 temperatures)"]
    colours = {to_hex(line.get_color()) for line in left.lines[:2]}
    assert len(colours) == len({line.get_marker() for line in left.lines[:2]}) == 2


def test_acceptance_and_step_size_leave_out_the_last_temperature(evidence_tree):
    left, right = acceptance_and_step_size(
        {"split_hmc_ep": evidence_tree}, "", ["split_hmc_ep"]
    ).axes
    rate = evidence_tree["annealing_t0100"]["acceptance_rate"].mean(["replicate", "chain"])
    np.testing.assert_allclose(left.lines[0].get_ydata(), rate.values[:-1])
    group = evidence_tree["annealing_t0100"]
    np.testing.assert_allclose(right.lines[0].get_xdata(), group["beta"].values[:-1])
    np.testing.assert_allclose(right.lines[0].get_ydata(), group["step_size"].values[:-1])
    assert (left.get_ylabel(), right.get_ylabel()) == ("mean acceptance rate", "step size")
