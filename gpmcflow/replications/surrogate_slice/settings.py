"""The methods of the surrogate-slice study and what a config makes of them. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping

STUDY = "surrogate_slice"
WITHOUT_SITES = ("fixed", "prior-white")
SURROGATES = ("surr-site", "surr-taylor")
POSTERIORS = ("post-site", "post-taylor")
REPRESENTATIONS = (*WITHOUT_SITES, *SURROGATES, *POSTERIORS)
JOINT = "joint-split"  # no representation: latents and hyperparameters move at once
METHODS = (*REPRESENTATIONS, JOINT)
BASELINE = "surr-site"  # what the paper's bars are relative to
SHARED = ("elliptical", "iterations", "warmup", "thin", "chains", "replicates")
OF_UPDATE = {"slice": ("width", "max_steps"), "metropolis": ("scale", "joint", "proposal")}


def surrogate_slice_methods(study: Mapping) -> dict[str, dict[str, dict]]:
    """Return {problem: {method: settings}} of the study, complete.

    A method takes the representation of its name where it states none, its sites where those are
    left out, and what the study says of chains and iterations. Those without sites have ``sites`` None.
    Joint split HMC sets itself up; its pilot is its burn-in, unless iterations of ``warmup`` are stated.
    """
    return {
        problem: {name: _complete(study, name, stated) for name, stated in methods.items()}
        for problem, methods in study["problems"].items()
    }


def _complete(study: Mapping, name: str, stated: Mapping) -> dict:
    kind = stated.get("representation", name)
    shared = {key: study[key] if stated[key] is None else stated[key] for key in SHARED}
    if kind == JOINT:
        shared |= {"elliptical": None, "warmup": stated["warmup"] or 0}
        return {"representation": kind, "sites": None, "update": None, **shared}
    sites = stated.get("sites") or ("taylor" if kind.endswith("-taylor") else "standard")
    settings = {
        "representation": kind,
        "sites": None if kind in WITHOUT_SITES else sites,
        "site_scale": stated["site_scale"],
        "update": stated["update"],
    }
    if "site_variance" in stated:
        settings["site_variance"] = stated["site_variance"]
    settings |= {key: stated[key] for key in OF_UPDATE[stated["update"]]}
    return settings | shared


def run_settings(method: Mapping) -> dict:
    """Settings a job depends on: all but the number of jobs."""
    return {key: value for key, value in method.items() if key != "replicates"}


def likelihood_name(problem: Mapping) -> str:
    """Name of a problem's likelihood, as a config states it, or one of an earlier version did."""
    choice = problem["likelihood"]
    return choice if isinstance(choice, str) else choice.get("name") or next(iter(choice))


def has_counts(problem: Mapping) -> bool:
    """Whether a problem of the config has counts, and so an intensity."""
    return likelihood_name(problem) in ("poisson", "negative_binomial")


def shown_method(methods: Mapping) -> str:
    """Name of the method whose draws a problem's picture shows: the paper's own, or the first."""
    return BASELINE if BASELINE in methods else next(iter(methods))
