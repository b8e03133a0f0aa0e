"""One data set simulated from a model, and what a fit of it says of the parameters it was simulated with."""

from __future__ import annotations

import contextlib
import logging
import textwrap
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
import xarray as xr

from gpmcflow.approximations.approximate import approximate, tell_unreliable
from gpmcflow.approximations.draws import evenly_spaced
from gpmcflow.approximations.integrated import (
    IntegratedApproximation,
    integrate,
    integrates,
)
from gpmcflow.approximations.multi_laplace import FunctionsFit
from gpmcflow.certificate.quick_answers import PREDICTOR
from gpmcflow.errors import GpmcflowError, NumericalError
from gpmcflow.evidence.model_evidence import model_evidence
from gpmcflow.execution import ChainGenerators, Execution, array_digest, text_digest
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.multi_gp_model import MultiGPModel
from gpmcflow.samplers.predictive import ModelPredictive
from gpmcflow.samplers.protocol import Sampler
from gpmcflow.samplers.sampling import sample
from gpmcflow.samplers.variables import LATENT_NAMES

LEVELS = (0.5, 0.95)  # of the intervals
EVIDENCES = ("log_evidence", "evidence_error", "quick_evidence", "quick_evidence_error")
N_KEPT = 400  # draws of a fit that are looked at, evenly spaced
FEWEST_RANKED, MOST_RANKED = 20, 99  # draws that the truth is ranked among
FITTED, NOT_SIMULATED, NOT_FITTED = 0, 1, 2  # what became of a data set
LOG_LIKELIHOOD = "log likelihood"  # the last of the quantities
MOST_EFFECTS = 4  # columns, the first of those with numbers
N_EVIDENCES = 20  # data sets whose evidence is estimated from the draws, too
WARNING_LENGTH = 160
QUIET = Execution(progress=False)


@dataclass(frozen=True)
class Draws:
    """What is compared, for one or more settings: theta (k, d), eta (k, n), log likelihood (k,).

    Of q latent functions eta is (k, q, n).
    """

    theta: np.ndarray
    eta: np.ndarray
    log_likelihood: np.ndarray

    def quantities(self, model: GPModel, points: bool) -> np.ndarray:
        """Values (k, quantity) in the order of `quantity_names`."""
        eta = self.eta.reshape(len(self.eta), -1, self.eta.shape[-1])
        rows = shown_rows(model)
        differences = [(high, low) for _, high, low in effects(model)]
        of_functions = [
            np.column_stack([
                own.mean(1),
                own[:, rows],
                *(own[:, high].mean(1) - own[:, low].mean(1) for high, low in differences),
            ])
            for own in np.moveaxis(eta, 1, 0)
        ]  # fmt: skip
        theta = self.theta[:, :0] if points else self.theta
        return np.hstack([theta, *of_functions, self.log_likelihood[:, None]])

    def at_rows(self, n: int) -> Draws:
        """The same with the first n rows alone."""
        return Draws(self.theta, self.eta[..., :n], self.log_likelihood)


