"""The log evidence of a whole model, hyperparameters and latents integrated out."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.approximations.mixture import (
    MOST_CAREFUL,
    has_normal_coordinates,
    has_quick_fits,
    suits,
    suits_by_careful_ep,
    suits_by_ep,
)
from gpmcflow.errors import InputError, NumericalError, unknown_name
from gpmcflow.evidence.joint_tempering import JointTemperingProgram
from gpmcflow.evidence.mixture_evidence import (
    FIRST_DRAWS,
    FIRST_FITS,
    Weighted,
    mixture_groups,
    proposal_groups,
    weighted_draws,
    weights_of_proposals,
)
from gpmcflow.evidence.model_evidence_group import (
    Ends,
    Ladder,
    evidence_group,
    ladder_group,
    posterior_groups,
)
from gpmcflow.evidence.schedule import equal_distance
from gpmcflow.evidence.two_ends import (
    LEAST_DRAWS,
    EndsProblem,
    EndsSampler,
    GivenDraws,
    GivenEnds,
    ReplaySampler,
    as_drawn,
    draws_of,
    stage_at_mode,
)
from gpmcflow.execution import (
    Execution,
    array_digest,
    chain_generators,
    pin_blas,
    run,
    workers,
)
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.multi_gp_model import MultiGPModel
from gpmcflow.samplers.adaptation.joint_pilot import FEW, pilot_group
from gpmcflow.samplers.joint.split_hmc import JointSplitHMC, TunedSplitHMC
from gpmcflow.samplers.modes_group import (
    missed_by_chains,
    modes_of_chains,
    modes_or_warning,
)
from gpmcflow.samplers.predictive import ModelPredictive, predictive_groups
from gpmcflow.samplers.program import ChainProgram
from gpmcflow.samplers.protocol import require_count
from gpmcflow.storage import standard_attributes, with_attributes

ROUTES = ("auto", "mixture", "two_ended", "ladder")
FEW_CASES, MANY_TIMES = 100, 16  # of regressions; as many draws as at first where these are too few
USUAL_DRAWS = 2000  # of a replicate; up to four times as many where these are too few
ROUNDS = 8  # the first round takes an eighth of the draws; each doubles what there is
SHORT_PILOT = (100, 200, 60)  # of few hyperparameters: half the default's cost, and no less overlap
MOST_TEMPERATURES = 20
SHORT_LADDER = np.array([0.0, 0.03, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])
SHORT_ITERATIONS, SHORT_DROPPED = 60, 20
WARMUP = 25  # iterations of a ladder that are dropped


def model_evidence(
    model: GPModel,
    sampler: JointSplitHMC | None = None,
    *,
    draws: xr.DataTree | None = None,
    route: str = "auto",
    n_replicates: int = 4,
    n_draws: int | None = None,
    target_error: float = 0.1,
    predictive: bool = True,
    seed: int = 0,
    key: tuple[str | int, ...] = (),
    execution: Execution | None = None,
) -> xr.DataTree:
    """Estimate log p(y), hyperparameters and latents integrated out.

    p(y) = int p(y | f, theta) p(f | theta) p(theta) df dtheta.

    Regressions of up to 8 free hyperparameters (likelihoods "gaussian" and "log_normal", whose latents
    are integrated out exactly) take the mixture: a search finds the modes of the hyperparameters'
    posterior, and the estimate is the log mean of p(y | theta) p(theta) / q(theta) over draws of q,
    Student-t densities at the modes with a tenth of the prior. It runs no chains. So do log-concave
    likelihoods, such as those of labels and counts, and Student-t, with up to 8 free hyperparameters and
    300 rows: EP's evidence stands in for p(y | theta) in the search, and at each draw of theta 16 draws of
    f, annealed from the EP fit to p(f | y, theta), estimate p(y | theta) without bias, so that the mean is
    p(y) whatever EP does. Where these weights raise an alarm chains follow. EP is slower for other
    likelihoods that are not log-concave, such as those of shares: up to 100 rows chains come first, and
    this where they overlap too little with their reference, as between two modes.

    If draws of a regression are given, a Student-t density fitted to them replaces that search, whatever the
    number of hyperparameters; if its weights raise an alarm, the draws are bridged, as those of other models.

    Other models run chains. p(y) = E[e^u(q)] over q ~ N(0, I), see `JointPath`. Each replicate has a pilot, a
    Gaussian reference and random streams of its own. Bennett's bridge joins draws of the reference to draws
    of the posterior; where the two overlap too little, a ladder of tempered densities that swap states lies
    between them. Rounds of draws double until the error is small enough.

    Source: Cappe et al. (2008) for the mixture; Bennett (1976); Meng & Wong (1996); for the ladder Geyer
    (1991).

    Parameters
    ----------
    model:
        A `GPModel` with free hyperparameters.
    sampler:
        Settings of the pilots and the chains; by default those of `JointSplitHMC` with shorter pilots.
    draws:
        Results of `sample` for this model, latents among them, in the place of new chains; each chain is a
        replicate, of at least 100 draws. To those of a regression a Student-t is fitted whose own draws make
        the estimate. Draws of `PseudoMarginalIndependence` hold the weights of all their proposals, whose
        mean is the estimate; they are bridged only if these weights raise an alarm. Of other models draws of
        `JointSplitHMC` bring their pilot along, those of `PseudoMarginalHMC` a frame that the reference is
        made of; for others it is made of the mode and the curvature there. ``n_draws`` of a chain are taken,
        all where these are too few for ``target_error``, and then new and longer chains, up to ``n_draws``.
    route:
        "mixture", "two_ended", "ladder", or "auto". That takes the mixture as above, unless a sampler or
        draws, but for those of a regression, are given; else "two_ended" and, where an alarm tells of poor
        overlap, the ladder.
    n_replicates:
        Independent estimates, whose mean is the result. The mixture makes one.
    n_draws:
        Most draws of a replicate, and most iterations of a ladder; None for 2000, and up to 8000 where
        these leave the error above ``target_error``, or fewer than 100 effective draws of a replicate in the
        mean, or than 50 in one.
        The mixture takes 2000, and doubles them up to ``n_replicates * n_draws`` (None: 8000, or 32,000 for
        up to 100 rows) where its error is above ``target_error``, fewer than 200 draws are effective, or
        their weights have a heavy tail; of EP fits 1000, and None for up to 2000; for fewer than 1000 in all
        "auto" runs chains.
    target_error:
        Standard error, in nats, at which no further round of draws is made.
    predictive:
        Whether results hold what ArviZ's functions ask for.
    seed, key, execution:
        As in `sample`. The mixture needs no ``execution``: it runs in this process and keeps no state.

    Returns
    -------
    Group ``evidence``, by ``estimator``, of which the first is the result ("importance" for the mixture,
    else "bridge", with stepping stones and thermodynamic integration as checks of a ladder):
    log_evidence, standard_error, the larger of what the spread of the replicates and their own errors
    say, a 95 % interval, and the estimates of each ``replicate``; fit, the posterior mean of log p(y |
    f), and complexity, fit - log p(y), the Kullback-Leibler divergence of the posterior from the prior;
    costs; overlap, the largest variance of a bridge's terms, or of the mixture's weights; ``alarm``, a
    text that is empty where nothing speaks against the estimate; attribute ``route``. Group
    ``posterior``: hyperparameters (chain, draw), equally weighted. Group ``sample_stats``: log_ratio u
    and sum_log_likelihood, for the mixture of every tenth draw alone; ``reference``: u at draws of the
    reference, or log weights of the mixture; ``tempered``, of a ladder: u (chain, temperature, draw),
    swaps and statistics. Of the mixture, and of regressions of up to 8 hyperparameters, ``modes``:
    parameters and mass of each mode, and of chains their visits. With ``predictive`` ``log_likelihood``
    and the other groups of `sample`.

    Raises
    ------
    InputError:
        For a model without a free hyperparameter, draws that are too few or of another model, and the mixture
        for a model that it does not suit.
    NumericalError:
        Where no mode is found.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(), gp.Gaussian(0.1))
    >>> run = gp.model_evidence(model)
    >>> run.evidence["log_evidence"].sel(estimator="importance").round(1).item()
    -5.8
    >>> run.modes.attrs["in_words"]
    'one explanation'
    """
    pin_blas()
    most = USUAL_DRAWS if n_draws is None else n_draws
    _check(model, sampler, route, n_replicates, most, target_error)
    alone = sampler is None and draws is None
    if route == "mixture" and draws is None and isinstance(model, GPModel):
        model = model.by_cases  # fits are those of the cases
    weighted, by_ep = None, not model.likelihood.conjugate
    first = FIRST_FITS if by_ep else FIRST_DRAWS
    times = 2 if by_ep else MANY_TIMES if model.n_cases <= FEW_CASES else 4
    total = times * first if n_draws is None else n_replicates * n_draws
    suited = suits(model) or (suits_by_ep(model) and total >= first)
    lent = draws is not None and model.likelihood.conjugate and has_normal_coordinates(model)
    proposed = None if draws is None else weights_of_proposals(draws)
    if route == "mixture":
        _require_mixture(model, alone or lent or proposed is not None)
    if (route == "mixture" and alone) or (route == "auto" and alone and suited):
        weighted = _weighted(model, total, target_error, route, seed, tuple(key))
        if weighted is not None and (not by_ep or route == "mixture" or not weighted.alarms()):
            return _of_mixture(model, weighted, route, predictive, seed, tuple(key))
    sampler = default_sampler(model) if sampler is None else sampler
    if draws is not None:
        model = as_drawn(model, draws)
    elif not sampler.moves_weights:
        model = model.dense_if_exact()
    reused, pilot = (None, None) if draws is None else draws_of(draws, model)
    if reused is not None:
        n_replicates = len(reused.theta)
    sound = proposed is not None and (route == "mixture" or not proposed.alarms())
    if draws is not None and proposed is not None and sound and route in ("auto", "mixture"):
        settings = {"route": route, "key": list(key), **EndsProblem.of(model, None).described()}
        return _results(model, proposal_groups(draws, proposed), settings, seed)
    if draws is not None and reused is not None and lent and route in ("auto", "mixture"):
        theta = reused.theta.reshape(-1, model.dim)
        fitted = weighted_draws(model, total, target_error, seed, tuple(key), theta)
        fitted = replace(fitted, missed=_missed(draws, model))
        if route == "mixture" or not fitted.alarms():
            tree = _of_mixture(model, fitted, route, predictive, seed, tuple(key))
            searched = {"modes": draws["modes"].copy()} if "modes" in draws.children else {}
            return tree.drop_nodes("modes").assign(searched)
    lengths = _rounds(most)
    if n_draws is None:
        lengths += [2 * most, 4 * most]
    how = Execution.of(
        execution, progress="model evidence", block_size=1, segment_length=lengths[0]
    )
    problem, streams = EndsProblem.of(model, None), {"seed": seed, "key": tuple(key)}
    with _one_place(replace(how, compute=True)) as how:
        spent = 0
        if pilot is None and reused is not None:
            pilot = stage_at_mode(problem, seed, tuple(key))
            spent = 0 if pilot is None else int(pilot["n_gradient"].sum())
        if pilot is None:
            tuned, stages = sampler.tune(problem, n_replicates, execution=how, **streams)
        else:
            tuned, stages = TunedSplitHMC(sampler, array_digest(pilot), pilot), None
        replicates = _Replicates(problem, tuned, n_replicates, how, seed, tuple(key))
        rounds: list[tuple[str, int, GivenDraws | None]]
        rounds = [("ends", length, None) for length in lengths]
        if reused is not None:
            few, n_given = reused.evenly(most), reused.theta.shape[1]
            rounds = [("ends", few.theta.shape[1], few)]
            if few.theta.shape[1] < n_given:
                rounds.append(("all ends", n_given, reused))
            rounds += [("new ends", length, None) for length in lengths if length > n_given]
        for name, length, given in rounds[:1] if route == "ladder" else rounds:
            if name == "new ends" and not tuned.settled:
                tuned, stages = sampler.tune(problem, n_replicates, execution=how, **streams)
                replicates = replace(replicates, tuned=tuned)
            ends = replicates.ends(given, length, name)
            if (route == "auto" and ends.apart()) or ends.enough(target_error):
                break
            if length >= most and ends.poor():  # which more draws would not help
                break
        careful = alone and not suited and suits_by_careful_ep(model)
        if route == "auto" and careful and ends.poor():
            weighted = _weighted(model, total, target_error, route, seed, tuple(key))
            if weighted is not None and not weighted.alarms():
                return _of_mixture(model, weighted, route, predictive, seed, tuple(key))
        ladder = None
        if route == "ladder" or (route == "auto" and ends.poor()):
            short = replicates.short_ladder(ends)
            for length in lengths:
                ladder = replicates.ladder(ends, short, length)
                if ladder.enough(target_error):
                    break
    groups = posterior_groups(model, ends)
    if predictive:
        own = {"theta": ends.theta, model.latent_variable: ends.latents}
        of_model = ModelPredictive(model, has_latents=True)
        groups |= predictive_groups(of_model, own, seed, (*key, problem.stream))
    if ladder is not None:
        groups["tempered"] = ladder_group(ladder)
    if stages is not None:
        groups["pilot"] = _pilot_group(model, stages)
        spent += int(stages["n_gradient"].sum())
    missed: list[str] = []
    if suits(model):
        rng = chain_generators(seed, *key, "modes", chains=[0]).generator(0)
        modes = modes_or_warning(model, rng)
        if modes is not None:
            groups["modes"], missed = modes_of_chains(
                model, ends.theta, modes.mixture, modes.masses
            )
    elif weighted is not None:
        groups["modes"], missed = modes_of_chains(
            model, ends.theta, weighted.mixture, weighted.masses
        )
    groups["evidence"] = evidence_group(ends, ladder, spent, missed)
    settings = {
        "sampler": repr(sampler),
        "route": route,
        "key": list(key),
        **problem.described(),
    }
    return _results(model, groups, settings, seed)


def _results(
    model: GPModel, groups: dict[str, xr.Dataset], settings: dict[str, Any], seed: int
) -> xr.DataTree:
    settings.pop("data_checksum")
    attributes = standard_attributes(
        settings=settings, seed=seed, data_checksum=array_digest({"y": model.y})
    )
    attributes["model_digest"] = model.digest()
    attributes["n_densities"] = int(model.likelihood.densities(model.y).sum())
    return with_attributes(xr.DataTree.from_dict(groups), attributes)


def _of_mixture(
    model: GPModel, weighted: Weighted, route: str, predictive: bool, seed: int, key: tuple
) -> xr.DataTree:
    groups = mixture_groups(model, weighted, predictive, seed, key)
    settings = {"route": route, "key": list(key), **EndsProblem.of(model, None).described()}
    return _results(model, groups, settings, seed)


def _weighted(
    model: GPModel, most: int, target_error: float, route: str, seed: int, key: tuple
) -> Weighted | None:
    """Draws of the mixture; None where no mode is found by EP, and route "auto" has another way."""
    try:
        return weighted_draws(model, most, target_error, seed, key)
    except NumericalError:
        if route == "mixture" or model.likelihood.conjugate:
            raise
        return None


def _missed(draws: xr.DataTree, model: GPModel) -> list[str]:
    """Modes that draws have missed, or that no search stands beside them, where a search can find modes."""
    if not suits(model):
        return []
    if "modes" not in draws.children or "visits" not in draws["modes"]:
        return ["no modes stand beside the draws, which may have missed one"]
    modes = draws["modes"].to_dataset()
    return missed_by_chains(modes["mass"].values, modes["visits"].values)


def _require_mixture(model: GPModel, alone: bool) -> None:
    """Refuse what the route "mixture" cannot do."""
    where = 'model_evidence: route "mixture"'
    own = model.likelihood
    if isinstance(model, MultiGPModel):
        raise InputError(
            f'{where}: found several latent functions; allowed: one; take route "two_ended" or "ladder"'
        )
    if not (own.conjugate or has_quick_fits(model) or suits_by_careful_ep(model)):
        raise InputError(
            f"{where}: the {own.name} likelihood, which is not log-concave, so that EP fits of more than "
            f'{MOST_CAREFUL} rows take long; take route "two_ended" or "ladder"'
        )
    if not alone:
        raise InputError(
            f"{where} runs no chains; leave out the sampler, and draws but of a regression or of "
            "PseudoMarginalIndependence"
        )


def default_sampler(model: GPModel) -> JointSplitHMC:
    """`JointSplitHMC` with short pilots for few hyperparameters."""
    return JointSplitHMC(rounds=SHORT_PILOT if model.dim <= FEW else None)


def _check(
    model: Any, sampler: Any, route: str, n_replicates: int, n_draws: int, target_error: float
) -> None:
    where = "model_evidence"
    if not isinstance(model, GPModel | MultiGPModel):
        raise InputError(f"{where}: model is a {type(model).__name__}; allowed: a GPModel")
    if not model.dim:
        raise InputError(
            f"{where}: no hyperparameter of the model is free; take log_evidence(model), which "
            "integrates the latents out"
        )
    if sampler is not None and type(sampler) is not JointSplitHMC:
        raise InputError(
            f"{where}: sampler is {sampler!r}; allowed: JointSplitHMC(), or draws of any sampler as draws="
        )
    if route not in ROUTES:
        raise unknown_name(f"{where}: route", route, ROUTES)
    require_count(where, "n_replicates", n_replicates)
    require_count(where, "n_draws", n_draws)
    if n_draws < LEAST_DRAWS:
        raise InputError(f"{where}: n_draws is {n_draws}; allowed: {LEAST_DRAWS} or more")
    if not target_error > 0.0:
        raise InputError(f"{where}: target_error is {target_error!r}; allowed: a positive number")


def _rounds(n_draws: int) -> list[int]:
    """Draws after each round: a unit, twice as many, .., all."""
    lengths = [max(-(-n_draws // ROUNDS), min(LEAST_DRAWS, n_draws))]
    while lengths[-1] < n_draws:
        lengths.append(min(2 * lengths[-1], n_draws))
    return lengths


@contextmanager
def _one_place(how: Execution) -> Iterator[Execution]:
    """One pool of workers for all runs, and a folder from which each round goes on, of its own if need be."""
    local = how.pool in ("synchronous", "threads", "processes")
    with ExitStack() as stack:
        if local and how.state_dir is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="gpmcflow-"))
            how = replace(how, state_dir=folder)
        yield replace(how, scheduler=stack.enter_context(workers(how.pool, how.workers)))


@dataclass(frozen=True, eq=False)
class _Replicates:
    """Runs of a model whose chains are independent replicates."""

    problem: EndsProblem
    tuned: TunedSplitHMC
    n_replicates: int
    execution: Execution
    seed: int
    key: tuple

    @property
    def model(self) -> GPModel:
        return self.problem.target

    def ends(self, reused: GivenDraws | None, length: int, name: str) -> Ends:
        """u of so many draws of the posterior, and of the reference."""
        problem, tuned = self.problem, self.tuned
        if reused is None:
            sampler = EndsSampler(tuned.settings, tuned.tuned_by, tuned.last)
        else:
            problem, sampler = GivenEnds.of(self.model, None), ReplaySampler(tuned, reused)
        program = ChainProgram(problem, sampler)
        values = self._run(program, name, self.n_replicates, length)
        latents = values[self.model.latent_variable]
        return Ends(
            values["log_ratio"], values["reference"], values["theta"], latents,
            values["sum_log_likelihood"], values["acceptance_rate"], values["diverging"],
            int(values["n_gradient"].sum()),
        )  # fmt: skip

    def short_ladder(self, ends: Ends) -> tuple[np.ndarray, int]:
        """Distances int sd(u) d beta along `SHORT_LADDER`, by replicate 0, and the gradients they took."""
        program = JointTemperingProgram(self.model, self.tuned, SHORT_LADDER, _starts(ends))
        values = self._run(program, "short ladder", 1, SHORT_ITERATIONS)
        u = values["log_ratio"][0, SHORT_DROPPED:]
        sd = np.nanstd(np.where(np.isfinite(u), u, np.nan), axis=0)
        distance = np.append(0.0, np.cumsum(0.5 * (sd[1:] + sd[:-1]) * np.diff(SHORT_LADDER)))
        return distance, int(values["n_gradient"].sum())

    def ladder(self, ends: Ends, short: tuple[np.ndarray, int], length: int) -> Ladder:
        """So many iterations of a ladder of equal distances, the first of which are dropped."""
        distance, spent = short
        n_temperatures = int(np.clip(np.ceil(distance[-1]), 2, MOST_TEMPERATURES))
        betas = equal_distance(n_temperatures, SHORT_LADDER, distance)
        program = JointTemperingProgram(self.model, self.tuned, betas, _starts(ends))
        values = self._run(program, "ladder", self.n_replicates, length)
        spent += int(values["n_gradient"][:, :WARMUP].sum())
        draws = {name: array[:, WARMUP:] for name, array in values.items()}
        return Ladder(betas, float(distance[-1]), draws, spent)

    def _run(self, program: Any, name: str, n_chains: int, length: int) -> dict[str, np.ndarray]:
        arrays = run(
            program,
            n_chains=n_chains,
            length=length,
            seed=self.seed,
            key=(*self.key, self.problem.stream, name),
            execution=self.execution.inside(name.replace(" ", "-")),
        )
        return {name: array.compute(scheduler="synchronous") for name, array in arrays.items()}


def _starts(ends: Ends) -> dict[str, np.ndarray]:
    return {"theta": ends.theta[:, -1], "latents": ends.latents[:, -1]}


def _pilot_group(model: GPModel, stages: Mapping[str, np.ndarray]) -> xr.Dataset:
    """`pilot_group` of each replicate, by ``chain``."""
    n_pilots = len(stages["step_size"])
    own = ({name: values[k : k + 1] for name, values in stages.items()} for k in range(n_pilots))
    groups = [pilot_group(model, one) for one in own]
    return xr.concat(groups, "chain", combine_attrs="drop").assign_coords(chain=np.arange(n_pilots))
