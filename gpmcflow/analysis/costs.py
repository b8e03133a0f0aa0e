"""Forecast of the jobs of an analysis, from timings of single evaluations at full size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from gpmcflow.analysis import fitting
from gpmcflow.analysis.data import Data, data_of_table
from gpmcflow.analysis.effects import MOST_KEPT, Sweep
from gpmcflow.analysis.models import build_model
from gpmcflow.analysis.reading import prepare
from gpmcflow.analysis.study import holds_out
from gpmcflow.analysis.summaries import N_EFFECTS, N_SHIFTS, Places
from gpmcflow.approximations.conditional import (
    NewDesigns,
    basis_predictor,
    latent_predictor,
    regression_predictor,
)
from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.approximations.hyperparameters import MOST_SEARCHED
from gpmcflow.approximations.integrated import integrates
from gpmcflow.approximations.leave_one_out import at_theta
from gpmcflow.approximations.mixture import suits
from gpmcflow.approximations.multi_maximum import functions_fit
from gpmcflow.approximations.multi_prediction import multi_predictor
from gpmcflow.covariances.basis_blocks import BasisBlocks
from gpmcflow.errors import InputError
from gpmcflow.evidence.mixture_evidence import FIRST_WITH_DRAWS, FOR_THE_FIT
from gpmcflow.evidence.model_evidence import MOST_TEMPERATURES
from gpmcflow.evidence.two_ends import GivenEnds
from gpmcflow.jobs.costs import Context, Cost, repeated, timed
from gpmcflow.jobs.resources import model_numbers, tiled_numbers
from gpmcflow.jobs.study import PlannedJob
from gpmcflow.models.collapsed_density import density_of
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.multi_gp_model import MultiGPModel
from gpmcflow.models.regression_density import RegressionDensity
from gpmcflow.samplers.adaptation.joint_mode import plain_sites
from gpmcflow.samplers.density.fitted_independence import FittedIndependence
from gpmcflow.samplers.joint.pseudo_marginal import PseudoMarginalHMC, prefers_pseudo_marginal
from gpmcflow.samplers.joint.pseudo_marginal_independence import suits_independence
from gpmcflow.samplers.joint.split_hmc import JointSplitHMC
from gpmcflow.samplers.problem import MOST_STARTS
from gpmcflow.samplers.structure_notes import dense_note

SEARCH_FOR_MODES = (1050, 400)  # values and gradients, until a mixture is fitted to a regression
MODES_OF_A_FIT = (260, 300)  # values and gradients, until a fit of a regression knows all modes
BASIS_SEARCH = (60, 8)  # gradients, and Newton's methods, of their search for the maximum
BASIS_STEPS = (1.0, 0.25)  # as `STEPS`: so much data leave little to correlate
MOST_TIMED = 400_000  # bytes of the inputs of sweeps whose predictions are timed, or of one
LARGEST_TIMED = 1200  # cases of a dense model that is timed at full size; of more, a part and n^3
CLIMBS = (20.0, 6.0)  # gradients of the climbs to modes and of their curvature: a + b d
WEIGHTED = 150  # fits that get weights
SETTINGS = 35  # that predictions are averaged over
WARM = 0.25  # of a fit, where it begins at one nearby
FITS = (8.0, 2.0)  # evaluations of a search for the maximum: a + b d
STEPS = (4.0, 0.3)  # gradients of a trajectory of joint split HMC: a + b d
LABEL_STEPS = (8.0, 0.2)  # of labels, whose steps are shorter
PSEUDO_FITS = 3.0  # warm fits, each with its gradient, of a transition of pseudo-marginal HMC
PROPOSAL_FITS = 2.0  # warm fits that a proposal of a block takes, with the draws of its latents
FIRST_PROPOSALS = (80, 30)  # fits of a pilot that makes the mixture, and judges it: a + b d
LADDER = 8.0  # trajectories of an iteration of a ladder, of 3 to 9 temperatures as measured
EVIDENCE_PASSES = 8.0  # products with two triangular matrices of a transition and its pilot's share
PARETO_SECONDS = 2e-4  # a case of leave-one-out
RESPONSE_SECONDS = 5e-4  # a new row, whose responses are simulated
REPORT_SECONDS = 3.0
COLUMN_SECONDS = 0.07  # of a column: flat curves beside its effect, its group of results, its rows
CLASS_FITS = 100.0  # of several functions: 9 screened, some 22 with slopes, 4 fits each
N_AVERAGED = 10  # times one setting made ready, for the draws of a fit over classes


class Unit(NamedTuple):
    """Seconds of what a model's jobs are made of."""

    fit: float  #: an EP fit, or a marginal likelihood with its gradient
    draw: float  #: a gradient of the joint density, or a value of the marginal likelihood
    gradient: float  #: of the marginal likelihood, or as `draw`
    value: float  #: of the density that is drawn from, without its gradient
    left_out: float  #: leave-one-out densities at one setting of the hyperparameters
    predictor: float  #: one setting of the hyperparameters made ready, with all predictions of it
    effects: float  #: one joint draw of the effects of all columns
    dim: int  #: hyperparameters
    n: int  #: cases
    held: int  #: numbers alive at once in a chain
    fitted: int  #: and in a fit


