from __future__ import annotations

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

from gpmcflow.replications.figures.style import looks
from gpmcflow.replications.rmhmc_ais.figures import _labels, _span, evidence_against_time
from gpmcflow.storage import write_figure

ALARMED = ("hmc_prior", "hmc_prior_mode")
MARKERS = {look.marker for look in looks([str(k) for k in range(11)]).values()}


@pytest.fixture
def figure(evidence, approximations):
    return evidence_against_time(evidence, approximations, "digits-hard", [])


def markers(axes, hollow):
    """Number of hollow, or filled, marks inside the axes, without the dots of the replicates."""
    found = 0
    for line in axes.lines:
        if line.get_marker() in MARKERS and line.get_linestyle() == "None":
            low, high = axes.get_ylim()
            inside = sum(low <= value <= high for value in line.get_ydata())
            found += inside * ((to_hex(line.get_markerfacecolor()) == "#ffffff") == hollow)
    return found


def texts(figure):
    return [t.get_text() for axes in figure.axes for t in axes.texts]


def labels(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_axes_are_labelled_with_units(figure):
    main = figure.axes[:2]
    assert main[0].get_ylabel() == "log evidence (nats)"
    below = [axes.get_xlabel() for axes in figure.axes]
    assert "compute time (seconds)" in below
    assert any(label.startswith("floating-point operations") for label in below)
    assert all(axes.get_xscale() == "log" for axes in main)
    assert figure.get_figwidth() == 7.0
    assert figure.dpi == 150


def test_trusted_points_are_filled_inside_and_alarms_hollow_outside(figure):
    main, strips = figure.axes[:2], figure.axes[2:]
    assert len(strips) == 2
    for axes in main:
        assert markers(axes, False) == 4 * 3 + 1
    for strip in strips:
        assert markers(strip, True) == 2 * 3
        assert markers(strip, False) == 0


def test_an_alarm_inside_the_range_is_hollow(evidence, approximations):
    first = (evidence["method"] == "hmc_ep") & (evidence["n_temperatures"] == 10)
    evidence.loc[first, "alarm"] = "largest weight 0.6 > 0.5"
    figure = evidence_against_time(evidence, approximations, "digits-hard", [])
    assert markers(figure.axes[0], True) == 1
    assert markers(figure.axes[0], False) == 4 * 3


def test_points_off_the_scale_stand_beyond_the_edge_with_their_values(figure, evidence):
    rows = evidence[evidence["method"].isin(ALARMED)].groupby(["method", "n_temperatures"])
    means = rows["log_evidence"].agg(lambda v: np.log(np.mean(np.exp(v - v.max()))) + v.max())
    expected = sorted(f"{value:.1f}".replace("-", "−") for value in means)
    assert sorted(texts(figure)) == sorted(2 * expected)
    assert [axes.get_ylabel() for axes in figure.axes].count("off scale ↓") == 1


@pytest.mark.parametrize("factor", [1.0, 1.02, 1.2, 1.5, 3.0])
def test_values_off_the_scale_do_not_lie_on_each_other(evidence, approximations, factor):
    """Points of nearly equal cost share a label, from their lowest to their highest value."""
    rows = evidence["method"] == "hmc_prior"
    place = evidence.loc[rows, "n_temperatures"].rank(method="dense")
    for column in ("seconds", "gigaflops"):
        evidence.loc[rows, column] = 50.0 * factor**place
    evidence.loc[rows, "log_evidence"] = -200.0 - place
    figure = evidence_against_time(evidence, approximations, "digits-hard", [])
    figure.canvas.draw()
    for axes in figure.axes:
        boxes = [text.get_window_extent() for text in axes.texts]
        assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])
    written = " ".join(texts(figure)).replace("−", "-").split()
    assert {"-201.0", "-203.0"} <= set(written)


