"""Numbers and names as people read them, on pictures and in sentences."""

from __future__ import annotations

import math

SPACE = "\u00a0"  # no break between a number and its unit
MINUS = "\u2212"
FEW_DAYS = 3  # of a range, below which times of day say where in it a date is
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def fixed(value: float, decimals: int, *, sign: bool = False) -> str:
    """Value with so many decimals, a true minus and spaces between thousands from 10 000 on."""
    if not math.isfinite(value):
        return number(value)
    text = f"{round(value, decimals):{'+' if sign else ''}.{max(decimals, 0)}f}"
    if float(text) == 0:
        text = text.lstrip("+-")
    whole, _, rest = text.partition(".")
    digits = whole.lstrip("+-")
    if len(digits) > 4:
        whole = whole[: len(whole) - len(digits)] + f"{int(digits):,}".replace(",", SPACE)
    return (whole + ("." + rest if rest else "")).replace("-", MINUS)


def number(value: float, digits: int = 3) -> str:
    """Value with so many significant digits; powers of ten only where zeros would fill the line."""
    if not math.isfinite(value):
        return "unknown"
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    if not -4 <= exponent < 9:
        mantissa = f"{value / 10.0**exponent:.{digits - 1}f}"
        if "." in mantissa:
            mantissa = mantissa.rstrip("0").rstrip(".")
        power = str(exponent).translate(_RAISED)
        return f"{mantissa}{SPACE}×{SPACE}10{power}".replace("-", MINUS)
    text = fixed(value, digits - 1 - exponent)
    return text.rstrip("0").rstrip(".") if "." in text else text


def natural(cell: str, digits: int = 3) -> str:
    """Cell as stored: a number with few digits, any other text as it is."""
    try:
        return number(float(cell), max(digits, 4 if abs(float(cell)) >= 1000 else digits))
    except ValueError:
        return str(cell)


def percent(share: float) -> str:
    """``26 %``; a decimal below 1 and above 99 %, and no 0 % or 100 % of what is neither."""
    if share in (0.0, 1.0):
        return f"{100 * share:.0f}{SPACE}%"
    return probability(share)


def probability(share: float) -> str:
    """``26 %``, as `percent`; one that a model gives is never 0 % or 100 %."""
    value = 100 * share
    if not math.isfinite(value):
        return "unknown"
    if value < 0.1:
        return f"<0.1{SPACE}%"
    if value > 99.9:
        return f">99.9{SPACE}%"
    return f"{value:.1f}{SPACE}%" if value < 0.95 or value > 99.05 else f"{value:.0f}{SPACE}%"


def label(column: str) -> str:
    """Name of a column as words."""
    return " ".join(str(column).replace("_", " ").split())