def _data(context: Context, name: str) -> Data:
    settings = context.config["analyses"][name]
    where = f"analyses.{name}.data"

    def make() -> Data:
        home = context.folder if "table" in settings["data"] else context.home
        table = prepare(name, settings, home, context.config["seed"], where)
        if table.leak:
            context.notes.append(f"{where}: {table.leak.words(table.target.name)}")
        context.notes += [f"{where}: {note}" for own in table.areas for note in own.notes()]
        return data_of_table(table)

    return context.once(("analysis", name), make)


def _model(context: Context, job: PlannedJob) -> GPModel:
    settings, data = context.config["analyses"][job.problem], _data(context, job.problem)
    where = f"analyses.{job.problem}"

    def make() -> GPModel:
        model = build_model(settings, job.method, data, where)
        note = dense_note(model, lambda: _basis(settings, job.method, data))
        if note:
            context.notes.append(f"{where}.models.{job.method}: {note}")
        return model

    return context.once(("model", job.problem, job.method), make)


def _basis(settings: Mapping, name: str, data: Data) -> BasisBlocks | None:
    """Basis functions of a model of the config, were its structure that."""
    models = {name: {**settings["models"][name], "structure": "basis"}}
    try:
        return build_model({**settings, "models": models}, name, data, "").basis
    except InputError as error:
        raise InputError(str(error).removeprefix(f".models.{name}.structure: ")) from None


def _places(context: Context, job: PlannedJob) -> Places:
    data = _data(context, job.problem)
    return context.once(("places", job.problem), lambda: Places.of(data, np.random.default_rng(0)))


def _unit(context: Context, job: PlannedJob) -> Unit:
    return context.once(("unit", job.problem, job.method), lambda: _measured(context, job))


def _measured(context: Context, job: PlannedJob) -> Unit:
    places, model = _places(context, job), _model(context, job)
    if model.basis or model.n_cases <= LARGEST_TIMED:
        return _timed(places, model)
    rows = np.linspace(0, model.n_cases - 1, LARGEST_TIMED).astype(int)
    return _scaled(_timed(places, model.take(rows)), model)


def _scaled(unit: Unit, model: GPModel) -> Unit:
    """What was timed with a part of a model's rows, for all of them."""
    more = (model.n_cases / unit.n) ** (1 if model.basis else 3)
    timed = Unit._fields[: Unit._fields.index("dim")]
    seconds = {name: more * getattr(unit, name) for name in timed}
    return unit._replace(**seconds, n=model.n_cases, held=model.numbers_held, fitted=_fitted(model))


