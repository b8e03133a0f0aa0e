"""The table of default hyperpriors, from those that the package takes."""

import numpy as np
from scipy.special import expit

from gpmcflow.parameters.hyperpriors import default_hyperpriors

MEANING = {
    "length_scale": "how far the function reaches, in standard deviations of the column",
    "signal_sd": "amplitude of a term, of a group's effects",
    "sd": "standard deviation of a slope",
    "offset": "constant of a polynomial",
    "alpha": "mixture of length scales of a rational quadratic",
    "rho": "correlation of neighbours in time",
    "mix": "share of an areal effect that neighbours explain",
    "noise_sd": "standard deviation of Gaussian noise",
    "scale": "scale of Student-t noise",
    "df": "degrees of freedom of Student-t noise",
    "size": "size of a negative binomial",
    "precision": "precision of a beta or a beta-binomial",
    "probability": "probability of a zero",
    "shape": "shape of a gamma distribution",
    "survival.scale": "scale of log survival times",
    "gap": "gap between the cutpoints of grades",
}


def default_priors() -> str:
    """All of them as Markdown, each with its median and its central 95 %."""
    lines = ["| parameter | what it is | median | 95 % between |", "| --- | --- | --- | --- |"]
    for name, prior in default_hyperpriors().items():
        back = expit if prior.scale == "logit" else np.exp
        low, middle, high = (float(back(prior.quantile(p))) for p in (0.025, 0.5, 0.975))
        shown = name.replace("survival.", "")
        lines.append(f"| `{shown}` | {MEANING[name]} | {middle:.2g} | {low:.2g} and {high:.2g} |")
    return "\n".join(lines) + "\n"
