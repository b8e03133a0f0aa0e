"""What columns mean, by their names and by the pattern of their values: groups, codes, places, efforts, kinds
of outcome."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpmcflow.data.columns import (
    COUNTER_WORDS,
    ID_WORDS,
    MOST_LEVELS,
    ROW_NAMES,
    Column,
    is_time,
    last_word,
    name_words,
    yaml_text,
)
from gpmcflow.data.grades import are_graded, grade_order

EXPOSURE_WORDS = (
    "exposure", "effort", "personyears", "pyears", "pyar", "pyr", "py", "population", "pop", "popn",
    "service", "risk", "insured", "holders", "expected", "sweptarea", "meters", "metres", "transect",
    "ncontrols", "controls", "n", "hours", "hour", "minutes", "days", "years", "time", "duration", "area",
)  # fmt: skip
PEOPLE_WORDS = {"population", "pop", "popn", "insured", "holders"}
CLOCKS = {
    "hours",
    "hour",
    "minutes",
    "days",
    "years",
    "time",
    "duration",
}  # efforts if alone in a name
CLOCK_FILLERS = {
    "observed",
    "obs",
    "watched",
    "person",
    "follow",
    "up",
    "at",
    "risk",
    "total",
    "of",
}
TRIALS_WORDS = (
    "trials", "tested", "examined", "attempts", "tries", "total", "tot", "size", "n", "m", "exposed",
    "sample", "litter", "number", "batch",
)  # fmt: skip
SUCCESS_WORDS = {
    "ill", "dead", "died", "killed", "deaths", "cases", "success", "successes", "infected", "positive",
    "germinated", "germ", "hits", "made", "won", "wins", "correct", "survived", "affected", "events", "count",
}  # fmt: skip
TOTALS = ("n", "t", "m", "tot", "total", "totals", "size")
RARE = 0.01  # share of successes below which a whole number of trials is an exposure
PLACE_PAIRS = (
    ("longitude", "latitude"), ("lon", "lat"), ("long", "lat"), ("lng", "lat"),
    ("easting", "northing"), ("east", "north"), ("x", "y"),
)  # fmt: skip
PLACE_FILLERS = {
    "coord", "coordinate", "coords", "utm", "pos", "position", "m", "km", "deg", "centroid", "center",
    "centre", "gps", "wgs", "dd", "decimal",
}  # fmt: skip
HEIGHT_WORDS = {"z", "height", "elevation", "elev", "altitude", "depth"}  # over x and y
_NUMBER = r"(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
POINT = re.compile(rf"POINT ?\({_NUMBER} {_NUMBER}\)", re.IGNORECASE)
ALIKE = 3.0  # times the smaller of two ranges in the same unit
FEWEST_PLACES = 5  # different numbers of each; east and north of 0 and 1 are regions
PROJECTED = 1e4  # x and y above this are metres of a map; below they may be anything
SUBJECT_WORDS = {
    "subject", "subjects", "subj", "participant", "respondent", "person", "patient", "individual", "ind",
    "child", "pupil", "student", "mother", "family", "household", "school", "classroom", "teacher",
    "instructor", "lecturer", "doctor", "physician", "hospital", "clinic", "center", "centre", "firm",
    "inst", "institution",
    "company", "worker", "rater", "judge", "animal", "rat", "mouse", "dog", "cow", "pig", "bird", "lamb",
    "monkey", "horse", "fish", "tree", "plant", "litter", "sire", "dam", "nest", "colony", "brood", "herd",
    "flock", "country", "state", "county", "city", "district", "village", "municipality", "lga", "station",
    "player", "team", "item", "word", "cluster", "id", "ids", "cask", "wafer", "lot", "chick", "plate",
    "twin", "pair", "location", "site", "strata", "stratum", "provider", "provnum", "prov", "pid", "sid",
    "uid", "subjid", "patid", "caseid",
    "bottle", "precinct", "borough", "parish", "province", "canton", "prof", "professor", "curve",
    "town", "commune", "community", "neighborhood", "neighbourhood", "mom", "event", "earthquake",
    "street", "hid", "hhid", "chid",
}  # fmt: skip
NUMBERED_WORDS = {  # of subjects of which a number with a decimal is no amount
    "hospital", "clinic", "school", "firm", "doctor", "physician", "teacher", "provider", "subject",
    "patient", "participant", "respondent",
}  # fmt: skip
APPARATUS = {  # of a few of the same kind
    "car", "vehicle", "computer", "device", "instrument", "apparatus", "sensor", "probe", "camera",
    "thermometer", "gauge", "scanner", "printer", "oven", "furnace", "reactor", "mold", "mould", "loom",
    "nozzle", "technician", "inspector", "examiner", "observer", "interviewer", "coder", "analyst",
    "surgeon", "nurse", "driver", "alt", "altid", "alternative", "option",
}  # fmt: skip
CODE_SYSTEMS = {"fips", "fip", "naics", "isic", "sic", "tract", "zip", "plz", "icpsr"}
CODE_WORDS = {
    "race", "ethnicity", "religion", "sex", "gender", "block", "blk", "dept", "department", "region",
    "type", "class", "group", "grp", "treatment", "treat", "trt", "treatmt", "diet", "species", "variety",
    "batch", "zone", "sector", "industry", "occupation", "method", "machine", "operator", "status",
    "brand", "code", "category", "cat", "cluster", "store", "unit", "marital", "origin",
    "party", "arm", "site", "plot", "line", "strain", "breed", "colour", "color", "mode", "program", "prog",
    "ward", "room", "column", "row", "field", "lab", "laboratory", "study", "country", "state", "cell",
    "chamber", "cage", "tank", "drug", "poison", "condition", "genotype", "cultivar", "fertilizer",
    "cyl", "month", "weekday", "dow", "weathersit", "season", "rep", "replicate", "replication", "run",
    "precinct", "district", "borough", "parish", "province", "product", "experiment", "expt",
    "soil", "geology",
    *CODE_SYSTEMS,
}  # fmt: skip
STATES = {"married", "marstat", "mstat", "mstatus", "maritl"}  # of a person, more than two of them
GRID_WORDS = {
    "pos",
    "position",
    "row",
    "rowpos",
    "col",
    "colpos",
    "column",
    "layer",
    "depth",
    "level",
}
CYCLES = {"month", "weekday", "dow", "season"}  # codes only where they come again; else times
COUNT_WORDS = {
    "count", "counts", "cnt", "number", "num", "n", "nr", "freq", "frequency", "visits", "visit", "events",
    "event", "cases", "ncases", "accidents", "accident", "deaths", "death", "died", "dead", "killed",
    "births", "stations", "seeds", "fish", "claims", "crimes", "crime", "admissions", "seizures", "breaks",
    "bugs", "insects", "eggs", "larvae", "calls", "goals", "injuries", "failures", "faults", "defects",
    "trips", "ships", "incidents", "articles", "art", "kids", "children", "citations", "absences", "awards",
    "satellites", "satell", "infections", "offspring", "colonies", "plants", "trees", "nests",
    "doctorvisits", "visitors", "passengers", "arrivals", "users", "rentals", "homicides", "murders",
    "suicides", "strikes", "affairs", "discoveries", "abundance", "richness", "nspecies", "matings",
    "bites", "attacks", "wins", "patents", "tumors", "tumours", "lesions", "cysts", "mutants", "purchases",
    "seizure", "orders", "downloads", "clicks", "followers",
    "drivers", "pedestrians", "fatalities", "casualties", "crashes", "collisions", "victims",
    "rooms", "bedrooms", "bathrooms", "bdrms", "beds", "baths", "stories", "storeys", "floors", "cars",
    "vehicles", "siblings", "sibs", "brothers", "sisters", "pets", "parity", "gravida", "pregnancies",
}  # fmt: skip
AMOUNT_WORDS = {
    "price", "cost", "costs", "income", "wage", "wages", "salary", "earnings", "expenditure", "pay", "rent",
    "score", "points", "marks", "mark", "temp", "temperature", "weight", "wt", "mass", "distance", "dist",
    "pressure", "height", "length", "width", "depth", "time", "duration", "age", "percent", "pct", "rate",
    "ratio", "index", "yield", "mm", "cm", "kg", "usd", "dollars", "amount", "value", "balance", "speed",
    "concentration", "conc", "dose", "rain", "rainfall", "precipitation", "ozone", "level", "iq", "test",
    "minutes", "hours", "seconds", "days", "delay", "arr", "dep", "diff", "difference", "change", "area",
    "accel", "acceleration", "velocity", "force", "voltage", "current", "cons", "consumption", "sat",
}  # fmt: skip
NO_COUNTS = AMOUNT_WORDS | {  # but codes may have these names: exper of an experiment
    "educ", "schooling", "exper", "experience", "tenure", "seniority", "years", "yrs", "gain", "gained",
    "wait", "waiting", "hardness", "thickness", "humidity", "salinity", "conductivity", "viscosity",
    "turbidity", "intensity", "capacity", "accuracy", "literacy",
}  # fmt: skip
POSITIVE_WORDS = {
    "price", "cost", "costs", "income", "wage", "wages", "salary", "earnings", "expenditure", "pay", "rent",
    "duration", "time", "days", "hours", "minutes", "seconds", "latency", "rt", "concentration", "conc",
    "weight", "mass", "biomass", "volume", "area", "amount", "sales", "revenue", "charges", "fare",
    "tip", "tips", "fee", "fees", "tax", "bill", "spending", "budget", "gross", "cons", "consumption",
    "gdp", "gnp", "gni", "wealth",
}  # fmt: skip
MEASURES = {  # plurals of what is measured, not counted
    "grams", "kilograms", "kilos", "kgs", "pounds", "lbs", "ounces", "tons", "tonnes", "inches", "feet",
    "yards", "miles", "kms", "kilometers", "kilometres", "acres", "hectares", "gallons", "liters",
    "litres", "degrees", "euros", "cents", "francs", "volts", "watts", "calories", "kcals", "sales",
    "revenues", "profits", "prices", "incomes", "salaries", "expenses", "taxes", "savings", "benefits",
    "assets", "loans", "debts", "exports", "imports", "funds", "shares", "stocks", "returns", "odds",
    "means", "indices", "levels", "rates", "ratios", "weeks", "months", "years", "quarters", "ages",
    "ratings", "grades", "scores", "ranks", "rankings", "temps", "temperatures", "heights", "weights",
    "lengths", "widths", "depths", "distances", "times", "speeds", "mathematics", "maths", "physics",
    "statistics", "economics", "values", "amounts", "units", "residuals",
    "meters", "metres",
}  # fmt: skip
MONEY = ("sales", "prices", "costs", "wages", "incomes", "salaries", "taxes", "expenses", "savings")
PERCENT_NAMES = {"percent", "pct", "percentage"}
PERCENT_WORDS = PERCENT_NAMES | {
    "share",
    "proportion",
    "fraction",
}  # of numbers up to 100
GRADE_WORDS = {
    "rating", "quality", "grade", "satisfaction", "satis", "likert", "stage", "severity", "pain", "rank",
    "apply", "opinion", "agree", "agreement", "health", "education", "bitterness", "response", "mental",
    "improvement", "improved", "outcome", "level", "class", "evaluation", "eval",
}  # fmt: skip
SHARE_WORDS = PERCENT_WORDS | {
    "rate", "rates", "prop", "prob", "probability", "frac", "freq", "frequency", "prevalence", "incidence",
    "cover", "coverage", "yield", "ratio",
}  # fmt: skip
NO_SHARES = POSITIVE_WORDS | {  # amounts that may stay below 1
    "accel", "acceleration", "velocity", "speed", "force", "pressure", "voltage", "current", "distance",
    "dist", "length", "width", "height", "depth", "thickness", "dose", "rain", "rainfall",
    "precipitation", "ozone",
}  # fmt: skip
LOW_SHARE = 0.25  # numbers that stay below it are shares only where they are named so
MEASURED_ENDS = re.compile(r"(weight|wt|length|height|width|depth|mass|volume|price|cost)$")
AMOUNT_ENDS = ("income", "wage", "score")  # of words; a lowincome may be a share
PER_CENT = re.compile(r"^(pct|perc|prop)|(pct|perc|percent)$")  # begins and ends of names
SPECIMENS = {"sample", "specimen", "batch", "lot"}  # numbered, and measured as often each
OF_WHAT = (  # ids are, by the short words that stand before or after "id"
    "sch", "st", "std", "stud", "hh", "fam", "tch", "pers", "pat", "subj", "hosp", "part", "emp", "cty",
    "geo", "user", "cust", "acct", "prod", "veh",
)  # fmt: skip
ID_ENDS = re.compile(r"[a-z ._](id|ID|Id|no|No|nr|Nr)$")  # of a name, after another letter
STATUS = re.compile(
    r"status|stat$|cens|event|death|dead|died|relapse|surviv|delta|^d$|^fail|progress|^(un)?observed$"
)
STATUS_ENDS = re.compile(r"([._ ]s|[._ ]?(stat|status|event|cens))$")  # behind the name of a time
ENTRY, EXIT = re.compile(r"entry|entered|enter|start|begin"), re.compile(r"exit|stop|end$")
TIME_TO = re.compile(r"(ed|t|at|age|day|yr|month|to)+")  # beside the name of a status
DURATIONS = re.compile(
    r"time|surv|^tt|days|months|years|weeks|duration|^t\d?$|stop$|spell|follow|onset|latency|^life(span)?$"
)
TEMPERATURES = {"temp", "temperature", "temps", "temperatures", "tmax", "tmin", "tmean", "tavg"}
PREDICTED = {
    "pred", "preds", "predicted", "prediction", "predictions", "fitted", "resid", "residual", "residuals",
    "yhat", "ypred",
}  # fmt: skip
OF_PREDICTIONS = {
    "y", "hat", "model", "target", "proba", "prob", "probability", "score", "value", "label",
}  # fmt: skip
PARTS = {"train", "training", "valid", "validation", "val", "dev", "test", "testing", "holdout"}
SPLITS = {"split", "set", "subset", "partition", "part", "sample", "fold", "dataset"}
SURELY = 8  # rows expected where there is none: by chance in one of 3,000 files
GO_TOGETHER = 0.8  # share of rows in which two columns that say how cases ended agree
FIRST_YEAR, LAST_YEAR = 1500, 2100
MOST_UNNAMED = 1e5  # whole numbers from 0 up to it are counts by whatever name
SAME_SUM, SAME_SHARE, OVERDISPERSED = 0.05, 0.2, 5.0  # by which counts expected are known
MOSTLY_DIFFERENT = 0.8  # share of the rows; 1.10 is 1.1 as a number
NEARLY_ALL = 0.95  # of the rows, in which numbers of subjects are different
MANY_CASES = 50  # by which a pattern shows
FEWEST_GROUPS = 5  # fewer are categories
FEWEST_NUMBERS = 8  # fewer whole numbers are codes or grades, unless they are ids
FEW_TEXTS = 10  # so many names are categories, unless they are ids
MANY_NAMES = 100  # numbers of families and the like, of which most may stand in one row
MOST_GROUPS = 500  # of a column named otherwise than subjects are
MANY_CLASSES = 12  # of an outcome in words: with more, one is set against the rest
LARGE = 1000  # amounts from 0 in whole units, such as dollars, go beyond it
FEWEST_BLOCKS, MOST_BLOCKS, FEWEST_IN_A_BLOCK = 8, 12, 8  # by which spreads are compared
RISES = 0.7  # correlation of logs of spread and level
SKEWED = 1.0  # skewness of positive numbers that are modelled on the log scale
LESS_SKEWED = 0.75  # times it: the most that is left in their logarithms


@dataclass(frozen=True)
class Reading:
    """The kind of outcome that a file holds, and the kind of model that it gets.

    `kind` is one of "real", "positive", "counts", "binary", "binomial", "classes", "grades", "share" and
    "survival"; `model` is the one of `KINDS` that is nearest, and `why` says what that model does not see, ""
    where the two are the same.
    """

    kind: str
    model: str
    why: str = ""


def is_years(column: Column) -> bool:
    """Return whether all numbers of a column are years of the calendar."""
    return is_in_years(column) and is_time(column.name)


def is_in_years(column: Column) -> bool:
    """Return whether all numbers of a column may be years of the calendar, whatever its name."""
    if column.kind != "whole":
        return False
    values = column.values[np.isfinite(column.values)]
    inside = bool((values >= FIRST_YEAR).all() and (values <= LAST_YEAR).all())
    return inside and len(np.unique(values)) > 1


def is_counted(column: Column) -> bool:
    """Return whether a column of numbers holds counts: whole numbers from 0 that are no amounts.

    With a zero among them, or the name of something that is counted, as plurals are; not years, marks,
    prices or measures.
    """
    if column.values is None or column.kind == "date":
        return False
    values = column.values[np.isfinite(column.values)]
    if (
        len(values) == 0
        or (values != np.floor(values)).any()
        or values.min() < 0
        or is_years(column)
    ):
        return False
    words = name_words(column.name)
    if words & COUNT_WORDS:
        return True
    if is_amount_name(column.name) and not words <= {"days", "nights"}:
        return False
    if _is_percent_name(column.name) and values.max() <= 100:
        return False
    plural = is_plural(last_word(column.name))
    rounded = values.max() >= 100 and not (values % 10).any()
    from_none = values.min() == 0 and (plural or values.max() < MOST_UNNAMED)
    return bool(from_none or (plural and not rounded))


def is_amount_name(name: str) -> bool:
    """Return whether a name, or the end of its last word as in hincome, says an amount or a grade."""
    last = last_word(name)
    ends = MEASURED_ENDS.search(last) or last.endswith(AMOUNT_ENDS)
    return bool(ends or name_words(name) & (NO_COUNTS | GRADE_WORDS))


def _is_percent_name(name: str) -> bool:
    return bool(PER_CENT.search(name.lower()))


def is_plural(word: str) -> bool:
    """Return whether a word is a plural of what can be counted, such as contacts."""
    ends = word.endswith("s") and not word.endswith(("ss", "us", "is", "ias"))
    return ends and len(word) > 3 and not (word in MEASURES or word.endswith(MONEY))


def are_percent(column: Column) -> bool:
    """Return whether numbers are percent: some are above 1, or they are named or written as percent."""
    values = column.values
    if values is None or not np.isfinite(values).any():
        return False
    named = "%" in column.name or "%" in column.contents or name_words(column.name) & PERCENT_NAMES
    return bool(named) or float(np.nanmax(values)) > 1.0


def _is_share(column: Column) -> bool:
    named = "%" in column.name or "%" in column.contents
    return named or bool(name_words(column.name) & PERCENT_WORDS)


def _several(n: int) -> Reading:
    """Several classes: all of them, or of very many one against the rest."""
    if n <= MANY_CLASSES:
        return Reading("classes", "classes")
    return Reading("classes", "binary", "one class against the rest")


def read_outcome(column: Column, others: Mapping[str, Column], *, trials: str | None) -> Reading:
    """Return the kind of outcome of a column, by its values, its name and the columns beside it."""
    if trials:
        return Reading("binomial", "binomial")
    filled = column.labels[~column.missing]
    levels = sorted(set(filled.tolist()))
    words = name_words(column.name)
    status = find_status(others, column.name)
    if column.values is None or column.kind == "category":
        if len(levels) == 2:
            return Reading("binary", "binary")
        if grade_order(levels):
            return Reading("grades", "grades")
        if are_graded(levels):
            why = "their order is not known, so one is set against the rest; see levels"
            return Reading("grades", "binary", why)
        return _several(len(levels))
    values = column.values[np.isfinite(column.values)]
    if len(np.unique(values)) == 2:
        return Reading("binary", "binary")
    whole = bool((values == np.floor(values)).all())
    few = len(np.unique(values)) <= 10 and np.ptp(values) <= 10
    if whole and few and STATUS.search(column.name.lower()) and not words & COUNT_WORDS - {"death"}:
        return _several(len(levels))
    name = column.name.lower()
    timed = [told for told in status if is_time_of(name, told)]
    named_alike = len(np.unique(values)) > 10 and any(
        not _is_threshold(column, others[told]) for told in timed
    )
    named_alike |= bool(status) and _has_entry(column, others)
    if values.min() >= 0 and status and (DURATIONS.search(name) or named_alike):
        if values.min() > 0:
            return Reading("survival", "survival")
        why = (
            f"a time of 0 has no logarithm, so cases that {yaml_text(status[0])} marks as not ended are "
            "taken as ended; correct these cells and run gpmcflow new again"
        )
        return Reading("survival", "real", why)
    if whole and few and words & GRADE_WORDS and not words & COUNT_WORDS:
        return Reading("grades", "grades")
    if whole and few and words & (CODE_WORDS - CYCLES) and not words & COUNT_WORDS:
        return _several(len(levels))
    steps = np.unique(values)
    scale = 3 <= len(steps) <= 7 and bool((np.diff(steps) == 1).all())
    scale = scale and (steps[0] == 1 or (steps[0] == 0 and _stops_short(values)))
    tenths = steps[-1] == 10 and len(steps) in (10, 11) and bool((np.diff(steps) == 1).all())
    tenths &= not (words & SUCCESS_WORDS or is_time(column.name))
    scale = scale or (tenths and (_stops_short(values) or _share_a_scale(column, others)))
    if whole and scale and not words & COUNT_WORDS:
        return Reading("grades", "grades")
    percent = _is_percent_name(column.name) and values.max() <= 100
    few_first = whole and _rises_from_few(values) and not percent
    if is_counted(column) or (few_first and not is_amount_name(column.name)):
        return Reading("counts", "counts")
    amount = bool(words & NO_SHARES) or values.max() < LOW_SHARE
    amount = amount or bool(MEASURED_ENDS.search(last_word(column.name)))
    of_one = words & SHARE_WORDS or not amount
    if (not whole and values.min() >= 0 and values.max() <= 1 and of_one) or (
        are_percent(column) and _is_share(column) and values.min() >= 0 and values.max() <= 100
    ):
        top = 100 if are_percent(column) else 1
        if values.min() > 0 and values.max() < top:
            return Reading("share", "share")
        why = "a beta outcome has no 0 and no 1, so intervals of a share can leave 0 to 1"
        return Reading("share", "real", why)
    named = words & POSITIVE_WORDS
    spread = _skewness(values)
    fine = not whole or values.max() >= LARGE
    from_none = values.min() == 0 and (named or (fine and spread > SKEWED))
    if (values.min() > 0 or from_none) and not is_years(column):
        logged = re.match(r"(log|ln)|l[a-z]+", column.name.lower()) and values.max() < 20
        low = named and values.min() == 0  # nothing of it, and never less
        additive = logged or words & TEMPERATURES  # those above 0 by chance
        if (spread > SKEWED or (named and spread > 0) or low) and not additive:
            return _positive(values, spread)
        if values.min() > 0 and not additive and _spread_grows(column, others):
            return Reading("positive", "positive")
    return Reading("real", "real")


def _positive(values: np.ndarray, spread: float) -> Reading:
    """Return the reading of amounts of some skewness: on the log scale where that takes it away."""
    below = "intervals can fall below 0"
    if values.min() == 0:
        return Reading("positive", "real", f"a 0 among them has no logarithm, so {below}")
    if abs(_skewness(np.log(values))) > LESS_SKEWED * spread:
        return Reading("positive", "real", f"their logarithms are as skewed, so {below}")
    return Reading("positive", "positive")


def _spread_grows(target: Column, others: Mapping[str, Column]) -> bool:
    """Return whether positive numbers spread more where they are larger, over blocks of time.

    Not over groups, where other columns may explain both level and spread. As in Tukey's plot of spread
    against level: the log of the standard deviation, about a line in time, rises with the log of the mean by
    half or more, the exponent nearer to 1, of the log scale, than to 0.
    """
    for column in others.values():
        if column.values is None or not (column.kind == "date" or is_time(column.name)):
            continue
        known = ~target.missing & ~column.missing
        y, times = target.values[known], column.values[known]
        if len(np.unique(times)) < MANY_CASES:
            continue
        place = np.argsort(np.argsort(times, kind="stable"), kind="stable")
        size = max(FEWEST_IN_A_BLOCK, -(-len(y) // MOST_BLOCKS))
        means, spreads = _means_and_spreads(y, place // size, place % size)
        if len(means) < FEWEST_BLOCKS or means.max() < 2.0 * means.min():
            continue
        x, s = np.log(means), np.log(spreads)
        r = np.corrcoef(x, s)[0, 1]
        if r >= RISES and r * s.std() / x.std() >= 0.5:
            return True
    return False


def _means_and_spreads(
    y: np.ndarray, blocks: np.ndarray, inside: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of blocks of enough rows, about a line in the place inside of a block."""
    means, spreads = [], []
    for block in np.unique(blocks):
        own = y[blocks == block]
        if len(own) < FEWEST_IN_A_BLOCK:
            continue
        rest = own - own.mean()
        t = inside[blocks == block] - inside[blocks == block].mean()
        rest = rest - t * (t @ rest) / (t @ t)
        if rest.std() > 0:
            means.append(own.mean())
            spreads.append(rest.std())
    return np.array(means), np.array(spreads)