def _timed(places: Places, model: GPModel) -> Unit:
    theta = model.prior_median()
    if model.likelihood.conjugate and not model.basis:
        density = RegressionDensity(model)
        rng = np.random.default_rng()
        value = draw = repeated(lambda: density(theta + 1e-9 * rng.random(len(theta))))
        gradient = fit = repeated(lambda: density.value_and_gradient(theta))
    else:
        joint = density_of(model, plain_sites(model))
        x, z = np.zeros(model.dim), np.zeros(joint.n_z)
        draw = gradient = repeated(lambda: joint.evaluate(x, z))
        value = repeated(lambda: joint.value(x, z))
        fit = repeated(_one_fit(model, theta))
    left_out = fit
    if isinstance(model, MultiGPModel):
        make: Callable = lambda: multi_predictor(model, theta, np.zeros((1, model.n_latents)), {})  # noqa: E731
    elif model.basis:
        designs, weights = NewDesigns(model), np.zeros((1, model.n_latents))
        make = lambda: basis_predictor(designs, model.full(theta), weights)  # noqa: E731
        left_out = timed(lambda: at_theta(model, theta))[0]
    elif model.likelihood.conjugate:
        make = lambda: regression_predictor(model, theta)  # noqa: E731
    else:
        make = lambda: latent_predictor(model, theta, np.zeros((1, model.n_latents)))  # noqa: E731
    coded = [model.new_inputs(X, "new") for X in places.tables.values()]
    timed_sweeps = _few_of(places.swept)
    making, swept = timed(lambda: [model.new_inputs(own.inputs, "new") for own in timed_sweeps])
    predictor = make()
    points = timed(lambda: [predictor.moments(X) for X in coded])[0]
    joint = [sweep.joint(X) for sweep, X in zip(timed_sweeps, swept, strict=True)]
    rng = np.random.default_rng(0)
    effects = timed(lambda: [predictor.draw(X, rng, 1) for X in joint])[0]
    effects += timed(lambda: [predictor.moments(X) for X in swept])[0] * N_SHIFTS / N_EFFECTS
    if _size(places.swept) > MOST_KEPT:  # made anew, for the joint rows and for all
        effects += 2.0 * making
    effects *= _size(places.swept) / max(1, _size(timed_sweeps))
    each, held, fitted = repeated(make) + points, model.numbers_held, _fitted(model)
    seconds = (fit, draw, gradient, value, left_out, each, effects)
    return Unit(*seconds, model.dim, model.n_cases, held, fitted)


def _one_fit(model: GPModel | MultiGPModel, theta: np.ndarray) -> Callable:
    """A fit at theta (d,)."""
    if isinstance(model, MultiGPModel):
        return lambda: functions_fit(model, theta)
    at = model.at(theta)
    return lambda: expectation_propagation(at)


def _size(swept: Sequence[Sweep]) -> int:
    return sum(sweep.nbytes for sweep in swept)


