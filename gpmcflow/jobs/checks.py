"""What the checks of several studies ask of a config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpmcflow.errors import InputError, unknown_name


def require_problem(name: str, problems: Mapping[str, Any], model: str, place: str) -> None:
    """Refuse a problem that is not there, or has another kind of model."""
    if name not in problems:
        raise unknown_name(place, name, problems)
    kind = problems[name]["model"]
    if kind != model:
        raise InputError(
            f"{place}: found {name!r}, which has model: {kind}; allowed: problems with model: {model}"
        )
