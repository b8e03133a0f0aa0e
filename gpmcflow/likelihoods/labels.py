"""What the two binary likelihoods share: labels in {-1, +1}."""

from __future__ import annotations

import numpy as np

from gpmcflow.errors import InputError


def validate_labels(where: str, y: np.ndarray) -> None:
    """Raise `InputError` unless every label is -1 or +1."""
    found = np.unique(y)
    if not np.isin(found, (-1.0, 1.0)).all():
        shown = ", ".join(f"{v:g}" for v in found[:5]) + (", ..." if len(found) > 5 else "")
        raise InputError(
            f"{where} likelihood: labels {shown}; allowed: -1 and +1; recode the two classes"
        )


def draw_labels(rng: np.random.Generator, probability: np.ndarray) -> np.ndarray:
    """Labels +1 with the given probability, else -1."""
    return np.where(rng.random(np.shape(probability)) < probability, 1.0, -1.0)
