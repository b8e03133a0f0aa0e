"""What to use and what went in: predictions, the data, how to do it again, and the folded tables."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pandas as pd
from markupsafe import Markup

from gpmcflow.analysis.grades import PREFIX
from gpmcflow.analysis.page import html, words
from gpmcflow.analysis.page.results import Analysis, label
from gpmcflow.data.times import KNOWN

_FIRST = 5  # rows of predictions on the page


def predictions(analysis: Analysis) -> html.Section:
    """First rows of the new file, or of the held-out rows with the command that predicts a file."""
    new = analysis["predictions_new"]
    is_new = bool(analysis.info.get("new_csv")) and not new.empty
    frame = new if is_new else analysis["predictions_test"]
    heading, name = "Predictions", analysis.info["name"]
    command = Markup("To predict a file of new rows: {}.").format(
        html.code(f"gpmcflow predict {name} new.csv -o predictions.csv")
    )
    if frame.empty:
        return html.section("predictions", heading, html.paragraph(command))
    n = len(frame)
    file = "predictions_new.csv" if is_new else "predictions_test.csv"
    of, also = Markup("{} held out").format(words.rows(n)), Markup("")
    if is_new:
        of = Markup("{} of {}").format(words.rows(n), html.code(analysis.info["new_csv"]))
        if not analysis["predictions_test"].empty:
            also = Markup("; the held-out rows: {}").format(html.link("predictions_test.csv"))
    if analysis.info.get("share"):
        told = Markup("{} were predicted: {}{}.").format(of, html.link(file), also)
        body = [html.paragraph(told, _spread(analysis, frame))]
    else:
        first = frame.head(_FIRST)
        shown = f"First {len(first)} of" if n > _FIRST else "The"
        body = [
            html.paragraph(Markup("{} {}. All: {}{}.").format(shown, of, html.link(file), also)),
            _rows(analysis, first, is_new=is_new),
            html.quiet(_meaning(analysis, is_new), _notes(analysis, frame)),
        ]
    return html.section("predictions", heading, *body, html.paragraph("" if is_new else command))


def _rows(analysis: Analysis, first: pd.DataFrame, *, is_new: bool) -> Markup:
    ids = [column for column in analysis.info.get("ids", []) if column in first]
    heads, cells = [html.Head(ids[0] if ids else "row")], []
    upper = analysis.info["target"]["positive"]
    of_levels = [
        *html.heads(analysis.own.level, "its probability #"),
        html.Head(f"{upper}, 95 %", True),
    ]
    name = analysis.with_unit(analysis.info["target"]["name"])
    heads += {
        "grades": of_levels,
        "classes": of_levels,
        "binary": html.heads("probability #", "95 % interval #"),
        "counts": [html.Head(label(analysis.target), True), html.Head("count, 95 %", True)],
    }.get(analysis.kind, [html.Head(name, True), html.Head("95 % interval", True)])
    rates = {"rate_q025", "rate_q975"} <= set(first)
    rate = analysis.kind == "counts" and rates and bool(analysis.per)
    if rate:
        heads.append(html.Head(f"{analysis.per}, 95 %", True))
    if not is_new:
        heads.append(html.Head("outcome", True))
    inputs = [c for c in analysis.info.get("shown_columns", []) if c in first][:4]
    inputs = [column for column in inputs if column not in ids[:1]]
    numeric = {c: pd.to_numeric(first[c], errors="coerce").notna().any() for c in inputs}
    heads += [html.Head(label(column), bool(numeric[column]), wide=True) for column in inputs]
    for _, row in first.iterrows():
        line: list[object] = [row[ids[0]] if ids else words.fixed(row["row"], 0)]
        line += _prediction(analysis, row)
        if rate:
            line.append(words.span(row["rate_q025"], row["rate_q975"]))
        if not is_new:
            line.append(_outcome(analysis, row))
        note = row.get("note")
        if isinstance(note, str) and note:
            line[0] = f"{line[0]}*"
        line += ["" if pd.isna(row[column]) else row[column] for column in inputs]
        cells.append(line)
    return html.table(heads, cells)


def _prediction(analysis: Analysis, row: pd.Series) -> list[object]:
    if analysis.kind == "binary":
        given = math.isfinite(row.get("probability", math.nan))
        value = row["probability"] if given else row["mean"]
        return _of_share(value, row)
    if level := analysis.own.level:
        own, upper = row[PREFIX + row[level]], (row["probability"], row["q025"], row["q975"])
        return [html.bold(row[level]), words.probability(own), words.percent_interval(*upper)]
    if analysis.kind == "share":
        return _of_share(row["mean"], row)
    if analysis.own.typical == "median":
        middle, low, high = (words.number(row[name]) for name in ("q50", "q025", "q975"))
        return [html.bold(middle), f"{low} to {high}"]
    if analysis.kind == "real":
        middle, low, high = words.interval_parts(row["mean"], row["q025"], row["q975"])
        decimals = _decimals(row)
        if 0 <= decimals <= 5:
            ends = words.around(row["mean"], row["q025"], row["q975"])
            middle, low, high = (words.fixed(end, decimals) for end in ends)
        return [html.bold(middle), f"{low} to {high}"]
    value = row["mean"]
    mean = words.fixed(value, 1) if 0.05 <= value < 100 else words.number(value, 2)
    return [html.bold(mean), f"{row['q025']:.0f} to {row['q975']:.0f}"]


def _of_share(value: float, row: pd.Series) -> list[object]:
    value, low, high = words.around(value, row["q025"], row["q975"])
    return [html.bold(words.probability(value)), words.percent_range(low, high)]


def _decimals(row: pd.Series) -> int:
    """As many as the interval of a prediction has."""
    return words.decimals_of((row["q975"] - row["q025"]) / 20)


def _outcome(analysis: Analysis, row: pd.Series) -> str:
    if pd.isna(row["outcome"]):
        return ""
    if analysis.kind == "binary":
        target = analysis.info["target"]
        return str(target["positive"] if row["outcome"] > 0.5 else target["negative"])
    if analysis.kind == "survival" and row["event"] < 1:
        return f"{'under' if row['event'] else 'over'} {words.number(row['outcome'])}"
    if pd.notna(row.get("until")):
        return f"{words.number(row['outcome'])} to {words.number(row['until'])}"
    if analysis.own.leveled:
        return str(row["outcome"])
    if analysis.kind == "share":
        return words.percent(row["outcome"])
    if analysis.own.typical == "median":
        return words.number(row["outcome"])
    if analysis.kind != "real":
        return words.fixed(row["outcome"], 0)
    return words.fixed(row["outcome"], min(max(_decimals(row), 0), 5))


def _meaning(analysis: Analysis, is_new: bool) -> str:
    each = "Each interval is for one new row, {} included."
    median = "Each prediction is the median: the {} is as likely to {}. "
    if analysis.kind == "survival":
        over = " “Over”: the end was not seen." * (not is_new)
        over += " “Under”: it was before that time." * (over != "" and analysis.by_interval)
        return median.format("end", "come after it as before") + each.format("chance") + over
    if level := analysis.own.level:
        upper = analysis.info["target"]["positive"]
        return (
            f"Each prediction is the most probable {level}; the last column is the probability of {upper} "
            f"with its interval. The file has the probability of every {level}."
        )
    if analysis.own.measured:
        median = median.format("outcome", "be above it as below") * (analysis.kind == "positive")
        return median + each.format("noise")
    frame = analysis["predictions_new" if is_new else "predictions_test"]
    if analysis.kind == "counts" and "rate_q025" in frame:
        if not analysis.per:
            return "Each interval is for the number that will be counted."
        return (
            "The first interval is for the number that will be counted, chance included; the second is "
            "for the rate."
        )
    return ""


def _notes(analysis: Analysis, frame: pd.DataFrame) -> Markup | str:
    """How many rows carry a note, and what the first one says."""
    if "note" not in frame or frame["note"].isna().all():
        return ""
    notes = frame["note"].dropna()
    n = len(notes)
    start = "* " if n and frame["note"].head(_FIRST).notna().any() else ""
    return Markup("{}Of the {}, {} {} marked in the column {}, the first with “{}”.").format(
        *(start, words.rows(len(frame)), words.count(n), "is" if n == 1 else "are"),
        *(html.code("note"), _quoted(notes.iloc[0].split("; ")[0])),
    )


def _quoted(note: str) -> str:
    """Double quotes within a quotation become single ones."""
    return re.sub(r'"([^"]*)"', "‘\\1’", note)


def _spread(analysis: Analysis, frame: pd.DataFrame) -> str:
    name = "q50" if analysis.own.typical == "median" else "mean"
    if analysis.own.classified and "probability" in frame:
        name = "probability"
    low, high = frame[name].quantile([0.25, 0.75])
    if analysis.own.classified:
        between = words.percent_range(low, high).replace(" to ", " and ")
        return f"Half of the probabilities lie between {between}."
    return f"Half of the predictions lie between {words.number(low)} and {words.number(high)}."


def your_data(analysis: Analysis) -> html.Section:
    """Rows by their use, which add up, and what was seen in each column and done with it."""
    info, columns = analysis.info, analysis["columns"]
    words_of_use = {"learning": "to learn from", "no outcome": "without an outcome"}
    uses = {use: int(n) for use, n in info["uses"].items() if n or use == "learning"}
    counted = [f"{words.fixed(n, 0)} {words_of_use.get(use, use)}" for use, n in uses.items()]
    unused = sum(n for use, n in uses.items() if use not in ("learning", "held out"))
    listed = Markup(", none dropped")
    if unused:
        listed = Markup(" (listed in {}, not used)").format(html.link("rows.csv"))
    total, added = words.fixed(info["n_rows"], 0), ""
    if len(uses) > 1:
        added = f"{' + '.join(words.fixed(n, 0) for n in uses.values())} = {total}."
    counts = words.rows(info["n_rows"]), words.series(counted), listed
    heads = html.heads("column", "found", "done")
    change: Markup | str = ""
    if info["yaml"]:
        change = Markup("Change any of this in {} under {}.")
        change = change.format(html.code(info["yaml"]), html.code("data:"))
    return html.section(
        *("data", "Your data"),
        html.paragraph(
            Markup("The file has <b>{}</b>: {}{}.").format(*counts),
            *(added, _balance(analysis), _column_counts(analysis)),
        ),
        html.table(heads, columns[["column", "found", "done"]].fillna("").values.tolist()),
        html.quiet(change, "Nothing left this computer."),
    )


def _balance(analysis: Analysis) -> str:
    info, target = analysis.info, analysis.info["target"]
    if analysis.own.classified:
        used, positive = info["n_used"], round(info["base"] * info["n_used"])
        return (
            f"Of the {words.rows(used)} with an outcome, {words.fixed(positive, 0)} have "
            f"“{target['positive']}” and {words.fixed(used - positive, 0)} have “{target['negative']}”."
        )
    if analysis.kind == "survival":
        used, seen = info["n_used"], info["n_used"] - info["times"]["later"]
        if analysis.by_interval:
            parts = [f"{words.fixed(n, 0)} {KNOWN[how]}" for how, n in info["times"].items() if n]
            return f"Of {words.fixed(used, 0)} times {words.series(parts)}."
        return (
            f"Of the {words.rows(used)} with a time, {words.fixed(seen, 0)} had ended ({target['unit']} "
            f"{target['positive']}) and {words.fixed(used - seen, 0)} had not."
        )
    return ""


def _column_counts(analysis: Analysis) -> str:
    columns = analysis["columns"]
    outcome = analysis.info["target"]["name"]
    others = columns[columns["column"] != outcome]
    done = others["done"].astype(str)
    dropped = int(done.str.startswith("dropped").sum())
    used = len(others) - dropped - int(done.str.startswith("not an input").sum())
    gone = f", {words.fixed(dropped, 0)} dropped" if dropped else ""
    return f"It has {words.plural(len(columns), 'column')}: the outcome{gone}, {words.fixed(used, 0)} used."


def again(analysis: Analysis) -> html.Section:
    """The commands, and what makes the same page again."""
    info = analysis.info
    new = info.get("new_csv") or "new.csv"
    single = info["name"] == Path(info["yaml"]).stem  # in a file of several, the file says quick
    quick = " --quick" if info.get("quick") and single else ""
    lines = [
        f"gpmcflow check {info['yaml']}{quick}",
        f"gpmcflow run {info['yaml']}{quick}",
        f"gpmcflow predict {info['name']} {new} -o predictions.csv",
    ]
    time = f" Its jobs took {words.duration(info['seconds'])}." if info.get("seconds") else ""
    files = {info["csv"]: info["checksum"], info.get("new_csv"): info.get("new_checksum")}
    read = [
        Markup("file {} with SHA-256 {}").format(
            html.code(name), html.code(f"{_grouped(checksum)} …")
        )
        for name, checksum in files.items()
        if checksum
    ]
    note = Markup(
        "gpmcflow {}, seed {}, {}.{} The same {}, seed and version give the same numbers."
    ).format(
        *(info["version"], info["seed"], Markup(", ").join(read), time),
        "file" if len(read) == 1 else "files",
    )
    commands = Markup("<pre>{}</pre>").format("\n".join(lines))
    return html.section("again", "Do it again", commands, html.quiet(note))


def _grouped(checksum: str) -> str:
    return " ".join(checksum[start : start + 4] for start in range(0, 12, 4))
