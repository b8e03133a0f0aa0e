"""Counts of cases in districts of unequal size, more variable than Poisson, and a map of the rate.

    python examples/counts_with_exposure.py [--districts 300] [--draws 1000]

Deaths per person-year = exp(base rate + smooth map + effect of age), negative binomial with unknown
size; the person-years of each district are its exposure.
"""

from __future__ import annotations

import argparse

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from shared import report, save

import gpmcflow as gp

TRUTH = {"size": 3.0, "mean": -5.0}
AGE_EFFECT = 0.4


def true_map(east: np.ndarray, north: np.ndarray) -> np.ndarray:
    """Log relative rate of a place."""
    return 0.9 * np.exp(-((east - 0.3) ** 2 + (north - 0.6) ** 2) / 0.05) - 0.5 * np.sin(3.0 * east)


def districts(n: int, seed: int = 2) -> pd.DataFrame:
    """Places in the unit square, standardised age, person-years and deaths."""
    rng = np.random.default_rng(seed)
    east, north, age = rng.random(n), rng.random(n), rng.standard_normal(n)
    person_years = np.exp(rng.normal(7.5, 1.0, n))
    rate = person_years * np.exp(TRUTH["mean"] + true_map(east, north) + AGE_EFFECT * age)
    deaths = rng.poisson(rate * rng.gamma(TRUTH["size"], 1.0 / TRUTH["size"], n))
    return pd.DataFrame(
        {"east": east, "north": north, "age": age, "person_years": person_years, "deaths": deaths}
    )


def model(data: pd.DataFrame) -> gp.GPModel:
    """A rough map, a linear effect, a free base rate."""
    near = gp.Hyperprior("norm", {"loc": np.log(0.3), "scale": 0.7})
    return gp.GPModel(
        data[["east", "north", "age"]],
        data["deaths"],
        gp.Matern52(near, columns=("east", "north"), name="map") + gp.Linear(1.0, columns="age"),
        gp.NegativeBinomial(exposure=data["person_years"].to_numpy()),
        mean=gp.Hyperprior("norm", {"loc": -5.0, "scale": 2.0}),
    )


def grid(side: int) -> pd.DataFrame:
    """A grid of places at the mean age."""
    ticks = np.linspace(0.02, 0.98, side)
    east, north = (axis.ravel() for axis in np.meshgrid(ticks, ticks))
    return pd.DataFrame({"east": east, "north": north, "age": 0.0})


def fit(
    n: int, draws: int, chains: int = 4, side: int = 25
) -> tuple[xr.DataTree, xr.Dataset, pd.DataFrame, pd.DataFrame]:
    """Posterior draws, predictions for one person-year on a grid, the districts, and the grid."""
    data, places = districts(n), grid(side)
    tree = gp.sample(
        model(data), gp.JointSplitHMC(), n_chains=chains, n_draws=draws, n_warmup=0, seed=1,
        execution=gp.Execution(progress="counts"),
    )  # fmt: skip
    return tree, gp.predict(tree, places), data, places


def main() -> None:
    """Fit, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--districts", type=int, default=300)
    parser.add_argument("--draws", type=int, default=1000)
    settings = parser.parse_args()
    tree, found, data, places = fit(settings.districts, settings.draws)
    report(tree, TRUTH)
    rate = 1000.0 * found.response_mean.values
    exact = 1000.0 * np.exp(TRUTH["mean"] + true_map(places.east, places.north)).to_numpy()
    correlation, error = (
        np.corrcoef(np.log(rate), np.log(exact))[0, 1],
        np.std(np.log(rate / exact)),
    )
    print(
        f"log rate on the grid: correlation {correlation:.3f} with the one that the data were made with, "
        f"root mean square error {error:.2f}"
    )
    side = int(len(places) ** 0.5)
    figure, panels = plt.subplots(1, 2, figsize=(7.0, 3.0), layout="constrained", sharey=True)
    top = max(rate.max(), exact.max())
    for axes, values, title in zip(panels, (rate, exact), ("estimated", "made with"), strict=True):
        image = axes.imshow(values.reshape(side, side), origin="lower", extent=(0, 1, 0, 1), vmin=0.0,
                            vmax=top, cmap="cividis")  # fmt: skip
        axes.set(xlabel="east", title=title)
    panels[0].set_ylabel("north")
    panels[0].scatter(data.east, data.north, s=2, color="white", alpha=0.6)
    figure.colorbar(image, ax=panels, label="deaths per 1000 person-years")
    save(figure, "counts_with_exposure")


if __name__ == "__main__":
    main()