def test_labels_of_a_lane_stand_beside_each_other():
    """Seven points as of long ladders, and many more: what fits below and above in turn, all told."""
    rng = np.random.default_rng(3)
    for n in (1, 2, 3, 7, 7, 7, 20):
        places = np.sort(rng.uniform(0.0, 1.0, n))
        labels = _labels(places)
        assert [k for _, group in labels for k in group] == list(range(n))
        for height in (-11, 5):
            spans = [_span(places[group]) for at, group in labels if at == height]
            assert all(left[1] <= right[0] for left, right in itertools.pairwise(spans))
    assert len(_labels(np.array([0.1, 0.4, 0.6, 0.9]))) == 4
    crowded = _labels(np.array([0.1, 0.5, 0.51, 0.52, 0.9]))
    assert [len(group) for _, group in crowded] == [1, 1, 2, 1]


def test_points_above_the_range_stand_above(evidence, approximations):
    rows = evidence["method"] == "hmc_prior"
    evidence.loc[rows, "log_evidence"] = -50.0
    figure = evidence_against_time(evidence, approximations, "digits-hard", [])
    assert "off scale ↑" in [axes.get_ylabel() for axes in figure.axes]
    assert texts(figure).count("−50.0") == 6


@pytest.mark.parametrize(("df", "width"), [(np.nan, 1.95996), (7.0, 2.36462)])
def test_error_bars_are_95_percent_intervals(evidence, approximations, df, width):
    rows = evidence[(evidence["method"] == "split_hmc_ep") & (evidence["replicate"] == 0)]
    rows = rows[rows["problem"] == "digits-hard"].assign(degrees_of_freedom=df)
    figure = evidence_against_time(rows, approximations, "digits-hard", [])
    (bars,) = figure.axes[0].containers
    segments = bars.lines[2][0].get_segments()
    halves = [(segment[1, 1] - segment[0, 1]) / 2 for segment in segments]
    errors = rows["standard_error"].sort_values(ascending=False)
    np.testing.assert_allclose(halves, width * errors, rtol=1e-4)


def test_lines_of_the_approximations(figure, evidence, approximations):
    flat = [line for line in figure.axes[0].lines if len(set(line.get_ydata())) == 1]
    assert {line.get_ydata()[0] for line in flat} >= {-106.0892, -105.8158}
    assert -111.0012 not in {line.get_ydata()[0] for line in flat}
    assert "Laplace: −111.001 (off scale)" in labels(figure)
    easy = evidence_against_time(evidence, approximations, "digits-easy", [])
    assert -60.23 in {line.get_ydata()[0] for line in easy.axes[0].lines}
    assert "Laplace: −60.230" in labels(easy)


def test_an_approximation_that_does_not_exist_is_left_out(evidence, approximations):
    approximations[["log_evidence_ep", "log_evidence_corrected"]] = np.nan
    figure = evidence_against_time(evidence, approximations, "digits-hard", [])
    assert not [label for label in labels(figure) if label.startswith("EP")]


def test_methods_differ_in_marker_and_look_the_same_in_every_figure(evidence, approximations):
    names = list(evidence["method"].unique())
    look = looks(names)
    assert len({one.marker for one in look.values()}) == len(names)
    figure = evidence_against_time(evidence, approximations, "digits-easy", names)
    handles = dict(zip(labels(figure), figure.legends[0].legend_handles, strict=True))
    assert handles["split_hmc_laplace"].get_marker() == look["split_hmc_laplace"].marker


def test_methods_without_times_are_said_to_have_none(evidence, approximations):
    evidence["seconds"] = evidence["pilot_seconds"] = np.nan
    figure = evidence_against_time(evidence, approximations, "digits-hard", [])
    assert "hmc_ep (not timed)" in labels(figure)
    assert texts(figure)[0] == "no cost was recorded"


def test_same_bytes_whatever_the_users_settings(evidence, approximations, tmp_path):
    paths = [tmp_path / "a.png", tmp_path / "b.png"]
    write_figure(evidence_against_time(evidence, approximations, "digits-easy", []), paths[0])
    with plt.rc_context({"font.size": 20, "axes.grid": False, "lines.linewidth": 5}):
        write_figure(evidence_against_time(evidence, approximations, "digits-easy", []), paths[1])
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert plt.get_fignums() == []
