"""Tables of the evidence study: approximations, estimates, and the verdict on printed numbers and claims."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
import yaml

from gpmcflow.storage import open_results
from gpmcflow.studies.verdict import VERDICT_COLUMNS, compare, verdict_row

STUDY = "rmhmc_ais"
ESTIMATES = (
    "log_evidence",
    "standard_error",
    "effective_size",
    "bootstrap_low",
    "bootstrap_high",
    "mean_log_weight",
    "sd_log_weight",
    "max_weight",
    "acceptance_rate",
    "diverging",
    "n_particles",
    "n_gradient",
    "n_likelihood",
    "alarm",
)
FAR_OFF = 5.0  # nats: a prior-started run this far from the reference is of no use
GAP = 3.0  # joint standard errors between forward and reverse


def summarise(
    approximations: dict[str, Path],
    evidence: dict[tuple[str, str], Path],
    posteriors: dict[str, Path],
    map_path: Path | None,
    published: Path,
) -> dict[str, pd.DataFrame]:
    """Frames "evidence", "approximations" and "verdict" from the result files of the study.

    ``approximations`` and ``posteriors`` map problem names to files, ``evidence`` (problem, method).
    """
    estimates = pd.concat([evidence_rows(path) for path in evidence.values()], ignore_index=True)
    fits = pd.DataFrame(
        [
            approximation_row(name, path, posteriors.get(name))
            for name, path in approximations.items()
        ]
    )
    rows = published_rows(fits, estimates, yaml.safe_load(Path(published).read_text()))
    rows += claim_rows(fits, estimates)
    if map_path is not None:
        rows += hardest_setting_rows(open_results(map_path), fits)
    verdict = pd.DataFrame(rows, columns=VERDICT_COLUMNS)
    return {
        "evidence": estimates,
        "approximations": fits,
        "verdict": verdict.sort_values("table", kind="stable", ignore_index=True),
    }


def sidecar(path: Path) -> dict:
    """Return the JSON beside a results file."""
    return json.loads(Path(f"{path}.json").read_text())


def approximation_row(problem: str, path: Path, posterior: Path | None) -> dict:
    """One problem's fits, correction and test scores."""
    tree = open_results(path)
    fit = tree["approximation"].to_dataset().load()
    chosen = tree["hyperparameters"].to_dataset().load()
    settings = json.loads(tree.attrs["settings"])["problem"]
    ep = float(fit["log_evidence"].sel({"method": "ep"}))
    correction = float(fit["correction"][-1])
    length = chosen["log_length_scale"].values
    row = {
        "study": STUDY,
        "problem": problem,
        "dataset": tree.attrs["dataset"],
        "n": fit.sizes["case"],
        "likelihood": str(settings["likelihood"]),
        "log_length_scale": float(length) if length.ndim == 0 else str(length.round(3).tolist()),
        "log_signal_sd": float(chosen["log_signal_sd"]),
        "jitter": float(chosen["jitter"]),
        "log_evidence_laplace": float(fit["log_evidence"].sel({"method": "laplace"})),
        "log_evidence_ep": ep,
        "correction": correction,
        "log_evidence_corrected": ep + correction,
    }
    tables = {}
    if "predictions" in tree.children:
        both = tree["predictions"].to_dataset().load()
        tables = {name: both.sel({"method": name}) for name in ("laplace", "ep")}
    if posterior is not None:
        draws = open_results(posterior)
        if "predictions" in draws.children:
            tables["posterior"] = draws["predictions"].to_dataset().load()
    for name in ("laplace", "ep", "posterior"):
        row[f"test_error_{name}"], row[f"test_log_score_{name}"] = _test_scores(tables.get(name))
    seconds = sidecar(path)["seconds"]
    return row | {"seconds_laplace": seconds["laplace"], "seconds_ep": seconds["ep"]}


