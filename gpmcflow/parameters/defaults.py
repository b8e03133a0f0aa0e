"""Hyperpriors of parameters that a user leaves out: the same in Python and in the text of a config.

All are normal in the log of the parameter, for inputs and real responses of mean 0 and standard deviation 1;
that of a probability is normal in its logit.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from gpmcflow.parameters.hyperpriors import Hyperprior


def _log_normal(loc: float, scale: float) -> Hyperprior:
    return Hyperprior("norm", {"loc": loc, "scale": scale})


@functools.cache
def default_hyperpriors() -> Mapping[str, Hyperprior]:
    """Return the hyperprior of each kind of parameter by name."""
    return {
        "length_scale": _log_normal(0.0, 1.0),  # 0.14 to 7.1 with probability 0.95
        "signal_sd": _log_normal(0.0, 1.0),
        "sd": _log_normal(0.0, 1.0),  # of a slope
        "offset": _log_normal(0.0, 1.0),
        "alpha": _log_normal(0.0, 1.0),  # of a rational quadratic
        "rho": Hyperprior(
            "norm", {"loc": 1.0, "scale": 1.5}, "logit"
        ),  # of neighbours, 0.13 to 0.98
        "mix": Hyperprior("norm", {"loc": 0.0, "scale": 1.5}, "logit"),  # of areas, 0.05 to 0.95
        "noise_sd": _log_normal(-1.0, 1.0),  # 0.05 to 2.6
        "scale": _log_normal(-1.0, 1.0),  # of Student-t noise
        "df": _log_normal(1.5, 0.75),  # 1 to 19.5 degrees of freedom
        "size": _log_normal(1.0, 1.5),  # of a negative binomial, 0.14 to 51
        "precision": _log_normal(2.0, 1.0),  # of a beta or a beta-binomial, 1 to 52
        "probability": Hyperprior("norm", {"loc": -1.0, "scale": 1.5}, "logit"),  # 0.02 to 0.87
        "shape": _log_normal(1.0, 1.0),  # of a gamma distribution, 0.38 to 19
        "survival.scale": _log_normal(-0.5, 0.75),  # of log times, 0.14 to 2.6
        "gap": _log_normal(0.0, 0.75),  # between cutpoints of grades, 0.23 to 4.3
    }


def default_hyperprior(owner: str, name: str) -> Hyperprior | None:
    """Return the hyperprior of a parameter of an owner, such as survival's scale; None without a default."""
    known = default_hyperpriors()
    return known.get(f"{owner}.{name}", known.get(name))
