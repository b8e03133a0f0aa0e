"""Tables of the certification page, each from one committed file, with the command that made the file."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pandas as pd
from scipy.stats import chisquare

BINS, N_RANKED = 20, 99  # as in benchmarks/calibration.py
STUDIES = {
    "rmhmc_ais": "Paquet & Fraccaro (2018)",
    "split_hmc": "Shahbaba, Lan, Johnson & Neal (2014)",
    "fast_likelihood": "Wang & Neal (2013)",
    "surrogate_slice": "Murray & Adams (2010)",
}


def markdown(table: pd.DataFrame) -> str:
    """The table with its index as first column."""
    table = table.reset_index()
    rows = [table.columns, ["---"] * table.shape[1], *table.astype(str).values.tolist()]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows) + "\n"


def benchmark(root: Path, name: str) -> ModuleType:
    """The script of a benchmark, whose own functions make its tables."""
    folder = str(root / "benchmarks")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)


def calibration(root: Path) -> pd.DataFrame:
    """p-value of uniform ranks, for each structure of the prior and each function."""
    ranks = pd.read_csv(root / "benchmarks" / "calibration.csv")
    edges = [k * (N_RANKED + 1) / BINS - 0.5 for k in range(BINS + 1)]
    rows = [
        (structure, function, len(own), len(own) / BINS, counts.min(), counts.max(), p_value)
        for (structure, function), own in ranks.groupby(["structure", "function"], sort=False)
        for counts in [pd.cut(own["rank"], edges).value_counts()]
        for p_value in [f"{chisquare(counts).pvalue:.2f}"]
    ]
    names = "structure function|data sets|expected in a bin|least|most|p-value"
    columns = ["structure", "function", *names.split("|")[1:]]
    return pd.DataFrame(rows, columns=columns).set_index("structure")


def certificates(root: Path) -> pd.DataFrame:
    """Coverage, smallest p-values and verdicts of the certificate of each model."""
    rows = pd.read_csv(root / "benchmarks" / "certificates.csv")
    groups = rows.groupby("model", sort=False)
    passed = rows["verdict"].eq("passed").groupby(rows["model"], sort=False).sum()
    return pd.DataFrame(
        {
            "data sets": groups["data_sets"].first(),
            "50 % intervals held": groups["held_50"].mean().map("{:.0%}".format),
            "95 % intervals held": groups["held_95"].mean().map("{:.0%}".format),
            "quantities passed": passed.astype(str) + " of " + groups.size().astype(str),
            "least p": groups[["p_ranks", "p_coverage"]].min().min(axis=1).map("{:.2g}".format),
            "quick error, sd": groups["quick_error"].median().map("{:.2g}".format),
            "seconds a fit": groups["seconds"].first().map("{:.2g}".format),
        }
    )


def families_evidence(root: Path) -> pd.DataFrame:
    """Log evidence of three cases of each family, and the errors of EP and of Laplace's method, in nats."""
    rows = pd.read_csv(root / "benchmarks" / "families_evidence.csv").set_index("family")
    return pd.DataFrame(
        {
            "log evidence": rows["log_evidence"].map("{:.6f}".format),
            "EP is off by": rows["ep"].map("{:+.1e}".format),
            "Laplace is off by": rows["laplace"].map("{:+.1e}".format),
        }
    )


def certificates_mutants(root: Path) -> pd.DataFrame:
    """Certificates of samplers with a mistake, and how many did not pass."""
    rows = pd.read_csv(root / "benchmarks" / "certificates_mutants.csv")
    names = {"data_sets": "data sets", "cpu_seconds": "CPU seconds of one"}
    return rows.set_index("sampler").rename(columns=names)


def exactness(root: Path) -> pd.DataFrame:
    """Shares of small p-values over samplers, likelihoods and what is sampled, and z-scores of annealing."""
    rows = pd.read_csv(root / "benchmarks" / "every_pair.csv")
    p_values, scores = (rows.query("kind == @kind")["value"] for kind in ("p-value", "z-score"))
    table = pd.DataFrame(
        {
            "cases": [rows.query("kind == 'p-value'")["case"].nunique()],
            "tests": [len(p_values)],
            **{
                f"below {level:g}": [f"{(p_values < level).mean():.1%}"]
                for level in (0.05, 0.01, 1e-3)
            },
            "z-scores of annealing": [len(scores)],
            "their mean square": [f"{(scores**2).mean():.2f}"],
            "largest": [f"{scores.abs().max():.1f}"],
        },
        index=pd.Index(["all"], name="harness"),
    )
    return table