def _test_scores(table: xr.Dataset | None) -> tuple[float, float]:
    """Errors in % and mean log probability of the true label (nats a case)."""
    if table is None:
        return np.nan, np.nan
    p, y = table["probability"].values, table["y_test"].values
    right = np.where(y > 0, p, 1.0 - p)
    return 100.0 * float(np.mean(right <= 0.5)), float(np.mean(np.log(np.maximum(right, 1e-300))))


def evidence_rows(path: Path) -> pd.DataFrame:
    """One row for each ladder length, replicate and direction of one method on one problem."""
    tree = open_results(path)
    method = json.loads(tree.attrs["settings"])["method"]
    table = tree["evidence"].to_dataset().load()
    facts = sidecar(path)["seconds"]
    seconds = {(r["n_temperatures"], r["replicate"]): r for r in facts["runs"]}
    plain = method.get("kind", "ais") == "importance_sampling"
    rows = []
    for t in table["n_temperatures"].values:
        for replicate in table["replicate"].values:
            cell = table.sel(n_temperatures=t, replicate=replicate)
            timing = seconds[int(t), int(replicate)]
            for direction, prefix in (("forward", ""), ("reverse", "reverse_")):
                if f"{prefix}log_evidence" not in cell:
                    continue
                row = {
                    "study": STUDY,
                    "problem": tree.attrs["problem"],
                    "method": tree.attrs["method"],
                    "sampler": "none" if plain else method["sampler"],
                    "reference": method["reference"],
                    "ladder": "none" if plain else method["ladder"],
                    "coordinates": method.get("coordinates", "reference"),
                    "direction": direction,
                    "n_temperatures": int(t),
                    "replicate": int(replicate),
                }
                row |= {name: cell[f"{prefix}{name}"].item() for name in ESTIMATES}
                row["pilot_gradient"] = int(cell["pilot_gradient"])
                row["seconds"] = timing["seconds" if direction == "forward" else "reverse_seconds"]
                row["pilot_seconds"] = facts["pilot"]
                rows.append(row)
    return _gap_alarms(pd.DataFrame(rows))


def _gap_alarms(rows: pd.DataFrame) -> pd.DataFrame:
    """Add an alarm where forward and reverse estimates of a run differ by more than 3 joint errors."""
    if not (rows["direction"] == "reverse").any():
        return rows
    for _, pair in rows.groupby(["n_temperatures", "replicate"]):
        forward, reverse = (pair[pair["direction"] == d].iloc[0] for d in ("forward", "reverse"))
        gap = reverse["log_evidence"] - forward["log_evidence"]
        joint = np.hypot(forward["standard_error"], reverse["standard_error"])
        if abs(gap) > GAP * joint:
            text = (
                f"forward and reverse differ by {gap:.2g} nats, {abs(gap) / joint:.1f} joint errors"
            )
            for index in pair.index:
                before = rows.at[index, "alarm"]
                rows.at[index, "alarm"] = f"{before}; {text}" if before else text
    return rows


def pooled(estimates: pd.DataFrame) -> dict:
    """Pool replicates of one run: log of the mean of exp(log evidence), with its delta-method error."""
    logs = estimates["log_evidence"].to_numpy()
    scaled = np.exp(logs - logs.max())
    share = scaled / scaled.sum()
    error = np.sqrt(np.sum((share * estimates["standard_error"].to_numpy()) ** 2))
    return {
        "log_evidence": float(logs.max() + np.log(scaled.mean())),
        "standard_error": float(error),
        "effective_size": float(estimates["effective_size"].sum()),
        "alarm": _common_alarm(estimates["alarm"]),
        "n_gradient": int(estimates["n_gradient"].sum()),
        "pilot_gradient": int(estimates["pilot_gradient"].iloc[0]),
    }


