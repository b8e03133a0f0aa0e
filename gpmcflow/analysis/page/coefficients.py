"""Slopes, standard deviations of groups and shares of the variance, as a mixed model shows them."""

from __future__ import annotations

import pandas as pd
from markupsafe import Markup

from gpmcflow.analysis.page import html, words
from gpmcflow.analysis.page.results import Analysis, label
from gpmcflow.analysis.page.standing import together

MOST_LEVELS = 20  # that the page shows, those farthest from 0
_SCALES = {
    "identity": "",
    "log": " All are logarithms: 0.69 is a factor of 2.",
    "logit": " All are on the scale of the link, with the logistic one log odds.",
}


def coefficient_tables(analysis: Analysis) -> html.Section | None:
    """The section, or none where the shown model has neither slopes nor groups."""
    rows = analysis["coefficients"]
    if rows.empty:
        return None
    curved = rows.loc[rows["kind"] == "sd", "name"].str.slice(3, -1)
    curved = (rows["kind"] == "slope") & rows["name"].isin(curved)
    fixed = (rows["kind"] == "intercept") & (rows["sd"] == 0.0)  # no term can move it
    own = rows["kind"].isin(["intercept", "slope", "sd"])
    main = rows[own & ~_by_level(rows) & ~curved & ~fixed]
    levels = rows[(rows["kind"] == "level") | ((rows["kind"] == "slope") & _by_level(rows))]
    shares = rows[rows["kind"] == "share"]
    text = "Slopes are per unit of their columns, the intercept is where all columns are at their mean."
    if (main["kind"] == "sd").any():
        text += (
            " sd(..) is how far the levels of a group differ, or how far a curve departs from 0."
        )
    text += _SCALES[analysis.own.link]
    if curved.any():
        text += (
            " A column with a curve has no single slope: “Which columns matter?” shows its effect."
        )
    body = [html.paragraph(text, *_shared(analysis, main)), _table(main)]
    if not shares.empty:
        found = [
            (name.removeprefix("share(").removesuffix(")"), words.percent(mean))
            for name, mean in zip(shares["name"], shares["mean"], strict=True)
        ]
        named = words.series([f"{name} {share}" for name, share in found])
        body.append(html.paragraph(Markup("Shares of the variance: {}.").format(named)))
    if not levels.empty:
        largest = levels.reindex(levels["mean"].abs().sort_values(ascending=False).index)
        some = "" if len(levels) <= MOST_LEVELS else f", the {MOST_LEVELS} farthest from 0"
        body.append(
            html.folded(f"Effects of {len(levels)} levels{some}", _table(largest.head(MOST_LEVELS)))
        )
    body.append(html.quiet(Markup("All of them: {}.").format(html.link("coefficients.csv"))))
    return html.section("coefficients", "Coefficients", *body)


def _shared(analysis: Analysis, main: pd.DataFrame) -> list[Markup]:
    """That the slopes of columns that go with each other say little one by one."""
    if not (main["kind"] == "slope").any():
        return []
    text = Markup("{} share an effect: the interval of each slope says little about it.")
    sets = [own.columns for own in together(analysis) if own.alike]
    return [text.format(words.series([label(column) for column in own])) for own in sets]


def _by_level(rows: pd.DataFrame) -> pd.Series:
    return rows["name"].str.endswith("]") & rows["name"].str.contains(":", regex=False)


def _table(rows: pd.DataFrame) -> Markup:
    heads = html.heads("coefficient", "mean #", "sd #~", "95 % interval #")
    cells = [
        (row.label, words.number(row.mean, 3), "", "at its best value")
        if row.sd <= 1e-12 * abs(row.mean)  # not averaged over
        else (
            row.label,
            words.number(row.mean, 3),
            words.number(row.sd, 2),
            f"{words.number(row.low, 3)} to {words.number(row.high, 3)}",
        )
        for row in rows.rename(columns={"name": "label"}).itertuples(index=False, name="Row")
    ]
    return html.table(heads, cells)