def summary(root: Path) -> pd.DataFrame:
    """What each part of the certification page has found, in a line."""
    exact, held, broken = exactness(root).loc["all"], certificates(root), mutants(root)
    shares = sorted(held["95 % intervals held"], key=lambda share: int(share.rstrip("%")))
    runs = coverage(root)
    covered = [
        f"{share} of {n} runs" for share, n in zip(runs["covered"], runs["seeds"], strict=True)
    ]
    faulty, own = faults(root).loc["all"], verdicts(root).sum(numeric_only=True)
    refused = faulty["all"] - faulty["same bytes"]
    rows = {
        "Are the draws exact?": f"{exact['tests']} tests in {exact['cases']} cases: {exact['below 0.05']} of "
        "their p-values are below 0.05, and of exact samplers at most 5 % are",
        "Would a wrong method be noticed?": f"{broken['broken methods'].sum()} methods were broken on "
        f"purpose; {broken['caught'].sum()} were caught",
        "Do 95 % intervals hold the truth?": f"in {len(held)} models, in {shares[0]} to {shares[-1]} of "
        f"{held['data sets'].min()} data sets or more",
        "And those of the evidence?": f"in {' and '.join(covered)}",
        "Does a kill or a damaged file change a result?": f"{faulty['all']} faults: {faulty['same bytes']} "
        f"ended in the same bytes, {refused} in a refusal that named the file, and then in the same bytes",
        "Do the papers' numbers come out?": f"{own['agrees']} numbers agree and {own['differs']} differ; "
        f"{own['holds']} claims hold, {own['does not hold']} do not, {own['not resolved']} are left open",
    }
    return pd.DataFrame({"what was found": rows}).rename_axis("question")


def mutants(root: Path) -> pd.DataFrame:
    """Broken methods and the tests that catch them."""
    rows = pd.read_csv(root / "benchmarks" / "mutants.csv").query("not control")
    grouped = rows.groupby("test", sort=False)
    return pd.DataFrame({
        "broken methods": grouped.size(),
        "caught": grouped["caught"].sum(),
        "what is broken": grouped["broken"].agg(", ".join).str.replace("|", " "),
    })  # fmt: skip


def fixed_coverage(root: Path) -> pd.DataFrame:
    """How often 95 % intervals of annealing and sequential Monte Carlo hold the truth, and alarms."""
    rows = pd.read_csv(root / "benchmarks" / "evidence_coverage.csv")
    return benchmark(root, "evidence_coverage").table(rows)


def evidences(root: Path) -> pd.DataFrame:
    """Evidence of whole models at default settings, beside reference values."""
    rows = pd.read_csv(root / "benchmarks" / "model_evidence.csv").query("part == 'routes'")
    return benchmark(root, "model_evidence").routes_table(rows).rename_axis("problem")


def coverage(root: Path) -> pd.DataFrame:
    """How often 95 % intervals of the evidence of whole models hold the reference."""
    rows = pd.read_csv(root / "benchmarks" / "model_evidence.csv").query("part == 'coverage'")
    return benchmark(root, "model_evidence").coverage_table(rows).rename_axis("problem")


def mutants_by_room(root: Path) -> pd.DataFrame:
    """How many methods were broken in each room of the package, and how many were caught."""
    rows = pd.read_csv(root / "benchmarks" / "mutants.csv").query("not control")
    grouped = rows.groupby("room", sort=False)
    return pd.DataFrame({"broken methods": grouped.size(), "caught": grouped["caught"].sum()})


def machine(root: Path) -> pd.DataFrame:
    """Where the benchmarks ran."""
    return pd.read_csv(root / "benchmarks" / "machine.csv", index_col="what")


def peers(root: Path) -> pd.DataFrame:
    """Speed and results beside other packages."""
    module = benchmark(root, "peers.table")
    return module.table(module.read())


def agreement(root: Path) -> pd.DataFrame:
    """Results of other packages beside ours: means in joint standard errors, optima in nats."""
    rows = pd.read_csv(root / "benchmarks" / "peers" / "peers.csv")
    means = rows[rows["gap"].notna()]
    apart = rows["why"].str.extract(r"^difference (\S+)$")[0].rename("distance")
    exact = rows.assign(distance=apart + " " + rows["unit"])[apart.notna()]
    lines = pd.concat(
        [means.assign(distance=means["gap"].map("{:.1f} joint errors".format)), exact]
    )
    lines["not converged"] = lines["not_converged"].fillna("-")
    columns = ["problem", "peer", "quantity", "distance", "not converged"]
    return lines[columns].set_index("problem")


