"""Regression with unknown noise, of which one case in ten is far off: Student-t against Gaussian noise.

    python examples/outliers.py [--cases 200] [--draws 1000]

Both noise models have all their parameters free. Under Student-t noise an outlier is noise; under Gaussian
noise it bends the curve and widens everything.
"""

from __future__ import annotations

import argparse

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from shared import report, save

import gpmcflow as gp

NOISE, OUTLIERS = 0.15, 0.1
INTERVAL = (0.05, 0.95)


def curve(x: np.ndarray) -> np.ndarray:
    """What is looked for."""
    return np.sin(2.0 * x) + 0.3 * x


def cases(n: int, seed: int = 3) -> pd.DataFrame:
    """Standardised inputs, responses of which a tenth is shifted by 1 to 4 either way."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-2.0, 2.0, n))
    y = curve(x) + NOISE * rng.standard_normal(n)
    off = rng.permutation(n)[: round(OUTLIERS * n)]
    y[off] += rng.choice([-1.0, 1.0], len(off)) * rng.uniform(1.0, 4.0, len(off))
    return pd.DataFrame({"x": x, "y": y, "outlier": np.isin(np.arange(n), off)})


def fit(
    n: int, draws: int, chains: int = 4, points: int = 81
) -> tuple[dict[str, tuple[xr.DataTree, xr.Dataset]], pd.DataFrame, np.ndarray]:
    """Posterior draws under each noise model and the curve at new inputs, the data, and the inputs."""
    data, x = cases(n), np.linspace(-2.0, 2.0, points)
    fits = {}
    for name, noise in {"Student-t": gp.StudentT(), "Gaussian": gp.Gaussian()}.items():
        model = gp.GPModel(data[["x"]], data["y"], gp.SquaredExponential(), noise)
        tree = gp.sample(
            model, gp.JointSplitHMC(), n_chains=chains, n_draws=draws, n_warmup=0, seed=1,
            execution=gp.Execution(progress=name),
        )  # fmt: skip
        fits[name] = tree, gp.predict(tree, x, quantiles=INTERVAL)
    return fits, data, x


def error(found: xr.Dataset, x: np.ndarray) -> float:
    """Root mean square error of the curve."""
    return float(np.sqrt(np.mean((found.latent_mean.values - curve(x)) ** 2)))


def main() -> None:
    """Fit, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--draws", type=int, default=1000)
    settings = parser.parse_args()
    fits, data, x = fit(settings.cases, settings.draws)
    figure, panels = plt.subplots(1, 2, figsize=(7.0, 3.0), layout="constrained", sharey=True)
    for axes, (name, (tree, found)) in zip(panels, fits.items(), strict=True):
        print(f"{name} noise: root mean square error of the curve {error(found, x):.3f}")
        report(tree)
        mean, (low, high) = found.latent_mean.values, found.latent_quantile.values
        axes.plot(data.x, data.y, ".", color="0.5", markersize=3, label="cases")
        axes.plot(x, curve(x), "--", color="black", linewidth=1.0, label="made with")
        axes.plot(x, mean, color="#1B5E8C", label="posterior mean")
        axes.fill_between(
            x, low, high, color="#1B5E8C", alpha=0.3, linewidth=0, label="90 % interval"
        )
        axes.set(xlabel="x", title=f"{name} noise")
    panels[0].set_ylabel("y")
    panels[0].legend(frameon=False, fontsize="small", loc="lower right")
    save(figure, "outliers")


if __name__ == "__main__":
    main()
