"""Numbers in words: every sentence of the page is a template filled from stored numbers by these.

``value (low to high)`` is an estimate with its 95 % interval, ``value ± error`` one with its standard
error. A difference is not resolved below two standard errors, and only just up to three.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup, escape

from gpmcflow.plot.numbers import FEW_DAYS, fixed, natural, number, probability
from gpmcflow.plot.numbers import SPACE as SPACE
from gpmcflow.plot.numbers import percent as percent

MANY_DAYS = 1000  # of a range, from which on months say where in it a date is
BEYOND_DOUBT, LAST_DECIMAL, STRONG = 20.0, 12.0, 3.0  # log odds
HARDLY = math.log(3.0)  # below, they say next to nothing
LIKELIHOODS = {
    "gaussian": "normal errors",
    "heteroscedastic_gaussian": "normal errors whose size varies",
    "student_t": "errors with heavy tails, Student-t",
    "log_normal": "relative errors, log-normal",
    "gamma": "positive amounts, gamma",
    "weibull": "times to an end, Weibull",
    "loglogistic": "times to an end, log-logistic",
    "lognormal": "times to an end, log-normal",
    "poisson": "counts, Poisson",
    "negative_binomial": "overdispersed counts, negative binomial",
    "beta_binomial": "successes that vary more than chance, beta-binomial",
    "zero_inflated": "counts with zeros of another kind, zero-inflated",
    "hurdle": "counts with all zeros apart, hurdle",
    "binomial": "successes out of trials, binomial",
    "beta": "shares, beta",
    "ordinal": "ordered grades, ordinal",
    "softmax": "classes, softmax",
    "probit": "yes or no, probit",
    "logistic": "yes or no, logistic",
}
_TO_ONE = f"{SPACE}to{SPACE}1"
_SMALL = "no one two three four five six seven eight nine ten eleven twelve"
_COUNTS = tuple(_SMALL.split())


def decimals_of(error: float) -> int:
    """Decimals that show an error with two digits if it starts with 1 to 3.5, else with one."""
    if not (math.isfinite(error) and error > 0):
        return 2
    exponent = math.floor(math.log10(error))
    return (1 if error / 10.0**exponent < 3.55 else 0) - exponent


def plus_minus(value: float, error: float, *, sign: bool = False) -> str:
    """``0.356 ± 0.015``; the value alone where the error is zero or not known."""
    if not (math.isfinite(error) and error > 0):
        return signed(value) if sign else number(value)
    decimals = decimals_of(error)
    return f"{fixed(value, decimals, sign=sign)}{SPACE}±{SPACE}{fixed(error, decimals)}"


def cell(value: object, digits: int = 3) -> str:
    """A cell of a table: a number with few digits, any other text as it is."""
    try:
        return number(float(value), digits)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "" if value is None else str(value)


def signed(value: float) -> str:
    """Number with its sign; zero without one."""
    return number(value) if value <= 0 else "+" + number(value)


def around(value: float, low: float, high: float) -> tuple[float, float, float]:
    """Value and an interval that holds it: a mean may lie outside its own 95 % quantiles."""
    return value, min(low, value), max(high, value)


def interval_parts(value: float, low: float, high: float) -> tuple[str, str, str]:
    """Value, lower and upper end with the decimals that the interval's width deserves."""
    value, low, high = around(value, low, high)
    if not math.isfinite(value + low + high):  # a reach may be longer than any distance looked at
        return tuple("∞" if end == math.inf else number(end) for end in (value, low, high))
    decimals = decimals_of((high - low) / 2)
    if low > 0 and value > 0:
        decimals = max(decimals, 1 - math.floor(math.log10(value)))
    if max(abs(low), abs(high)) >= 1e6 or decimals > 5:
        return tuple(number(x) for x in (value, low, high))
    return tuple(fixed(x, max(decimals, 0)) for x in (value, low, high))


def interval(value: float, low: float, high: float, *, unit: str = "", first: bool = False) -> str:
    """``1.41 mm/s (1.33 to 1.49)``; the first on the page says that it is a 95 % interval."""
    middle, lower, upper = interval_parts(value, low, high)
    return f"{middle}{unit} ({'95 % interval ' if first else ''}{lower} to {upper})"