def peers_settings(root: Path) -> pd.DataFrame:
    """Tuning, versions and machine of each comparison with another package."""
    module = benchmark(root, "peers.table")
    return module.settings(module.read())


def first_answer(root: Path) -> pd.DataFrame:
    """Seconds of short commands, quick analyses and approximations, and of peers for the same files."""
    rows = pd.read_csv(root / "benchmarks" / "first_answer.csv", index_col="job")
    compared = rows["better"].notna()
    apart = rows["better"].map("{:+.3f}".format) + " ± " + rows["error"].map("{:.3f}".format)
    clear = rows["better"].abs() > 2.0 * rows["error"]
    ahead = rows["better"].gt(0.0).map({True: "ours", False: "the peer"})
    score = rows["log_score"].map("{:.3f}".format).where(rows["log_score"].notna(), "-")
    own = rows["loops"].reindex(rows.index.str.replace(r"^\w+: (\w+)$", r"\1 --quick", regex=True))
    ratio = pd.Series(own.to_numpy(), rows.index) / rows["loops"]
    return pd.DataFrame(
        {
            "CPU s": rows["cpu"].map("{:.2f}".format),
            "wall s": rows["wall"].map("{:.2f}".format),
            "CPU, in loops": rows["loops"].map("{:.2f}".format),
            "ours takes": ratio.map("{:.2g} times that".format).where(compared, "-"),
            "log score": score,
            "ours is better by": apart.where(compared, "-"),
            "predicts better": ahead.where(clear, "not told apart").where(compared, "-"),
        }
    )


def mgcv_effects(root: Path) -> pd.DataFrame:
    """Areas, slopes, a trend and curves by group beside mgcv: seconds, scores and coverage."""
    rows = pd.read_csv(root / "benchmarks" / "mgcv_effects.csv", index_col="problem")
    ours = rows["fit"] != "mgcv"
    apart = rows["better"].map("{:+.4f}".format) + " ± " + rows["error"].map("{:.4f}".format)
    return pd.DataFrame(
        {
            "fit": rows["fit"],
            "CPU s": rows["cpu"].map("{:.1f}".format),
            "over mgcv's": rows["over_mgcv"].map("{:.1f}".format).where(ours, "-"),
            "log score": rows["log_score"].map("{:.4f}".format),
            "less mgcv's": apart.where(ours, "-"),
            "coverage of 95 %": rows["coverage"].map("{:.1%}".format),
        }
    )


def peers_again(root: Path) -> pd.DataFrame:
    """Ratios of speeds beside those of a second run."""
    module = benchmark(root, "peers.table")
    return module.repeats(module.read(), pd.read_csv(module.AGAIN))


def faults(root: Path) -> pd.DataFrame:
    """Outcomes of random faults, by their kind."""
    rows = pd.read_json(root / "benchmarks" / "faults.jsonl", lines=True)
    return pd.crosstab(rows["kind"], rows["outcome"], margins=True, margins_name="all")


def verdicts(root: Path) -> pd.DataFrame:
    """How many rows of each study's table have which verdict."""
    files = [root / "docs" / "results" / study / "verdict.csv" for study in STUDIES]
    rows = pd.concat(pd.read_csv(file, usecols=["study", "verdict"]) for file in files)
    counts = pd.crosstab(rows["study"], rows["verdict"]).reindex(STUDIES)
    counts.insert(0, "paper", list(STUDIES.values()))
    return counts


def disagreements(root: Path, study: str) -> pd.DataFrame:
    """Rows of one study in which we differ from what is printed, or a claim does not hold."""
    rows = pd.read_csv(root / "docs" / "results" / study / "verdict.csv")
    rows = rows[rows["verdict"].isin(["differs", "does not hold"])]
    shown = rows[["table", "row", "column", "unit", "printed", "ours", "why"]].copy()
    for name in ("printed", "ours"):
        values = pd.to_numeric(shown[name], errors="coerce")
        shown[name] = values.map("{:.3g}".format).where(values.notna(), shown[name])
    return shown.fillna("").set_index("table")