def _is_threshold(column: Column, status: Column) -> bool:
    """Return whether a status says which numbers are above a threshold: bmistatus beside bmi.

    Not where all above are the same: those that had not ended when the study did.
    """
    known = ~column.missing & ~status.missing
    y, own = column.values[known], status.labels[known]
    own = own[np.argsort(y, kind="stable")]
    steps = np.flatnonzero(own[1:] != own[:-1])
    cut = 0 < len(steps) == len(set(own.tolist())) - 1
    return cut and bool(np.ptp(np.sort(y)[steps[-1] + 1 :]) > 0)


def _has_entry(column: Column, others: Mapping[str, Column]) -> bool:
    """Return whether a column is named as the time of entry into what ends at this one, always later.

    As ageentry beside age, or entry beside exit.
    """
    own = re.sub("[._ ]", "", column.name.lower())
    for other in others.values():
        begin = ENTRY.search(other.name.lower())
        if other.kind not in ("number", "whole") or begin is None:
            continue
        rest = re.sub("[._ ]", "", ENTRY.sub("", other.name.lower(), count=1))
        if EXIT.sub("", own, count=1) == rest:
            known = ~column.missing & ~other.missing
            if known.any() and (other.values[known] < column.values[known]).all():
                return not is_in_years(column)
    return False


