"""The evidence of a whole model by annealing at each of many hyperparameters: a check of the bridge."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from scipy.special import gammaln

from gpmcflow.diagnostics.importance_weights import (
    EvidenceEstimate,
    estimate_evidence,
    smooth_weights,
)
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.evidence import alarms
from gpmcflow.evidence.estimates import interval_columns
from gpmcflow.evidence.log_evidence import log_evidence
from gpmcflow.execution import (
    Execution,
    array_digest,
    chain_generators,
    pin_blas,
    run,
    text_digest,
)
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.regression_density import RegressionDensity
from gpmcflow.samplers.joint.problem import JointProblem
from gpmcflow.samplers.joint.split_hmc import JointSplitHMC
from gpmcflow.samplers.protocol import require_count
from gpmcflow.storage import standard_attributes, with_attributes

MOST_FREE = 5  # hyperparameters: above, few of the proposed ones lie where the posterior does
DF, WIDER = 5.0, 1.1  # of the proposal: Student's t about the pilot's centre
_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


@dataclass(frozen=True, eq=False)
class NestedProgram:
    """A chain is one theta: x = mu + A (1.1 t_5), its weight N(x; 0, I) / t(x), and log p-hat(y | theta)."""

    model: GPModel
    center: np.ndarray
    scale: np.ndarray
    n_particles: int
    n_temperatures: int

    def digest(self) -> str:
        """SHA-256 of all that decides the numbers of a run, beside its random streams."""
        frame = array_digest({"center": self.center, "scale": self.scale})
        return text_digest(
            self.model.digest(), frame, repr((self.n_particles, self.n_temperatures))
        )

    def outputs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Trailing shapes and types of what each theta gives."""
        scalars = {name: ((), "<f8") for name in ("log_weight", "log_evidence", "n_gradient")}
        return {"theta": ((self.model.dim,), "<f8"), **scalars}

    def start(self, rng) -> dict[str, np.ndarray]:
        """Nothing to carry."""
        return {"none": np.zeros((len(rng.chains), 0))}

    def advance(self, rng, carry, start: int, stop: int):
        """One draw of each chain."""
        rows = [self._draw(rng.generator(k)) for k in range(len(rng.chains))]
        return carry, {name: np.array([[row[name]] for row in rows]) for name in self.outputs()}

    def _draw(self, rng: np.random.Generator) -> dict[str, np.ndarray | float]:
        d, model = self.model.dim, self.model
        normal = rng.standard_normal(d)
        t = normal / np.sqrt(rng.chisquare(DF) / DF)
        x = self.center + WIDER * self.scale @ t
        log_t = (
            gammaln(0.5 * (DF + d)) - gammaln(0.5 * DF) - 0.5 * d * np.log(DF * np.pi)
            - 0.5 * (DF + d) * np.log1p(float(t @ t) / DF)
            - d * np.log(WIDER) - np.linalg.slogdet(self.scale)[1]
        )  # fmt: skip
        log_prior = -0.5 * float(x @ x) - d * _HALF_LOG_2PI
        theta = model.parameters.normal.theta(x)[0]
        value, n_gradient = self._at(theta, int(rng.integers(2**62)))
        weight = log_prior - log_t
        return {
            "theta": theta,
            "log_weight": weight,
            "log_evidence": value,
            "n_gradient": n_gradient,
        }

    def _at(self, theta: np.ndarray, seed: int) -> tuple[float, float]:
        """An unbiased estimate of p(y | theta), its log; exact for Gaussian noise."""
        if self.model.likelihood.conjugate:
            return RegressionDensity(self.model).log_likelihood(theta), 1.0
        try:
            annealed = log_evidence(
                self.model.at(theta),
                n_temperatures=self.n_temperatures,
                n_particles=self.n_particles,
                seed=seed,
                execution=Execution(progress=False),
            )
        except NumericalError:
            return -np.inf, 0.0  # no covariance to speak of: so far out there is no mass
        group = annealed["evidence"]
        return float(group["log_evidence"]), float(group["n_gradient"] + group["n_gradient_pilot"])


