"""A certificate: data sets simulated from a model, fits of them, and how often these held the truth."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from scipy.stats import binomtest

from gpmcflow.certificate.bands import counts_below, p_value, simultaneous_band
from gpmcflow.certificate.fits import (
    FEWEST_RANKED,
    FITTED,
    LEVELS,
    LOG_LIKELIHOOD,
    NOT_FITTED,
    NOT_SIMULATED,
    CertificateProgram,
    Fit,
    Sampled,
    read,
    rows_twice,
)
from gpmcflow.certificate.priors import ABOUT, OwnDataProgram, moved_by
from gpmcflow.certificate.quick_answers import is_of_predictor
from gpmcflow.errors import InputError
from gpmcflow.execution import Execution, chain_generators, pin_blas, run
from gpmcflow.likelihoods.binary import BinaryLikelihood
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.multi_gp_model import MultiGPModel
from gpmcflow.samplers.protocol import Sampler, require_count
from gpmcflow.storage import standard_attributes

AROUND = ("prior", "posterior")
FALSE_ALARMS = 0.05  # of a certificate as a whole
MOST_NAMED = 2  # quantities that a sentence names; of more it gives the number
LOG_EVIDENCE = "log evidence"  # a row of the table of quick answers
QUICK_COLUMNS = ("quantity", "quick_bias", "quick_median", "quick_worst", "quick_data_sets")
NARROW = 0.001  # p-value of a certificate that may well be a false alarm
FEW = 50  # data sets, below which only gross errors show


@dataclass(frozen=True)
class Certificate:
    """What fits of simulated data sets said of the truth; print it for the answer in words.

    Attributes
    ----------
    results:
        Dataset with dimensions ``data_set``, ``quantity`` (free hyperparameters in the coordinates that are
        sampled, the predictor's mean, its values at three rows and its effects, the log likelihood),
        ``level`` (0.5, 0.95) and ``share`` (points of the bands). Of each data set and quantity: truth,
        mean, sd, low and high ends of the intervals, held, effective (bulk effective size of the draws that
        were looked at), rank of the truth among n_ranked of them, and uniform, the rank as a number that is
        uniform on (0, 1) for a right fit; beside draws also quick_mean and quick_sd by `approximate`, and
        quick_error, the difference of the means in sds of the draws. An effect is the predictor's mean over
        the third of the rows that is highest in a column of numbers, less that over the lowest third, of up
        to four columns. Of the first 20 data sets of an analysis, beside draws: log_evidence by
        `model_evidence` from these draws, evidence_error, quick_evidence, quick_evidence_error, and
        evidence_z, the difference over its standard error. Of each data set: state (0 fitted, 1 no data
        could be simulated, 2 the fit failed), seconds, n_warnings, warning (the first), simulated_mean and
        simulated_sd of outcomes. Of each quantity: coverage, p_ranks and p_coverage (of ranks, and of the
        95 % intervals), passed, and ecdf_difference, to lie between band_low and band_high. Of each
        quantity and the model's own observations: own_mean and own_sd, and prior_sensitivity and
        likelihood_sensitivity, how far it moves with the power of the hyperpriors, and of the likelihood
        (above 0.05 it does).
    """

    results: xr.Dataset

    @property
    def passed(self) -> bool:
        """Whether every quantity passed, and every fit came to an end."""
        return bool(self.results["passed"].all()) and not self.n_failed

    @property
    def around_prior(self) -> bool:
        """Whether data sets were simulated from the priors."""
        return json.loads(self.results.attrs["settings"])["around"] == "prior"

    @property
    def n_fitted(self) -> int:
        """Data sets that were fitted, and so count."""
        return int((self.results["state"] == FITTED).sum())

    @property
    def n_failed(self) -> int:
        """Data sets whose fit failed."""
        return int((self.results["state"] == NOT_FITTED).sum())

    @property
    def failed(self) -> dict[str, str]:
        """Quantities that did not pass, and how they stray, such as "too narrow"."""
        names = self.results["quantity"].values[~self.results["passed"].values]
        return {str(name): verdict(self.results.sel(quantity=name)) for name in names}

    @property
    def in_words(self) -> tuple[str, ...]:
        """The answer in sentences, and what else there is to say."""
        if not self.n_fitted:
            return self.notes
        half, most = (percent(self.results["coverage"].sel(level=level).mean()) for level in LEVELS)
        answer = (
            f"Of {self.n_fitted} data sets like yours, the 95 % intervals held the truth in {most}, the 50 % "
            f"intervals in {half}."
        )
        return (answer, self.judgement, *self.notes, *self.priors_in_words)

    @property
    def judgement(self) -> str:
        """How many quantities passed, and how the others stray, in a sentence."""
        failed, count = self.failed, self.results.sizes["quantity"]
        if not failed:
            return (
                f"All {count} quantities pass: neither ranks nor coverage speak against the fits."
            )
        told = []
        for how in dict.fromkeys(failed.values()):
            names = [name for name, its in failed.items() if its == how]
            told.append(f"{how} for {_named(names, count)}")
        return f"The fits are wrong: {', '.join(told)}."

    @property
    def notes(self) -> tuple[str, ...]:
        """What stands in the way of the answer: failures, few data sets, few draws, warnings."""
        return tuple(_notes(self))

    @property
    def priors_in_words(self) -> tuple[str, ...]:
        """For what the hyperpriors matter, given the model's own data, if a fit has looked at it."""
        table = self.prior_table()
        if table is None:
            return ()
        if table["moved_by"].eq("").any():
            return ("The fit of your own data failed, so nothing says whether the priors matter.",)
        count, moved = len(table), table["quantity"][table["moved_by"].str.startswith("prior")]
        if moved.empty:
            return (
                f"Given your own data the priors hardly matter: none of {count} quantities moves with them.",
            )
        alone = table["quantity"][table["moved_by"] == "prior"]
        more = () if alone.empty else (f"These data say little about {_named(alone, count)}.",)
        return (f"Given your own data the priors matter for {_named(moved, count)}.", *more)

    @property
    def cost_in_words(self) -> str:
        """Seconds of a fit, the one thing that another run has otherwise."""
        seconds = self.results["seconds"].values[self.results["state"].values == FITTED]
        if not len(seconds):
            return ""
        return (
            f"A fit took {np.median(seconds):.2g} s in the median, {seconds.max():.2g} s at most."
        )

    def table(self) -> Any:
        """One row for each quantity: coverage, p-values and verdict (a `pandas.DataFrame`)."""
        import pandas as pd

        results = self.results
        held = {
            f"held_{level:.0%}".rstrip("%"): results["coverage"].sel(level=level)
            for level in LEVELS
        }
        columns = {**held, "p_ranks": results["p_ranks"], "p_coverage": results["p_coverage"]}
        frame = pd.DataFrame({name: values.values for name, values in columns.items()})
        frame.insert(0, "quantity", results["quantity"].values)
        frame["verdict"] = [verdict(results.sel(quantity=name)) for name in frame["quantity"]]
        return frame

    def prior_table(self) -> Any:
        """One row for each quantity but the log likelihood: what the model's own data say beyond the priors.

        Columns of a `pandas.DataFrame`: sd_of_prior and shift (the sd of the posterior, and how far its mean
        is from the prior's, in sds of the prior, as simulated; nan around the posterior), prior_sensitivity,
        likelihood_sensitivity, and moved_by: which of both move it, such as "prior and data". None without a
        free hyperparameter, and of quick answers that have points for them.
        """
        import pandas as pd

        if "own_mean" not in self.results:
            return None
        chosen = self.results["quantity"] != LOG_LIKELIHOOD
        results = self.results.isel(quantity=chosen.values)
        truth = results["truth"].where(self.around_prior and results["state"] != NOT_SIMULATED)
        sd = truth.std("data_set")
        both = [results[name].values for name in ABOUT[2:]]
        columns = {
            "quantity": results["quantity"].values,
            "sd_of_prior": (results["own_sd"] / sd).values,
            "shift": ((results["own_mean"] - truth.mean("data_set")) / sd).values,
            **dict(zip(ABOUT[2:], both, strict=True)),
            "moved_by": [moved_by(*pair) for pair in zip(*both, strict=True)],
        }
        return pd.DataFrame(columns)

    def quick_table(self) -> Any:
        """How far quick answers were from the draws, a row for each quantity (a `pandas.DataFrame`).

        Columns: quick_bias (mean over data sets of the difference of the means in sds of the draws),
        quick_median and quick_worst of its size, quick_data_sets. In the last row, log evidence, the same of
        z-scores: the difference in its standard errors. None of a certificate of quick answers.
        """
        import pandas as pd

        if "quick_error" not in self.results:
            return None
        errors = self.results["quick_error"].values.T
        named = dict(zip(self.results["quantity"].values, errors, strict=True))
        if "evidence_z" in self.results:
            named[LOG_EVIDENCE] = self.results["evidence_z"].values
        rows = []
        for name, values in named.items():
            own = values[np.isfinite(values)]
            if own.size:
                size = np.abs(own)
                about = (own.mean(), np.median(size), size.max(), len(own))
                rows.append(dict(zip(QUICK_COLUMNS, (name, *about), strict=True)))
        return pd.DataFrame(rows, columns=list(QUICK_COLUMNS))

    def __str__(self) -> str:
        every = (self.table(), self.quick_table(), self.prior_table())
        tables = [table for table in every if table is not None and len(table)]
        told = [t.to_string(index=False, float_format=lambda v: f"{v:.3g}") for t in tables]
        return "\n\n".join(["\n".join([*self.in_words, self.cost_in_words]), *told])

    def __repr__(self) -> str:
        return str(self)


def certify(
    model: GPModel,
    n: int = 100,
    sampler: str | Sampler | None = None,
    *,
    around: str = "prior",
    approximate: bool = False,
    n_chains: int = 4,
    n_draws: int = 1000,
    seed: int = 0,
    key: tuple[str | int, ...] = (),
    execution: Execution | None = None,
) -> Certificate:
    """Check a sampler, or the approximation, on data simulated from the user's own model.

    n times: draw hyperparameters theta* and latents f* from their priors, simulate y* at the model's inputs,
    fit y* as the analysis would, and rank the truth among the draws. For a fit that draws from p(theta, f |
    y*), ranks are uniform and intervals hold the truth as often as they say (Talts et al. 2018). Ranks are
    among nearly independent draws, as many as the quantity's bulk effective size, from 20 to 99; at most 400
    evenly spaced draws of a fit are looked at. All n ranks of a quantity are judged at once, by simultaneous
    bands of their empirical distribution (Sailynoja et al. 2022); the coverage of its 95 % intervals is
    judged with them: of right fits, at most 5 % of certificates do not pass.

    The model's own observations are fitted once, too: how far does the answer move with the power of the
    hyperpriors, and of the likelihood (Kallioinen et al. 2024)?

    Parameters
    ----------
    model:
        A `GPModel`, of several latent functions, too; data sets are simulated around its observations with
        ``around="posterior"`` alone.
    n:
        Data sets. More go on from those that are in ``execution.state_dir``, which stay as they are.
    sampler:
        As of `sample`: a sampler of the package or of your own, or its name.
    around:
        "prior" draws theta* and f* from the priors. "posterior" draws them given the model's observations
        and fits these together with the new ones, twice as many rows: whether fits are right where these
        data are, if the priors are wide (Sailynoja et al. 2025).
    approximate:
        Fit by `approximate` instead, averaged over the hyperparameters. For more than 700 rows these are
        points at the maximum, so only the predictor and the log likelihood have intervals and ranks.
    n_chains, n_draws:
        As of `sample`.
    seed, key:
        Random streams are keyed by both and by the number of the data set.
    execution:
        Workers share the data sets; with ``state_dir`` what is finished is kept.

    Returns
    -------
    A `Certificate`, whose ``results`` are an `xarray.Dataset`, and which prints its answer in words.

    Raises
    ------
    InputError:
        For something other than a `GPModel`, a sampler of another kind, and wrong settings.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 6)
    >>> model = gp.GPModel(x, np.ones(6), gp.SquaredExponential(0.5, 1.0), gp.Poisson())
    >>> certificate = gp.certify(model, n=20, sampler=gp.EllipticalSlice(5), n_chains=1, n_draws=100)
    >>> print(certificate.judgement)
    All 6 quantities pass: neither ranks nor coverage speak against the fits.
    >>> dict(certificate.results.sizes)
    {'data_set': 20, 'quantity': 6, 'level': 2, 'share': 19}
    """
    for name, value in (("n", n), ("n_chains", n_chains), ("n_draws", n_draws)):
        require_count("certify", name, value)
    if around not in AROUND:
        raise InputError(f'certify: around is {around!r}; allowed: "prior", "posterior"')
    if approximate and sampler is not None:
        raise InputError("certify: a sampler beside approximate=True; leave one of them out")
    fit = None if approximate else Sampled(sampler, n_chains, n_draws)
    of_user = fit or Sampled(None, n_chains, n_draws)
    return certified(
        model,
        fit,
        n,
        of_user if around == "posterior" else None,
        seed=seed,
        key=key,
        execution=execution,
    )


def certified(
    model: GPModel,
    fit: Fit | None,
    n: int,
    reference: Fit | None = None,
    *,
    seed: int,
    key: tuple[str | int, ...],
    execution: Execution | None,
) -> Certificate:
    """Certificate of any fit, of `approximate` where it is None.

    Data sets are simulated from the priors, or from the posterior by ``reference``.
    """
    if not isinstance(model, GPModel | MultiGPModel):
        raise InputError(f"certify: found {type(model).__name__}; allowed: a GPModel")
    pin_blas()
    around = "prior" if reference is None else "posterior"
    own_key, draws = (*key, "certificate", around), None
    if reference is not None:
        _require_rows_twice(model)
        rng = chain_generators(seed, *own_key, "reference", chains=[0]).generator(0)
        draws = read(reference(model, seed=seed, key=(*own_key, "reference")), model, rng)
    program = CertificateProgram(model, fit, seed, own_key, draws)
    how = Execution.of(execution, block_size=1, progress="certify")
    arrays = run(program, n_chains=n, length=1, seed=seed, key=own_key, execution=how)
    columns = {name: np.asarray(values)[:, 0] for name, values in arrays.items()}
    own = _own(model, fit, program.names, seed, own_key, how)
    settings = {
        "fit": "approximate" if fit is None else fit.digest(),
        "around": around,
        "key": list(key),
        "model": repr(model),
    }
    attributes = standard_attributes(
        settings=settings,
        seed=seed,
        data_checksum=model.digest(),
        sample_dims=("data_set",),
        observed_mean=float(model.y.mean()),
        observed_sd=float(model.y.std()),
        outcome="labels" if isinstance(model.likelihood, BinaryLikelihood) else "numbers",
        outcome_shift=0.0,
        outcome_scale=1.0,
    )
    return Certificate(results_of(columns, program.names).assign(own).assign_attrs(attributes))


def _own(
    model: GPModel,
    fit: Fit | None,
    names: tuple[str, ...],
    seed: int,
    key: tuple[str | int, ...],
    how: Execution,
) -> dict[str, tuple]:
    """Variables of the model's own data, if it has hyperpriors, and the fit draws of its hyperparameters."""
    if not model.dim or model.names[0] not in names:
        return {}
    program, own_key = OwnDataProgram(model, fit, seed, (*key, "own data")), (*key, "own data")
    inside = replace(how.inside("own_data"), progress=False)
    arrays = run(program, n_chains=1, length=1, seed=seed, key=own_key, execution=inside)
    return {name: (("quantity",), np.asarray(values)[0, 0]) for name, values in arrays.items()}


def _require_rows_twice(model: GPModel) -> None:
    """Raise `InputError` for a model that cannot have each row twice."""
    try:
        model.take(rows_twice(model))
    except InputError as error:
        text = str(error).removeprefix("model: ")
        raise InputError(
            f'certify: around="posterior" fits each row twice, which this model cannot: {text}; or leave '
            "around out"
        ) from None


def results_of(columns: dict[str, np.ndarray], quantities: tuple[str, ...]) -> xr.Dataset:
    """Dataset of a `Certificate` of what its program gave by data set."""
    n = len(columns["state"])
    index = {"data_set": np.arange(n), "quantity": list(quantities), "level": list(LEVELS)}
    dims = {1: ("data_set",), 2: ("data_set", "quantity"), 3: ("data_set", "level", "quantity")}
    results = xr.Dataset({name: (dims[v.ndim], v) for name, v in columns.items()}, index)
    fitted = results["state"] == FITTED
    inside = (results["low"] <= results["truth"]) & (results["truth"] <= results["high"])
    results["held"] = inside.where(fitted)
    if "quick_mean" in results:
        results["quick_error"] = (results["quick_mean"] - results["mean"]) / results["sd"]
    if "quick_evidence" in results:
        error = np.hypot(results["evidence_error"], results["quick_evidence_error"])
        results["evidence_z"] = (results["quick_evidence"] - results["log_evidence"]) / error
    judged, of_quantity = results.where(fitted, drop=True), ("quantity",)
    results["coverage"] = judged["held"].mean("data_set")
    uniform = judged["uniform"].values.T
    p_ranks = np.array([p_value(values) for values in uniform])
    p_coverage = _p_of_coverage(judged)
    limit = FALSE_ALARMS / (2 * len(quantities))
    results["p_ranks"], results["p_coverage"] = (of_quantity, p_ranks), (of_quantity, p_coverage)
    results["passed"] = (of_quantity, np.minimum(p_ranks, p_coverage) > limit)
    n_judged = uniform.shape[1]
    if n_judged > 1:
        band = simultaneous_band(n_judged, limit)
        shares = np.array([counts_below(values) for values in uniform]) / n_judged
        results = results.assign_coords(share=band.z)
        results["ecdf_difference"] = (("quantity", "share"), shares - band.z)
        results["band_low"] = (("share",), band.low - band.z)
        results["band_high"] = (("share",), band.high - band.z)
    return results


def _p_of_coverage(judged: xr.Dataset) -> np.ndarray:
    """p-values (quantity,) that the largest intervals held the truth as often as they should.

    An interval of level L between quantiles of M draws holds a further one in L (M - 1) / (M + 1) of the
    cases; M is the effective size here, and at least `FEWEST_RANKED`.
    """
    held = judged["held"].sel(level=LEVELS[-1]).values
    if not len(held):
        return np.ones(held.shape[1])
    size = np.maximum(judged["effective"].values, FEWEST_RANKED)
    expected = (LEVELS[-1] * (size - 1.0) / (size + 1.0)).mean(0)
    counts = held.sum(0).astype(int)
    return np.array(
        [binomtest(k, len(held), p).pvalue for k, p in zip(counts, expected, strict=True)]
    )


def verdict(quantity: xr.Dataset) -> str:
    """What ranks and coverage of one quantity say: passed, or how they stray."""
    if bool(quantity["passed"]):
        return "passed"
    uniform = quantity["uniform"].values
    uniform = uniform[np.isfinite(uniform)]
    ranks, n = uniform - 0.5, len(uniform)
    if quantity["p_coverage"] < quantity["p_ranks"]:
        held = float(quantity["coverage"].sel(level=LEVELS[-1]))
        return "too narrow" if held < LEVELS[-1] else "too wide"
    # in standard errors of uniforms: their mean has variance 1 / 12 n, their squares about it 1 / 180 n
    shift, spread = (
        ranks.mean() * np.sqrt(12.0 * n),
        (np.mean(ranks**2) - 1.0 / 12.0) * np.sqrt(180.0 * n),
    )
    if abs(shift) > abs(spread):
        return "too low" if shift > 0.0 else "too high"
    return "too narrow" if spread > 0.0 else "too wide"


def _named(names: Sequence[str], count: int) -> str:
    """Names of some of so many quantities, or how many they are."""
    many = f"{len(names)} of {count} quantities"
    return many if len(names) > MOST_NAMED else " and ".join(names)


def _notes(certificate: Certificate) -> Iterator[str]:
    results, n = certificate.results, certificate.n_fitted
    total = results.sizes["data_set"]
    lost = int((results["state"] == NOT_SIMULATED).sum())
    if lost:
        yield f"From {lost} of {total} draws of the priors no data could be simulated."
    if certificate.n_failed:
        yield f"{certificate.n_failed} of {total} fits failed."
    least = min(float(results[name].min()) for name in ("p_ranks", "p_coverage"))
    if certificate.failed and 2 * results.sizes["quantity"] * least > NARROW:
        yield "It failed narrowly, as one certificate in twenty of right fits does; more data sets decide."
    if n < FEW:
        yield f"With {n} data sets only gross errors show; take 100 or more."
    fitted = results.isel(data_set=results["state"].values == FITTED)
    short = int((fitted["effective"] < FEWEST_RANKED).any("quantity").sum())
    if short:
        yield (
            f"In {short} of {n} fits fewer than {FEWEST_RANKED} draws of some quantity are effective, too "
            "few to judge a sampler by; take more draws."
        )
    yield from _of_warnings(fitted)
    if "quick_error" in fitted:
        yield from _of_quick(fitted)
    if "observed_mean" in results.attrs and certificate.around_prior and n > 1:
        yield from _of_outcomes(results)


def _of_outcomes(results: xr.Dataset) -> Iterator[str]:
    """What outcomes the priors expect, beside those of the user."""
    about, simulated = results.attrs, results["state"].values != NOT_SIMULATED

    def ends(of: str) -> list[float]:
        return [
            *np.quantile(results[f"simulated_{of}"].values[simulated], [0.025, 0.975]),
            about[f"observed_{of}"],
        ]

    def told(what: str, numbers: list[float], texts: list[str]) -> str:
        low, high, own = texts
        text = f"95 % of data sets simulated from the priors have {what.format(low, high)}; yours have {own}"
        outside = simulated.sum() >= FEW and not numbers[0] <= numbers[2] <= numbers[1]
        return f"{text}, which the priors hardly expect." if outside else f"{text}."

    means = ends("mean")
    if about["outcome"] == "labels":
        yield told("between {} and {} of yes", means, [percent(0.5 * (end + 1.0)) for end in means])
        return
    shift, scale = about["outcome_shift"], about["outcome_scale"]
    for what, numbers, zero in (
        ("mean outcome", means, shift),
        ("standard deviation", ends("sd"), 0.0),
    ):
        texts = [f"{end * scale + zero:.3g}" for end in numbers]
        yield told(f"a {what} between {{}} and {{}}", numbers, texts)


def _of_quick(results: xr.Dataset) -> Iterator[str]:
    """How far quick answers were from the draws: of the predictor, and of hyperparameters."""
    names = results["quantity"].values
    error = np.abs(results["quick_error"].values)
    is_predictor = np.array([is_of_predictor(str(name)) for name in names])
    is_parameter = ~is_predictor & (names != LOG_LIKELIHOOD)
    for of, chosen in (("the predictor", is_predictor), ("the hyperparameters", is_parameter)):
        sizes = error[:, chosen]
        sizes = sizes[np.isfinite(sizes)]
        if not sizes.size:
            continue
        text = (
            f"Quick answers to the same data were off by {np.median(sizes):.2g} posterior sds of {of} in the "
            f"median, {sizes.max():.2g} at most"
        )
        ratio = (results["quick_sd"] / results["sd"]).values[:, chosen]
        if np.isfinite(ratio).any():
            text += f"; their intervals were {np.nanmedian(ratio):.2g} times as wide"
        yield f"{text}."
    if "evidence_z" not in results:
        return
    known = np.isfinite(results["evidence_z"].values)
    if not known.any():
        return
    z = results["evidence_z"].values[known]
    nats = np.abs((results["quick_evidence"] - results["log_evidence"]).values[known])
    yield (
        f"Quick log evidences of {len(z)} data sets were off by {np.median(nats):.2g} nats in the median, "
        f"{nats.max():.2g} at most; in standard errors of the difference by {np.abs(z).max():.2g} at most."
    )


def _of_warnings(results: xr.Dataset) -> Iterator[str]:
    """How often fits warned, and whether these held the truth less often."""
    warned = results["n_warnings"].values > 0
    if not warned.any():
        return
    held = results["held"].sel(level=LEVELS[-1]).mean("quantity").values
    share = percent(held[warned].mean())
    text = f"{warned.sum()} of {len(warned)} fits warned, and held the truth in {share}"
    if not warned.all():
        text += f"; the others held it in {percent(held[~warned].mean())}"
    messages, counts = np.unique(results["warning"].values[warned], return_counts=True)
    yield f"{text}. The most frequent: {messages[counts.argmax()]}"


def percent(share: Any) -> str:
    """A share as text, such as 94 %."""
    return f"{100.0 * float(share):.0f} %"
