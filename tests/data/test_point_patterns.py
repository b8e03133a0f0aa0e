from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gpmcflow.data import load_dataset
from gpmcflow.data.loaders import COAL_INTERVALS
from gpmcflow.errors import InputError

# Counts of the 112 bins as the authors' public code has them.
COAL = (
    "4 6 4 0 0 5 4 2 2 5 3 3 3 0 3 5 3 3 6 6 3 3 0 4 4 3 3 7 2 4 2 4 3 2 2 5 1 2 3 1 2 1 1 1 2 2 0 0 1 0 1 "
    "1 0 1 2 1 1 3 1 2 0 1 1 1 0 1 1 0 0 0 0 2 1 0 0 0 2 0 0 3 3 2 1 1 2 1 1 1 1 2 5 1 0 0 0 2 3 0 0 0 1 0 "
    "0 0 0 0 1 0 0 1 0 1"
)


def test_coal_has_the_counts_of_the_public_code():
    coal = load_dataset("coal")
    assert coal["y"].values.tolist() == [float(v) for v in COAL.split()]
    assert coal.attrs["task"] == "counts"
    # middle days 183, 548, ... and that of the last 35 days, 40533, counted from 1
    expected = (np.r_[365 * np.arange(111) + 183, 40533] - 1) / 40549
    np.testing.assert_allclose(coal["X"].values[:, 0], expected, rtol=1e-14)
    events = coal["event_time"].values
    assert len(events) == 191
    assert (events[0], events[-1]) == (0.0, 1.0)
    assert (np.diff(events) == 0).sum() == 1  # two on 1875-12-06


def test_coal_in_bins_of_fifty_days():
    fine = load_dataset("coal", bin_days=50)["y"].values
    assert (len(fine), fine.sum(), (fine == 0).sum(), fine.max()) == (811, 191, 657, 4)
    with pytest.raises(InputError, match="bin_days is 0"):
        load_dataset("coal", bin_days=0)


def test_coal_intervals_are_those_of_the_file(data_folder):
    table = pd.read_csv(data_folder / "coal" / "coal.csv")
    found = [int(v) for v in COAL_INTERVALS.split()]
    assert found == table["interval_days"].dropna().astype(int).tolist()
    assert sum(found) == 40549


def test_redwoods_in_cells_row_by_row(data_folder):
    redwood = load_dataset("redwood", data_dir=data_folder)
    counts, X = redwood["y"].values, redwood["X"].values
    assert np.bincount(counts.astype(int)).tolist() == [492, 89, 29, 12, 3]
    events = np.stack([redwood["event_x"].values, redwood["event_y"].values], axis=-1)
    assert events.shape == (195, 2)
    nearest = np.abs(events[:, None] - X[None]).max(-1).argmin(1)
    assert np.abs(events - X[nearest]).max() <= 0.02 + 1e-9
    # one event lies on an edge, where two cells are as near
    assert np.abs(np.bincount(nearest, minlength=625) - counts).sum() <= 2
    np.testing.assert_allclose(X[:2], [[0.02, 0.02], [0.02, 0.06]])
    assert load_dataset("redwood", data_dir=data_folder, side=50)["y"].values.sum() == 195


def test_both_files_of_the_redwoods_give_the_same_cells(data_folder):
    from gpmcflow.data.loaders import redwood

    first, second = (
        redwood([data_folder / "redwood" / f"redwoodfull.{kind}"]) for kind in ("csv", "txt")
    )
    np.testing.assert_array_equal(first.y, second.y)


def test_simulated_cox_process():
    options = {"n": 1200, "log_length_scale": -1.5, "log_rate": 1.2}
    cox = load_dataset("simulated-cox", **options, seed=3)
    again, other = (load_dataset("simulated-cox", **options, seed=s) for s in (3, 4))
    assert cox.attrs["checksum"] == again.attrs["checksum"] != other.attrs["checksum"]
    rate, y = np.exp(1.2 + cox["latent"].values), cox["y"].values
    z = (y - rate) / np.sqrt(rate)
    assert abs(z.mean()) < 4.0 / np.sqrt(len(z))
    assert abs((z**2).mean() - 1.0) < 0.25
    bins = np.bincount((1200 * cox["event_time"].values).astype(int), minlength=1200)
    np.testing.assert_array_equal(bins, y)
    # neighbours at a distance of a length scale have the correlation exp(-1/2)
    draws = [load_dataset("simulated-cox", n=41, log_length_scale=0.0, seed=s) for s in range(300)]
    f = np.stack([draw["latent"].values for draw in draws])
    found = np.corrcoef(f[:, 0], f[:, -1])[0, 1]
    assert found == pytest.approx(np.exp(-0.5 * (40 / 41) ** 2), abs=0.15)
    with pytest.raises(InputError, match="simulated-cox: log_rate is 'x'"):
        load_dataset("simulated-cox", log_rate="x")


def test_ten_counts():
    ten = load_dataset("ten-counts")
    assert ten["y"].values.tolist() == [3, 5, 4, 2, 0, 0, 1, 0, 2, 6]
    np.testing.assert_allclose(ten["X"].values[:, 0], np.arange(10) / 9)


def test_ionosphere_with_its_constant_column(data_folder):
    few = load_dataset("ionosphere", data_dir=data_folder)
    all_of_it = load_dataset("ionosphere", data_dir=data_folder, keep_constant=True)
    assert (few.sizes["feature"], all_of_it.sizes["feature"]) == (33, 34)
    np.testing.assert_array_equal(all_of_it["X"].values[:, 1], 0.0)
    kept = all_of_it.sel(feature=few["feature"])
    np.testing.assert_array_equal(kept["X"].values, few["X"].values)