def shown_rows(model: GPModel) -> tuple[int, ...]:
    """The first, the middle and the last row."""
    return tuple(sorted({0, model.n_cases // 2, model.n_cases - 1}))


def effects(model: GPModel) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Columns of numbers that the covariance sees, with their thirds of rows of high and of low values."""
    parts = model.parts if isinstance(model, MultiGPModel) else [model]
    found = []
    for place in model.inputs.numeric:
        x = model.X[:, place]
        if any(part.sees(place) for part in parts) and np.ptp(x) > 0.0:
            low, high = np.quantile(x, [1.0 / 3.0, 2.0 / 3.0])
            if low == high:  # most rows have this value: it is high, or low where nothing is lower
                low = x[x < high].max(initial=-np.inf)
                low, high = (low, high) if np.isfinite(low) else (high, x[x > high].min())
            found.append((model.inputs.names[place], x >= high, x <= low))
    return found[:MOST_EFFECTS]


def rows_twice(model: GPModel) -> np.ndarray:
    """Rows of the model's own observations, then those of as many new ones."""
    return np.tile(np.arange(model.n_cases), 2)


def quantity_names(model: GPModel, points: bool = False) -> tuple[str, ...]:
    """Names of what is ranked: free parameters, values and effects of the predictor, the log likelihood.

    An effect is the predictor's mean over the third of the rows that is highest in a column, less that over
    the third that is lowest. Parameters that a fit has ``points`` for are left out.
    """
    of_function = [
        f"{PREDICTOR}{what}"
        for what in (
            ", mean over rows",
            *(f" of row {row}" for row in shown_rows(model)),
            *(f", high less low {column}" for column, *_ in effects(model)),
        )
    ]
    names = [f"{name}: " for name in model.functions] if isinstance(model, MultiGPModel) else [""]
    parameters = () if points else model.names
    return (*parameters, *(name + what for name in names for what in of_function), LOG_LIKELIHOOD)


class Fit(Protocol):
    """Draws from the posterior of a model: what is certified. Frozen, picklable."""

    weighs: ClassVar[bool]  #: whether their log evidence stands beside that of quick answers

    def __call__(self, model: GPModel, *, seed: int, key: tuple[str | int, ...]) -> xr.DataTree:
        """Draws as `sample` returns them."""

    def digest(self) -> str:
        """All that decides the numbers, as text."""


@dataclass(frozen=True)
class Sampled:
    """A fit by `sample`."""

    weighs: ClassVar[bool] = False  # an evidence takes a pilot for each chain of other samplers

    sampler: str | Sampler | None
    n_chains: int
    n_draws: int

    def __call__(self, model: GPModel, *, seed: int, key: tuple[str | int, ...]) -> xr.DataTree:
        """See `Fit`."""
        return sample(
            model,
            self.sampler,
            n_chains=self.n_chains,
            n_draws=self.n_draws,
            predictive=False,
            seed=seed,
            key=key,
            execution=QUIET,
        )

    def digest(self) -> str:
        """The sampler with its class, as two of the user's own may print alike."""
        sampler, kind = self.sampler, type(self.sampler)
        if isinstance(sampler, Sampler):
            sampler = f"{kind.__module__}.{kind.__qualname__} {sampler.digest()}"
        return repr((sampler, self.n_chains, self.n_draws))


@dataclass(frozen=True, eq=False)
class CertificateProgram:
    """Data sets as chains of one draw: each is simulated, fitted and ranked with random numbers of its own.

    Without a ``fit`` it is a quick answer, that of `approximate_draws`. Around the posterior, ``reference``
    holds draws given the model's own data; a data set then has the model's observations and as many new ones
    at the same inputs, so that its posterior is that of the draw's distribution (Sailynoja et al. 2025).
    Beside draws stands what a quick answer says of the same data.
    """

    model: GPModel
    fit: Fit | None
    seed: int
    key: tuple[str | int, ...]
    reference: Draws | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the quantities."""
        return quantity_names(self.model, self.fit is None and self._points)

    @cached_property
    def _points(self) -> bool:
        """Whether a quick answer takes hyperparameters at their best, not averaged over."""
        around_posterior = self.reference is not None
        own = self.model.take(rows_twice(self.model)) if around_posterior else self.model
        return not integrates(own)

    def _quantities(self, draws: Draws) -> np.ndarray:
        return draws.quantities(self.model, self.fit is None and self._points)

    def digest(self) -> str:
        """SHA-256 of all that decides the numbers, beside the random streams."""
        fit = "approximate" if self.fit is None else self.fit.digest()
        reference = {} if self.reference is None else vars(self.reference)
        kept = repr(self.outputs())
        return text_digest(self.model.digest(), fit, str(N_KEPT), kept, array_digest(reference))

    def outputs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """What is kept of each data set."""
        q = len(self.names)
        of_quantity = ["truth", "mean", "sd", "effective", "uniform"]
        if self.fit is not None:
            of_quantity += ["quick_mean", "quick_sd"]
        numbers = {name: ((q,), "<f8") for name in of_quantity}
        limits = {name: ((len(LEVELS), q), "<f8") for name in ("low", "high")}
        counts = {name: ((q,), "<i8") for name in ("rank", "n_ranked")}
        about = {"state": ((), "|i1"), "n_warnings": ((), "<i8")}
        of_each = ["seconds", "simulated_mean", "simulated_sd"]
        if self.fit is not None and self.fit.weighs:
            of_each += EVIDENCES
        about |= {name: ((), "<f8") for name in of_each}
        return {**numbers, **limits, **counts, **about, "warning": ((), f"<U{WARNING_LENGTH}")}

    def start(self, rng: ChainGenerators) -> dict[str, np.ndarray]:
        """Nothing is carried on."""
        return {"none": np.zeros(len(rng))}

    def advance(
        self, rng: ChainGenerators, carry: dict, start: int, stop: int
    ) -> tuple[dict, dict]:
        """Each data set of a block."""
        made = [self._data_set(rng.generator(k), chain) for k, chain in enumerate(rng.chains)]
        return carry, {
            name: np.array([row[name] for row in made], dtype=kind)[:, None]
            for name, (_, kind) in self.outputs().items()
        }

    def _data_set(self, rng: np.random.Generator, number: int) -> dict[str, Any]:
        row: dict[str, Any] = {
            name: np.full(shape, np.nan if kind == "<f8" else 0)
            for name, (shape, kind) in self.outputs().items()
        }
        row |= {"n_warnings": 0, "warning": "", "seconds": 0.0}
        try:
            truth, model = self._simulated(rng)
        except (GpmcflowError, ArithmeticError, ValueError):  # a rate too large to draw counts from
            return row | {"state": NOT_SIMULATED}
        row["truth"] = self._quantities(truth)[0]
        simulated = model.y[-self.model.n_cases :]
        row["simulated_mean"], row["simulated_sd"] = simulated.mean(), simulated.std()
        began = time.perf_counter()
        try:
            with heard_warnings() as warnings:
                values, tree = self._fitted(model, rng, number)
        except NumericalError as error:
            told = {"n_warnings": 1, "warning": shortened(str(error)), "state": NOT_FITTED}
            return row | told | {"seconds": time.perf_counter() - began}
        row["seconds"] = time.perf_counter() - began
        if warnings:
            row |= {"n_warnings": len(warnings), "warning": shortened(warnings[0])}
        row |= compared(values, row["truth"], rng) | {"state": FITTED}
        return row if tree is None else row | self._quick(model, tree, rng, number)

    def _simulated(self, rng: np.random.Generator) -> tuple[Draws, GPModel]:
        """The truth, and the model of its data."""
        model = self.model
        if self.reference is None:
            theta = model.draw_prior(rng)
            f, y = model.simulate(rng, theta)
            eta, own = model.predictor(theta, f), model.with_y(y)
            of_y = own.likelihood_at(own.full(theta)).log_density(eta, own.y)
        else:
            k = int(rng.integers(len(self.reference.theta)))
            theta, eta = self.reference.theta[k], self.reference.eta[k]
            likelihood = model.likelihood_at(model.full(theta))
            y = likelihood.simulate(rng, eta)
            twice = rows_twice(model)
            own = model.take(twice).with_y(np.concatenate([model.y, y]))
            of_y = own.likelihood_at(own.full(theta)).log_density(eta[..., twice], own.y)
        return Draws(theta[None], eta[None], np.array([float(of_y)])), own

    def _fitted(
        self, model: GPModel, rng: np.random.Generator, number: int
    ) -> tuple[np.ndarray, xr.DataTree | None]:
        """Draws of the quantities (chain, draw, quantity), and all that the fit returned."""
        key = (*self.key, "data set", number)
        draws, tree = fitted_draws(model, self.fit, rng, self.seed, key)
        values = self._quantities(draws.at_rows(self.model.n_cases))
        return values.reshape(n_chains(tree), -1, len(self.names)), tree

    def _quick(
        self, model: GPModel, tree: xr.DataTree, rng: np.random.Generator, number: int
    ) -> dict[str, Any]:
        """Means and sds of the same quantities by a quick answer, and evidences; nan where it fails."""
        weighed = self.fit is not None and self.fit.weighs
        weighed &= number < N_EVIDENCES and not self._points
        try:
            with heard_warnings():
                averaged = None if self._points else integrate(model, checked=weighed)
                draws = approximate_draws(model, rng, averaged=averaged, antithetic=True)
        except NumericalError:
            return {}
        values = self._quantities(draws.at_rows(self.model.n_cases))
        sd = spread(values)
        if self._points:
            sd[: self.model.dim] = np.nan
        row = {"quick_mean": values.mean(0), "quick_sd": sd}
        if not weighed or averaged is None:
            return row
        return row | self._evidences(model, averaged, tree, number)

    def _evidences(
        self, model: GPModel, averaged: IntegratedApproximation, tree: xr.DataTree, number: int
    ) -> dict[str, float]:
        """Log evidence by the quick answer and by the draws, with errors; nothing where an alarm rings."""
        key = (*self.key, "data set", number, "evidence")
        try:
            with heard_warnings():
                found = model_evidence(
                    model, draws=tree, predictive=False, seed=self.seed, key=key, execution=QUIET
                )
        except GpmcflowError:  # draws of a sampler of the user's own may not do
            return {}
        group = found["evidence"].to_dataset().isel(estimator=0)
        if str(group["alarm"].values):
            return {}
        own = float(group["log_evidence"]), float(group["standard_error"])
        return dict(zip(EVIDENCES, (*own, *averaged.checked_evidence), strict=True))


def fitted_draws(
    model: GPModel,
    fit: Fit | None,
    rng: np.random.Generator,
    seed: int,
    key: tuple[str | int, ...],
    n: int = N_KEPT,
) -> tuple[Draws, xr.DataTree | None]:
    """At most n draws of a fit, and all that it returned; of the quick answer where the fit is None."""
    if fit is None:
        averaged = integrate(model, checked=False) if integrates(model) else None
        return approximate_draws(model, rng, n, averaged=averaged), None
    tree = fit(model, seed=seed, key=key)
    return read(tree, model, rng, n), tree


def n_chains(tree: xr.DataTree | None) -> int:
    """Chains of what a fit returned; quick answers count as one."""
    return 1 if tree is None else tree["posterior"].sizes["chain"]


def compared(values: np.ndarray, truth: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    """Mean, sd, intervals and ranks of draws (chain, draw, quantity) at a truth (quantity,).

    Ranks are among draws that are nearly independent: as many as the bulk effective size, from
    `FEWEST_RANKED` to `MOST_RANKED`, evenly spaced. Ties are broken at random.
    """
    flat = values.reshape(-1, values.shape[-1])
    tails = [0.5 * (1.0 - level) for level in LEVELS]
    low, high = (
        np.quantile(flat, tails, axis=0),
        np.quantile(flat, [1.0 - t for t in tails], axis=0),
    )
    effective = effective_sizes(values)
    sizes = np.clip(effective, FEWEST_RANKED, min(MOST_RANKED, len(flat))).astype(int)
    ranks, uniform = [], []
    for k, size in enumerate(sizes):
        among = flat[np.linspace(0, len(flat) - 1, size).astype(int), k]
        below, ties = int((among < truth[k]).sum()), int((among == truth[k]).sum())
        ranks.append(below + int(rng.integers(ties + 1)))
        uniform.append((ranks[-1] + rng.random()) / (size + 1))
    return {
        "mean": flat.mean(0),
        "sd": spread(flat),
        "low": low,
        "high": high,
        "effective": effective,
        "rank": ranks,
        "n_ranked": sizes,
        "uniform": uniform,
    }


def spread(values: np.ndarray) -> np.ndarray:
    """Standard deviations of draws (draw, quantity), inf where a log likelihood runs away."""
    with np.errstate(over="ignore", invalid="ignore"):
        return values.std(0)


def effective_sizes(values: np.ndarray) -> np.ndarray:
    """Bulk effective sizes (quantity,) of draws (chain, draw, quantity); 0 of what never moved."""
    import arviz_stats  # here: it takes long to load

    dataset = xr.Dataset({"values": (("chain", "draw", "quantity"), values)})
    sizes = np.nan_to_num(arviz_stats.ess(dataset, method="bulk")["values"].values, nan=0.0)
    return np.where(np.ptp(values, axis=(0, 1)) > 0.0, sizes, 0.0)


def read(tree: xr.DataTree, model: GPModel, rng: np.random.Generator, n: int = N_KEPT) -> Draws:
    """At most n evenly spaced draws of a fit, chain after chain."""
    posterior = evenly_spaced(tree, n)["posterior"].to_dataset()
    posterior = posterior.transpose("chain", "draw", ...)
    arrays = {
        name: posterior[name].values.reshape(-1, *posterior[name].shape[2:])
        for name in ("theta", *LATENT_NAMES)
        if name in posterior
    }
    if "theta" not in arrays:  # latents at fixed hyperparameters are eta itself
        likelihood, eta = model.likelihood_at(model.full(np.empty(0))), arrays["latent"]
        return Draws(np.empty((len(eta), 0)), eta, likelihood.log_density(eta, model.y))
    if "latent" in arrays:
        model = model.dense_if_exact()
    predictive = ModelPredictive(model, has_latents=model.latent_variable in arrays)
    etas, logs = [], []
    for likelihood, eta in predictive.predictors(rng, arrays):
        etas.append(eta[0])
        logs.append(float(likelihood.log_density(eta[0], model.y)))
    return Draws(arrays["theta"], np.array(etas), np.array(logs))


def approximate_draws(
    model: GPModel,
    rng: np.random.Generator,
    n: int = N_KEPT,
    *,
    averaged: IntegratedApproximation | None,
    antithetic: bool = False,
) -> Draws:
    """n draws of the quick answer: of Gaussians at its settings, without them at the best hyperparameters.

    Antithetic ones are pairs about the mean of each Gaussian, so that their mean is exact.
    """
    if averaged is None:
        best = approximate(model)
        if isinstance(best.fit, FunctionsFit):
            return _of_functions(best.fit, rng, n)
        settings, sites = best.theta[None], best.sites
    else:
        tell_unreliable(averaged)
        settings = averaged.theta
    thetas, etas, logs = [], [], []
    shares = np.array_split(np.arange(n), len(settings))  # of the draws, a setting each
    for k, (theta, share) in enumerate(zip(settings, shares, strict=True)):
        if averaged is None:
            z = rng.standard_normal((len(share), sites.model.dim))
            mean, about = sites.predictor_mean, sites.predictor(z) - sites.predictor_mean
        else:
            mean, about = averaged.draws_at(k, rng, len(share))
        eta = mean + (np.concatenate([about, -about]) if antithetic else about)
        likelihood = model.likelihood_at(model.full(theta))
        thetas.append(np.tile(theta, (len(eta), 1)))
        etas.append(eta)
        logs.append(np.asarray(likelihood.log_density(eta, model.y)))
    every = [np.concatenate(parts) for parts in (thetas, etas, logs)]
    order = rng.permutation(len(every[0]))
    return Draws(*(values[order] for values in every))


def _of_functions(fit: FunctionsFit, rng: np.random.Generator, n: int) -> Draws:
    """n draws of a fit of several functions, in pairs about its mode."""
    eta = fit.model.predictor(fit.theta, fit.draw_latents(rng, n))
    likelihood = fit.model.likelihood_at(fit.model.full(fit.theta))
    log_likelihood = np.asarray(likelihood.log_density(eta, fit.model.y))
    return Draws(np.tile(fit.theta, (n, 1)), eta, log_likelihood)


def shortened(message: str) -> str:
    """A message that fits into results, the rest an ellipsis."""
    return textwrap.shorten(message, WARNING_LENGTH, placeholder=" …")


class _Heard(logging.Handler):
    """Keeps warnings of threads that ask for them, and passes on those of others."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.of_thread: dict[int, list[str]] = {}
        self.before: tuple[list[logging.Handler], bool] = ([], True)

    def emit(self, record: logging.LogRecord) -> None:
        messages = self.of_thread.get(record.thread or 0)
        if messages is not None:
            messages.append(record.getMessage())


_heard, _one_changes = _Heard(), threading.Lock()


@contextlib.contextmanager
def heard_warnings() -> Iterator[list[str]]:
    """Collect the warnings of this thread instead of showing each of them a hundred times."""
    log, thread = logging.getLogger("gpmcflow"), threading.get_ident()
    with _one_changes:
        if not _heard.of_thread:
            _heard.before = log.handlers[:], log.propagate
            log.handlers[:], log.propagate = [_heard], False
        messages = _heard.of_thread[thread] = []
    try:
        yield messages
    finally:
        with _one_changes:
            del _heard.of_thread[thread]
            if not _heard.of_thread:
                log.handlers[:], log.propagate = _heard.before
