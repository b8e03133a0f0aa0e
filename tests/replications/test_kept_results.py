"""What is committed under docs/results: each verdict is what its parts give, and can be had again."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpmcflow.data import load_dataset
from gpmcflow.jobs.parts import part_name, rows_of
from gpmcflow.replications import parts
from gpmcflow.replications.split_hmc import runs as split_hmc
from gpmcflow.replications.split_hmc.tables import MACHINE

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
STUDIES = [path.parent.name for path in sorted(RESULTS.glob("*/parts.jsonl"))]


def test_there_are_kept_parts():
    assert "split_hmc" in STUDIES


@pytest.mark.parametrize("study", STUDIES)
def test_the_committed_tables_are_what_the_parts_give(study):
    """To rounding, which is not the same on all processors."""
    published = ROOT / "workflow" / "published" / f"{study}.yaml"
    tables = parts.rebuild(study, RESULTS / study / "parts.jsonl", published)
    kept = {path.stem: path for path in (RESULTS / study).glob("*.csv")}
    assert "verdict" in kept
    for name, path in kept.items():
        again = pd.read_csv(io.StringIO(tables[name].to_csv(index=False)), dtype=str)
        committed = pd.read_csv(path, dtype=str)
        assert list(again) == list(committed)
        for column in committed:  # some hold words beside numbers
            ours, theirs = (pd.to_numeric(t[column], errors="coerce") for t in (again, committed))
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12, err_msg=column)
            words = zip(again[column][theirs.isna()], committed[column][theirs.isna()], strict=True)
            assert [pair for pair in words if len({*map(str, pair)}) > 1] == []


def test_a_cheap_cell_recomputed():
    """The mode of dataset S, from data to potential: only rounding apart from the committed part."""
    fits = rows_of(parts.read_parts(RESULTS / "split_hmc" / "parts.jsonl"), "fit")
    (kept,) = (fit for fit in fits if fit["problem"] == "simulated")
    dataset = load_dataset("shahbaba-simulated")
    tree, _ = split_hmc.fit(dataset, kept["settings"]["problem"], seed=kept["seed"])
    mode = tree["map"].to_dataset()
    assert dataset.attrs["checksum"] == kept["data_checksum"]
    for name in ("potential", "log_likelihood", "squared_slopes"):
        assert float(mode[name]) == pytest.approx(kept[name], rel=1e-12)
    assert float(mode["frequency"][-1]) == pytest.approx(kept["largest_frequency"], rel=1e-10)


@pytest.mark.parametrize("study", STUDIES)
def test_parts_of_all_studies_have_one_form(study):
    kept = parts.read_parts(RESULTS / study / "parts.jsonl")
    names = [part_name(part) for part in kept]
    assert names == sorted(set(names))
    for part in kept:
        assert part["study"] == study
        optional = set(part) & {"method", "replicate"}
        assert set(part) - optional == {
            "study", "kind", "problem", "seed", "data_checksum", "settings", "facts", "values",
        }  # fmt: skip


def test_no_verdict_is_left_without_reason():
    for study in STUDIES:
        verdict = pd.read_csv(RESULTS / study / "verdict.csv")
        differs = verdict[verdict["verdict"] == "differs"]
        assert differs["why"].str.len().gt(20).all()


def counts(verdicts: pd.Series) -> pd.Series:
    names = ["agrees", "differs", "shown", "not resolved", "missing"]
    return verdicts.value_counts().reindex(names, fill_value=0)


def text_of(path: Path) -> str:
    return " ".join(path.read_text(encoding="utf-8").split())


@pytest.mark.parametrize("study", STUDIES)
def test_the_readme_tells_how_many_rows_are_open(study):
    verdicts = pd.read_csv(RESULTS / study / "verdict.csv")["verdict"]
    of = counts(verdicts)
    missing = f"{of['missing']} {'is' if of['missing'] == 1 else 'are'} missing"
    told = f"Of the {len(verdicts)} rows of `verdict.csv` {of['not resolved']} are not resolved, {missing}"
    assert told in text_of(RESULTS / study / "README.md")


def test_counts_in_the_texts_are_those_of_the_tables():
    split = pd.read_csv(RESULTS / "split_hmc" / "verdict.csv")
    cells = split[split["table"].str.startswith("Table") & ~split["column"].isin(["L", *MACHINE])]
    of = counts(cells["verdict"])
    agree = f"Of the {len(cells)} machine-independent cells {of['agrees']} agree"
    rest = f"{of['differs']} differ and {of['not resolved']} are not resolved"
    for path in (RESULTS / "split_hmc" / "README.md", ROOT / "docs" / "replications.md"):
        assert agree in text_of(path)
        assert rest in text_of(path)
    annealed = pd.read_csv(RESULTS / "rmhmc_ais" / "verdict.csv").query(
        "table == 'methods and sizes'"
    )
    of, text = counts(annealed["verdict"]), text_of(RESULTS / "rmhmc_ais" / "README.md")
    assert f"of {len(annealed)}, {of['agrees']} agree with the reference run" in text
    assert f"{of['shown']} are shown" in text
    assert f"{of['not resolved']} are not resolved" in text


@pytest.mark.parametrize(("problem", "unknowns"), [("ionosphere", 35), ("coal", 3)])
@pytest.mark.parametrize("method", ["surr-site", "prior-white"])
def test_joint_split_hmc_has_the_posterior_means_of_slice_sampling(problem, unknowns, method):
    """Every hyperparameter and T, long chains of the real data, within 4 joint standard errors."""
    published = ROOT / "workflow" / "published" / "surrogate_slice.yaml"
    again = parts.rebuild("surrogate_slice", RESULTS / "surrogate_slice" / "parts.jsonl", published)
    table = again["posterior"].query("problem == @problem").set_index(["method", "coordinate"])
    ours, theirs = table.loc["joint-split"], table.loc[method]
    assert len(ours) == len(theirs) == unknowns + 1
    error = np.hypot(ours["mcse"], theirs["mcse"])
    assert ((ours["mean"] - theirs["mean"]).abs() < 4.0 * error).all()
    assert (error < 0.5 * ours["sd"]).all()  # a mean that is off by two deviations would be seen
