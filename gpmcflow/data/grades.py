"""Ordered grades: which words are, their order, and the words for some of them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from gpmcflow.data.columns import yaml_text

SCALES = (  # words of ordered answers, from low to high
    ("very low", "low", "medium", "moderate", "middle", "high", "very high"),
    ("very low", "fairly low", "average", "fairly high", "very high"),
    ("very poor", "poor", "bad", "fair", "good", "very good", "excellent"),
    ("none", "slight", "mild", "some", "moderate", "marked", "severe"),
    ("very unlikely", "unlikely", "somewhat likely", "neutral", "likely", "very likely"),
    ("strongly disagree", "disagree", "neutral", "agree", "strongly agree"),
    ("never", "rarely", "seldom", "sometimes", "often", "usually", "always"),
    ("unhappy", "not too happy", "pretty happy", "happy", "very happy"),
    ("small", "medium", "large"),
    ("too little", "about right", "too much"),
    ("left", "center", "right"),
    ("liberal", "moderate", "conservative"),
    ("worse", "same", "better"),
    ("much worse", "worse", "average", "same", "better", "much better"),
    ("no", "perhaps", "maybe", "unsure", "yes"),
    ("low", "med", "mid", "high"),
    ("fair", "good", "very good", "premium", "ideal"),
    ("not at all", "a little", "somewhat", "moderately", "quite a bit", "very", "extremely"),
    ("none", "some", "partial", "full", "complete"),
    ("primary", "secondary", "high school", "tertiary", "college", "university"),
    ("i", "ii", "iii", "iv", "v"),
    ("1st", "2nd", "3rd", "4th"),
    ("no", "little", "some", "moderate", "a lot", "much", "great"),
    ("light", "medium", "dark"),
    ("beginner", "intermediate", "advanced"),
    ("poor", "below average", "average", "above average", "good", "excellent"),
    ("absent", "rare", "occasional", "common", "frequent", "abundant"),
    ("very dissatisfied", "dissatisfied", "neutral", "satisfied", "very satisfied"),
    ("much less", "less", "same", "more", "much more"),
    ("below", "at", "above"),
    ("xs", "s", "m", "l", "xl", "xxl"),
    (
        "lt high school",
        "less than high school",
        "high school",
        "junior college",
        "some college",
        "associate",
        "bachelor",
        "bachelors",
        "graduate",
        "postgraduate",
    ),
    ("lower class", "working class", "middle class", "upper class"),
    (
        "not at all important",
        "not important",
        "not very important",
        "somewhat important",
        "important",
        "very important",
        "extremely important",
    ),
    ("low risk", "medium risk", "intermediate risk", "high risk"),
    ("freshman", "sophomore", "junior", "senior"),
)
CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
FEWEST = 3  # words of a scale by which it is known
NUMBERED = re.compile(r"(\d+)\s*[-.:=)_]\s*\D.*")  # "1 - poor"


def grade_order(labels: Sequence[str]) -> tuple[str, ...] | None:
    """Return labels from low to high: numbers, words of one of `SCALES`, or words numbered one by one.

    None where they are none of these.
    """
    try:
        return tuple(sorted(labels, key=float))
    except ValueError:
        pass
    if len(labels) < FEWEST:
        return None
    words = {_plain(label): label for label in labels}
    for scale in SCALES:
        if len(words) == len(labels) and set(words) <= set(scale):
            return tuple(words[word] for word in scale if word in words)
    found = [NUMBERED.fullmatch(label) for label in labels]
    numbers = {int(match[1]): label for match, label in zip(found, labels, strict=True) if match}
    ordered = sorted(numbers)
    if len(numbers) == len(labels) and ordered[-1] - ordered[0] == len(ordered) - 1:
        return tuple(numbers[number] for number in ordered)
    return None


def are_graded(labels: Sequence[str]) -> bool:
    """Return whether labels are graded though their order may not be known: three are of one of `SCALES`."""
    words = {_plain(label) for label in labels}
    return len(words) >= FEWEST and any(len(words & set(scale)) >= FEWEST for scale in SCALES)


def grades_above(levels: Sequence[str], split: int) -> str:
    """Return words for the grades from place ``split`` on: "good", "4 or 5", "3 or above"."""
    upper = levels[split - 1 :]
    return " or ".join(upper) if len(upper) < 3 else f"{upper[0]} or above"


def grades_below(levels: Sequence[str], split: int) -> str:
    """Return words for the grades below place ``split``: "poor", "1 or 2", "3 or below"."""
    lower = levels[: split - 1]
    return " or ".join(lower) if len(lower) < 3 else f"{lower[-1]} or below"


def listed_grades(levels: Sequence[str]) -> str:
    """Return grades as a list of YAML, without its brackets; numbers have no quotes."""
    return ", ".join(level if _is_number(level) else yaml_text(level) for level in levels)


def _is_number(label: str) -> bool:
    try:
        return math.isfinite(float(label)) and label[0] != "0" * (len(label) > 1)
    except ValueError:
        return False


def _plain(label: str) -> str:
    apart = CAPITAL.sub(" ", label)  # StronglyAgree
    return " ".join(apart.lower().replace("_", " ").split())