def is_time_of(name: str, status: str) -> bool:
    """Return whether a number is named as the time of what a column tells: srv of srv.s, edrel of rel."""
    name, status = name.lower(), status.lower()
    end = STATUS_ENDS.search(status)
    rest = re.sub("[._ ]", "", name.replace(status, "", 1))
    longer = len(status) >= 3 and status in name and TIME_TO.fullmatch(rest)
    letters = name == "t" and status in ("c", "d", "e")  # censored, died, event
    return bool(letters or longer or (end and status[: end.start()] == name))


def find_status(columns: Mapping[str, Column], target: str) -> list[str]:
    """Return the columns that say how cases ended: named so, of two to four different values."""
    found = []
    for name, column in columns.items():
        levels = set(column.labels[~column.missing].tolist())
        counted = len(levels) > 2 and name_words(name) & (COUNT_WORDS - {"event", "death"})
        named = STATUS.search(name.lower()) or is_time_of(target, name)
        named = named or (name.lower() == "outcome" and levels == {"0", "1"})
        named = named and not counted  # failures 0, 1, 2 are a number of them
        found += [name] * bool(named and 2 <= len(levels) <= 4)
    return found


def status_of(target: str, names: list[str], columns: Mapping[str, Column]) -> str | None:
    """Return the column of `names` that says which times of the target had ended, None without any.

    The one named after the target, as death.stat beside death.time; else of 0 and 1, or of fewest values.
    """

    def rank(name: str) -> tuple[bool, bool, int]:
        a, b = target.lower(), name.lower()
        alike = name_words(a) & name_words(b) or a[:3] == b[:3] or is_time_of(a, b)
        levels = set(columns[name].labels[~columns[name].missing].tolist())
        return not alike, levels != {"0", "1"}, len(levels)

    return min(names, key=rank, default=None)