def _common_alarm(alarms: pd.Series) -> str:
    """Say in how many replicates which alarm rang, without their numbers."""
    kinds = ("effective size", "largest weight", "transitions", "forward and reverse")
    counts = {kind: int(alarms.str.contains(kind).sum()) for kind in kinds}
    counts["other"] = int((alarms.ne("") & ~alarms.str.contains("|".join(kinds))).sum())
    told = [f"{kind} in {count}" for kind, count in counts.items() if count]
    return f"alarm of {', '.join(told)} of {len(alarms)} replicates" if told else ""


def reference_estimate(estimates: pd.DataFrame, problem: str) -> dict | None:
    """Return the trusted forward run of a problem with the smallest standard error, None if there is none."""
    rows = estimates[(estimates["problem"] == problem) & (estimates["direction"] == "forward")]
    runs = [
        pooled(run) | {"method": key[0], "n_temperatures": key[1]}
        for key, run in rows.groupby(["method", "n_temperatures"])
    ]
    trusted = [run for run in runs if not run["alarm"]]
    return min(trusted, key=lambda run: run["standard_error"]) if trusted else None


def published_rows(fits: pd.DataFrame, estimates: pd.DataFrame, published: dict) -> list[dict]:
    """Compare printed and reference numbers with ours, where the config has that problem."""
    rows = []
    for entry in published["values"]:
        same = fits[
            (fits["dataset"] == entry["dataset"])
            & (fits["log_length_scale"].astype(str) == str(float(entry["log_length_scale"])))
            & (fits["log_signal_sd"] == float(entry["log_signal_sd"]))
        ]
        for _, fit in same.iterrows():
            if entry["column"] == "log_evidence_annealing":
                best = reference_estimate(estimates, fit["problem"])
                if best is None:
                    continue
                ours, error = best["log_evidence"], best["standard_error"]
            else:
                ours, error = float(fit[entry["column"]]), 0.0
            rows.append(compare(STUDY, entry, ours, error))
    return rows


def claim_rows(fits: pd.DataFrame, estimates: pd.DataFrame) -> list[dict]:
    """Section 8 of the study's specification, the claims this study's runs can resolve."""
    rows = []
    for problem in fits["problem"]:
        best = reference_estimate(estimates, problem)
        if best is None:
            continue
        mine = estimates[(estimates["problem"] == problem) & (estimates["direction"] == "forward")]
        rows += _agreement(problem, mine, best)
        rows += _prior_start(problem, mine, best)
        rows += _automatic_tuning(problem, mine)
    return rows


def _agreement(problem: str, mine: pd.DataFrame, best: dict) -> list[dict]:
    """All trusted methods agree with the best one within 3 joint standard errors."""
    rows = []
    for method, runs in mine.groupby("method"):
        longest = pooled(runs[runs["n_temperatures"] == runs["n_temperatures"].max()])
        if longest["alarm"] or method == best["method"]:
            continue
        joint = np.hypot(longest["standard_error"], best["standard_error"])
        distance = longest["log_evidence"] - best["log_evidence"]
        rows.append(
            verdict_row(
                STUDY,
                table="methods agree",
                row=problem,
                column=f"{method} minus {best['method']}",
                unit="nat",
                ours=distance,
                mcse=joint,
                tolerance=3.0 * joint,
                verdict="agrees" if abs(distance) <= 3.0 * joint else "differs",
                why="both unbiased for the evidence; tolerance is 3 joint standard errors",
            )
        )
    return rows


