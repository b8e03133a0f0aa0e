"""Methods of the fast-likelihood study by name: stand-ins, sampler, settings to choose from, pilot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import lapack

from gpmcflow.approximations.fitted_density import FittedStudent
from gpmcflow.approximations.stand_ins import LOG_2PI, Nystrom, SubsetOfData, farthest_point_cases
from gpmcflow.models.log_density import LogDensity
from gpmcflow.models.marginal_likelihood import MarginalLikelihood
from gpmcflow.models.regression_density import ModelDensity, RegressionDensity
from gpmcflow.numerics.code_cache import compiled
from gpmcflow.replications.fast_likelihood.data import Problem
from gpmcflow.replications.fast_likelihood.pilots import DensityPilot, find_student
from gpmcflow.replications.fast_likelihood.types import GRID_METHODS, PAPER_METHODS, RANK_METHODS
from gpmcflow.samplers.adaptation.step_sizes import StepSize
from gpmcflow.samplers.density.collapsed_scale import CollapsedDensity, CollapsedScale
from gpmcflow.samplers.density.discretizing_chain import DiscretizingChain, IndependentDraws
from gpmcflow.samplers.density.hmc import DensityHMC
from gpmcflow.samplers.density.protocol import DensitySampler
from gpmcflow.samplers.density.tempered_transitions import TemperedTransitions
from gpmcflow.samplers.density.univariate_slice import SliceSweep, UnivariateSlice

KAPPAS = tuple(f"kappa_{k}" for k in (1, 2, 3, 6))
LEAPFROGS = tuple(f"steps_{n}" for n in (1, 2, 4, 8, 16))
HMC_ADAPTED = 60  # iterations that find a step size
HMC_STEP = (0.5, 0.8, 2.0)  # first step size in standard deviations, acceptance aimed at, largest
# what each method is tuned over, where that is not the widths
SETTINGS = {"student": ("",), "standard_wide": ("",), "hmc": LEAPFROGS}


@dataclass(frozen=True, eq=False)
class Run:
    """What a method is on one data set.

    ``pilot_calls`` and ``pilot_gradients`` are evaluations of the exact density before the first
    iteration. ``costly`` are the functions whose calls the counters count, in the order of
    ``densities``; they differ from these where a call of the exact density is of another kind.
    """

    densities: tuple[LogDensity, ...]
    sampler: DensitySampler
    start: np.ndarray
    pilot_calls: int = 0
    pilot_gradients: int = 0
    costly: tuple[LogDensity, ...] = ()

    @property
    def counted(self) -> tuple[LogDensity, ...]:
        """Functions to time for the cost of a call."""
        return self.costly or self.densities


@dataclass(frozen=True, eq=False)
class Bench:
    """One data set with all that its methods share: pilot, and the order of a random subset.

    ``order`` is a random permutation of the cases: the m first are the subset, so that those of
    layers are nested. ``columns`` is another one, for Nystrom's columns. ``stream`` gives the random numbers
    of a pilot by its name.
    """

    problem: Problem
    pilot: DensityPilot
    sizes: dict
    order: np.ndarray
    columns: np.ndarray
    stream: Callable[[str], np.random.Generator]

    @cached_property
    def exact(self) -> RegressionDensity:
        """The exact log posterior."""
        return RegressionDensity(self.problem.model)

    def start(self, method: str) -> np.ndarray:
        """Generating values for the paper's methods, as in the paper; the pilot's end for others."""
        truth = self.problem.truth
        faithful = method.split("_")[0] in PAPER_METHODS and method != "nystrom_spaced"
        return truth if faithful and truth is not None else self.pilot.last

    def run(self, method: str, setting: str) -> Run:
        """Return a method with one of its settings."""
        options = GRID_METHODS.get(method) or RANK_METHODS.get(method, {})
        return BUILDERS[tuned_name(method)](self, method, setting, **options)

    def subset(self, m: int) -> SubsetOfData:
        """Stand-in from the first m cases of the order."""
        return SubsetOfData(self.problem.model, self.order[:m])

    def sweep(self, setting: str, **changes) -> SliceSweep:
        """Slice updates of all coordinates with widths of kappa standard deviations each, M = 1."""
        return SliceSweep(self.pilot.widths(kappa_of(setting)), 1, **changes)

    def sliced(self, method: str, *stand_ins: LogDensity, sampler: DensitySampler) -> Run:
        """A method whose widths come from the pilot, which is charged."""
        densities = (self.exact, *stand_ins)
        return Run(densities, sampler, self.start(method), self.pilot.n_calls)


def settings_of(method: str) -> tuple[str, ...]:
    """Settings a method is tuned over; those of a grid take the setting of the method they vary."""
    return SETTINGS.get(method, KAPPAS)


def tuned_name(method: str) -> str:
    """Name of the method whose tuned setting this one uses: itself, but for points of a grid."""
    return "sod" if method in GRID_METHODS else "nystrom" if method in RANK_METHODS else method


def kappa_of(setting: str) -> float:
    """3.0 of "kappa_3"."""
    return float(setting.removeprefix("kappa_"))


def _standard(bench: Bench, method: str, setting: str) -> Run:
    return bench.sliced(method, sampler=UnivariateSlice(bench.sweep(setting)))


def _standard_wide(bench: Bench, method: str, setting: str) -> Run:
    """Widths of 1 and stepping out to 10 of them: no pilot, and more evaluations."""
    sweep = SliceSweep((1.0,) * bench.exact.dim, 10)
    return Run((bench.exact,), UnivariateSlice(sweep), bench.start(method))


def _sod(bench: Bench, method: str, setting: str, r: int = 1, s: int = 1) -> Run:
    stand_in = bench.subset(bench.sizes["sod"])
    return bench.sliced(method, stand_in, sampler=DiscretizingChain(bench.sweep(setting), r, s))


def _nystrom(bench: Bench, method: str, setting: str, share: int | None = None) -> Run:
    """The paper's: random columns, the constant inside K."""
    model = bench.problem.model
    m = bench.sizes["nystrom"] if share is None else round(share / 100.0 * model.n_cases)
    stand_in = Nystrom(model, bench.columns[:m], constant="inside")
    return bench.sliced(method, stand_in, sampler=DiscretizingChain(bench.sweep(setting)))


