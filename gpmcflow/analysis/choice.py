"""Which model of an analysis its page shows: by leave-one-out, then the evidence, then simplicity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import xarray as xr

from gpmcflow.analysis.convergence import converged
from gpmcflow.analysis.evidence_tables import evidence_row
from gpmcflow.approximations.integrated import are_reliable
from gpmcflow.diagnostics.importance_weights import BAD_K

BAD_SHARE = 0.05  # of rows with a Pareto k above 0.7: leave-one-out is not to be relied on above it
EVEN = float(np.log(3.0))  # nats of evidence within which models count as equal
# What draws may add to the evidence and to leave-one-out of a quick fit, in nats.
MOST_EVIDENCE, MOST_LEFT_OUT = float(np.log(100.0)), 3.0
NO_BOUND = 1e6
RULED_OUT = "ruled_out"  # attribute of what stands in place of draws


class Candidate(NamedTuple):
    """What a model is judged by."""

    left_out: np.ndarray  #: leave-one-out log density of each learning row (n,)
    bad_share: float  #: of the rows, those with Pareto k above 0.7
    log_evidence: float  #: nan where it is not known or raised an alarm
    n_parameters: int  #: free hyperparameters
    converged: bool = True  #: whether its draws, if there are any, agree and are enough
    ruled_out: bool = False  #: whether the quick fits of all left no draws to make
    sound: bool = True  #: whether the settings of its quick fit, if it has some, stand for all

    @classmethod
    def of_trees(cls, trees: Mapping[str, xr.DataTree]) -> Candidate:
        """Of the results of one model, by kind: fit, and of a full run posterior, summary, evidence.

        Of a model that is ruled out the fit alone counts.
        """
        if out := any(RULED_OUT in tree.attrs for tree in trees.values()):
            trees = {"fit": trees["fit"]}
        fit = trees["fit"]
        left_out = trees.get("summary", fit)["leave_one_out"].to_dataset()
        evidence = fit["evidence"].to_dataset()
        alarm = evidence.attrs["alarm"]
        if "evidence" in trees:
            evidence = evidence_row(trees["evidence"])
            alarm = str(evidence["alarm"].values)
        sound = True
        if "settings" in fit.children:
            settings = fit["settings"].to_dataset()
            n = settings.sizes["parameter"]
            sound = are_reliable(
                *(float(settings[name]) for name in ("effective_size", "pareto_k"))
            )
        else:
            n = fit["maximum"].sizes["parameter"]
        return cls(
            left_out["log_density"].values,
            float(np.mean(left_out["pareto_k"].values > BAD_K)),
            np.nan if alarm else float(evidence["log_evidence"]),
            n,
            "posterior" not in trees or converged(trees["posterior"]),
            out,
            sound,
        )


class Choice(NamedTuple):
    """The shown model, what decided, and the models among which it did."""

    name: str
    by: str  #: first fits, convergence, leave-one-out, evidence, or simplicity: fewest hyperparameters
    among: tuple[str, ...]  #: those left to the last step that decided
    without: tuple[str, ...] = ()  #: those whose draws have not converged, where others have
    ruled_out: tuple[str, ...] = ()  #: those of which no draws were made


def chosen(candidates: Mapping[str, Candidate]) -> Choice:
    """The simplest of the models that neither leave-one-out nor the evidence tells from the best.

    Models that were ruled out take no part, and those whose draws have not converged where others have.
    Leave-one-out keeps the models that
    are behind the best by at most one standard error of the difference (Breiman et al. 1984), and those of
    which it cannot be relied on. Of these the evidence keeps the ones within a factor of three of the most
    probable, if all have one. Of what is left the model with the fewest hyperparameters is shown, of equals
    the one with the larger evidence, or else the better left out.
    """
    left = {name: own for name, own in candidates.items() if not own.ruled_out}
    if len(left) < len(candidates):
        out = tuple(name for name in candidates if name not in left)
        if len(left) == 1:
            return Choice(*left, "first fits", (), (), out)
        return chosen(left)._replace(ruled_out=out)
    agreed = {name: own for name, own in candidates.items() if own.converged}
    if 0 < len(agreed) < len(candidates):
        without = tuple(name for name in candidates if name not in agreed)
        if len(agreed) == 1:
            return Choice(*agreed, "convergence", (), without)
        return chosen(agreed)._replace(without=without)
    sound = [name for name, own in candidates.items() if own.bad_share <= BAD_SHARE]
    near = list(candidates)
    if sound:
        best = max(sound, key=lambda name: candidates[name].left_out.sum())
        near = [
            name
            for name in near
            if name not in sound or name == best or _near(candidates[best], candidates[name])
        ]
    if len(near) == 1:
        return Choice(near[0], "leave-one-out", ())
    evidence = {name: candidates[name].log_evidence for name in near}
    known = bool(np.isfinite(list(evidence.values())).all())
    even = near
    if known:
        most = max(evidence.values())
        even = [name for name in near if evidence[name] >= most - EVEN]
    if len(even) == 1:
        return Choice(even[0], "evidence", tuple(near))
    score = evidence if known else {name: candidates[name].left_out.sum() for name in near}
    name = min(even, key=lambda name: (candidates[name].n_parameters, -score[name]))
    return Choice(name, "simplicity", tuple(even))


def ruled_out(name: str, quick: Mapping[str, Candidate], averaged: bool) -> bool:
    """Whether quick fits say that draws will not make a model the `chosen` one.

    It would not be, were it three nats better left out, and a hundred times as probable or, where evidences
    are not ``averaged`` over the hyperparameters, the most probable. Without all evidences none is ruled out,
    nor is a fit that is not sound, which may have missed where the model does best.
    """
    own = quick[name]
    better = own._replace(
        left_out=own.left_out + MOST_LEFT_OUT / len(own.left_out),
        log_evidence=own.log_evidence + (MOST_EVIDENCE if averaged else NO_BOUND),
    )
    known = all(np.isfinite(other.log_evidence) for other in quick.values())
    return own.sound and known and chosen({**quick, name: better}).name != name


def _near(best: Candidate, other: Candidate) -> bool:
    """Whether a model is behind the best by at most one standard error of the difference."""
    with np.errstate(invalid="ignore"):  # where both hold a row impossible: no
        behind = best.left_out - other.left_out
        return behind.sum() <= np.sqrt(len(behind)) * behind.std(ddof=min(1, len(behind) - 1))
