"""Tables of the evidence study: approximations, estimates, which method to use, and the verdict.

All are made of parts, one a finished run (`parts`), so that they can be rebuilt from parts
that were kept where the runs were not.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from gpmcflow.studies.frame.job import Job
from gpmcflow.studies.rmhmc_ais.claims import claim_rows, hardest_setting_rows, reference_estimate
from gpmcflow.studies.rmhmc_ais.parts import STUDY, approximation_part, evidence_part, map_part
from gpmcflow.studies.rmhmc_ais.work import advice, which_method, with_flops
from gpmcflow.studies.verdict import VERDICT_COLUMNS, compare, of_this_run


def summarise(job: Job) -> dict[str, pd.DataFrame]:
    """Frames "evidence", "approximations", "which_method" and "verdict" from the results files of a run."""
    posteriors = {Path(path).parent.name: path for path in job.input.posterior}
    parts = []
    for path in job.input.approximate:
        problem = Path(path).parent.name
        parts.append(approximation_part(problem, path, posteriors.get(problem)))
    parts += [evidence_part(path) for path in job.input.evidence]
    if "map" in job.input.keys():  # noqa: SIM118 (a named list, no mapping)
        parts.append(map_part(job.input.map))
    return of_this_run(tables(parts, job.published()))


def tables(parts: Iterable[dict], published: dict) -> dict[str, pd.DataFrame]:
    """The same frames from parts and the printed numbers."""
    parts = list(parts)
    fits = pd.DataFrame([part["row"] for part in parts if part["part"] == "approximation"])
    rows = [row for part in parts if part["part"] == "evidence" for row in part["rows"]]
    estimates = with_flops(fits, pd.DataFrame(rows))
    estimates["advice"] = [advice(row) for row in rows]
    verdict = published_rows(fits, estimates, published) + claim_rows(fits, estimates)
    for part in parts:
        if part["part"] == "map":
            verdict += hardest_setting_rows(part, fits)
    frame = pd.DataFrame(verdict, columns=VERDICT_COLUMNS)
    return {
        "evidence": estimates,
        "approximations": fits,
        "which_method": which_method(estimates),
        "verdict": frame.sort_values("table", kind="stable", ignore_index=True),
    }


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
