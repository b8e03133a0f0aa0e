"""Are probabilities, intervals and counts calibrated? Judged by rows that were not learned from."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

from gpmcflow.analysis.page import html, words
from gpmcflow.analysis.page.canvas import one_panel, panel
from gpmcflow.analysis.page.results import ENOUGH_ROWS, Analysis
from gpmcflow.analysis.page.standing import one_class
from gpmcflow.plot import judged

_QUANTILES = judged.QUANTILES, judged.quantiles
_ROOTOGRAM = judged.ROOTOGRAM, judged.rootogram
_CALIBRATION = judged.CALIBRATION, judged.calibration
_HEADINGS = {
    "binary": "Are the probabilities calibrated?",
    "grades": "Are the grade probabilities calibrated?",
    "classes": "Are the class probabilities calibrated?",
    "counts": "Do the counts vary as the model says?",
    "survival": "Are the predicted times calibrated?",
}


def reliability(analysis: Analysis) -> html.Section:
    """Calibration (binary), rootogram (counts), or what share the intervals hold."""
    heading = _HEADINGS.get(analysis.kind, "Are the intervals calibrated?")
    rows = analysis.judged
    if analysis.kind == "binary" and not rows.empty:
        rows = rows[rows["probability"].notna()]
    if rows.empty:
        text = "Not judged: no rows were held out."
        if analysis.info["yaml"]:
            text += " Set test_fraction in the config to hold some out."
        return html.section("reliability", heading, html.paragraph(text))
    body = _intervals
    if analysis.own.leveled:
        body = _grades
    elif analysis.kind in ("binary", "survival"):
        body = _calibration if analysis.kind == "binary" else _times
    elif analysis.kind == "counts" and "p_0" in rows:
        body = _counts
    return html.section("reliability", heading, body(analysis, rows))


def _source(analysis: Analysis) -> str:
    """Said first where leave-one-out stands in for held-out rows, or there are few of them."""
    if analysis.by_loo and not analysis["predictions_loo"].empty:
        return "By leave-one-out, because too few rows were held out."
    return ""


def _verdict(analysis: Analysis, n: int, good: bool) -> str:
    if n < ENOUGH_ROWS:
        return f"{words.rows(n)} are too few to tell."
    if good and (one := one_class(analysis)):
        return f"{one}, so this cannot be judged."
    if good:
        return f"Yes, as far as {words.rows(n)} can show."
    return "Not quite."


def _calibration(analysis: Analysis, rows) -> Markup:
    groups = judged.probability_groups(rows)
    good, worst = judged.probabilities_fit(rows)
    n, positive = len(rows), analysis.info["target"]["positive"]
    picks = [min(1, len(groups) - 1), max(len(groups) - 2, 0)] if good else [worst]
    texts = [
        f"where {'the model' if index == 0 else 'it'} said about {words.probability(groups[k].promised)}, "
        f"{groups[k].seen} of {groups[k].n} were “{positive}”"
        for index, k in enumerate(sorted(set(picks)))
    ]
    advice = ""
    if not good and n >= ENOUGH_ROWS and not one_class(analysis):
        advice = "Use the probabilities to rank rows, not as they stand."
    caption = (
        f"{'Left-out' if _source(analysis) else 'Held-out'} rows in {words.count(len(groups))} "
        f"group{'s' * (len(groups) > 1)} from low to high probability. On the dashed line, "
        "probability and share agree. Bars: 95 % interval for the share."
    )
    said = [
        *(_source(analysis), _verdict(analysis, n, good)),
        words.capital("; ".join(texts)) + ".",
    ]
    share = f"share that was “{positive}”"
    picture = one_panel(analysis, "calibration", caption, *_CALIBRATION, groups, share)
    return html.join(html.paragraph(*said, advice), picture)


def _intervals(analysis: Analysis, rows) -> Markup:
    n = len(rows)
    discrete = not analysis.own.measured
    wide = judged.n_inside(rows, "q025", "q975")
    inside = {95: wide}
    parts = [f"Of the {words.rows(n)}, {wide} ({_share(wide, n)}) lie inside their 95 % interval"]
    if {"q25", "q75"} <= set(rows):
        inside[50] = half = judged.n_inside(rows, "q25", "q75")
        parts.append(f" and {half} ({_share(half, n)}) inside their 50 % interval")
    narrow = {
        percent: count < n * percent / 100
        for percent, count in inside.items()
        if not judged.inside_as_promised(count, n, percent / 100, discrete=discrete)
    }
    text = html.paragraph(
        *(_source(analysis), _verdict(analysis, n, not narrow), "".join(parts) + "."),
        _direction(narrow) if n >= ENOUGH_ROWS else "",
    )
    captions, most = [], judged.MOST_POINTS
    by_quantile = not discrete and {"q25", "q50", "q75"} <= set(rows)
    by_row = not analysis.info.get("share")
    if by_quantile:
        captions.append(
            "Share of outcomes below each predicted quantile (2.5, 25, 50, 75 and 97.5 %); dashes: as it "
            "should be; bars: two standard errors."
        )
    if by_row:
        both = "; both axes are logarithmic" if analysis.kind == "positive" else ""
        some = f"{most} of {words.rows(n)}" if n > most else f"all {words.rows(n)}"
        captions.append(
            f"{'Counted' if discrete else 'Measured'} against predicted, {some}; lines: 95 % interval; "
            f"open circles: outside it; dashes: as predicted{both}."
        )
    if not captions:
        return text
    if len(captions) == 2:
        pairs = zip(("First", "Second"), captions, strict=True)
        captions = [f"{place}: {text[0].lower()}{text[1:]}" for place, text in pairs]
    caption = " ".join(captions)
    panels = []
    if by_quantile:
        shares = judged.quantile_shares(rows)
        panels.append(panel(analysis, "quantiles", caption, *_QUANTILES, shares))
    if by_row:
        logarithmic = analysis.kind == "positive"
        if logarithmic and "q50" in rows:
            rows = rows.assign(mean=rows["q50"])
        target = analysis.with_unit(analysis.info["target"]["name"])
        drawing = caption, judged.SCATTER, judged.scatter, rows, target
        axes = {"counted": discrete, "logarithmic": logarithmic}
        panels.append(panel(analysis, "scatter", *drawing, **axes))
    return html.join(text, html.figure(panels, caption))


def _times(analysis: Analysis, rows) -> Markup:
    n, ended = len(rows), int((rows["event"] != 0).sum())
    shares, (as_many, expected) = judged.survival_shares(rows), judged.times_fit(rows)
    apart = [s for s in shares if not s.low <= s.level <= s.high and s.high > s.low]
    good = as_many and len(apart) <= 1
    parts = [
        f"The model expects {words.rows(round(expected))} to end while they were followed; {ended} did."
    ]
    if middle := next((s for s in shares if s.level == 0.5), None):
        parts.append(
            f"Half should end by their predicted median; {words.percent(middle.share)} do (95 % interval "
            f"{words.percent_range(middle.low, middle.high)}), allowing for those not seen to end."
        )
    text = html.paragraph(_verdict(analysis, n, good), *parts)
    if not shares:
        return text
    caption = (
        "Share of held-out rows that ended before each predicted quantile "
        f"({words.series([f'{100 * s.level:g}' for s in shares])} %), by Kaplan-Meier, which allows for rows "
        "not seen to end; dashes: as it should be; bars: two standard errors."
    )
    if analysis.by_interval:
        caption += (
            " A time known to an interval is drawn at random there, as the model predicts it."
        )
    return html.join(text, one_panel(analysis, "quantiles", caption, *_QUANTILES, shares))


def _direction(narrow: Mapping[int, bool]) -> str:
    """How the intervals that do not hold what they promise are wrong: by percent, whether too narrow."""
    wrong = {True: "too narrow", False: "too wide"}
    if len(narrow) == 2 and len(set(narrow.values())) == 1:
        return f"The intervals are {wrong[narrow[95]]}."
    return " ".join(f"The {level} % intervals are {wrong[off]}." for level, off in narrow.items())


def _counts(analysis: Analysis, rows) -> Markup:
    bins, n = judged.count_bins(rows), len(rows)
    outside = [one for one in bins if one.outside]
    wide = judged.n_inside(rows, "q025", "q975")
    good = len(outside) <= 1 and judged.inside_as_promised(wide, n, 0.95, discrete=True)
    none = bins[0]
    zero = (
        f"The model expects {words.rows(round(none.expected))} with a count of 0 (95 % interval "
        f"{none.low} to {none.high}); there are {none.seen}."
    )
    texts = []
    for one in outside[:2]:
        if one is none:
            continue
        size = one.name.replace("+", " or more")
        more = "more" if one.seen > one.high else "fewer"
        texts.append(
            f"{words.capital(words.rows(one.seen))} have a count of {size}, {more} than the "
            f"{words.number(one.expected, 2)} the model expects ({one.low} to {one.high})."
        )
    text = html.paragraph(
        *(_source(analysis), _verdict(analysis, n, good), zero, *texts),
        f"{wide} of {n} counts ({_share(wide, n)}) lie inside their 95 % interval.",
    )
    caption = (
        f"{'Left-out' if _source(analysis) else 'Held-out'} rows by their count. Dot: seen; line "
        "and band: expected with its 95 % interval. The vertical axis is stretched at the bottom "
        "(square root), so that rare counts can be seen."
    )
    target = f"{analysis.target} of a row"
    return html.join(text, one_panel(analysis, "counts", caption, *_ROOTOGRAM, bins, target))


def _grades(analysis: Analysis, rows) -> Markup:
    target, n, level = analysis.info["target"], len(rows), analysis.own.level
    levels = list(target["levels"])
    upper = {target["positive"]} if level == "class" else set(levels[target["split"] - 1 :])
    bins = judged.grade_bins(rows, levels)
    groups_of = rows.assign(outcome=rows["outcome"].isin(upper).astype(float))
    outside = [one for one in bins if one.outside]
    good = len(outside) <= 1 and judged.probabilities_fit(groups_of)[0]
    texts = [
        f"{words.capital(words.rows(one.seen))} {'has' if one.seen == 1 else 'have'} the {level} {one.name}, "
        f"{'more' if one.seen > one.high else 'fewer'} than the {words.number(one.expected, 2)} the model "
        f"expects ({one.low} to {one.high})."
        for one in outside[:2]
    ]
    every = "" if outside else f"Each {level} is as frequent as the model expects."
    text = html.paragraph(_verdict(analysis, n, good), every, *texts)
    caption = (
        f"First: held-out rows by their {level}. Dot: seen; line and band: expected with its 95 % interval; "
        f"the axis is a square root. Second: how often the {level} was {target['positive']}, in groups from "
        "low to high probability; on the dashes, probability and share agree; bars: 95 % interval for the "
        "share."
    )
    shown, share = f"{analysis.target} of a row", f"share that was {target['positive']}"
    groups = judged.probability_groups(groups_of)
    panels = [
        panel(analysis, "grades-seen", caption, *_ROOTOGRAM, bins, shown),
        panel(analysis, "calibration", caption, *_CALIBRATION, groups, share),
    ]
    confusion = _confusion(rows, levels) if level == "class" else ""
    return html.join(text, html.figure(panels, caption), confusion)


def _confusion(rows, levels: list[str]) -> Markup:
    """How many rows of each class are predicted to be of which."""
    heads = [html.Head("seen"), *(html.Head(f"predicted {told}", True) for told in levels)]
    cells: list[list[object]] = []
    for seen in levels:
        told = rows.loc[rows["outcome"] == seen, "class"]
        counts = [str(int((told == level).sum())) for level in levels]
        own = levels.index(seen)
        cells.append([seen, *counts[:own], html.bold(counts[own]), *counts[own + 1 :]])
    return html.table(heads, cells)


def _share(part: int, n: int) -> str:
    decimals = 1 if n >= 200 else 0
    return f"{100 * part / n:.{decimals}f} %".replace(".0 %", " %")
