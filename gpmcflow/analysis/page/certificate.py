"""The page of a certificate: how often fits of simulated data held the truth, model by model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from markupsafe import Markup
from matplotlib.axes import Axes

from gpmcflow.analysis.page import words
from gpmcflow.analysis.page.canvas import drawn
from gpmcflow.analysis.page.html import (
    Head,
    Section,
    bold,
    code,
    figure,
    folded,
    italic,
    join,
    link,
    paragraph,
    quiet,
    sentences,
    table,
)
from gpmcflow.analysis.page.page import rendered
from gpmcflow.certificate.certificate import Certificate, verdict
from gpmcflow.plot.style import (
    ACCENT,
    DASHES,
    INK,
    MUTED,
    STEPS,
    Frame,
    few_ticks,
    percent_axis,
    top_left,
)

CAPTION = (
    "For each quantity, in its band: the share of data sets in which the truth has at most this rank among "
    "the draws, less the share expected of a right fit. Of right fits, at most 5 % of certificates leave any "
    "of their bands."
)


def certificate_page(
    certificates: Mapping[str, Certificate], info: Mapping[str, Any], version: str
) -> str:
    """HTML of the page, from the certificate of each model and what they were made of.

    ``info`` has csv, n_rows, n (data sets), around and fit in words, command, and ``made_of``, pairs of a
    thing and its digest. The same certificates give the same text.
    """
    every = certificates.values()
    title = "The fits find the truth"
    if not all(c.passed for c in every):
        title = "Some fits are wrong" if any(c.failed for c in every) else "Some fits failed"
    file_line = " · ".join(
        [info["csv"], words.rows(info["n_rows"]), f"{info['n']} data sets for each model"]
    )
    return rendered(
        title,
        file_line,
        [_answer(certificates), *_models(certificates), _how(info)],
        version,
    )


def _answer(certificates: Mapping[str, Certificate]) -> Section:
    parts = []
    for name, certificate in certificates.items():
        n = certificate.n_fitted
        if not n:
            parts.append(
                paragraph(Markup("No data set of {} was fitted.").format(italic(name)), "answer")
            )
            continue
        coverage = certificate.results["coverage"].sel(level=0.95)
        held = bold(words.percent(float(coverage.mean())))
        text = Markup(
            "Of {} data sets like yours, the 95 % intervals of {} held the truth in {}."
        ).format(n, italic(name), held)
        parts.append(paragraph(sentences([text, certificate.judgement]), "answer"))
    return Section("answer", "Are the fits right?", join(parts))


def _models(certificates: Mapping[str, Certificate]) -> Iterator[Section]:
    for number, (name, certificate) in enumerate(certificates.items()):
        key, results = f"model-{number}", certificate.results
        body = [*(paragraph(text) for text in certificate.notes), _table(certificate.table())]
        if "ecdf_difference" in results:
            panels = [
                _panel(f"{key}-{k}", results.sel(quantity=quantity))
                for k, quantity in enumerate(results["quantity"].values)
            ]
            body.append(figure(panels, CAPTION))
        yield Section(key, name, join(body))


def _table(frame: pd.DataFrame) -> Markup:
    heads = [
        Head("quantity"),
        Head("50 % interval held", True),
        Head("95 % interval held", True),
        Head("p of ranks", True, wide=True),
        Head("p of coverage", True, wide=True),
        Head("verdict"),
    ]
    rows = [
        [
            row["quantity"],
            words.percent(row["held_50"]),
            words.percent(row["held_95"]),
            words.number(row["p_ranks"], 2),
            words.number(row["p_coverage"], 2),
            row["verdict"],
        ]
        for _, row in frame.iterrows()
    ]
    return table(heads, rows)


def _panel(key: str, quantity: xr.Dataset) -> Markup:
    name, passed = str(quantity["quantity"].values), bool(quantity["passed"])
    caption = f"Ranks of {name}, {'inside' if passed else 'outside'} their band."
    return drawn(key, caption, Frame(190, 52, 26, 14, 40), _ranks, quantity, name, passed)


def _ranks(axes: Axes, quantity: xr.Dataset, name: str, passed: bool) -> None:
    """The empirical distribution of ranks less the uniform one, in its band."""
    share = quantity["share"].values
    low, high = quantity["band_low"].values, quantity["band_high"].values
    axes.fill_between(_closed(share, 1.0), _closed(low), _closed(high), color=STEPS[1], lw=0)
    axes.axhline(0.0, color=MUTED, linewidth=1, linestyle=DASHES)
    colour = ACCENT if passed else INK
    difference = _closed(quantity["ecdf_difference"].values)
    axes.plot(_closed(share, 1.0), difference, color=colour, linewidth=1.8)
    axes.set_xlim(0.0, 1.0)
    few_ticks(axes, x=5, y=5)
    percent_axis(axes.xaxis)
    percent_axis(axes.yaxis)
    top_left(axes, name if passed else f"{name}: {verdict(quantity)}")
    axes.set_xlabel("rank of the truth, as a share of the draws")


def _closed(values: np.ndarray, last: float = 0.0) -> np.ndarray:
    """With both ends, where a distribution function is 0 and 1."""
    return np.concatenate([[0.0], values, [last]])


def _how(info: Mapping[str, Any]) -> Section:
    text = sentences(
        [
            Markup("Hyperparameters and the function are drawn {}, and outcomes simulated at the inputs of "
                   "your {}.").format(info["around"], words.rows(info["n_rows"])),
            Markup("Each data set is fitted {}.").format(info["fit"]),
            "The truth is ranked among nearly independent draws, as many as are effective, from 20 to 99; at "
            "most 400 evenly spaced draws of a fit are looked at. Ties are broken at random.",
            "Ranks of a right fit are uniform, and its intervals hold the truth as often as they say.",
            "Too narrow: the truth lies too often in the tails. Too low, too high: the draws lie to one side "
            "of it.",
        ]
    )  # fmt: skip
    again = Markup(
        "Again, or with more data sets, which go on from these: {}. The table: {}."
    ).format(code(info["command"]), link("certificate.csv"))
    rows: Sequence[tuple[str, str]] = info["made_of"]
    hashes = folded(
        "Made of", table([Head("what"), Head("SHA-256 or version")], [[*row] for row in rows])
    )
    return Section("how", "How was this made?", join([paragraph(text), quiet(again), hashes]))
