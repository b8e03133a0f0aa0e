"""The workflow itself, by Snakemake's command, at sizes of seconds."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from pathlib import Path

import netCDF4
import pytest
import yaml
from arviz_base import convert_to_datatree

from gpmcflow.data.layout import checksum
from gpmcflow.execution import array_digest
from gpmcflow.storage import load_results, open_results

ROOT = Path(__file__).parents[2]
SMALL = ROOT / "tests" / "workflow" / "small.yaml"
CONFIG = yaml.safe_load(SMALL.read_text())
EXECUTION = CONFIG["execution"]
STEMS = {"digits-3v5", "approximation", "posterior", "map", "split_hmc_ep", "hmc_prior", "is_ep"}
STEMS |= {"illustration", "rmhmc_ep", "pt_ep", "smc_ep"}
STEMS |= {
    "data",
    "summary",
    "drawn",
    "fit",
    "illustrations",
    "hmc",
    "split",
    "data_split",
    "independence",
    "tuning",
    "smooth",
    "replicate_0",
    "final",
    "final_posterior",
}
TABLES = {
    "rmhmc_ais": ["verdict", "which_method", "evidence", "approximations"],
    "split_hmc": ["verdict", "runs"],
    "fast_likelihood": ["verdict", "runs"],
    "surrogate_slice": ["verdict", "which_sampler", "efficiency", "posterior"],
}
# rules that sample, those before them, and the light ones behind them
CHAINS = ["rmhmc_ais_evidence", "rmhmc_ais_posterior", "split_hmc_chains"]
FITS = ["rmhmc_ais_approximate", "rmhmc_ais_hyperparameter_map", "split_hmc_fit"]
BEFORE = ["prepare", *FITS, "split_hmc_illustrate"]
BEHIND = ["rmhmc_ais_summarise", "split_hmc_summarise", "build_report"]


def write_config(folder: Path, **changes) -> Path:
    config = CONFIG | changes
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory, snakemake):
    """Folder of a whole run on two cores, the blocks of a job dealt to two workers."""
    folder = tmp_path_factory.mktemp("two_cores")
    config = write_config(folder, execution={**EXECUTION, "workers": 2})
    done = snakemake(folder, config=config, cores=2)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def test_whole_run_ends_in_tables_and_one_page(finished):
    results = finished / "results"
    for study, tables in TABLES.items():
        for table in tables:
            assert len((results / study / f"{table}.csv").read_text().splitlines()) > 1
        verdict = (results / study / "verdict.csv").read_text()
        assert ",missing," not in verdict
        assert ",not run," not in verdict
    page = (results / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 10 + 7 + 2 + 3
    assert str(finished) not in page
    for path in results.rglob("*.nc"):
        assert Path(f"{path}.json").is_file()


def test_second_run_has_nothing_to_do(finished, snakemake):
    again = snakemake(finished, config=finished / "mine.yaml", cores=2)
    assert again.returncode == 0
    assert "Nothing to be done" in again.stdout + again.stderr


def test_keys_that_do_not_change_the_numbers_run_nothing_again(finished, tmp_path, snakemake):
    execution = {**EXECUTION, "workers": 3, "segment_length": 4}
    of_machine = {"memory_limit_gb": 1.5, "data_dir": str(tmp_path)}
    dry = snakemake(
        finished, "--dry-run", config=write_config(tmp_path, **of_machine, execution=execution)
    )
    assert dry.returncode == 0, dry.stderr
    assert "Nothing to be done" in dry.stdout + dry.stderr
    on_cluster = write_config(tmp_path, execution={**EXECUTION, "scheduler": "tcp://none:1"})
    dry = snakemake(finished, "--dry-run", config=on_cluster)
    assert "Nothing to be done" in dry.stdout + dry.stderr


def test_block_size_runs_the_chains_again_and_nothing_before_them(finished, tmp_path, snakemake):
    path = write_config(tmp_path, execution={**EXECUTION, "block_size": 4})
    dry = snakemake(finished, "--dry-run", "--quiet", "rules", config=path)
    jobs = dry.stdout + dry.stderr
    for rule in (*CHAINS, *BEHIND):
        assert f"\n{rule} " in jobs
    for rule in BEFORE:
        assert f"\n{rule} " not in jobs


def files_of(folder: Path) -> list[Path]:
    """All NetCDF files of a finished run, relative to its folder."""
    found = sorted(path.relative_to(folder) for path in (folder / "results").rglob("*.nc"))
    return [path for path in found if ".state" not in path.parts]


def test_netcdf_files_have_same_bytes_on_one_core_and_with_two_workers(
    finished, tmp_path, run_all_jobs
):
    """And in one process as in a process a job."""
    names = files_of(finished)
    run_all_jobs(tmp_path, SMALL)
    for folder, threads in ((finished, 2), (tmp_path, 1)):
        facts = json.loads((folder / "results/rmhmc_ais/digits/posterior.nc.json").read_text())
        assert facts["job_threads"] == threads
    for name in names:
        if (tmp_path / name).read_bytes() != (finished / name).read_bytes():
            assert not different_numbers(tmp_path / name, finished / name), name
            pytest.fail(f"{name}: the same numbers in other bytes")


def different_numbers(*paths: Path) -> list[str]:
    """Groups of two results files whose arrays differ."""
    here, there = (load_results(path) for path in paths)
    assert [node.path for node in here.subtree] == [node.path for node in there.subtree]
    groups = [
        (tree.to_dataset(inherit=False) for tree in (node, there[node.path]))
        for node in here.subtree
    ]
    return [
        node.path
        for node, (ours, theirs) in zip(here.subtree, groups, strict=True)
        if array_digest(ours.variables) != array_digest(theirs.variables)
    ]


def test_every_netcdf_file_opens_with_netcdf4_xarray_and_arviz(finished):
    names = files_of(finished)
    assert {path.stem for path in names} == STEMS
    for name in names:
        with netCDF4.Dataset(finished / name) as plain:
            assert plain.data_model == "NETCDF4"
            attributes = {key: plain.getncattr(key) for key in plain.ncattrs()}
            groups = set(plain.groups)
        assert attributes["creation_library"] == attributes["inference_library"] == "gpmcflow"
        assert json.loads(attributes["settings"]) is not None
        for tree in (open_results(finished / name), convert_to_datatree(str(finished / name))):
            assert set(tree.children) == groups
            assert tree.attrs["data_checksum"] == attributes["data_checksum"]
            assert all(len(node.variables) for node in tree.leaves)
            tree.close()


def test_data_file_keeps_what_the_data_set_says_of_itself(finished):
    tree = load_results(finished / "results/data/digits-3v5.nc")
    assert tree.attrs["data_checksum"] == tree.attrs["checksum"] == checksum(tree.to_dataset())
    assert tree.attrs["name"] == "digits-3v5"
    for word in ("title", "citation", "licence", "source"):
        assert tree.attrs[word]


def planned(snakemake, folder: Path, config: Path) -> dict[str, int]:
    """Jobs of each rule that a run of a config would have."""
    dry = snakemake(folder, "--dry-run", "--quiet", "rules", config=config)
    assert dry.returncode == 0, dry.stderr
    lines = re.findall(r"^(\w+) +(\d+)$", dry.stdout + dry.stderr, flags=re.MULTILINE)
    return {rule: int(count) for rule, count in lines}


def test_replications_plan_every_stage(tmp_path, snakemake):
    assert {*BEFORE, *CHAINS, *BEHIND} <= set(
        planned(snakemake, tmp_path, ROOT / "config/replications.yaml")
    )


def test_default_job_is_small_and_has_a_run_of_each_study(tmp_path, snakemake):
    jobs = planned(snakemake, tmp_path, ROOT / "config/config.yaml")
    for study in ("rmhmc_ais", "split_hmc", "fast_likelihood", "surrogate_slice"):
        assert jobs[f"{study}_summarise"] == 1
    assert not [rule for rule in jobs if "illustrat" in rule]
    assert jobs["analysis_report"] == 2
    assert jobs["analysis_evidence"] == jobs["analysis_draw"] == 5
    assert jobs["total"] <= 55


def test_default_config_is_that_of_the_workflow_in_any_folder(tmp_path):
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "-n"]
    dry = subprocess.run(
        [*command, "--quiet", "rules"], capture_output=True, text=True, cwd=tmp_path, timeout=100
    )
    assert dry.returncode == 0, dry.stderr
    assert "fast_likelihood_tune" in dry.stdout + dry.stderr


@pytest.mark.parametrize("study", TABLES)
def test_a_study_that_is_not_in_the_config_has_no_rules(tmp_path, study, snakemake):
    path = write_config(tmp_path, studies={study: CONFIG["studies"][study]})
    dry = snakemake(tmp_path, "--dry-run", "--quiet", "rules", config=path)
    assert dry.returncode == 0, dry.stderr
    jobs = dry.stdout + dry.stderr
    assert f"\n{study}_summarise " in jobs
    assert not [other for other in TABLES if other != study and f"\n{other}_" in jobs]
    assert "\nbuild_report " in jobs


def test_draws_of_one_method_run_that_method_again_and_no_other(finished, tmp_path, snakemake):
    study = copy.deepcopy(CONFIG["studies"]["split_hmc"])
    study["problems"]["simulated"]["split"]["draws"] = 516
    path = write_config(tmp_path, studies={**CONFIG["studies"], "split_hmc": study})
    dry = snakemake(finished, "--dry-run", "--quiet", "rules", config=path)
    counts = dict(re.findall(r"^(\w+) +(\d+)$", dry.stdout + dry.stderr, flags=re.MULTILINE))
    assert counts["split_hmc_chains"] == "1"
    for rule in (*BEFORE, *CHAINS[:2], "rmhmc_ais_summarise"):
        assert rule not in counts


def test_config_given_by_name_is_not_merged_with_the_default(tmp_path, snakemake):
    path = write_config(tmp_path)
    dry = snakemake(ROOT, "--dry-run", "--forceall", config=path)
    assert "digits-hard" not in dry.stdout + dry.stderr


def test_wrong_config_ends_in_one_line_before_anything_runs(tmp_path, snakemake):
    path = write_config(tmp_path, sede=3)
    failed = snakemake(tmp_path, config=path)
    assert failed.returncode != 0
    lines = [line for line in failed.stderr.splitlines() if "unknown name 'sede'" in line]
    assert len(lines) == 1
    assert "did you mean 'seed'?" in lines[0]
    assert "Traceback" not in failed.stderr
    assert not (tmp_path / "results").exists()


def own_data(folder: Path, text: str) -> Path:
    (folder / "mine.csv").write_text(text)
    problem = {"dataset": "mine", "hyperparameters": {"select": "maximum"}}
    return write_config(
        folder,
        datasets={"mine": {"csv": str(folder / "mine.csv"), "target": "y"}},
        problems={"digits": problem},
        studies={"rmhmc_ais": CONFIG["studies"]["rmhmc_ais"]},
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,y\n1,0\n2,1\nnan,0\n4,1\n", "column 'a', row 4"),
        ("a,y\n1,0\n2,1\n3,2\n", "column 'y' has 3 distinct values"),
    ],
    ids=["NaN", "three classes"],
)
def test_wrong_data_end_in_one_line_and_leave_no_file(tmp_path, text, message, snakemake):
    failed = snakemake(tmp_path, "results/data/mine.nc", config=own_data(tmp_path, text))
    assert failed.returncode != 0
    lines = [line for line in failed.stderr.splitlines() if message in line]
    assert len(lines) == 1
    assert lines[0].startswith("ERROR: ")
    assert "Traceback" not in failed.stderr
    assert not (tmp_path / "results" / "data").exists()  # nor a temporary file in it
    log = (tmp_path / "results" / "logs" / "data" / "mine.log").read_text()
    assert message in log
    assert "Traceback" not in log


def test_missing_csv_file_ends_in_one_line(tmp_path, snakemake):
    path = own_data(tmp_path, "a,y\n1,0\n2,1\n")
    (tmp_path / "mine.csv").unlink()
    failed = snakemake(tmp_path, config=path)
    assert failed.returncode != 0
    assert "datasets.mine.csv: no file" in failed.stderr
    assert "Traceback" not in failed.stderr


def test_retries_of_a_users_error_end_at_once_and_a_new_run_tries_again(tmp_path, snakemake):
    config = own_data(tmp_path, "a,y\n1,0\n2,1\nnan,0\n4,1\n")
    output = "results/data/mine.nc"
    failed = snakemake(tmp_path, output, "--retries", "2", config=config)
    assert failed.stderr.count("\nERROR: ") == failed.stderr.count("column 'a', row 4") == 3
    (kept,) = (tmp_path / "results" / ".state" / "errors").iterdir()
    log = tmp_path / "results" / "logs" / "data" / "mine.log"
    # Kept by the first attempt; a later one that had read the data would have kept it once more.
    assert kept.stat().st_mtime_ns < log.stat().st_mtime_ns
    (tmp_path / "mine.csv").write_text("a,y\n1,0\n2,1\n3,0\n4,1\n")
    mended = snakemake(tmp_path, output, config=config)
    assert mended.returncode == 0, mended.stderr
    assert not kept.exists()
