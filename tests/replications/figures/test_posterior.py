from __future__ import annotations

import xarray as xr

from gpmcflow.replications.rmhmc_ais.figures import posterior_summary


def test_three_labelled_panels_and_a_trace_per_chain(posterior_tree):
    rhat, size, trace = posterior_summary(posterior_tree, "digits").axes
    assert rhat.get_xlabel().startswith("R-hat")
    assert size.get_xlabel() == "effective size (draws)"
    assert trace.get_ylabel() == "log likelihood (nats)"
    assert len(trace.lines) == 4
    assert [len(line.get_xdata()) for line in trace.lines] == [200] * 4


def test_a_latent_that_did_not_mix_is_counted(posterior_tree):
    rhat, size, _ = posterior_summary(posterior_tree, "").axes
    assert "; 1 of 30 above 1.01" in rhat.get_title()
    assert sum(patch.get_height() for patch in rhat.patches) == 30
    smallest = float(size.get_title().split()[1])
    assert smallest < 20


def test_lazy_arrays_are_loaded(posterior_tree):
    lazy = posterior_tree.map_over_datasets(lambda group: group.chunk())
    titles = [axes.get_title() for axes in posterior_summary(lazy, "").axes]
    assert titles == [axes.get_title() for axes in posterior_summary(posterior_tree, "").axes]


def test_long_chains_are_thinned_and_many_chains_cut_and_both_said(posterior_tree):
    stats = posterior_tree["sample_stats"].to_dataset()
    long = xr.concat([stats] * 30, "draw").assign_coords(draw=range(6000))
    long = xr.concat([long] * 3, "chain").assign_coords(chain=range(12))
    tree = xr.DataTree.from_dict(
        {"posterior": posterior_tree["posterior"].to_dataset(), "sample_stats": long}
    )
    trace = posterior_summary(tree, "").axes[2]
    assert trace.get_title() == "8 of 12 chains, one draw in 3"
    assert [len(line.get_xdata()) for line in trace.lines] == [2000] * 8


def test_one_chain_has_no_rhat_and_says_so(posterior_tree):
    one = posterior_tree.isel(chain=[0])
    rhat, size, _ = posterior_summary(one, "").axes
    assert rhat.texts[0].get_text() == "R-hat needs two chains or more"
    assert size.patches
