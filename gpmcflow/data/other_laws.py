"""Laws beside the first one: gamma amounts, zeros of another kind, successes that vary more than chance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpmcflow.data.zeros import excess_zeros

OVERDISPERSED = 1.5  # variance over that of Poisson or binomial outcomes which these do not have


class OtherLaw(NamedTuple):
    """A likelihood that the numbers speak for, beside the first one, as a model of its own."""

    likelihood: str
    words: str  #: how the model differs from that with the first likelihood
    why: tuple[str, ...] = ()  #: lines on what was found, at the first law of its kind


def overdispersion(kind: str, outcome: np.ndarray, unit: np.ndarray) -> float:
    """Mean squared distance from the one rate or share of all rows, over what Poisson or binomial ones have.

    ``unit`` are exposures or trials (n,).
    """
    expected = unit * outcome.sum() / unit.sum()
    variance = expected if kind == "counts" else expected * (1.0 - outcome.sum() / unit.sum())
    return float(((outcome - expected) ** 2 / np.maximum(variance, 1e-300)).mean())


def other_laws(kind: str, outcome: np.ndarray, unit: np.ndarray) -> dict[str, OtherLaw]:
    """Return laws by the name of their model: of amounts always, of counts and successes where these speak.

    ``unit`` are exposures or trials (n,), NaN where there are none.
    """
    if kind == "positive":
        return {"gamma": OtherLaw("gamma", "with gamma amounts instead of log-normal ones")}
    if kind not in ("counts", "binomial"):
        return {}
    known = np.isfinite(outcome) & np.isfinite(unit) & (unit > 0)
    outcome, unit = outcome[known], unit[known]
    if kind == "binomial":
        over = overdispersion(kind, outcome, unit) if known.any() else 0.0
        if over <= OVERDISPERSED:
            return {}
        words = "with successes that vary more than chance alone"
        why = (
            f"Successes vary {over:.1f} times as much as those of one chance for all rows: columns may",
            "explain that. The model varying need not; the report says which law the data favour.",
        )
        return {"varying": OtherLaw("beta_binomial", words, why)}
    share = excess_zeros(outcome, unit)
    if share is None:
        return {}
    why = (
        f"About {share:.0%} of the rows are zeros beyond a negative binomial law: the model zeros has",
        "them beside its own, hurdle has all zeros apart. The report says which law the data favour.",
    )
    return {
        "zeros": OtherLaw("zero_inflated", f"with {share:.0%} more zeros", why),
        "hurdle": OtherLaw("hurdle", "with all zeros apart from the other counts"),
    }