def _nystrom_spaced(bench: Bench, method: str, setting: str) -> Run:
    """As many columns, spread over the inputs, and the constant exact."""
    model = bench.problem.model
    stand_in = Nystrom(model, farthest_point_cases(model.X, bench.sizes["nystrom"]))
    return bench.sliced(method, stand_in, sampler=DiscretizingChain(bench.sweep(setting)))


def _tempered(bench: Bench, method: str, setting: str) -> Run:
    layers = [bench.subset(m) for m in bench.sizes["tempered"]]
    return bench.sliced(method, *layers, sampler=TemperedTransitions((bench.sweep(setting),)))


def _student(bench: Bench, method: str, setting: str) -> Run:
    """Independent draws from a Student-t, fitted by a pilot of its own that starts from a guess."""
    exact = bench.exact.fresh()
    pilot = find_student(exact, bench.problem.guess, bench.stream("student"))
    student: FittedStudent = pilot.student
    return Run(
        (bench.exact, student),
        DiscretizingChain(IndependentDraws()),
        student.location,
        pilot.n_calls,
        pilot.n_gradients,
    )


def _collapsed(bench: Bench, method: str, setting: str) -> Run:
    marginal = CollapsedDensity(bench.exact.fresh())
    reduced = np.array([marginal.reduce(theta) for theta in bench.pilot.draws])
    widths = kappa_of(setting) * reduced.std(axis=0, ddof=1)
    return Run(
        (bench.exact,),
        CollapsedScale(SliceSweep(tuple(widths.tolist()))),
        bench.pilot.last,
        bench.pilot.n_calls,
        costly=(marginal,),
    )


def _float32(bench: Bench, method: str, setting: str) -> Run:
    stand_in = SinglePrecision(bench.problem.model)
    return bench.sliced(method, stand_in, sampler=DiscretizingChain(bench.sweep(setting)))


def _ordered(bench: Bench, method: str, setting: str) -> Run:
    """eta and sigma twice for each update of the length scales, which need new exponentials."""
    scales = tuple(range(2, bench.exact.dim))
    sweep = bench.sweep(setting, coordinates=(0, 1, *scales, 0, 1))
    return bench.sliced(method, sampler=UnivariateSlice(sweep))


def _rotated(bench: Bench, method: str, setting: str) -> Run:
    """Updates along the principal axes of the pilot's draws."""
    widths = (kappa_of(setting),) * bench.exact.dim
    sweep = SliceSweep(widths, directions=bench.pilot.principal_axes)
    return bench.sliced(method, sampler=UnivariateSlice(sweep))


