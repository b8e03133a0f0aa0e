"""What `sample` warns of, from draws that are made up."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import gpmcflow as gp
from gpmcflow.samplers.sampling import warn


def tree_of(lp, n_failed=0):
    failed = np.zeros(lp.shape)
    failed.flat[:n_failed] = 1.0
    variables = {"lp": lp, "diverging": failed, "acceptance_rate": np.full(lp.shape, 0.8)}
    dims = ("chain", "draw")
    stats = xr.Dataset({name: (dims, values) for name, values in variables.items()})
    return xr.DataTree.from_dict({"sample_stats": stats, "posterior": xr.Dataset()})


@pytest.mark.parametrize(
    ("n_draws", "n_failed", "told"),
    [(150, 3, False), (150, 4, True), (1000, 9, False), (1000, 10, True)],
)
def test_failures_count_where_they_show_a_share_above_a_thousandth(n_draws, n_failed, told, caplog):
    """Poisson with mean 0.6: 3 or more in 2.3 %, 4 in 0.3 %; with mean 4: 9 in 2.1 %, 10 in 0.8 %."""
    lp = np.random.default_rng(0).standard_normal((4, n_draws))
    warn(tree_of(lp, n_failed), gp.JointSplitHMC())
    assert (f"{n_failed} of {4 * n_draws} proposals ended in" in caplog.text) == told
    assert "R-hat" not in caplog.text


def test_a_chain_that_stands_still_for_a_time_is_told(caplog):
    lp = np.random.default_rng(0).standard_normal((4, 150))
    lp[2, 60:100] = 0.0  # where the others are, so that R-hat is silent
    warn(tree_of(lp), gp.JointSplitHMC())
    assert "chain 2 stood still for 40 of 150 draws under JointSplitHMC(" in caplog.text


def test_r_hat_of_a_length_scale_whose_column_has_a_slash(caplog):
    """Of "C/N": results have no slash in a name, and so has the warning."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"C/N": rng.standard_normal(12), "pH": rng.standard_normal(12)})
    model = gp.GPModel(frame, frame["pH"].values, "squared_exponential(ard=True)", gp.Gaussian(0.3))
    draws = gp.sample(model, gp.JointSplitHMC(rounds=(20, 20)), n_chains=2, n_draws=4)
    assert "length_scale[C_N]" in draws.posterior
    assert draws.sample_stats.sizes["chain"] == 2
