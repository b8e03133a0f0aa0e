"""Draws from the posterior of any model by any sampler, as an ArviZ DataTree."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import pdtrc

from gpmcflow.approximations.expectation_propagation import as_sites
from gpmcflow.approximations.mixture import ModeProposal, suits
from gpmcflow.diagnostics.convergence import longest_stands, rhat_limit
from gpmcflow.diagnostics.importance_weights import effective_size, smooth_weights
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import Execution, chain_generators, pin_blas, run
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.log_density import LogDensity
from gpmcflow.models.multi_gp_model import MultiGPModel
from gpmcflow.models.regression_density import RegressionDensity
from gpmcflow.models.tempered import Target, TemperedPath
from gpmcflow.samplers import SAMPLERS, make_sampler
from gpmcflow.samplers.adaptation.pilot import find_pilot
from gpmcflow.samplers.adaptation.step_sizes import TuningSettings
from gpmcflow.samplers.density.problem import DensityProblem
from gpmcflow.samplers.joint.fitted_independence import JointIndependence
from gpmcflow.samplers.joint.problem import JointProblem
from gpmcflow.samplers.joint.pseudo_marginal import PseudoMarginalHMC, prefers_pseudo_marginal
from gpmcflow.samplers.joint.pseudo_marginal_independence import (
    PseudoMarginalIndependence,
    suits_independence,
)
from gpmcflow.samplers.joint.split_hmc import JointSplitHMC
from gpmcflow.samplers.latent.problem import LatentProblem
from gpmcflow.samplers.modes_group import Modes, modes_of_chains, modes_or_warning
from gpmcflow.samplers.predictive import predictive_groups
from gpmcflow.samplers.problem import Problem
from gpmcflow.samplers.program import ChainProgram, Summary
from gpmcflow.samplers.protocol import DENSITY, JOINT, LATENTS, Sampler, require_count
from gpmcflow.samplers.structure_notes import advise, structure_attributes
from gpmcflow.samplers.variables import LATENT_NAMES, dims_of
from gpmcflow.storage import standard_attributes, with_attributes

LEAST_SHARE = 0.3  # effective draws of the mixture: with fewer, trajectories are faster
# The same where each draw takes an EP fit, beside joint split HMC and beside pseudo-marginal HMC: with fewer,
# a few heavy proposals stay for long.
LEAST_PROPOSED, LEAST_BESIDE_EVIDENCE = 0.5, 0.6
LEAST_LATENT_SHARE = 0.5  # effective draws of annealed latents: with fewer, chains linger
LARGEST_K = 0.7  # Pareto k of its weights: above, a chain stands still for long now and then


def choose(
    problem: JointProblem, *, seed: int, key: Sequence[Any]
) -> tuple[Sampler, JointProblem, Modes | None]:
    """Independent proposals where a mixture at the modes makes good ones, else split HMC.

    Chains of the latter start in every mode of more than 1 % of the posterior, unless starts are given. Modes
    are looked for where that is cheap (`suits`). Labels, which say little about their latent function, and
    few cases with heavy tails take pseudo-marginal HMC where its pilot finds that draws annealed from EP's
    fit are good ones.
    """
    model = problem.target
    if suits_independence(model):
        try:
            proposed = PseudoMarginalIndependence().adapt(problem, seed=seed, key=key)
        except NumericalError:  # no mode of EP's evidence
            return JointSplitHMC(), problem, None
        pilot = proposed.groups["pilot"]
        least = LEAST_BESIDE_EVIDENCE if prefers_pseudo_marginal(model) else LEAST_PROPOSED
        if float(pilot["share"]) >= least and float(pilot["pareto_k"]) <= LARGEST_K:
            return proposed.sampler, proposed.problem, None
    if prefers_pseudo_marginal(model):
        try:
            tuned = PseudoMarginalHMC().adapt(problem, seed=seed, key=key)
        except NumericalError:  # no mode of EP's evidence
            return JointSplitHMC(), problem, None
        if float(tuned.groups["pilot"]["latent_share"]) >= LEAST_LATENT_SHARE:
            return tuned.sampler, tuned.problem, None
    if not suits(model):
        return JointSplitHMC(), problem, None
    rng = chain_generators(seed, *key, problem.stream, "modes", chains=[0]).generator(0)
    modes = modes_or_warning(model, rng)
    if modes is None:
        return JointSplitHMC(), problem, None
    share = effective_size(modes.log_weights) / len(modes.log_weights)
    if share >= LEAST_SHARE and smooth_weights(modes.log_weights)[1] <= LARGEST_K:
        proposal = ModeProposal(modes.mixture, model.parameters)
        return JointIndependence(proposal=proposal), problem, modes
    if "theta" not in problem.starts:
        problem = replace(problem, modes=modes.starting(model))
    return JointSplitHMC(), problem, modes


log = logging.getLogger(__name__)
DEFAULT = {
    LATENTS: "preconditioned_split_hmc", DENSITY: "univariate_slice", JOINT: "joint_split_hmc",
}  # fmt: skip
INSTEAD = {
    LATENTS: "model.at(theta) for its latents alone",
    DENSITY: "a log density such as RegressionDensity(model)",
    JOINT: "a GPModel with free parameters",
}


def sample(
    model: Any,
    sampler: str | Sampler | None = None,
    *,
    n_chains: int = 4,
    n_draws: int = 1000,
    n_warmup: int | None = None,
    thin: int = 1,
    start: Any = None,
    tuning: TuningSettings | None = None,
    keep_latents: bool | Summary = True,
    predictive: bool = True,
    n_wanted: Callable[[xr.DataTree], int] | None = None,
    seed: int = 0,
    key: tuple[str | int, ...] = (),
    execution: Execution | None = None,
) -> xr.DataTree:
    """Draw from the posterior of a model.

    Parameters
    ----------
    model:
        A `GPModel`: its hyperparameters and latents are drawn, or its latents where no parameter is free. A
        `LatentGaussianModel`, an EP or Laplace fit or its ``sites``, or a `Target`: latents at fixed
        hyperparameters; samplers then move in coordinates standardised by that Gaussian, of a model by its
        EP fit. A `LogDensity` of a few coordinates, or a list of the exact one and its stand-ins.
    sampler:
        A sampler or its name in `gpmcflow.SAMPLERS`. By default a `GPModel` takes joint split Hamiltonian
        Monte Carlo, latents alone the preconditioned one, a log density univariate slice sampling. A
        regression (latents integrated out) of up to 8 free parameters takes `JointIndependence`, whose chains
        visit all modes of the posterior, where its proposals are good; else `JointSplitHMC` starts chains in
        every mode of more than 1 %, unless ``start`` is given. Other models of up to 8, with a log-concave
        likelihood and a dense covariance, take `PseudoMarginalIndependence` where its proposals are good.
        Labels, and up to 150 cases of `StudentT`, take `PseudoMarginalHMC` where EP's draws of the latents
        are good.
    n_chains, n_draws, n_warmup:
        Chains; draws of each that are kept; draws before them that are dropped, by default 100; 30 of
        `JointIndependence` and `PseudoMarginalHMC`, and none of joint split Hamiltonian Monte Carlo, whose
        chains begin with 60 transitions that are dropped.
    thin:
        Transitions of a draw; of those that are thinned out group ``trace`` keeps a few numbers.
    start:
        Where chains start, chain k at row k modulo: latents (d,) or (pool, d); theta (d,) or (pool, d),
        what a log density without a model must have; of a `GPModel` also {parameter: value in its own
        units}, with "latent" (n,) or (pool, n), of basis functions "weight" (m,) or (pool, m), and "cell"
        of a grid with missing cells, among them. By default draws of the Gaussian, or of the hyperprior's
        central half. Joint split Hamiltonian Monte Carlo begins the search of its pilot at theta, and draws
        where chains start; so does `FittedIndependence`, but for regressions of up to 8 free parameters,
        whose modes it and `JointIndependence` find by themselves.
    tuning:
        How a pilot finds step size and number of steps of a sampler of latents (and the starts, unless they
        are given), which are then frozen. One runs by default for a sampler given by name, or none.
    keep_latents:
        Whether draws hold the latents of a `GPModel` with free parameters. A `Summary` keeps its functions of
        the latents of every transition in group ``trace``, too.
    predictive:
        Whether results hold what ArviZ's functions ask for: groups ``log_likelihood`` and so on, see below.
    n_wanted:
        A function of the draws so far: how many of each chain are wanted. Chains go on until it asks for no
        more than there are, from their last checkpoint where ``execution`` keeps one. The draws are those of
        a run with so many ``n_draws``.
    seed, key:
        Random streams are keyed by both, and by the number of the chain.
    execution:
        How the run executes.

    Returns
    -------
    Groups ``posterior`` (chain, draw: theta, the sampled coordinates; each free parameter by its name in its
    own units; latent, or weight of basis functions), ``sample_stats`` (lp, sum_log_likelihood,
    acceptance_rate and what else the sampler counts), ``observed_data``, ``constant_data``, ``trace`` (chain,
    iteration), and ``pilot`` by ArviZ's schema; attribute ``structure`` of a `GPModel`. Warns where chains do
    not agree, stand still, or proposals fail, and where the error of basis functions is large. Of a
    regression (latents integrated out) of up to 8 free parameters also ``modes``: parameters and mass of
    each mode of the posterior, and how often each chain visits it; attribute ``modes`` says it in words, such
    as "two explanations: 92 % with length_scale 1.05; 8 % with length_scale 0.17". Warns where a chain never
    visits one of more than 1 %.

    With ``predictive``, of models: ``log_likelihood`` (chain, draw, case: y, log p(y_i | eta_i, theta)),
    ``posterior_predictive`` (y, replicates of the observations, and the predictor eta), ``prior`` and
    ``prior_predictive`` (100 draws at most), and ``log_prior`` (of each free parameter, the density of the
    coordinate that is sampled; of latents at fixed hyperparameters that of all together). Where f is
    integrated out eta is an exact draw given theta. Arrays by case of more than 4 million numbers, or that
    take long, are those of evenly spaced draws, under their numbers. Where latents are needed and not kept
    there are none.

    Raises
    ------
    InputError:
        For a sampler of another kind than the model, and wrong sizes, names and starts.
    NumericalError:
        Where a start has no finite density, or EP does not converge.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(), gp.Gaussian())
    >>> sampler = gp.JointSplitHMC(rounds=(50, 100))
    >>> draws = gp.sample(model, sampler, n_chains=1, n_draws=20)
    >>> dict(draws.posterior["length_scale"].sizes)
    {'chain': 1, 'draw': 20}
    """
    pin_blas()
    for name, value in (("n_chains", n_chains), ("n_draws", n_draws), ("thin", thin)):
        require_count("sample", name, value)
    if n_warmup not in (None, 0):
        require_count("sample", "n_warmup", n_warmup)
    summary = None if isinstance(keep_latents, bool) else keep_latents
    by_name = sampler is None or isinstance(sampler, str)
    chosen: Any = make_sampler(sampler) if isinstance(sampler, str) else sampler
    if isinstance(model, GPModel) and _asks_for_cases(model, chosen, summary, start):
        model = model.dense_if_exact()
    elif isinstance(model, GPModel) and not getattr(chosen, "moves_cells", True):
        model = model.by_cases
    target, kind = _target(model, chosen)
    undecided = chosen is None and kind == JOINT
    chosen = make_sampler(DEFAULT[kind]) if chosen is None else chosen
    _require_kind(chosen, kind, model)
    if keep_latents is not True:
        _require_latents(kind, target, summary)
    if tuning is None and by_name and kind == LATENTS:
        tuning = TuningSettings()
    if tuning is not None and kind != LATENTS:
        raise InputError(
            f"sample: tuning has no use with {type(chosen).__name__}, which moves no latents alone; "
            "leave it out"
        )
    if not isinstance(tuning, TuningSettings | None):
        raise InputError(f"sample: tuning is {tuning!r}; allowed: TuningSettings(..), or None")
    how = Execution.of(execution, progress="sample", **chosen.pieces)
    streams: dict[str, Any] = {"seed": seed, "key": tuple(key)}
    if tuning is not None:
        path, folder = TemperedPath(target.base), how.state_dir
        pilot = find_pilot(path, chosen, tuning=tuning, state_dir=folder, **streams)
        chosen = chosen.with_steps(float(pilot.step_size[-1]), int(pilot.n_steps[-1]))
        start = pilot.latents if start is None else start
    if kind == JOINT:
        advise(target)
    problem, modes = _problem(target, kind, chosen, start, bool(keep_latents)), None
    if undecided:
        assert isinstance(problem, JointProblem)
        chosen, problem, modes = choose(problem, **streams)
    n_warmup = chosen.n_warmup if n_warmup is None else n_warmup
    tuned = chosen.adapt(problem, n_chains=n_chains, execution=how, **streams)
    program = ChainProgram(tuned.problem, tuned.sampler, thin, summary)
    if not chosen.batched and tuned.sampler.needs_start:
        # report a start that fails here, not from a worker
        program.start(chain_generators(seed, *key, problem.stream, chains=range(n_chains)))
    there = 0
    while there < n_draws:
        arrays = run(
            program,
            n_chains=n_chains,
            length=n_warmup + n_draws,
            seed=seed,
            key=(*key, problem.stream),
            execution=how,
        )
        tree, there = results_tree(arrays, program, n_warmup), n_draws
        n_draws = there if n_wanted is None else n_wanted(tree)
    groups = dict(tuned.groups)
    if predictive:
        posterior = tree["posterior"].to_dataset()
        own = {name: posterior[name].data for name in ("theta", *LATENT_NAMES) if name in posterior}
        key_of_groups = (*key, problem.stream)
        groups |= predictive_groups(problem.predictive(), own, seed, key_of_groups)
    explained: dict[str, str] = {}
    if how.compute and isinstance(model, GPModel) and model.dim and suits(model):
        proposal = getattr(tuned.sampler, "proposal", None)
        theta = tree["posterior/theta"].transpose("chain", "draw", "theta_dim").values
        missed: list[str] = []
        if isinstance(proposal, ModeProposal):
            groups["modes"], missed = modes_of_chains(model, theta, proposal.mixture)
        elif modes is None and not undecided:
            rng = chain_generators(seed, *key, problem.stream, "modes", chains=[0]).generator(0)
            modes = modes_or_warning(model, rng)
        if "modes" not in groups and modes is not None:
            groups["modes"], missed = modes_of_chains(model, theta, modes.mixture, modes.masses)
        explained = {"modes": groups["modes"].attrs["in_words"]} if "modes" in groups else {}
        for message in missed:
            log.warning("sample: %s; take JointIndependence(), which draws from all modes", message)
    for name, group in groups.items():
        tree[name] = xr.DataTree(group)
    described = problem.described()
    attributes = standard_attributes(
        data_checksum=described.pop("data_checksum"),
        settings={"sampler": repr(chosen), "thin": thin, "key": list(key), **described},
        seed=seed,
    )
    attributes |= structure_attributes(model, tree, how.compute) | explained
    tree = with_attributes(tree, attributes)
    if how.compute:
        warn(tree, program.sampler)
    return tree.load(scheduler="synchronous") if how.in_memory else tree


def _asks_for_cases(model: GPModel, sampler: Any, summary: Summary | None, start: Any) -> bool:
    """Whether the latents have to be those of all cases: for the sampler, a summary, or the start."""
    if not getattr(sampler, "moves_weights", True) or summary is not None:
        return True
    if isinstance(start, Mapping):
        return start.get("latent") is not None
    return not model.dim and start is not None and np.shape(start)[-1:] == (model.n_cases,)


def _target(model: Any, sampler: Any) -> tuple[Any, str]:
    """What samplers bind to, and of which kind it is."""
    if isinstance(model, MultiGPModel):
        if sampler is not None and type(sampler) is not JointSplitHMC:
            raise InputError(
                f"sample: sampler is {sampler!r}; allowed with several latent functions: JointSplitHMC()"
            )
        if not model.dim:
            raise InputError(
                "sample: latents of several functions are drawn beside free hyperparameters, and this model "
                "has none; give one parameter a hyperprior"
            )
        return model, JOINT
    if isinstance(model, GPModel):
        if model.dim and getattr(sampler, "samples", None) == DENSITY:
            return RegressionDensity(model), DENSITY
        if model.dim:
            return model, JOINT
        model = model.at()
    densities = model if isinstance(model, (list, tuple)) else [model]
    if densities and all(isinstance(density, LogDensity) for density in densities):
        return model, DENSITY
    if hasattr(model, "residual_gradient"):
        return model, LATENTS
    return Target.posterior(as_sites(model, "sample")), LATENTS


def _require_kind(sampler: Any, kind: str, model: Any) -> None:
    if not isinstance(sampler, Sampler):
        raise InputError(
            f"sample: sampler is {sampler!r}; allowed: a sampler such as JointSplitHMC(), or its name"
        )
    if sampler.samples != kind:
        others = ", ".join(name for name, own in SAMPLERS.items() if own.samples == kind)
        raise InputError(
            f"sample: {type(sampler).__name__} is a sampler of {sampler.samples}, found "
            f"{type(model).__name__}; give it {INSTEAD[sampler.samples]}, or take one of {others}"
        )


def _require_latents(kind: str, target: Any, summary: Summary | None) -> None:
    """Raise `InputError` where there are no latents to summarise, or nothing else to keep."""
    if kind == LATENTS and summary is None:
        wrong = "False, and latents are all that is drawn at fixed hyperparameters"
    elif summary is not None and (kind == DENSITY or (kind == JOINT and target.basis)):
        held = "hyperparameters alone" if kind == DENSITY else "weights of basis functions"
        wrong = f"{summary!r}, a function of latents, and these draws hold {held}"
    else:
        return
    raise InputError(f"sample: keep_latents is {wrong}; leave it out")


def _problem(target: Any, kind: str, sampler: Any, start: Any, keep_latents: bool) -> Problem:
    if kind == JOINT:
        return JointProblem.of(target, start, keep_latents)
    if kind == DENSITY:
        return DensityProblem.of(target, start)
    return LatentProblem.of(target, sampler, start)


# Chains as an ArviZ DataTree, and what there is to warn of.

ALARM = 1e-3  # share of proposals that fail
FALSE_ALARMS = 0.01  # share of runs below it that warn


def results_tree(arrays: Mapping[str, Any], program: ChainProgram, n_warmup: int) -> xr.DataTree:
    """Groups ``posterior``, ``sample_stats``, those of the data, and ``trace`` where one is kept."""
    problem, sampler = program.problem, program.sampler
    draws = {name: values[:, n_warmup:] for name, values in arrays.items()}
    n_chains, n_draws = draws["lp"].shape
    index = {"chain": np.arange(n_chains), "draw": np.arange(n_draws)}

    def dataset(variables: Mapping[str, Any], index: Mapping[str, np.ndarray]) -> xr.Dataset:
        named = {
            name: ((*index, *dims_of(name, values.ndim - 2)), values)
            for name, values in variables.items()
        }
        used = {dim for dims, _ in named.values() for dim in dims}
        coords = {dim: values for dim, values in problem.coords.items() if dim in used}
        return xr.Dataset(named, {**index, **coords})

    posterior = dataset(problem.posterior(draws), index)
    scalar = {n: draws[n] for n in problem.recorded if n not in posterior}
    statistics = scalar | {n: draws[n] for n in program.statistics()}
    constants = {name: ((), value) for name, value in sampler.constants().items()}
    groups = {
        "posterior": posterior,
        "sample_stats": dataset(statistics, index).assign(constants),
        **problem.data(),
    }
    if program.traced:
        every = {
            name: draws[f"trace_{name}"].reshape(n_chains, n_draws * program.thin, *shape)
            for name in program.traced
            for shape in [draws[f"trace_{name}"].shape[3:]]
        }
        iteration = np.arange(n_draws * program.thin)
        groups["trace"] = dataset(every, {"chain": index["chain"], "iteration": iteration})
    return xr.DataTree.from_dict(groups)


def warn(tree: xr.DataTree, sampler: Sampler) -> None:
    """Say so where chains stand still or do not agree, and where proposals fail or are refused."""
    stats = tree["sample_stats"].to_dataset().compute(scheduler="synchronous")
    n_chains, n_draws = stats.sizes["chain"], stats.sizes["draw"]
    stuck = int((np.ptp(stats["lp"].values, axis=1) == 0.0).sum()) if n_draws > 1 else 0
    if stuck:
        log.warning(
            "sample: %d of %d chains never moved under %r; start elsewhere, take smaller steps, or look at "
            "the prior's scale", stuck, n_chains, sampler,
        )  # fmt: skip
    elif (stands := longest_stands(stats["lp"].transpose("chain", "draw").values)).any():
        log.warning(
            "sample: chain %d stood still for %d of %d draws under %r, and moved before or after; start "
            "elsewhere, or take smaller steps", stands.argmax(), stands.max() + 1, n_draws, sampler,
        )  # fmt: skip
    elif n_chains > 1 and n_draws >= 4:
        _warn_of_rhat(tree, stats)
    failed, asked, remedy = sampler.failures
    n_failed = float(stats[failed].sum())
    n_asked = sum(float(stats[name].sum()) for name in asked) if asked else n_chains * n_draws
    if n_failed and pdtrc(n_failed - 1.0, ALARM * n_asked) < FALSE_ALARMS:
        log.warning("sample: %d of %d proposals %s", n_failed, n_asked, remedy)
    rates = stats["acceptance_rate"].mean("draw").values
    if rates.min() < sampler.least_acceptance:
        log.warning(
            "sample: chain %d accepts %.0f %% of its proposals, far fewer than in its pilot; take longer "
            "pilots (rounds)", rates.argmin(), 100 * rates.min(),
        )  # fmt: skip


def _warn_of_rhat(tree: xr.DataTree, stats: xr.Dataset) -> None:
    import arviz_stats  # here: it takes long to load

    traces = {"lp": stats["lp"]}
    if "theta" in tree["posterior"]:
        theta = tree["posterior"].to_dataset()["theta"].compute(scheduler="synchronous")
        traces |= {
            str(name).replace("/", "_"): theta.sel(theta_dim=name, drop=True)  # as of the posterior
            for name in theta["theta_dim"].values
        }
    rhat = arviz_stats.rhat(xr.Dataset(traces))
    limits = {name: rhat_limit(trace.values, len(traces)) for name, trace in traces.items()}

    def excess(name: str) -> float:
        return float(np.nan_to_num((float(rhat[name]) - 1.0) / (limits[name] - 1.0), nan=np.inf))

    worst = max(traces, key=excess)
    if excess(worst) > 1.0:
        log.warning(
            "sample: R-hat of %s is %.3f over %d chains, above the %.3f that so many draws show by chance: "
            "they do not agree yet; take more draws",
            worst, float(rhat[worst]), stats.sizes["chain"], limits[worst],
        )  # fmt: skip
