"""What the examples share: a table of the posterior, and where pictures go."""

from __future__ import annotations

from pathlib import Path

import arviz_stats
import matplotlib.figure
import xarray as xr


def report(tree: xr.DataTree, truth: dict[str, float] | None = None) -> None:
    """Print mean, 90 % interval, R-hat and effective size of each parameter in its own units."""
    posterior = tree["posterior"].to_dataset()
    parameters = posterior[[v for v in posterior if posterior[v].ndim == 2]]
    rhat, size = arviz_stats.rhat(parameters), arviz_stats.ess(parameters)
    print(f"{'parameter':28s} {'mean':>8s}  {'90 % interval':>17s}  R-hat  effective")
    for name, values in parameters.items():
        low, high = values.quantile([0.05, 0.95]).values
        made = f"  made with {truth[name]:g}" if truth and name in truth else ""
        print(f"{name:28s} {float(values.mean()):8.3f}  {low:8.3f} {high:8.3f}  {float(rhat[name]):5.3f} "
              f"{float(size[name]):10.0f}{made}")  # fmt: skip


def save(figure: matplotlib.figure.Figure, name: str) -> None:
    """Write the picture beside the script."""
    path = Path(__file__).with_name(f"{name}.png")
    figure.savefig(path, dpi=130, metadata={"Software": None})
    print(f"picture: {path.name}")