def tells_the_end(column: Column, status: Column) -> bool:
    """Return whether a column named like a status says how cases ended, as `status` does.

    One of two values that are not those of `status` does not, unless they nearly go with these.
    """
    known = ~column.missing & ~status.missing
    own, other = column.labels[known], status.labels[known]
    levels = sorted(set(own.tolist()))
    if len(levels) > 2 or set(levels) == set(other.tolist()):
        return True
    same = ((own == levels[0]) == (other == other[0])).mean() if known.any() else 1.0
    return bool(max(same, 1.0 - same) >= GO_TOGETHER)


def _skewness(values: np.ndarray) -> float:
    return float(((values - values.mean()) ** 3).mean() / max(values.std(), 1e-100) ** 3)


def _stops_short(values: np.ndarray) -> bool:
    """Return whether whole numbers end at one above which counts of their mean would surely go on."""
    above = _share_above(values.mean(), int(values.max()))
    return bool(len(values) * above >= SURELY)


def _share_a_scale(column: Column, others: Mapping[str, Column]) -> bool:
    """Return whether another column has whole numbers of the same ends, as questions of one sheet have."""
    ends = np.nanmin(column.values), np.nanmax(column.values)
    whole = [other.values for other in others.values() if other.kind == "whole"]
    return any((np.nanmin(own), np.nanmax(own)) == ends for own in whole)