def nested_annealing(
    model: GPModel,
    *,
    n_draws: int = 200,
    n_particles: int = 64,
    n_temperatures: int = 8,
    seed: int = 0,
    key: tuple[str | int, ...] = (),
    execution: Execution | None = None,
) -> xr.DataTree:
    """Log p(y) of a model with few hyperparameters, by annealed importance sampling at each of many.

    p(y) = E[p-hat(y | theta) p(theta) / t(theta)], theta from Student's t about the centre of a pilot, and
    p-hat an unbiased estimate by `log_evidence`: importance sampling squared. Nothing but that centre and its
    scale is shared with `model_evidence`, of which it is a check.

    Source: Tran, Scharth, Pitt & Kohn (2013), arXiv:1309.3339.

    Parameters
    ----------
    model:
        A `GPModel` with 1 to 5 free hyperparameters.
    n_draws:
        Draws of the hyperparameters, 2 or more.
    n_particles, n_temperatures:
        Of annealing at each.
    seed, key, execution:
        As in `sample`.

    Returns
    -------
    Groups ``evidence`` (log_evidence, standard_error in nats, a 95 % interval, effective_size, costs, alarm)
    and ``nested`` (chain: theta, its log_weight p(theta) / t(theta), and log_evidence at it).

    Raises
    ------
    InputError:
        For no or more than 5 free hyperparameters, and fewer than 2 draws.
    NumericalError:
        Where the pilot finds no mode.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(), gp.Gaussian(0.1))
    >>> nested = gp.nested_annealing(model, n_draws=400)
    >>> bridge = gp.model_evidence(model, n_replicates=2, n_draws=800)
    >>> apart = nested.evidence["log_evidence"] - bridge.evidence["log_evidence"].isel(estimator=0)
    >>> bool(abs(apart) < 0.5)
    True
    """
    pin_blas()
    where = "nested_annealing"
    if not isinstance(model, GPModel) or not 1 <= model.dim <= MOST_FREE:
        free = ", ".join(model.names) if isinstance(model, GPModel) else type(model).__name__
        raise InputError(
            f"{where}: found {free or 'no free hyperparameter'}; allowed: a GPModel with 1 to {MOST_FREE}; "
            "take model_evidence, or log_evidence at fixed hyperparameters"
        )
    sizes = {"n_draws": n_draws, "n_particles": n_particles, "n_temperatures": n_temperatures}
    for name, size in sizes.items():
        require_count(where, name, size)
    if n_draws < 2:
        raise InputError(f"{where}: n_draws is {n_draws}; allowed: 2 or more")
    how = Execution.of(execution, progress="nested annealing", block_size=1, segment_length=1)
    streams, problem = {"seed": seed, "key": tuple(key)}, JointProblem.of(model, None)
    how = replace(how, compute=True)
    tuned, _ = JointSplitHMC().tune(problem, 1, execution=how, **streams)
    stage = tuned.stage(0)
    program = NestedProgram(model, stage.center, stage.scale, n_particles, n_temperatures)
    arrays = run(
        program, n_chains=n_draws, length=1, seed=seed, key=(*key, "nested"),
        execution=how.inside("nested"),
    )  # fmt: skip
    values = {name: v.compute(scheduler="synchronous")[:, 0] for name, v in arrays.items()}
    log_weights = values["log_weight"] + values["log_evidence"]
    rng = chain_generators(seed, *key, "bootstrap", chains=[0]).generator(0)
    estimate = estimate_evidence(log_weights, rng)
    scalars = {name: getattr(estimate, name) for name in EvidenceEstimate.__dataclass_fields__}
    scalars |= interval_columns(estimate.log_evidence, estimate.standard_error, n_draws - 1)
    n_gradient = float(values["n_gradient"].sum())
    scalars |= {
        "n_gradient": n_gradient,
        "n_likelihood": n_gradient,
        **dict.fromkeys(("n_factorisation", "acceptance_rate", "diverging", "unsolved"), np.nan),
        "alarm": alarms.join(
            alarms.not_finite_alarms(estimate.log_evidence),
            alarms.weight_alarms(estimate.effective_size, estimate.max_weight),
            alarms.pareto_alarms(smooth_weights(log_weights)[1], n_draws, estimate.effective_size),
        ),
    }
    chain = {"chain": np.arange(n_draws), "theta_dim": np.array(model.names)}
    dims = {"theta": ("chain", "theta_dim")}
    groups = {
        "evidence": xr.Dataset({name: ((), value) for name, value in scalars.items()}),
        "nested": xr.Dataset({k: (dims.get(k, "chain"), v) for k, v in values.items()}, chain),
    }
    attributes = standard_attributes(
        settings={**sizes, "key": list(key)}, seed=seed, data_checksum=array_digest({"y": model.y})
    )
    return with_attributes(xr.DataTree.from_dict(groups), attributes)