def points_parts(
    value: float, low: float, high: float, *, sign: bool = False
) -> tuple[str, str, str]:
    """Differences of probabilities in percentage points, whole ones unless they are small; never 100."""
    parts = around(value, low, high)
    width = 50 * (parts[2] - parts[1])
    decimals = min(max(decimals_of(width), 0), 1) if width > 0 else 0
    return tuple(_points(100 * part, decimals, sign) for part in parts)


def points(value: float, low: float, high: float, *, noun: str = "") -> str:
    """``+20 (+14 to +26)``: a difference of probabilities with its interval."""
    middle, lower, upper = points_parts(value, low, high, sign=True)
    return f"{middle}{noun} ({lower} to {upper})"


def _points(value: float, decimals: int, sign: bool) -> str:
    most = 100.0 - 10.0**-decimals
    if abs(value) <= most:
        return fixed(value, decimals, sign=sign)
    return ("<" if value < 0 else ">") + fixed(math.copysign(most, value), decimals, sign=sign)


def span(low: float, high: float) -> str:
    """``0.74 to 2.08`` with the decimals that the width deserves."""
    return " to ".join(interval_parts((low + high) / 2, low, high)[1:])


def near(value: float, width: float) -> str:
    """A place on an axis of that width, read off a picture."""
    digits = 2 if abs(value) < 100 else 3
    if value and width > 0.0:  # at least as many as tell a twentieth of the axis
        place = math.floor(math.log10(width / 20.0))
        digits = max(digits, math.floor(math.log10(abs(value))) - place + 1)
    return number(value, digits)


def near_date(date: str, days: float) -> str:
    """A date on an axis of so many days: the month of many, the time of day of few, else the day."""
    return date[:7] if days > MANY_DAYS else date[:10] if days > FEW_DAYS else date


def ends(low: str, high: str) -> tuple[str, str]:
    """Two cells as `natural` has them, with as many digits more as tell them apart.

    An end that is nothing beside the other is 0: values of columns were standardised and back.
    """
    try:
        largest = max(abs(float(low)), abs(float(high)))
        low, high = ("0" if abs(float(cell)) < 1e-12 * largest else cell for cell in (low, high))
    except ValueError:  # dates
        pass
    for digits in range(3, 16):
        pair = natural(low, digits), natural(high, digits)
        if low == high or pair[0] != pair[1]:
            break
    return pair


def percent_range(low: float, high: float) -> str:
    """``17 to 37 %``."""
    return f"{probability(low).removesuffix(SPACE + '%')} to {probability(high)}"


def percent_interval(value: float, low: float, high: float, *, first: bool = False) -> str:
    """``26 % (95 % interval 17 to 37 %)``."""
    value, low, high = around(value, low, high)
    return f"{probability(value)} ({'95 % interval ' if first else ''}{percent_range(low, high)})"


def rows(n: int) -> str:
    """``1 row``, ``118 rows``."""
    return plural(n, "row")


def plural(n: int, noun: str) -> str:
    """Number and noun: ``1 check``, ``5 checks``, ``10 000 rows``."""
    return f"{fixed(n, 0)} {noun if n == 1 else noun + 's'}"


def count(n: int) -> str:
    """Small numbers as words: ``two``; from 13 on in digits."""
    return _COUNTS[n] if 0 <= n < len(_COUNTS) else fixed(n, 0)


def capital(text: str) -> str:
    """Text that starts a sentence."""
    return text[:1].upper() + text[1:]


def series(items: Sequence[str], conjunction: str = "and") -> Markup:
    """``a``, ``a and b``, ``a, b and c``; items are escaped unless they are markup."""
    safe = [escape(item) for item in items]
    if len(safe) < 2:
        return Markup("").join(safe)
    return Markup("{} {} {}").format(Markup(", ").join(safe[:-1]), conjunction, safe[-1])


