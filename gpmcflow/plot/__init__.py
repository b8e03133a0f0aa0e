"""Pictures of effects, maps, fits and comparisons on axes of matplotlib: the panels of the report."""

from __future__ import annotations

from gpmcflow.lazy_names import lazy_names

_HOME = {
    "calibration": "figures",
    "effects": "figures",
    "evidence": "figures",
    "map": "figures",
    "predictive_check": "figures",
    "prior_posterior": "figures",
    "residuals": "figures",
}

__all__ = sorted(_HOME)
__getattr__ = lazy_names(__name__, _HOME)
