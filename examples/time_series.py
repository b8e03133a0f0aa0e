"""A monthly series of trend, drifting season, short fluctuations and unknown noise, and its forecast.

    python examples/time_series.py [--years 20] [--draws 1000]

The season has a period of one year, known; all other parameters are drawn together. The noise is Gaussian, so
the latent values are integrated out while hyperparameters move.
"""

from __future__ import annotations

import argparse

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from shared import report, save

import gpmcflow as gp

TRUTH = {"noise_sd": 0.25}
INTERVAL = (0.05, 0.95)


def series(years: int, seed: int = 1) -> pd.DataFrame:
    """Months of ``years``, in years, and what is seen."""
    rng = np.random.default_rng(seed)
    t = np.arange(12 * years) / 12.0
    trend = 2.0 * np.tanh((t - 0.4 * years) / (0.3 * years))
    season = (1.0 + 0.5 * t / years) * (np.sin(2 * np.pi * t) + 0.4 * np.cos(4 * np.pi * t))
    short = np.zeros(len(t))
    for k in range(1, len(t)):
        short[k] = 0.6 * short[k - 1] + 0.2 * rng.standard_normal()
    y = trend + season + short + TRUTH["noise_sd"] * rng.standard_normal(len(t))
    return pd.DataFrame({"year": t, "y": y})


def model(data: pd.DataFrame) -> gp.GPModel:
    """Trend + season * slow change + short fluctuations, all in years."""
    years = gp.Hyperprior("norm", {"loc": np.log(5.0), "scale": 0.7})
    slow = gp.Hyperprior("norm", {"loc": np.log(20.0), "scale": 0.7})
    months = gp.Hyperprior("norm", {"loc": np.log(0.3), "scale": 0.3})  # longer than noise
    covariance = (
        gp.SquaredExponential(years, columns="year", name="trend")
        + gp.Periodic(period=1.0, columns="year", name="season")
        * gp.SquaredExponential(slow, columns="year", name="drift")
        + gp.Matern32(months, columns="year", name="short")
    )
    return gp.GPModel(data[["year"]], data["y"], covariance, gp.Gaussian())


def fit(
    years: int, draws: int, chains: int = 4, ahead: int = 3
) -> tuple[xr.DataTree, xr.Dataset, pd.DataFrame, np.ndarray]:
    """Posterior draws, the forecast of the years that follow, the data, and the months forecast."""
    data = series(years + ahead)
    seen, later = data[data.year < years], data[data.year >= years]
    tree = gp.sample(
        model(seen), gp.JointSplitHMC(), n_chains=chains, n_draws=draws, n_warmup=0, seed=1,
        execution=gp.Execution(progress="time series"),
    )  # fmt: skip
    forecast = gp.predict(tree, later[["year"]], quantiles=INTERVAL)
    return tree, forecast, data, later.year.to_numpy()


def main() -> None:
    """Fit, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--years", type=int, default=20)
    parser.add_argument("--draws", type=int, default=1000)
    settings = parser.parse_args()
    tree, forecast, data, months = fit(settings.years, settings.draws)
    report(tree)
    held = data[data.year >= settings.years]
    mean, (low, high) = forecast.response_mean.values, forecast.response_quantile.values
    inside = (low <= held.y) & (held.y <= high)
    print(f"forecast of {len(held)} months: {inside.mean():.0%} inside the 90 % interval, root mean "
          f"square error {np.sqrt(np.mean((held.y - mean) ** 2)):.2f}")  # fmt: skip
    figure, axes = plt.subplots(figsize=(7.0, 3.2), layout="constrained")
    shown = data[data.year >= settings.years - 8]
    axes.plot(shown.year, shown.y, ".-", color="0.45", markersize=3, linewidth=0.5, label="months")
    axes.plot(months, mean, "-", color="#1B5E8C", label="forecast")
    axes.fill_between(
        months, low, high, color="#1B5E8C", alpha=0.25, linewidth=0, label="90 % interval"
    )
    axes.axvline(settings.years, color="0.6", linewidth=0.8)
    axes.set(xlabel="year", ylabel="y", xlim=(shown.year.min(), shown.year.max()))
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    save(figure, "time_series")


if __name__ == "__main__":
    main()
