"""Hyperparameters moved given a representation of the latents, and latents by elliptical slices, in turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from gpmcflow.models.gp_model import GPModel
from gpmcflow.samplers.joint.hyperparameter_updates import HyperparameterUpdate, SliceUpdate
from gpmcflow.samplers.joint.representations import Representation, representation
from gpmcflow.samplers.joint.workspace import JointState, JointWorkspace
from gpmcflow.samplers.protocol import JOINT, Failures, Sampler, require_count


@dataclass(frozen=True)
class SurrogateSlice(Sampler):
    """Surrogate data slice sampling of hyperparameters and latents, without gradients.

    One sweep of an update over theta, given a representation of the latents, then elliptical slice updates of
    f. Works for every model, at O(n^3) for each setting of theta that is tried.

    Source: Murray & Adams (2010), algorithm 4.

    Attributes
    ----------
    representation:
        How latents follow hyperparameters: "fixed", "prior-white", "surr-site", "surr-taylor", "post-site",
        "post-taylor", or an object of `gpmcflow.samplers.joint.representations` with settings of its own.
        Only the surrogates are ergodic without elliptical updates.
    update:
        Of theta, with the representation's variables frozen: a `SliceUpdate` or a `MetropolisUpdate`.
    n_elliptical:
        Elliptical slice updates of f after each sweep, 0 or more.

    Raises
    ------
    InputError:
        For an unknown representation, and other than a whole number of elliptical updates.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sign(x - 0.4), gp.SquaredExponential(), gp.Probit())
    >>> draws = gp.sample(model, gp.SurrogateSlice("surr-site", n_elliptical=5), n_chains=1, n_draws=50)
    >>> bool((draws.sample_stats["n_cov"] >= 1).all())  # covariances factorised
    True
    """

    representation: Representation | str = "surr-site"
    update: HyperparameterUpdate = field(default_factory=SliceUpdate)
    n_elliptical: int = 10

    samples = JOINT
    moves_weights = False  # it factorises the covariance of all cases
    state = JointState
    statistics: ClassVar[Mapping[str, str]] = {
        "acceptance_rate": "<f8", "n_hyp": "<i8", "n_cov": "<i8", "n_lik": "<i8", "n_failed": "<i8",
    }  # fmt: skip
    traced = ("complete_log_likelihood", "n_hyp", "n_cov", "n_lik", "theta")
    failures = Failures(
        "n_failed", ("n_hyp",),
        "had a covariance that does not factorise (they were rejected); give the model a larger jitter",
    )  # fmt: skip

    def __post_init__(self) -> None:
        if isinstance(self.representation, str):
            object.__setattr__(self, "representation", representation(self.representation))
        if self.n_elliptical != 0:
            require_count("SurrogateSlice", "n_elliptical", self.n_elliptical)

    def bind(self, target: GPModel, chain: int = 0) -> JointWorkspace:
        """Transitions of one chain, with buffers of its own."""
        way: Any = self.representation  # no name any more
        return JointWorkspace(target, way, self.update, self.n_elliptical)