def _hmc(bench: Bench, method: str, setting: str) -> Run:
    """Hamiltonian Monte Carlo on the exact log posterior, scaled by the pilot's standard deviations.

    The step size is found on the data set itself, for a mean acceptance of 0.8 (`StepSize`).
    """
    n_steps, exact = int(setting.removeprefix("steps_")), bench.exact.fresh()
    scales, rng = tuple(bench.pilot.sd.tolist()), bench.stream(f"hmc {setting}")
    tuner, sampler = StepSize(*HMC_STEP), DensityHMC(1.0, n_steps, scales)
    state = sampler.init([exact], bench.pilot.last)
    for _ in range(HMC_ADAPTED):
        state, info = replace(sampler, step_size=tuner.step).step(rng, [exact], state)
        tuner.update(info.acceptance_rate)
    return Run(
        (bench.exact,),
        replace(sampler, step_size=tuner.average),
        state.position,
        bench.pilot.n_calls + exact.n_calls,
        exact.n_gradients,
    )


BUILDERS: dict[str, Callable[..., Run]] = {
    "standard": _standard,
    "sod": _sod,
    "nystrom": _nystrom,
    "tempered": _tempered,
    "nystrom_spaced": _nystrom_spaced,
    "student": _student,
    "collapsed": _collapsed,
    "float32": _float32,
    "ordered": _ordered,
    "rotated": _rotated,
    "hmc": _hmc,
    "standard_wide": _standard_wide,
}


# The log posterior of all cases in single precision, as a stand-in for that in double precision.


@compiled
def _rounded_sum(E, diagonal, out):
    """E + diag(diagonal) in float32, lower triangle (column, row)."""
    n = out.shape[0]
    for j in range(n):
        column, entries = out[j, j:], E[j, j:]
        for i in range(n - j):
            column[i] = np.float32(entries[i])
        column[0] = np.float32(entries[0] + diagonal[j])


class _Work(MarginalLikelihood):
    def __init__(self, model) -> None:
        super().__init__(model, apart=False)
        n = model.n_cases
        self.rounded = np.empty((n, n), dtype=np.float32)
        self.sides = np.ones((n, 2), dtype=np.float32, order="F")


class SinglePrecision(ModelDensity):
    """log N(y; c, C) + log prior with the factorisation in float32: about half the time.

    Where K = s^2 E + c_0^2 (see `GPModel.scaled_covariance`), A = E + D / s^2 is factorised, which is better
    conditioned than C, with the constant as a correction of rank one: for A = LL', r = y - c,
    (u, w) = L^-1 (r, 1) and k = c_0^2 / s^2, r'C^-1 r = (u'u - k (u'w)^2 / (1 + k w'w)) / s^2 and
    log det C = n log s^2 + log det A + log(1 + k w'w). E is made, and sums are taken, in float64.

    A factor that fails in float32 where it would not in float64 is -inf for the stand-in: such points
    are then left to the exact density's acceptance, and are never reached by moves of the stand-in
    alone. Use it where the noise is not tiny: sigma^2 / s^2 well above 1e-6.
    """

    def workspace(self) -> _Work:
        """A new work space."""
        return _Work(self.model)

    def log_likelihood(self, theta: np.ndarray) -> float:
        """Approximate log likelihood at theta (d,); -inf where the factorisation fails."""
        model, work, full = self.model, self.work, self.model.full(theta)
        terms = work.terms(full)
        if terms is None:
            return -np.inf
        _rounded_sum(work.E, terms.noise / terms.factor, work.rounded)
        L, info = lapack.spotrf(work.rounded.T, lower=1, clean=0, overwrite_a=1)
        if info:
            return -np.inf
        work.sides[:, 0] = model.eta_y - model.mean_at(full)
        u = lapack.strtrs(L, work.sides, lower=1)[0].astype(np.float64)
        squares, cross, _, ones = (u.T @ u).ravel()
        k = terms.constant / terms.factor
        quadratic = (squares - k * cross**2 / (1.0 + k * ones)) / terms.factor
        log_det = 2.0 * np.log(np.diagonal(L).astype(np.float64)).sum() + np.log1p(k * ones)
        n = model.n_cases
        value = -0.5 * (quadratic + log_det + n * (np.log(terms.factor) + LOG_2PI))
        return float(value) + model.log_jacobian