def _share_above(mean: float, most: int) -> float:
    """Return the probability that a Poisson count of a mean is above a number."""
    terms = [math.exp(-mean + k * math.log(mean) - math.lgamma(k + 1)) for k in range(most + 1)]
    return 1.0 - math.fsum(terms)


def _rises_from_few(values: np.ndarray) -> bool:
    """Return whether whole numbers begin at a few and have a long tail, as counts without a zero do."""
    return bool(1 <= values.min() <= 5 and values.max() >= 10 and _skewness(values) > 0.5 * SKEWED)


def find_places(numbers: list[Column]) -> tuple[str, str] | tuple[()]:
    """Return the two columns of a place on a map, by their names and the ranges these have."""
    for pair in PLACE_PAIRS:
        found = [
            next((c for c in numbers if name_words(c.name) - PLACE_FILLERS == {word}), None)
            for word in pair
        ]
        if None in found:
            continue
        low = [float(np.nanmin(c.values)) for c in found]
        high = [float(np.nanmax(c.values)) for c in found]
        if pair[1] in ("latitude", "lat"):
            plausible = low[0] >= -180 and high[0] <= 360 and low[1] >= -90 and high[1] <= 90
        elif pair == ("x", "y"):
            coordinate = any(name_words(c.name) & PLACE_FILLERS for c in found)
            plausible = coordinate or min(low) > PROJECTED
        else:
            plausible = True
        different = min(len(np.unique(c.values[np.isfinite(c.values)])) for c in found)
        if plausible and different >= FEWEST_PLACES:
            return found[0].name, found[1].name
    return ()


def find_points(numbers: list[Column], others: Mapping[str, Column]) -> tuple[str, str] | tuple[()]:
    """Return the two columns whose numbers stand in the points of another, as POINT (3.5 48.2)."""
    for column in others.values():
        if column.values is not None:
            continue
        known = ~column.missing
        labels = column.labels[known].tolist()
        if not labels or not all(map(POINT.fullmatch, labels)):
            continue
        points = np.array([POINT.findall(label)[0] for label in labels], dtype=float)
        pair = [
            next((c for c in numbers if np.allclose(c.values[known], own)), None)
            for own in points.T
        ]
        if pair[0] and pair[1] and pair[0] is not pair[1]:
            return pair[0].name, pair[1].name
    return ()


def find_lone_place(target: Column, others: Mapping[str, Column]) -> tuple[str, str] | tuple[()]:
    """Return the two columns of a place where a file has nothing beside them and the outcome.

    Heights named z over x and y of like ranges, and what is in each cell of a grid of rows and columns.
    """
    inputs = [c for c in others.values() if c.kind not in ("id", "constant", "empty")]
    if len(inputs) != 2 or any(c.kind not in ("number", "whole") or c.problems for c in inputs):
        return ()
    named = {c.name.lower(): c for c in inputs}
    if set(named) == {"x", "y"} and last_word(target.name) in HEIGHT_WORDS:
        x, y = named["x"], named["y"]
        ranges = sorted(float(np.ptp(c.values[np.isfinite(c.values)])) for c in (x, y))
        different = min(len(set(c.labels[~c.missing].tolist())) for c in (x, y))
        alike = ranges[1] <= ALIKE * ranges[0]
        return (x.name, y.name) if alike and different >= FEWEST_NUMBERS else ()
    for across, along in (("col", "row"), ("column", "row")):
        if set(named) == {across, along}:
            x, y = named[across], named[along]
            sizes = [len(set(c.labels.tolist())) for c in (x, y)]
            cells = len(set(zip(x.labels.tolist(), y.labels.tolist(), strict=True)))
            whole = x.kind == y.kind == "whole" and min(sizes) >= FEWEST_PLACES
            if whole and cells == len(x.labels) == sizes[0] * sizes[1]:
                return x.name, y.name
    return ()


def may_be_places(numbers: list[Column]) -> tuple[str, str] | tuple[()]:
    """Return columns named x and y that are not taken for a place, which only their owner knows."""
    named = {name.lower(): name for name in (c.name for c in numbers)}
    return (named["x"], named["y"]) if {"x", "y"} <= set(named) else ()


def may_be_successes(target: Column) -> bool:
    """Return whether whole numbers may be successes out of trials, by their name or one letter for it."""
    values = target.values
    if values is None or target.kind != "whole" or np.nanmin(values) < 0:
        return False
    return len(target.name) == 1 or bool(name_words(target.name) & SUCCESS_WORDS)


def find_trials(target: Column, numbers: list[Column], *, rare: bool = False) -> str | None:
    """Return the column of trials that successes are out of: named like one, never below the successes.

    With ``rare`` one of which hardly any succeed, so that it is as good an exposure.
    """
    for column in totals_of_the_arm(target, numbers) or _named(numbers, TRIALS_WORDS):
        gaps = target.missing | column.missing
        trials, successes = column.values[~gaps], target.values[~gaps]
        whole = bool((trials == np.floor(trials)).all())
        if not (whole and len(trials) and trials.min() >= 1 and (successes <= trials).all()):
            continue
        if (successes.sum() <= RARE * trials.sum()) == rare:
            return column.name
    return None


