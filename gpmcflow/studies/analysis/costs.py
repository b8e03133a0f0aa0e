"""Forecast of the jobs of an analysis, from timings of single evaluations at full size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpmcflow.approximations.conditional import latent_predictor, regression_predictor
from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.forecast.context import Context, Cost
from gpmcflow.forecast.timing import repeated, timed
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.regression_density import RegressionDensity, density_of
from gpmcflow.samplers.adaptation.joint_mode import plain_sites
from gpmcflow.samplers.density.fitted_independence import FittedIndependence
from gpmcflow.samplers.joint.split_hmc import JointSplitHMC
from gpmcflow.studies.analysis.data import Data, data_of, data_tree
from gpmcflow.studies.analysis.fitting import N_LEFT_OUT, N_PREDICTED
from gpmcflow.studies.analysis.models import build_model
from gpmcflow.studies.analysis.reading import prepare
from gpmcflow.studies.analysis.summaries import N_EFFECTS, Places
from gpmcflow.studies.frame.study import PlannedJob

MATRICES = 10  # n x n arrays alive at once
FITS = (8.0, 2.0)  # evaluations of a search for the maximum: a + b d
STEPS = (2.0, 0.33)  # gradients of a trajectory of joint split HMC: a + b d
EVIDENCE_PASSES = 8.0  # products with two triangular matrices of a transition and its pilot's share
REPORT_SECONDS = 3.0


class Unit(NamedTuple):
    """Seconds of what a model's jobs are made of."""

    fit: float  #: an EP fit, or a marginal likelihood with its gradient
    draw: float  #: a gradient of the joint density, or a value of the marginal likelihood
    gradient: float  #: of the marginal likelihood, or as `draw`
    predictor: float  #: one setting of the hyperparameters made ready, with all predictions of it
    effects: float  #: one joint draw of the effects of all columns
    dim: int  #: hyperparameters
    n: int  #: cases


def _data(context: Context, name: str) -> Data:
    settings = context.config["analyses"][name]
    where = f"analyses.{name}.data"

    def make() -> Data:
        home = context.folder if "table" in settings["data"] else context.home
        table = prepare(name, settings, home, context.config["seed"], where)
        return data_of(data_tree(table))

    return context.once(("analysis", name), make)


def _model(context: Context, job: PlannedJob) -> GPModel:
    settings, data = context.config["analyses"][job.problem], _data(context, job.problem)
    return build_model(settings, job.method, data, f"analyses.{job.problem}")


def _unit(context: Context, job: PlannedJob) -> Unit:
    return context.once(("unit", job.problem, job.method), lambda: _measured(context, job))


def _measured(context: Context, job: PlannedJob) -> Unit:
    data, model = _data(context, job.problem), _model(context, job)
    theta = model.prior_median()
    if model.likelihood.conjugate:
        density = RegressionDensity(model)
        draw = repeated(lambda: density(theta + 1e-9 * np.random.default_rng().random(len(theta))))
        gradient = fit = repeated(lambda: density.value_and_gradient(theta))
        make = lambda: regression_predictor(model, theta)  # noqa: E731
    else:
        joint = density_of(model, plain_sites(model))
        x, z = np.zeros(model.dim), np.zeros(joint.n_z)
        draw = gradient = repeated(lambda: joint.evaluate(x, z))
        at = model.at(theta)
        fit = repeated(lambda: expectation_propagation(at))
        make = lambda: latent_predictor(model, theta, np.zeros((1, model.n_cases)))  # noqa: E731
    places = Places.of(data, np.random.default_rng(0))
    coded = [model.new_inputs(X) for X in places.tables.values()]
    swept = [model.new_inputs(sweep.inputs) for sweep in places.swept]
    predictor = make()
    points = timed(lambda: [predictor.moments(X) for X in coded])[0]
    effects = timed(lambda: [predictor.joint(X) for X in swept])[0]
    return Unit(fit, draw, gradient, repeated(make) + points, effects, model.dim, model.n_cases)


def _job(context: Context, unit: Unit, seconds: float, cores: int = 1, disk: int = 0) -> Cost:
    memory = MATRICES * 8 * unit.n**2 * cores
    return context.single(seconds, memory, disk)._replace(cores=cores)


def read_cost(context: Context, job: PlannedJob) -> Cost:
    """The file is read."""
    seconds = timed(lambda: _data(context, job.problem))[0]
    return context.single(seconds, 0)


def fit_cost(context: Context, job: PlannedJob) -> Cost:
    """A search for the maximum, effects of the columns, and annealing to the evidence."""
    unit, evidence = _unit(context, job), context.config["analyses"][job.problem]["evidence"]
    seconds = (FITS[0] + FITS[1] * unit.dim) * unit.fit + unit.predictor + unit.effects
    if not _model(context, job).likelihood.conjugate:
        runs, n = evidence["temperatures"] * evidence["particles"], unit.n
        L, batch = np.asfortranarray(np.tri(n)), np.zeros((n, evidence["particles"]))
        product = repeated(lambda: L @ batch)
        seconds += EVIDENCE_PASSES * product * runs / evidence["particles"]
    return _job(context, unit, seconds)


def draw_cost(context: Context, job: PlannedJob) -> Cost:
    """The pilot, and draws of all chains in as many processes as there are cores."""
    unit, sampling = _unit(context, job), context.config["analyses"][job.problem]["sampling"]
    model = _model(context, job)
    chains, draws = sampling["chains"], sampling["draws"]
    if model.likelihood.conjugate:
        pilot = FittedIndependence().n_pilot * unit.draw + (60 + 2 * unit.dim) * unit.gradient
        work = chains * draws * unit.draw
    else:
        steps = STEPS[0] + STEPS[1] * unit.dim
        before = JointSplitHMC().transitions_before_draws(model, chains)
        pilot = before * steps * unit.draw
        work = chains * (draws + sampling["warmup"]) * steps * unit.draw
    cores = 1 if context.execution["scheduler"] else min(chains, context.cores)
    start = context.single(0.0, 0).seconds if cores > 1 else 0.0  # of the worker processes
    n_kept = unit.dim + (0 if model.likelihood.conjugate else unit.n)
    disk = 2 * 8 * chains * draws * (n_kept + 8)
    return _job(context, unit, pilot + start + work / cores, cores, disk)


def summary_cost(context: Context, job: PlannedJob) -> Cost:
    """Predictions and effects of the draws, and a fit for each of the draws of leave-one-out."""
    unit, sampling = _unit(context, job), context.config["analyses"][job.problem]["sampling"]
    n_draws = sampling["chains"] * sampling["draws"]
    seconds = min(N_PREDICTED, n_draws) * unit.predictor
    seconds += min(N_LEFT_OUT, n_draws) * unit.fit + min(N_EFFECTS, n_draws) * unit.effects
    return _job(context, unit, seconds)


def report_cost(context: Context, job: PlannedJob) -> Cost:
    """Tables and page."""
    return context.single(REPORT_SECONDS, 0)


COSTS = {
    "analysis_read": read_cost,
    "analysis_fit": fit_cost,
    "analysis_draw": draw_cost,
    "analysis_summarise": summary_cost,
    "analysis_report": report_cost,
}