def resolution(difference: float, error: float) -> str:
    """``not resolved`` below two standard errors, ``only just`` up to three, else ``clear``."""
    if not (math.isfinite(difference) and math.isfinite(error)):
        return "not resolved"
    if abs(difference) < 2 * error or difference == 0:
        return "not resolved"
    return "only just" if abs(difference) <= 3 * error else "clear"


def more_probability(difference: float, error: float) -> tuple[float, float]:
    """Percent more probability, and its standard error, of a difference of mean log scores."""
    factor = math.exp(min(difference, 50.0))
    return 100 * (factor - 1), 100 * factor * error


def likelier(difference: float, under: str, other: str = "") -> str:
    """``23 % more likely under the model``, ``nearly twice as likely ..``, by a difference of log scores.

    With ``other``: than, or as, under something else.
    """
    factor, link = math.exp(min(difference, 50.0)), "as"
    if factor < 1.8:
        text, link = f"{number(100 * (factor - 1), 2)}{SPACE}% more likely", "than"
    elif factor < 2.2:
        text = f"{'nearly ' * (factor < 1.95)}twice as likely"
    else:
        text = f"{number(factor, 2)} times as likely"
    return f"{text} under {under}" + f" {link} under {other}" * bool(other)


def more_text(difference: float, error: float) -> str:
    """``+23 ± 11``, in percent; a factor where percents would be hundreds and more."""
    more, spread = more_probability(difference, error)
    if more > 900:
        return f"×{SPACE}{number(1 + more / 100, 2)}"
    return plus_minus(more, spread, sign=True)


def two_digits(value: float) -> str:
    """Rounded to two digits: 2981 is ``3000``, 148 is ``150``."""
    return number(float(f"{value:.1e}"), 2)


def power(exponent: float) -> Markup:
    """``e<sup>8</sup>``."""
    return Markup("e<sup>{}</sup>").format(fixed(exponent, 0))


def odds(log_odds: float, error: float) -> Markup:
    """Odds of the first model against the second, for a table cell; see `odds_phrase`."""
    size, other = abs(log_odds), "" if log_odds >= 0 else " the other way"
    if size < 2 * error:
        return Markup("not resolved")
    if size >= BEYOND_DOUBT:
        return Markup("beyond doubt, {}{}").format(power(size), other)
    hardly = "hardly: " * bool(size < HARDLY)
    return Markup("{}{}{}{}").format(hardly, _factor(size), _TO_ONE, other)


def odds_phrase(log_odds: float, error: float) -> Markup:
    """Size of the odds in a sentence: ``about 3000 to 1``."""
    size = abs(log_odds)
    if size >= BEYOND_DOUBT:
        return Markup("{}{}, beyond doubt").format(power(size), _TO_ONE)
    only = "only " * bool(size < HARDLY)
    return Markup("{}about {}{}").format(only, _factor(size), _TO_ONE)


def _factor(size: float) -> Markup:
    """exp(size): two digits of odds up to 20, one of larger ones, a power of e above e^12."""
    if size > LAST_DECIMAL:
        return power(size)
    factor = math.exp(size)
    return Markup(two_digits(factor) if size < STRONG else number(float(f"{factor:.0e}"), 1))


def times_phrase(log_factor: float, than: Markup | str) -> Markup:
    """How many times as probable: ``about 2000 times as probable as plain``, ``only 3.4 times ..``."""
    if log_factor >= BEYOND_DOUBT:
        text = Markup("{}\u00a0times as probable as {}, beyond doubt")
        return text.format(power(log_factor), than)
    about = "only" if log_factor < HARDLY else "about"
    times = number(math.exp(log_factor), 2)
    return Markup("{} {}\u00a0times as probable as {}").format(about, times, than)


def duration(seconds: float) -> str:
    """``14 s``, ``3 min 12 s``, ``2 h 5 min``."""
    total = round(seconds)
    if total < 60:
        return f"{max(total, 1)}{SPACE}s"
    if total < 3600:
        return f"{total // 60}{SPACE}min" + (f" {total % 60}{SPACE}s" if total % 60 else "")
    minutes = round(total / 60)
    return f"{minutes // 60}{SPACE}h" + (f" {minutes % 60}{SPACE}min" if minutes % 60 else "")