def totals_of_the_arm(target: Column, numbers: list[Column]) -> list[Column]:
    """Return the totals of one arm of a comparison, named as the target is: nt beside rt, if nc is beside rc.

    The successes of another arm are named like those of this one, and never above its totals.
    """
    by_name = {c.name: c for c in numbers if c.kind == "whole"}
    name = target.name
    for cut in range(1, len(name)):
        for word in TOTALS:
            for before in (True, False):  # the word for successes, or the arm
                own, arm = (name[:cut], name[cut:]) if before else (name[cut:], name[:cut])
                total = word + arm if before else arm + word
                if own.lower() == word or total not in by_name:
                    continue
                for other, column in by_name.items():
                    rest = other[len(own) :] if before else other[: -len(own)]
                    same = rest and other == (own + rest if before else rest + own)
                    of_other = by_name.get(word + rest if before else rest + word)
                    if same and rest != arm and of_other not in (None, column, by_name[total]):
                        known = ~column.missing & ~of_other.missing
                        if (column.values[known] <= of_other.values[known]).all():
                            return [by_name[total]]
    return []


def find_total(columns: Mapping[str, Column], target: Column) -> str | None:
    """Return the column of totals, named so, of which the target is one of three or more parts in all rows.

    The parts stand beside each other in the file, as the votes for candidates do.
    """
    whole = [
        column
        for column in columns.values()
        if column.kind == "whole" and not column.missing.any() and column.values.min() >= 0
    ]
    for total in whole if target in whole else ():
        parts = [column for column in whole if column is not total]
        if total is target or not name_words(total.name) & set(TOTALS) or len(parts) < 3:
            continue
        place = parts.index(target)
        sums = np.cumsum([np.zeros(len(total.values)), *(c.values for c in parts)], axis=0)
        some = slice(None, None, 1 + len(total.values) // 5)
        first, last = sums[: place + 1, some], sums[place + 1 :, some]
        same = (last[None] - first[:, None] == total.values[some]).all(axis=2)
        for begin, end in zip(*np.nonzero(same), strict=True):
            n = place + 1 + end - begin
            if n >= 3 and (sums[begin + n] - sums[begin] == total.values).all():
                return total.name
    return None


def find_exposure(target: Column, numbers: list[Column]) -> str | None:
    """Return the column of efforts that counts belong to: positive, and no time that merely goes on.

    Or the counts that are expected, by whatever name.
    """
    for column in _named(numbers, EXPOSURE_WORDS):
        values = column.values[np.isfinite(column.values)]
        if values.max() <= 1 and name_words(column.name) & PEOPLE_WORDS:
            continue  # a share of people
        words = name_words(column.name)
        clock = is_years(column) or (is_time(column.name) and _goes_on(column.values))
        clock |= bool(words & CLOCKS) and not words <= CLOCKS | CLOCK_FILLERS
        if column.kind == "number" and words & {"n", "ncontrols", "controls"} == words & set(
            EXPOSURE_WORDS
        ):
            continue  # how many there are is a whole number; delta 15 N is none
        idle = (column.values == 0) & (target.values == 0)  # nothing observed in no effort
        effort = values.min() >= 0 and (values > 0).sum() + idle.sum() >= len(values)
        if column.kind != "constant" and effort and not clock:
            return column.name
    return next((c.name for c in numbers if are_expected(target, c)), None)


def are_expected(target: Column, column: Column) -> bool:
    """Return whether numbers, not whole, are counts expected: of their sum, and as close as chance has them.

    Pearson's sum of (y - e)^2 / e is the number of rows for Poisson counts, and a few times it for others.
    """
    gaps = target.missing | column.missing
    if column.kind != "number" or target.kind != "whole" or len(gaps) - gaps.sum() < FEWEST_NUMBERS:
        return False
    y, e = target.values[~gaps], column.values[~gaps]
    if y.min() < 0 or e.min() <= 0 or abs(y.sum() - e.sum()) > SAME_SUM * e.sum():
        return False
    order = np.argsort(e)
    few, many = np.array_split(order, 2)
    parts = [y[part].sum() / e[part].sum() for part in (few, many)]
    spread = y.var() > OVERDISPERSED * e.mean()  # else any number near the mean would do
    close = ((y - e) ** 2 / e).mean() <= OVERDISPERSED
    # twice as many expected are twice the count
    return bool(spread and close and max(parts) <= (1.0 + SAME_SHARE) * min(parts))


def find_groups(columns: Mapping[str, Column], inputs: list[str]) -> list[str]:
    """Return columns whose values are names of subjects, schools, stations and the like, each with some rows.

    Text of 21 to 500 different values; whole numbers or texts named like subjects; and whole numbers in
    blocks of rows within which another column rises anew each time.
    """
    groups = []
    for name in inputs:
        column = columns[name]
        words = name_words(name)
        levels = len(set(column.labels[~column.missing].tolist()))
        known = int((~column.missing).sum())
        stated = is_id_of(name) or (name.lower() in ("nr", "case") and levels > MOST_LEVELS)
        is_id = bool(stated or words & ID_WORDS or ID_ENDS.search(name))
        words = {last_word(name)} if not is_id else words  # a lot, not the frontage of a lot
        subjects = bool(words & SUBJECT_WORDS)
        often = 0.7 if subjects and column.values is None else 0.5
        often = NEARLY_ALL if is_id else often
        often = 0.8 if subjects and levels > MANY_NAMES and not is_id else often
        repeated = levels <= often * known
        sure = stated or words & CODE_SYSTEMS or last_word(name).endswith("code")  # no amounts
        most = known if words & SUBJECT_WORDS or sure else MOST_GROUPS
        if not repeated or not FEWEST_GROUPS <= levels <= most or column.kind == "date":
            continue
        named = bool(words & SUBJECT_WORDS or stated) and column.kind != "number"
        if column.kind == "whole" and levels <= MOST_LEVELS and _is_amount(column):
            named = named and is_id
        if column.values is None and levels <= FEW_TEXTS:
            named = named and is_id
        if column.values is not None and (levels < FEWEST_NUMBERS or np.nanmin(column.values) < 1):
            named = named and (is_id or (levels >= FEWEST_NUMBERS and _number_a_design(column)))
        if column.kind == "number":
            coded = words & NUMBERED_WORDS and levels >= FEWEST_NUMBERS and _to_one_decimal(column)
            named = is_nested(column, columns) or bool(coded)
        many = column.kind == "text" and levels > MOST_LEVELS
        coded = bool(words & CODE_WORDS - CYCLES) or ends_like_a_code(name)
        code = column.kind == "whole" and levels > MOST_LEVELS and coded
        code = code and not (words & {"line"} and _counts_anew(column.values))  # of an order
        blocks = column.kind == "whole" and _repeated_measures(column, columns, inputs)
        blocks = blocks and not _has_the_same_blocks(column, columns, inputs)
        blocks = blocks and (levels >= FEWEST_NUMBERS or bool(words & SUBJECT_WORDS))
        blocks = blocks or _numbered_blocks(column, columns, inputs)
        blocks = blocks and not words & GRID_WORDS
        specimen = name_words(name) & SPECIMENS and words & COUNTER_WORDS
        named = named or bool(specimen and column.kind == "whole" and _are_numbered(column, 1.0))
        code = code or (levels > MOST_LEVELS and numbers_names(column, columns))
        if named or many or code or blocks:
            groups.append(name)
    return groups


def is_id_of(name: str) -> bool:
    """Return whether a name, in small letters, says what it is the id of: townid, hhid, or schidkn."""
    name = name.lower()
    after = re.match(rf"({'|'.join((*OF_WHAT, 'school', 'student'))})[._]?id", name)
    before = re.fullmatch(r"(.+?)[._]?(id|no|nr)", name)
    return bool(after or (before and before[1] in SUBJECT_WORDS.union(OF_WHAT)))


def ends_like_a_code(name: str) -> bool:
    """Return whether a name, of whatever words, ends in one for codes, as fregion, ccode and LandCover do."""
    ends = ("region", "code", "category", "religion", "industry", "species", "taz")
    whole = "".join(filter(str.isalpha, name)).lower()
    last = last_word(name)
    return last.endswith(ends) or last == "cond" or whole.endswith(("landcover", "landuse"))


def is_nested(column: Column, columns: Mapping[str, Column]) -> bool:
    """Return whether numbers are made of two others, as class 12.3 is of school 12 and class 3."""
    whole = [c for c in columns.values() if c.kind == "whole" and not c.missing.any()]
    if column.missing.any() or column.values.min() < 0:
        return False
    outer = [c for c in whole if (c.values == np.floor(column.values)).all()]
    for first, second in (
        (a, b) for a in outer for b in whole if a is not b and b.values.min() >= 0
    ):
        pairs = set(zip(first.labels.tolist(), second.labels.tolist(), column.values, strict=True))
        if all(float(f"{a}.{b}") == value for a, b, value in pairs):
            return True
    return False


def _to_one_decimal(column: Column) -> bool:
    """Return whether positive numbers of at most one decimal are of ten rows each, as codes like 3.6 are."""
    values = column.values[np.isfinite(column.values)]
    tenths = 10.0 * values
    coarse = np.abs(tenths - np.round(tenths)).max() < 1e-5 and values.min() > 0
    return bool(coarse and 10 * len(np.unique(values)) <= len(values))


def numbers_names(column: Column, columns: Mapping[str, Column]) -> bool:
    """Return whether whole numbers stand for names: one for each text of another column, named after it."""
    if column.kind != "whole" or column.missing.any():
        return False
    for other in columns.values():
        if other is column or other.values is not None or other.missing.any():
            continue
        if not column.name.lower().startswith(other.name.lower()):
            continue
        pairs = set(zip(column.labels.tolist(), other.labels.tolist(), strict=True))
        if len(pairs) == len(set(column.labels.tolist())) == len(set(other.labels.tolist())):
            return True
    return False


def _marked_one_by_one(columns: Mapping[str, Column], inputs: list[str]) -> list[str]:
    """Return columns of whole numbers of which others, of 0 and 1, mark all levels but at most one."""
    whole = [columns[name] for name in inputs if columns[name].kind == "whole"]
    marks: dict[float, list[np.ndarray]] = {}
    for column in whole:
        known = column.values[np.isfinite(column.values)]
        if known.min() == 0 and known.max() == 1:
            marks.setdefault(known.sum(), []).append(column.values == 1)
    found = []
    for column in whole:
        levels, sizes = np.unique(column.values[~column.missing], return_counts=True)
        if not 3 <= len(levels) <= MOST_LEVELS:
            continue
        marked = sum(
            any(((column.values == level) == mark).all() for mark in marks.get(size, []))
            for level, size in zip(levels, sizes.astype(float), strict=True)
        )
        found += [column.name] * (marked >= len(levels) - 1)
    return found


def find_codes(columns: Mapping[str, Column], inputs: list[str]) -> list[str]:
    """Return columns of whole numbers that are codes of categories: a few that repeat.

    They are named like codes, stand for the texts of another column, or are marked by columns of 0 and 1.
    """
    codes = []
    marked = _marked_one_by_one(columns, inputs)
    for name in inputs:
        column = columns[name]
        if column.kind != "whole" or is_years(column):
            continue
        values = column.values[np.isfinite(column.values)]
        levels = np.unique(values)
        words = name_words(name)
        if not 3 <= len(levels) <= MOST_LEVELS or 2 * len(levels) > len(values) or values.min() < 0:
            continue
        if name in marked or numbers_names(column, columns):
            codes.append(name)
            continue
        if words & (COUNT_WORDS - {"n", "nr", "num", "number"}):
            continue
        if last_word(name) in (AMOUNT_WORDS | GRADE_WORDS) - CODE_WORDS:  # opinion of a state
            continue
        cycle = words & CYCLES and (_goes_on(column.values) or not _is_whole_cycle(words, levels))
        names_codes = (words & CODE_WORDS or ends_like_a_code(name)) and not cycle
        names_codes = names_codes or name.lower() in STATES
        subjects = words & SUBJECT_WORDS and len(levels) < FEWEST_NUMBERS and levels[0] >= 1
        blocks = levels[0] >= 1 and not words & GRID_WORDS and not _is_amount(column)
        blocks = blocks and _repeated_measures(column, columns, inputs)
        blocks = blocks and not _has_the_same_blocks(column, columns, inputs)
        apparatus = last_word(name) in APPARATUS and _are_numbered(column, 3.0)
        if names_codes or subjects or blocks or apparatus:
            codes.append(name)
    return codes


def _is_whole_cycle(words: set[str], levels: np.ndarray) -> bool:
    """Return whether numbers are all days of a week, all seasons of a year, or half of its months."""
    run = bool((np.diff(levels) == 1.0).all()) and levels[0] in (0.0, 1.0)
    whole = [n for word, n in (("season", 4), ("weekday", 7), ("dow", 7)) if word in words]
    return (run and len(levels) in whole) or (levels[0] == 1.0 and len(levels) >= 6)


def find_row_numbers(columns: Mapping[str, Column], inputs: list[str]) -> dict[str, str]:
    """Return columns that name the row, with the reason, unless they are times or the only inputs.

    They run 1, 2, 3, ... through the file, unless they are named as what is measured, as age or dose are,
    or x beside y; or are whole numbers, different in nearly every row, named like subjects; or are names of
    rows that begin with the number of a subject, as R makes them.
    """
    found: dict[str, str] = {}
    beside_y = any(name.startswith("y") for name in columns)
    for name in inputs:
        column = columns[name]
        if ROW_NAMES.fullmatch(name.strip()) and _begin_with_another(column, columns):
            found[name] = "row names"
        if column.kind != "whole" or column.missing.any() or is_time(name):
            continue
        values = column.values
        last = last_word(name)
        measured = last in AMOUNT_WORDS - {"index", "test", "level"} or (name == "x" and beside_y)
        subjects = last in SUBJECT_WORDS | COUNTER_WORDS and name_words(name) & SUBJECT_WORDS
        subjects = subjects or last.endswith("code") or last in CODE_SYSTEMS or is_id_of(name)
        if values[0] in (0.0, 1.0) and (np.diff(values) == 1.0).all():
            found |= {} if measured else {name: "row number"}
        elif ROW_NAMES.fullmatch(name.strip()) and _counts_anew(values):
            found[name] = "row number within a part of the file"
        elif subjects and len(np.unique(values)) >= NEARLY_ALL * len(values):
            found[name] = "different in every row"
    return found if set(found) < set(inputs) else {}


def find_of_models(
    columns: Mapping[str, Column], inputs: list[str], target: Column
) -> dict[str, str]:
    """Return columns that tell of models, not of cases, with the reason: predictions, and rows to learn from.

    y_pred, predicted_price beside price, residuals; train of TRUE and FALSE, split of train and test.
    """
    found: dict[str, str] = {}
    for name in inputs:
        column, words = columns[name], name_words(name)
        others = words - PREDICTED
        own = others <= OF_PREDICTIONS | name_words(target.name) and words != {"pred"}
        if (words & PREDICTED or words == {"y", "hat"}) and own:
            found[name] = "what a model predicted"
        levels = {label.lower() for label in column.labels[~column.missing].tolist()}
        marks = words <= PARTS | {"is", "in"} and bool(words & PARTS - {"test", "testing", "dev"})
        if (marks and levels == {"true", "false"}) or (
            words <= PARTS | SPLITS and len(levels) > 1 and levels <= PARTS
        ):
            found[name] = "marks the rows that a model learnt from"
    return found if set(found) < set(inputs) else {}


def _counts_anew(values: np.ndarray) -> bool:
    """Return whether numbers run 1, 2, 3, ... through the file and begin again at times."""
    steps = np.diff(values)
    return values[0] in (0.0, 1.0) and bool(((steps == 1.0) | (values[1:] == values[0])).all())


def _begin_with_another(column: Column, columns: Mapping[str, Column]) -> bool:
    """Return whether numbers, mostly different, have another column as their whole part: 3.1, 3.2 of id 3."""
    if column.kind != "number" or column.missing.any():
        return False
    if len(np.unique(column.values)) < MOSTLY_DIFFERENT * len(column.values):
        return False
    whole = np.floor(column.values)
    others = [other for other in columns.values() if other.kind == "whole"]
    return len(np.unique(whole)) > 1 and any((other.values == whole).all() for other in others)


def _named(columns: list[Column], words: tuple[str, ...]) -> list[Column]:
    """The columns that have one of the words in their names, the first word first."""
    return [column for word in words for column in columns if word in name_words(column.name)]


def _are_numbered(column: Column, most: float) -> bool:
    """Return whether numbers run from 1 on, and none has more than ``most`` times the rows of another.

    Amounts seldom do.
    """
    levels, sizes = np.unique(column.values[~column.missing], return_counts=True)
    through = (levels == np.arange(1, len(levels) + 1)).all()
    return bool(through and sizes.max() <= most * sizes.min())


def _numbered_blocks(column: Column, columns: Mapping[str, Column], inputs: list[str]) -> bool:
    """Return whether rows come in a block for each of 1, 2, 3, ..., but in another order, as sorted by time.

    Not where another column has the same blocks, as the names whose ranks these are.
    """
    if column.kind != "whole" or column.missing.any() or is_time(column.name):
        return False
    if last_word(column.name) in AMOUNT_WORDS | GRADE_WORDS:
        return False
    values = column.values
    starts = np.concatenate([[0], np.flatnonzero(np.diff(values) != 0) + 1])
    order = values[starts]
    if len(order) < FEWEST_NUMBERS or (np.sort(order) != np.arange(1, len(order) + 1)).any():
        return False
    falls = (np.diff(order) < 0).mean()
    return bool(0.2 <= falls <= 0.8) and not _another_has_its_blocks(column, columns, inputs)


def _goes_on(values: np.ndarray) -> bool:
    """Return whether numbers are times that go on: in order in the file, in even steps."""
    different = np.unique(values[np.isfinite(values)])
    if len(different) < 3:
        return False
    steps = np.diff(different)
    known = values[np.isfinite(values)]
    return bool(np.allclose(steps, steps[0])) and bool((np.diff(known) >= 0).all())


def _is_amount(column: Column) -> bool:
    """Return whether few whole numbers may be a number of something: from 1 on, some rare, not in blocks."""
    values = column.values[np.isfinite(column.values)]
    blocks = 1 + np.count_nonzero(np.diff(values))
    sizes = np.unique(values, return_counts=True)[1]
    least = sizes.min() / sizes.max()  # subjects of a design have as many rows each
    uneven = least < (0.25 if values.min() > 1 else 0.02)  # a family of 1 is a number of people
    return bool(values.min() >= 1 and blocks > 2 * len(sizes) and uneven)


def _number_a_design(column: Column) -> bool:
    """Return whether whole numbers from 0 leave none out and have much the same number of rows each."""
    levels, sizes = np.unique(column.values[~column.missing], return_counts=True)
    through = bool((levels == np.arange(len(levels))).all())
    return through and bool(sizes.min() >= 0.5 * sizes.max())


def _has_the_same_blocks(column: Column, columns: Mapping[str, Column], inputs: list[str]) -> bool:
    """Return whether another column is constant in the same rows: then either may be an amount."""
    if (column.values == np.unique(column.values, return_inverse=True)[1] + 1).all():
        return False  # numbered through
    return _another_has_its_blocks(column, columns, inputs)


def _another_has_its_blocks(
    column: Column, columns: Mapping[str, Column], inputs: list[str]
) -> bool:
    own = column.labels[1:] != column.labels[:-1]
    others = [columns[name] for name in inputs if columns[name] is not column]
    return any(((other.labels[1:] != other.labels[:-1]) == own).all() for other in others)


def _is_square(a: Column, b: Column) -> bool:
    """Return whether two columns have the same levels, and each pair of these one row: a cross table."""
    levels = np.unique(a.values)
    pairs = set(zip(a.values.tolist(), b.values.tolist(), strict=True))
    same = np.array_equal(levels, np.unique(b.values))
    return same and len(pairs) == len(a.values) == len(levels) ** 2


def _repeated_measures(column: Column, columns: Mapping[str, Column], inputs: list[str]) -> bool:
    """Return whether rows come in a block for each value, and another column rises anew in each block."""
    levels = np.unique(column.values)
    steps = np.diff(levels)
    if is_time(column.name) or column.missing.any() or (steps[0] > 1 and (steps == steps[0]).all()):
        return False  # values of a design
    starts = np.flatnonzero(np.diff(column.values) != 0) + 1
    if len(starts) + 1 != len(np.unique(column.values)):
        return False
    within = np.ones(len(column.values) - 1, dtype=bool)
    within[starts - 1] = False
    for name in inputs:
        other = columns[name]
        if other is column or other.kind not in ("number", "whole", "date") or other.missing.any():
            continue
        if not is_time(name) and _is_square(column, other):
            continue
        steps = np.diff(other.values)
        if within.any() and (steps[within] > 0).all() and (steps[~within] < 0).mean() > 0.9:
            return True
    return False
