"""Point patterns as counts in bins, with the events themselves: coal mining, redwoods, a simulated one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from gpmcflow.data.layout import Parts
from gpmcflow.data.synthetic import draw_latent, scale_of, whole_number

# Days between explosions in British coal mines with ten or more deaths, 1851-03-15 to 1962-03-22.
COAL_INTERVALS = """
157 123 2 124 12 4 10 216 80 12 33 66 232 826 40 12 29 190 97 65 186 23 92 197 431 16 154 95 25 19 78
202 36 110 276 16 88 225 53 17 538 187 34 101 41 139 42 1 250 80 3 324 56 31 96 70 41 93 24 91 143 16
27 144 45 6 208 29 112 43 193 134 420 95 125 34 127 218 2 0 378 36 15 31 215 11 137 4 15 72 96 124 50
120 203 176 55 93 59 315 59 61 1 13 189 345 20 81 286 114 108 188 233 28 22 61 78 99 326 275 54 217
113 32 388 151 361 312 354 307 275 78 17 1205 644 467 871 48 123 456 498 49 131 182 255 194 224 566
462 228 806 517 1643 54 326 1312 348 745 217 120 275 20 66 292 4 368 307 336 19 329 330 312 536 145
75 364 37 19 156 47 129 1630 29 217 7 18 1358 2366 952 632
"""
TEN_COUNTS = (3, 5, 4, 2, 0, 0, 1, 0, 2, 6)


def coal(_files: Sequence[Path] = (), *, bin_days: int = 365) -> Parts:
    """Coal-mining disasters, counted in bins of ``bin_days`` days from the day of the first one on.

    191 events over 40550 days; x = (middle day of the bin - first day) / 40549, so that events go from
    0 to 1. With 365 days there are 112 bins, the last one of 35 days only, with 50 days 811.

    Source: Jarrett (1979); bins as in Murray & Adams (2010) and their public code.
    """
    width = whole_number("coal: bin_days", bin_days, 1)
    days = np.concatenate([[0], np.cumsum([int(v) for v in COAL_INTERVALS.split()])])
    last = int(days[-1])
    starts = np.arange(0, last + 1, width)
    ends = np.minimum(starts + width, last + 1)  # the day after the last one of each bin
    counts = np.bincount(days // width, minlength=len(starts))
    centres = 0.5 * (starts + ends - 1)
    return Parts(
        X=(centres / last)[:, None],
        y=counts,
        features=["time"],
        label_coding=f"disasters in a bin of {width} days",
        preprocessing=f"time in units of {last} days from 1851-03-15 on",
        coords={"event_time": ("event", days / last)},
    )


def redwood(files: Sequence[Path], *, side: int = 25) -> Parts:
    """Redwood seedlings and saplings in the unit square, counted in ``side`` x ``side`` equal cells.

    Cells come row by row, the first coordinate being the slow one; X holds their centres.

    Source: Strauss (1975); cells as in Murray & Adams (2010).
    """
    m = whole_number("redwood: side", side, 2)
    separator = "," if files[0].suffix == ".csv" else r"\s+"
    header = 0 if files[0].suffix == ".csv" else None
    events = pd.read_csv(files[0], sep=separator, header=header).to_numpy(float)
    cells = np.minimum((events * m).astype(int), m - 1)
    counts = np.bincount(cells[:, 0] * m + cells[:, 1], minlength=m * m)
    centres = (np.arange(m) + 0.5) / m
    return Parts(
        X=np.stack(np.meshgrid(centres, centres, indexing="ij"), axis=-1).reshape(-1, 2),
        y=counts,
        features=["x", "y"],
        label_coding=f"trees in a cell of {m} x {m}",
        preprocessing="window rescaled to the unit square upstream",
        coords={"event_x": ("event", events[:, 0]), "event_y": ("event", events[:, 1])},
    )


def ten_counts(_files: Sequence[Path] = ()) -> Parts:
    """Ten made-up counts at equally spaced times, small enough for exact answers by quadrature."""
    return Parts(
        X=np.linspace(0.0, 1.0, len(TEN_COUNTS))[:, None],
        y=np.array(TEN_COUNTS),
        features=["time"],
        label_coding="counts, made up",
        preprocessing="none",
    )


def simulated_cox(
    _files: Sequence[Path] = (),
    *,
    n: int = 60,
    log_length_scale: float = -2.0,
    log_signal_sd: float = 0.0,
    log_rate: float = 1.0,
    seed: int = 0,
) -> Parts:
    """Draw a log-Gaussian Cox process on [0, 1], counted in ``n`` equal bins.

    f ~ GP(0, s^2 exp(-(x - x')^2 / (2 l^2))) at the centres, with l = exp(log_length_scale) and
    s = exp(log_signal_sd); a bin has Poisson(exp(f + log_rate)) events, uniform within it.

    Raises InputError for a wrong option.
    """
    n = whole_number("simulated-cox: n", n, 2)
    seed = whole_number("simulated-cox: seed", seed, 0)
    length = scale_of("simulated-cox: log_length_scale", log_length_scale)
    signal = scale_of("simulated-cox: log_signal_sd", log_signal_sd)
    rate = scale_of("simulated-cox: log_rate", log_rate)
    of_latent, of_counts, of_events = (
        np.random.default_rng(sequence) for sequence in np.random.SeedSequence(seed).spawn(3)
    )
    X = ((np.arange(n) + 0.5) / n)[:, None]
    latent, jitter = draw_latent(X / length, signal, of_latent, "simulated-cox")
    counts = of_counts.poisson(rate * np.exp(latent))
    events = (np.repeat(np.arange(n), counts) + of_events.random(counts.sum())) / n
    return Parts(
        X=X,
        y=counts,
        latent=latent,
        features=["time"],
        label_coding="events in a bin",
        preprocessing="none",
        coords={"event_time": ("event", np.sort(events))},
        attrs={
            "seed": seed,
            "log_length_scale": float(log_length_scale),
            "log_signal_sd": float(log_signal_sd),
            "log_rate": float(log_rate),
            "jitter": jitter,
        },
    )
