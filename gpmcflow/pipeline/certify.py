"""`gpmcflow certify`: a certificate of the fits of an analysis, on data like its own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from markupsafe import Markup
from matplotlib.axes import Axes

import gpmcflow
from gpmcflow.analysis import fitting
from gpmcflow.analysis.data import Data, data_of_table
from gpmcflow.analysis.models import build_model, model_statement
from gpmcflow.analysis.page import html, words
from gpmcflow.analysis.page.canvas import drawn
from gpmcflow.analysis.page.page import rendered
from gpmcflow.analysis.reading import prepare
from gpmcflow.certificate.certificate import Certificate, certified, verdict
from gpmcflow.certificate.fits import QUIET, Fit
from gpmcflow.certificate.quick_answers import certified_digest
from gpmcflow.data.target import Target
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.execution import Execution, settings_digest, workers
from gpmcflow.execution.code import code_digest
from gpmcflow.execution.state_folder import write_manifest
from gpmcflow.jobs.job_errors import STATE
from gpmcflow.models.gp_model import GPModel
from gpmcflow.pipeline.plan import certificate_table
from gpmcflow.pipeline.run import checked_with_files
from gpmcflow.plot import style
from gpmcflow.storage import write_csv, write_result_text
from gpmcflow.storage.checksums import read_sha256
from gpmcflow.storage.input_files import user_path

N_TIMED = 3  # data sets whose fits are timed for the forecast, and kept
CODE = (
    "gpmcflow.certificate.fits",
    "gpmcflow.certificate.priors",
    "gpmcflow.analysis.fitting",
    "gpmcflow.analysis.models",
)


@dataclass(frozen=True)
class AsAnalysed:
    """The draws of a model, as the analysis makes them."""

    weighs: ClassVar[bool] = True

    chains: int
    draws: int
    warmup: int

    @classmethod
    def of(cls, sampling: Mapping[str, Any]) -> AsAnalysed:
        """Of the settings of an analysis."""
        return cls(*(sampling[name] for name in ("chains", "draws", "warmup")))

    def __call__(self, model: GPModel, *, seed: int, key: tuple[str | int, ...]) -> xr.DataTree:
        """See `certificate.fits.Fit`."""
        return fitting.draw(
            model, vars(self), seed=seed, key=key, execution=QUIET, predictive=False
        )

    def digest(self) -> str:
        """Its settings."""
        return repr(self)


class Certified(NamedTuple):
    """A model of an analysis that is to be certified, and where what is finished is kept."""

    name: str
    model: GPModel
    fit: Fit | None
    seed: int
    key: tuple[str, str]
    state: Path
    target: Target

    def certificate(self, n: int, execution: Execution) -> Certificate:
        """Of n data sets; what is finished is read."""
        results = certified(
            self.model, self.fit, n, seed=self.seed, key=self.key, execution=execution
        ).results
        units = {"outcome_shift": self.target.shift, "outcome_scale": self.target.scale}
        return Certificate(results.assign_attrs(units))

    def n_finished(self) -> int:
        """Data sets that are finished."""
        return len(list(self.state.glob("block_*/segment_*.npz")))


def certify(
    path: str | Path,
    n: int,
    cores: int | None = None,
    models: Sequence[str] = (),
    *,
    quick: bool = False,
) -> Iterator[str]:
    """Certify the fits of each analysis of a config file; yield lines that say how it goes.

    ``n`` data sets are simulated from the priors of each model, or those named, at the rows of the file, and
    fitted as the analysis fits, with ``quick`` by approximations. Writes certificate.html and certificate.csv
    into the folder of its results. What is finished is kept as it comes; the same call goes on from there,
    and so does one with more data sets.

    A data set is one task of ``cores`` processes, or of the workers of the config's Dask scheduler; it is no
    job of Snakemake, as that would start Python for each of many fits that take a second or less.

    Raises `InputErrors` with all that is wrong with the file, `InputError` for models it does not have.
    """
    config, folder = checked_with_files(path, quick=quick), Path(path).resolve().parent
    if not config["analyses"]:
        raise InputError(
            f"{path}: found no analysis; allowed: a config such as gpmcflow new writes"
        )
    n_cores = cores or os.cpu_count() or 1
    scheduler = config["execution"]["scheduler"]
    here = "processes" if n_cores > 1 else "synchronous"
    with workers(scheduler or here, n_cores) as pool:
        if pool.client is not None:
            n_cores = sum(pool.client.nthreads().values())
        for name, settings in config["analyses"].items():
            (data, checksum), stated = (
                _data(config, name, folder), _stated(settings, models, str(path)),
            )  # fmt: skip
            own = [_certified(config, name, model, data, folder) for model in stated]
            yield from _forecast(own, n, n_cores, pool)
            certificates = {one.name: one.certificate(n, _execution(one, pool)) for one in own}
            for model, certificate in certificates.items():
                yield f"{model}:"
                yield from (
                    f"  {line}" for line in (*certificate.in_words, certificate.cost_in_words)
                )
            command = _command(path, n, models, quick)
            written = _write(folder, name, config, data, checksum, certificates, command)
            yield from (f"wrote {os.path.relpath(path)}" for path in written)


def _data(config: Mapping, name: str, folder: Path) -> tuple[Data, str]:
    """All rows, and the checksum of the table."""
    where = f"analyses.{name}.data"
    prepared = prepare(name, config["analyses"][name], folder, config["seed"], where)
    return data_of_table(prepared).whole(), prepared.checksum


def _stated(settings: Mapping, models: Sequence[str], where: str) -> list[str]:
    for name in models:
        if name not in settings["models"]:
            raise unknown_name(f"{where}: --models", name, settings["models"])
    return [name for name in settings["models"] if not models or name in models]


def _certified(config: Mapping, analysis: str, name: str, data: Data, folder: Path) -> Certified:
    settings, seed = config["analyses"][analysis], config["seed"]
    model = build_model(settings, name, data, f"analyses.{analysis}")
    fit = None if settings["quick"] else AsAnalysed.of(settings["sampling"])
    wildcards = {"analysis": analysis, "model": name}
    identity = {
        "rule": "certify",
        "wildcards": wildcards,
        "model": model.digest(),
        "fit": "approximate" if fit is None else fit.digest(),
        "seed": seed,
        "code": code_digest(*CODE),
    }
    digest = settings_digest(identity)
    state = folder / STATE / digest
    facts = {"rule": "certify", "wildcards": wildcards, "output": certificate_table(analysis)}
    write_manifest(state / "job.json", facts | {"identity_digest": digest})
    return Certified(name, model, fit, seed, (analysis, name), state, data.target)


def _execution(one: Certified, pool: Any) -> Execution:
    label = f"certify {one.name}"
    return Execution(scheduler=pool, block_size=1, state_dir=one.state, progress=label)


def _forecast(own: Sequence[Certified], n: int, cores: int, pool: Any) -> Iterator[str]:
    """A line with the time to expect, by the first data sets of each model, which are kept."""
    left, seconds = 0, 0.0
    for one in own:
        first = one.certificate(min(n, N_TIMED), _execution(one, pool)).results
        missing = max(n - one.n_finished(), 0)
        left += missing
        seconds += missing * float(np.median(first["seconds"]))
    what = f"{n} data sets for each of {len(own)} models" if len(own) > 1 else f"{n} data sets"
    head = f"{what} ({words.series([one.name for one in own])})"
    if not left:
        yield f"{head}: nothing is left to fit"
        return
    at = f"{cores} core{'s' * (cores > 1)}"
    time = f"about {words.duration(seconds / min(cores, left))} on {at}"
    there = f"{n * len(own) - left} of them finished"
    yield f"{head}, {there}: {time}; Ctrl-C is safe, the same command goes on from there"


def _command(path: str | Path, n: int, models: Sequence[str], quick: bool) -> str:
    named = f" --models {' '.join(models)}" if models else ""
    return f"gpmcflow certify {Path(path).name}{named} -n {n}{' --quick' * quick}"


def _write(
    folder: Path,
    analysis: str,
    config: Mapping,
    data: Data,
    checksum: str,
    certificates: Mapping[str, Certificate],
    command: str,
) -> list[Path]:
    """The table and the page."""
    place, settings = folder / "results" / analysis, config["analyses"][analysis]
    frames = []
    for name, certificate in certificates.items():
        statement = model_statement(settings, name, data.target.kind)
        own = {"model": name, "certified": certified_digest(checksum, statement)}
        frames.append(_rows(certificate).assign(**own))
    frame = pd.concat(frames, ignore_index=True)
    frame.insert(0, "model", frame.pop("model"))
    csv = settings["data"].get("csv") or settings["data"].get("table")
    source = user_path(csv, folder) if settings["data"].get("csv") else None
    made_of = [
        (str(csv), read_sha256(source) if source else "of scikit-learn"),
        ("settings", settings_digest(json.loads(json.dumps({**settings, "seed": config["seed"]})))),
        ("code", code_digest(*CODE)),
        ("gpmcflow", gpmcflow.__version__),
    ]
    sampling = settings["sampling"]
    info = {
        "csv": str(csv),
        "n_rows": len(data.learning.y),
        "n": max(c.results.sizes["data_set"] for c in certificates.values()),
        "around": "from the priors of the model",
        "fit": "by the approximation of a quick run: Gaussians at settings of the hyperparameters"
        if settings["quick"]
        else f"as the analysis is: {sampling['chains']} chains of {sampling['draws']} draws",
        "command": command,
        "made_of": made_of,
    }
    page = certificate_page(certificates, info, gpmcflow.__version__)
    place.mkdir(parents=True, exist_ok=True)
    write_csv(frame, place / "certificate.csv")
    write_result_text(page, place / "certificate.html")
    return [place / "certificate.html", place / "certificate.csv"]


def _rows(certificate: Certificate) -> pd.DataFrame:
    """A row for each quantity: its calibration, what moves it, how far off quick answers are."""
    table, of_priors, quick = (
        certificate.table(), certificate.prior_table(), certificate.quick_table(),
    )  # fmt: skip
    if of_priors is not None:
        table = table.merge(of_priors, "left", "quantity")
    if quick is not None:
        new = quick[~quick["quantity"].isin(table["quantity"])]  # the log evidence
        table = pd.concat([table, new[["quantity"]]], ignore_index=True)
        table = table.merge(quick, "left", "quantity")
    return table


# The page of a certificate: how often fits of simulated data held the truth, model by model.

CAPTION = (
    "For each quantity, in its band: the share of data sets in which the truth has at most this rank among "
    "the draws, less the share expected of a right fit. Of right fits, at most 5 % of certificates leave any "
    "of their bands."
)

OF_PRIORS = (
    "From one fit of your own data. sd, shift: the standard deviation of the posterior, and how far its mean "
    "is from the prior's, both in standard deviations of the prior. prior, data: how far the quantity moves "
    "with the power of the priors, and of the likelihood (Kallioinen et al. 2024); 0.05 or more counts as "
    "moved."
)

OF_QUICK = (
    "Quick answers to the same data beside the draws: the difference of their means in standard deviations "
    "of the draws; of the log evidence in standard errors of the difference, z, for the first 20 data sets."
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


def _answer(certificates: Mapping[str, Certificate]) -> html.Section:
    parts = []
    for name, certificate in certificates.items():
        n = certificate.n_fitted
        if not n:
            parts.append(
                html.paragraph(
                    Markup("No data set of {} was fitted.").format(html.italic(name)), kind="answer"
                )
            )
            continue
        coverage = certificate.results["coverage"].sel(level=0.95)
        held = html.bold(words.percent(float(coverage.mean())))
        text = Markup(
            "Of {} data sets like yours, the 95 % intervals of {} held the truth in {}."
        ).format(n, html.italic(name), held)
        parts.append(html.paragraph(text, certificate.judgement, kind="answer"))
    return html.section("answer", "Are the fits right?", *parts)


def _models(certificates: Mapping[str, Certificate]) -> Iterator[html.Section]:
    for number, (name, certificate) in enumerate(certificates.items()):
        key, results = f"model-{number}", certificate.results
        body = [*(html.paragraph(text) for text in certificate.notes), _table(certificate.table())]
        if "ecdf_difference" in results:
            panels = [
                _panel(f"{key}-{k}", results.sel(quantity=quantity))
                for k, quantity in enumerate(results["quantity"].values)
            ]
            body.append(html.figure(panels, CAPTION))
        quick = certificate.quick_table()
        if quick is not None and len(quick):
            body += [_of_quick(quick), html.quiet(OF_QUICK)]
        of_priors = certificate.prior_table()
        if of_priors is not None:
            words_of = html.paragraph(*certificate.priors_in_words)
            body += [words_of, _of_priors(of_priors), html.quiet(OF_PRIORS)]
        yield html.section(key, name, *body)


def _table(frame: pd.DataFrame) -> Markup:
    held = "50 % interval held #", "95 % interval held #"
    heads = html.heads("quantity", *held, "p of ranks #~", "p of coverage #~", "verdict")
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
    return html.table(heads, rows)


def _of_priors(frame: pd.DataFrame) -> Markup:
    heads = html.heads("quantity", "sd #", "shift #", "prior #", "data #", "moved by")
    numbers = ["sd_of_prior", "shift", "prior_sensitivity", "likelihood_sensitivity"]
    rows = [
        [row["quantity"], *(words.number(row[name], 2) for name in numbers), row["moved_by"]]
        for _, row in frame.iterrows()
    ]
    return html.table(heads, rows)


def _of_quick(frame: pd.DataFrame) -> Markup:
    heads = html.heads("quantity", "mean #", "median size #", "largest #", "data sets #")
    names = ["quick_bias", "quick_median", "quick_worst"]
    rows = [
        [row["quantity"], *(words.number(row[n], 2) for n in names), str(row["quick_data_sets"])]
        for _, row in frame.iterrows()
    ]
    return html.table(heads, rows)


def _panel(key: str, quantity: xr.Dataset) -> Markup:
    name, passed = str(quantity["quantity"].values), bool(quantity["passed"])
    caption = f"Ranks of {name}, {'inside' if passed else 'outside'} their band."
    return drawn(key, caption, style.Frame(190, 52, 26, 14, 40), _ranks, quantity, name, passed)


def _ranks(axes: Axes, quantity: xr.Dataset, name: str, passed: bool) -> None:
    """The empirical distribution of ranks less the uniform one, in its band."""
    share = quantity["share"].values
    low, high = quantity["band_low"].values, quantity["band_high"].values
    axes.fill_between(_closed(share, 1.0), _closed(low), _closed(high), color=style.STEPS[1], lw=0)
    axes.axhline(0.0, color=style.MUTED, linewidth=1, linestyle=style.DASHES)
    colour = style.ACCENT if passed else style.INK
    difference = _closed(quantity["ecdf_difference"].values)
    axes.plot(_closed(share, 1.0), difference, color=colour, linewidth=1.8)
    axes.set_xlim(0.0, 1.0)
    style.few_ticks(axes, x=5, y=5)
    style.percent_axis(axes.xaxis)
    style.percent_axis(axes.yaxis)
    style.top_left(axes, name if passed else f"{name}: {verdict(quantity)}")
    axes.set_xlabel("rank of the truth, as a share of the draws")


def _closed(values: np.ndarray, last: float = 0.0) -> np.ndarray:
    """With both ends, where a distribution function is 0 and 1."""
    return np.concatenate([[0.0], values, [last]])


def _how(info: Mapping[str, Any]) -> html.Section:
    drawn_from = Markup(
        "Hyperparameters and the function are drawn {}, and outcomes simulated at the inputs of your {}."
    ).format(info["around"], words.rows(info["n_rows"]))
    text = html.paragraph(
        drawn_from,
        Markup("Each data set is fitted {}.").format(info["fit"]),
        "The truth is ranked among nearly independent draws, as many as are effective, from 20 to 99; at "
        "most 400 evenly spaced draws of a fit are looked at. Ties are broken at random.",
        "Ranks of a right fit are uniform, and its intervals hold the truth as often as they say.",
        "Too narrow: the truth lies too often in the tails. Too low, too high: the draws lie to one side "
        "of it.",
    )
    again = Markup(
        "Again, or with more data sets, which go on from these: {}. The table: {}."
    ).format(html.code(info["command"]), html.link("certificate.csv"))
    rows: Sequence[tuple[str, str]] = info["made_of"]
    hashes = html.folded(
        "Made of",
        html.table(html.heads("what", "SHA-256 or version"), [[*row] for row in rows]),
    )
    return html.section("how", "How was this made?", text, html.quiet(again), hashes)