def _prior_start(problem: str, mine: pd.DataFrame, best: dict) -> list[dict]:
    """Claim 3: whitened annealing from the prior is far off and says so, the EP start repairs it."""
    prior = mine[(mine["reference"] == "prior") & (mine["coordinates"] == "reference")]
    repaired = mine[(mine["reference"] == "ep") & (mine["sampler"] != "none")]
    rows = []
    for method, runs in prior.groupby("method"):
        for t, same in runs.groupby("n_temperatures"):
            run = pooled(same)
            cost = run["n_gradient"]
            partners = repaired[repaired["n_temperatures"] == t].groupby("method")
            cheap = [p for _, r in partners if (p := pooled(r))["n_gradient"] <= 1.5 * cost]
            if not cheap:
                continue
            partner = min(cheap, key=lambda p: p["standard_error"])
            off = run["log_evidence"] - best["log_evidence"]
            gap = partner["log_evidence"] - best["log_evidence"]
            joint = np.hypot(partner["standard_error"], best["standard_error"])
            holds = off < -FAR_OFF and bool(run["alarm"]) and abs(gap) <= 3.0 * joint
            rows.append(
                verdict_row(
                    STUDY,
                    table="claim 3: a prior start is out of bounds, an EP start repairs it",
                    row=problem,
                    column=f"{method}, {t} temperatures",
                    unit="nat",
                    ours=off,
                    mcse=run["standard_error"],
                    tolerance=FAR_OFF,
                    verdict="holds" if holds else "does not hold",
                    why=f"prior start off by {off:.2f} ({run['alarm'] or 'no alarm'}); "
                    f"EP start at no more than 1.5 times the cost off by {gap:.2f} +- {joint:.2f}",
                )
            )
    return rows


def _automatic_tuning(problem: str, mine: pd.DataFrame) -> list[dict]:
    """Claim 4: the pilot's step sizes cost at most 1.5 times the hand-tuned ones for the same error."""
    rows = []
    for method, runs in mine.groupby("method"):
        automatic = mine[mine["method"] == str(method).removesuffix("_hand")]
        if not str(method).endswith("_hand") or automatic.empty:
            continue
        t = min(runs["n_temperatures"].max(), automatic["n_temperatures"].max())
        by_hand, tuned = (pooled(r[r["n_temperatures"] == t]) for r in (runs, automatic))
        cost = {
            "hand": by_hand["n_gradient"] * by_hand["standard_error"] ** 2,
            "auto": (tuned["n_gradient"] + tuned["pilot_gradient"]) * tuned["standard_error"] ** 2,
        }
        ratio = cost["auto"] / cost["hand"]
        trusted = not (by_hand["alarm"] or tuned["alarm"])
        verdict = ("holds" if ratio <= 1.5 else "does not hold") if trusted else "not resolved"
        rows.append(
            verdict_row(
                STUDY,
                table="claim 4: automatic tuning within 1.5 of the hand-tuned cost",
                row=problem,
                column=str(method).removesuffix("_hand"),
                unit="ratio",
                ours=ratio,
                tolerance=1.5,
                verdict=verdict,
                why=f"gradients times squared standard error at {t} temperatures, pilot included",
            )
        )
    return rows


def hardest_setting_rows(tree: xr.DataTree, fits: pd.DataFrame) -> list[dict]:
    """Claim 1: is the study's setting the hardest of the grid, by correction and by sd of u under q?"""
    table = tree["map"].to_dataset().load()
    dataset = tree.attrs["dataset"]
    rows = []
    for _, fit in fits[fits["dataset"] == dataset].iterrows():
        for name, label in (
            ("correction", "second-order correction"),
            ("ratio_sd", "sd of u under q"),
        ):
            values = table[name]
            here = values.sel(
                log_length_scale=fit["log_length_scale"],
                log_signal_sd=fit["log_signal_sd"],
                method="nearest",
            )
            exact = np.isclose(here["log_length_scale"], fit["log_length_scale"]) and np.isclose(
                here["log_signal_sd"], fit["log_signal_sd"]
            )
            if not exact:
                continue
            largest = float(values.max())
            place = values.where(values == largest, drop=True)
            rows.append(
                verdict_row(
                    STUDY,
                    table="claim 1: the setting is the hardest of the grid",
                    row=fit["problem"],
                    column=label,
                    unit="nat",
                    recomputed=largest,
                    ours=float(here),
                    verdict="holds" if float(here) >= largest else "does not hold",
                    why=f"largest at log length scale {float(place['log_length_scale'][0]):g}, "
                    f"log signal sd {float(place['log_signal_sd'][0]):g}",
                )
            )
    return rows