def _few_of(swept: Sequence[Sweep]) -> list[Sweep]:
    """Return sweeps, or of a great many evenly spaced ones whose inputs fit into `MOST_TIMED` bytes."""
    return list(swept[:: max(1, -(-_size(swept) // MOST_TIMED))])


def _fitted(model: GPModel | MultiGPModel) -> int:
    """Numbers alive at once in a fit: n x n matrices also on a grid; n x m of several functions' weights."""
    if model.basis and isinstance(model, GPModel):
        return tiled_numbers(model.n_cases, model.basis_design.arrow_numbers)
    return model_numbers(model.n_cases, model.n_latents if model.basis else None)


def _job(context: Context, numbers: int, seconds: float, cores: int = 1, disk: int = 0) -> Cost:
    return context.single(seconds, 8 * numbers * cores, disk)._replace(cores=cores)


def read_cost(context: Context, job: PlannedJob) -> Cost:
    """The file is read."""
    seconds = timed(lambda: _data(context, job.problem))[0]
    return context.single(seconds, 0)


def fit_cost(context: Context, job: PlannedJob) -> Cost:
    """The quick fit of a model, and its scores; where nothing is held out, what it says, too."""
    return _fit_cost(context, job, answers=not holds_out(context.config["analyses"][job.problem]))


def answer_cost(context: Context, job: PlannedJob) -> Cost:
    """The quick fit to all rows, and what it says."""
    return _fit_cost(context, job, answers=True)


def _fit_cost(context: Context, job: PlannedJob, *, answers: bool) -> Cost:
    """Settings of the hyperparameters, or their maximum and annealing to the evidence; effects of columns."""
    unit, evidence = _unit(context, job), context.config["analyses"][job.problem]["evidence"]
    model = _model(context, job)
    if integrates(model):
        climbs = CLIMBS[0] + CLIMBS[1] * unit.dim
        if model.likelihood.conjugate:
            seconds = climbs * unit.fit + WEIGHTED * unit.value
        else:
            seconds = climbs * (WARM * unit.fit + unit.gradient) + WEIGHTED * WARM * unit.fit
        seconds += SETTINGS * (unit.predictor + answers * unit.effects)
        return _job(context, unit.fitted, seconds + _told_seconds(context, job, answers))
    if isinstance(model, MultiGPModel):
        seconds = CLASS_FITS * unit.fit + unit.predictor * N_AVERAGED + answers * unit.effects
        return _job(context, unit.fitted, seconds + _told_seconds(context, job, answers))
    if model.basis:
        seconds = BASIS_SEARCH[0] * unit.gradient + BASIS_SEARCH[1] * unit.left_out + unit.fit
    else:
        seconds = (FITS[0] + FITS[1] * unit.dim) * unit.fit
        if suits(model) and unit.n <= MOST_SEARCHED:
            seconds += MODES_OF_A_FIT[0] * unit.draw + MODES_OF_A_FIT[1] * unit.gradient
    seconds += unit.predictor + answers * unit.effects + _told_seconds(context, job, answers)
    if not model.likelihood.conjugate and not fitting.too_much_annealing(model, evidence):
        n = unit.n if model.basis else min(unit.n, LARGEST_TIMED)
        m = model.n_latents if model.basis else n
        L, batch = np.asfortranarray(np.tri(n, m)), np.zeros((m, evidence["particles"]))
        product = repeated(lambda: L @ batch) * (unit.n / n) ** 2
        seconds += EVIDENCE_PASSES * product * evidence["temperatures"]
    return _job(context, unit.fitted, seconds)


def draw_cost(context: Context, job: PlannedJob) -> Cost:
    """The pilot, and draws of all chains in as many processes as there are cores."""
    unit, sampling = _unit(context, job), context.config["analyses"][job.problem]["sampling"]
    model = _model(context, job)
    chains, draws = sampling["chains"], sampling["draws"]
    if model.likelihood.conjugate and not model.basis:
        pilot = FittedIndependence().n_pilot * unit.draw + _searches(unit)
        if suits(model):
            pilot = SEARCH_FOR_MODES[0] * unit.draw + SEARCH_FOR_MODES[1] * unit.gradient
        work = chains * draws * unit.draw
    elif suits_independence(model):
        each = PROPOSAL_FITS * WARM * unit.fit
        climbs = CLIMBS[0] + CLIMBS[1] * unit.dim
        pilot = climbs * (WARM * unit.fit + unit.gradient)
        pilot += (FIRST_PROPOSALS[0] + FIRST_PROPOSALS[1] * unit.dim) * WARM * unit.fit
        work = chains * (draws + sampling["warmup"]) * each
    else:
        sampler, each = JointSplitHMC(), _trajectory(model, unit)
        if prefers_pseudo_marginal(model):
            sampler, each = PseudoMarginalHMC(), PSEUDO_FITS * (WARM * unit.fit + unit.gradient)
        pilot = sampler.transitions_before_draws(model, chains) * each
        work = chains * (draws + sampling["warmup"]) * each
    n_kept = unit.dim + (0 if model.likelihood.conjugate else model.n_latents)
    return _of_chains(context, job, pilot, work, 2 * 8 * chains * draws * (n_kept + 8))


def _searches(unit: Unit) -> float:
    """Seconds of climbs to a mode, and of the curvature there."""
    return MOST_STARTS * (20 + 2 * unit.dim) * unit.gradient


def _trajectory(model: GPModel, unit: Unit) -> float:
    """Seconds of a transition of joint split HMC."""
    dense = LABEL_STEPS if model.likelihood.relative_sites else STEPS
    steps = BASIS_STEPS if model.basis else dense
    return (steps[0] + steps[1] * unit.dim) * unit.gradient


def _of_chains(
    context: Context, job: PlannedJob, alone: float, work: float, disk: int, shared: bool = True
) -> Cost:
    """Seconds of one process, and work that chains share out among the cores."""
    unit, model = _unit(context, job), _model(context, job)
    chains = context.config["analyses"][job.problem]["sampling"]["chains"] if shared else 1
    cores = 1 if context.execution["scheduler"] else min(chains, context.cores)
    worker = context.single(0.0, 0)
    start, processes = (context.start_of_workers, cores) if cores > 1 else (0.0, 0)
    held = unit.held if model.basis else unit.fitted
    cost = _job(context, held, alone + start + work / cores, cores, disk)
    return cost._replace(memory=cost.memory + processes * worker.memory)


def evidence_cost(context: Context, job: PlannedJob) -> Cost:
    """Values at draws of the posterior and of the reference, and a ladder if the route may have one.

    With a Gaussian likelihood values at draws of a density that is fitted to those of the posterior, and
    latents of some. Nothing where proposals of hyperparameters are weighed as they are drawn.
    """
    unit, settings = _unit(context, job), context.config["analyses"][job.problem]
    evidence, chains = settings["evidence"], settings["sampling"]["chains"]
    model = _model(context, job)
    each, draws = _trajectory(model, unit), min(evidence["draws"], settings["sampling"]["draws"])
    work, alone = chains * draws * (1 + GivenEnds.per_draw) * unit.value, 0.0
    if model.likelihood.conjugate:
        work, alone = 0.0, FIRST_WITH_DRAWS * unit.value + FOR_THE_FIT * unit.gradient
    elif suits_independence(model):
        work = 0.0  # the draws hold the weights of their proposals
    ladder = evidence["route"] != "two_ended"
    if ladder:
        work += chains * evidence["draws"] * LADDER * each
    if evidence["route"] == "auto":
        context.once(("ladder", job.problem), lambda: context.notes.append(
            f"analyses.{job.problem}.evidence: a ladder is counted for each model, the most that route: auto "
            "takes; where a bridge is good enough none is run"
        ))  # fmt: skip
    numbers = chains * draws * (2 + GivenEnds.per_draw + unit.dim)
    if ladder:
        numbers += chains * evidence["draws"] * 6 * MOST_TEMPERATURES
    state = numbers + chains * draws * model.n_latents  # which the results leave out
    return _of_chains(context, job, alone, work, 8 * (numbers + state), shared=ladder)


def summary_cost(context: Context, job: PlannedJob) -> Cost:
    """Predictions and effects of the draws, and a fit for each of the draws of leave-one-out."""
    unit, sampling = _unit(context, job), context.config["analyses"][job.problem]["sampling"]
    model = _model(context, job)
    n_draws = sampling["chains"] * sampling["draws"]
    left_out = min(fitting.n_left_out(model), n_draws)
    seconds = min(fitting.N_PREDICTED, n_draws) * unit.predictor + _told_seconds(context, job)
    seconds += left_out * unit.left_out + min(N_EFFECTS, n_draws) * unit.effects
    seconds += PARETO_SECONDS * unit.n
    numbers = unit.held + 10 * unit.n * left_out if model.basis else unit.fitted
    return _job(context, numbers, seconds)


def _of_all_rows(cost: Callable[[Context, PlannedJob], Cost]) -> Callable[..., Cost]:
    """The most of what the models cost, as any may be shown, with the held-out rows to learn from."""

    def of_all_rows(context: Context, job: PlannedJob) -> Cost:
        models = context.config["analyses"][job.problem]["models"]
        jobs = [replace(job, wildcards={**job.wildcards, "model": name}) for name in models]
        whole = context.once(("all rows", job.problem), lambda: _with_all_rows(context, jobs))
        return Cost(*map(max, zip(*(cost(whole, one) for one in jobs), strict=True)))

    return of_all_rows


def _with_all_rows(context: Context, jobs: list[PlannedJob]) -> Context:
    """The context of a fit to all rows: nothing is timed again, as seconds follow the number of rows."""
    whole = Context(context.config, context.folder, context.home, context.cores, context.started)
    problem = jobs[0].problem
    whole.once(("analysis", problem), lambda: _data(context, problem).whole())
    for job in jobs:
        unit, model = _unit(context, job), _model(whole, job)
        whole.once(("unit", problem, job.method), partial(_scaled, unit, model))
    return whole


def final_cost(context: Context, job: PlannedJob) -> Cost:
    """What the fit to all rows, or its draws, say."""
    quick = context.config["analyses"][job.problem]["quick"]
    return _of_all_rows(answer_cost if quick else summary_cost)(context, job)


def _told_seconds(context: Context, job: PlannedJob, answers: bool = True) -> float:
    """To simulate responses of the predicted rows; for answers, also for the effect of each column."""
    places = _places(context, job)
    of_rows = RESPONSE_SECONDS * sum(len(X) for X in places.tables.values())
    return of_rows + answers * COLUMN_SECONDS * len(places.swept)


def report_cost(context: Context, job: PlannedJob) -> Cost:
    """Tables and page."""
    return context.single(REPORT_SECONDS + COLUMN_SECONDS * len(_places(context, job).swept), 0)


COSTS = {
    "analysis_read": read_cost,
    "analysis_fit": fit_cost,
    "analysis_draw": draw_cost,
    "analysis_summarise": summary_cost,
    "analysis_evidence": evidence_cost,
    "analysis_final_draw": _of_all_rows(draw_cost),
    "analysis_final": final_cost,
    "analysis_report": report_cost,
}
