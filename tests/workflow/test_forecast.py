"""The forecast counts every job, its bytes are those of a run, and what cannot fit is refused."""

from __future__ import annotations

import copy
import io
import re
from collections import Counter, namedtuple
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
import yaml

import gpmcflow as gp
from gpmcflow.analysis import costs
from gpmcflow.analysis.costs import _fitted as fitted_numbers
from gpmcflow.cli import main
from gpmcflow.data import sources
from gpmcflow.errors import ResourceError
from gpmcflow.execution import disk, progress
from gpmcflow.execution.disk import human_bytes, require_disk
from gpmcflow.jobs import costs as context
from gpmcflow.jobs import costs as timing
from gpmcflow.jobs.study import PlannedJob, Stage
from gpmcflow.pipeline import forecast as forecast_module
from gpmcflow.pipeline.config import check_config
from gpmcflow.pipeline.forecast import (
    Cost,
    Forecast,
    JobForecast,
    _makespan,
    _peak_memory,
    forecast,
    forecast_table,
    require_fit,
)
from gpmcflow.pipeline.plan import planned_jobs
from gpmcflow.replications.rmhmc_ais import forecast as rmhmc_ais
from gpmcflow.replications.rmhmc_ais import runs as rmhmc_ais_study
from gpmcflow.replications.rmhmc_ais.runs import annealing_runs
from gpmcflow.replications.split_hmc import forecast as split_hmc
from gpmcflow.replications.split_hmc import runs as split_hmc_study
from gpmcflow.replications.stages import approximate
from gpmcflow.storage import write_results

ROOT = Path(__file__).parents[2]
SMALL = yaml.safe_load((ROOT / "tests" / "workflow" / "small.yaml").read_text())
START, PROCESS = 3.0, 200 * 2**20
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def config() -> dict:
    return check_config(copy.deepcopy(SMALL))


@pytest.fixture
def still(quick_measurements, monkeypatch):
    """And a study measures by itself in no time."""
    assert quick_measurements == (START, PROCESS)
    free = lambda context, job: context.single(0.0, 0)  # noqa: E731
    monkeypatch.setitem(split_hmc.COSTS, "split_hmc_illustrate", free)


def test_the_jobs_are_those_of_snakemake(tmp_path, config, snakemake):
    text = snakemake(tmp_path, "--dry-run", config=SMALL).stdout
    counts = {name: int(n) for name, n in re.findall(r"^(\w+) +(\d+)$", text, re.MULTILINE)}
    jobs = planned_jobs(config)
    assert Counter(job.rule for job in jobs) == {
        rule: n for rule, n in counts.items() if rule not in ("all", "total")
    }
    outputs = [path for job in jobs for path in job.outputs.values()]
    for job in jobs:
        assert all(path in text for path in job.outputs.values())
        assert set(job.needs) <= set(outputs)
    assert len(set(outputs)) == len(outputs)


def test_runs_of_a_method_and_their_state_folders():
    method = {"temperatures": [10, 300], "replicates": 2, "reverse": True}
    runs = dict(annealing_runs(method))
    assert runs["t0300_r1"] == 300
    assert runs["reverse_T10_r0"] == 10
    assert runs["reverse_T10_r0_start"] == 1
    assert len(runs) == 2 * 2 * 3
    assert annealing_runs({"kind": "importance_sampling", "replicates": 1}) == [("t0001_r0", 1)]


@pytest.mark.usefixtures("still")
def test_forecast_of_a_small_config(tmp_path, config):
    found = forecast(config, cores=2, folder=tmp_path)
    assert not found.unknown
    assert all(job.cost.seconds >= START for job in found.jobs)
    assert all(job.cost.memory >= PROCESS for job in found.jobs)
    assert found.disk == sum(job.cost.disk for job in found.jobs)
    longest = max(job.cost.seconds for job in found.jobs)
    assert longest < found.seconds < sum(job.cost.seconds for job in found.jobs)
    table = forecast_table(found)
    assert re.search(r"^split_hmc_chains +simulated +4 +1 ", table, re.MULTILINE)
    assert "on 2 cores" in table
    assert 0.0 < found.share <= 1.0
    assert not list(tmp_path.iterdir())
    require_fit(found)


@pytest.mark.usefixtures("still")
def test_a_terminal_shows_how_far_the_measurements_are(tmp_path, config, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(progress, "_SILENT", 0.0)
    n_jobs = len(forecast(config, folder=tmp_path).jobs)
    assert "\rforecast [....." in terminal.getvalue()
    assert f"{n_jobs}/{n_jobs} jobs" in terminal.getvalue()
    assert terminal.getvalue().endswith("\n")


@pytest.mark.usefixtures("still")
def test_time_of_chains_is_that_of_all_transitions(tmp_path, config, monkeypatch):
    each = 0.5
    monkeypatch.setattr(split_hmc, "seconds_per_transition", lambda program, n: each)
    monkeypatch.setattr(split_hmc, "timed", lambda work: (0.0, work()))
    monkeypatch.setattr(context, "segment_cost", lambda *sizes: (0.0, 1000, 100))
    chains = [job for job in planned_jobs(config) if job.rule == "split_hmc_chains"]
    stated = next(job for job in chains if job.method == "split")
    shared = START + split_hmc_study.TIMED_SECONDS + 10 * each
    cost = split_hmc.chains_cost(context.Context(config, tmp_path), stated)
    assert cost.seconds == pytest.approx(shared + 512 * each)
    tuned = next(job for job in chains if job.method == "hmc")
    settings = config["studies"]["split_hmc"]["problems"]["simulated"]["hmc"]
    settings |= {"step_size": None, "n_steps": 3}
    tuned = next(job for job in planned_jobs(config) if job.output == tuned.output)
    cost = split_hmc.chains_cost(context.Context(config, tmp_path), tuned)
    assert cost.seconds == pytest.approx(shared + (512 + 120) * each)
    config["execution"]["block_size"] = 1  # four blocks one after another, or side by side
    cost = split_hmc.chains_cost(context.Context(config, tmp_path), stated)
    assert cost.seconds == pytest.approx(shared + 4 * 512 * each)
    config["execution"]["workers"] = 4
    here = context.Context(config, tmp_path)
    here.workers = 4
    for forked, start in ((True, 0.0), (False, START)):
        monkeypatch.setattr("gpmcflow.jobs.costs.CAN_FORK", forked)
        seconds = split_hmc.chains_cost(here, stated).seconds
        assert seconds == pytest.approx(shared + start + 512 * each)
    # the job asks for one thread, and its forecast is that of one process whatever the config has
    alone = forecast_module._job(here, stated, split_hmc.chains_cost)
    assert (alone.cores, alone.cost.seconds) == (1, pytest.approx(shared + 4 * 512 * each))


@pytest.mark.usefixtures("still")
def test_a_job_takes_no_more_cores_than_there_are(tmp_path, config):
    """And deals its work to no more processes."""
    job = planned_jobs(config)[0]
    ask = replace(job.stage.ask, threads=lambda *_: 4)
    wide = replace(job, stage=replace(job.stage, ask=ask))
    for cores in (1, 3, 8):
        here = context.Context(config, tmp_path, cores=cores)
        found = forecast_module._job(here, wide, lambda at, job: at.single(12.0 / at.workers, 0))
        assert found.cores == here.workers == min(4, cores)
        assert found.cost.seconds == START + 12.0 / found.cores


def bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.usefixtures("still")
def test_disk_of_chains_is_what_a_run_takes(tmp_path, config, monkeypatch):
    place = tmp_path / "forecast"
    place.mkdir()
    here = context.Context(config, place)
    job = next(j for j in planned_jobs(config) if j.rule == "split_hmc_chains")
    problem = config["problems"]["simulated"]
    config["studies"]["split_hmc"] |= {"draws": 640, "chains": 8}
    config["execution"]["segment_length"] = 40
    monkeypatch.setattr(split_hmc_study, "TIMED_SECONDS", 0.0)
    config["studies"]["split_hmc"]["problems"]["simulated"][job.method]["draws"] = None
    job = next(j for j in planned_jobs(config) if j.output == job.output)
    method = job.settings["method"]
    assert (method["draws"], method["chains"]) == (640, 8)
    cost = split_hmc.chains_cost(here, job)
    dataset, execution = here.dataset("simulated"), config["execution"]
    fitted, _ = split_hmc_study.fit(dataset, problem, seed=1)
    run = tmp_path / "run"
    names = {"problem_name": "simulated", "method_name": job.method, "seed": 1}
    settings = {"execution": execution, "state_dir": run / "state"}
    tree, _ = split_hmc_study.chains(dataset, fitted, problem, method, **names, **settings)
    write_results(tree, run / "chains.nc")
    assert cost.disk == pytest.approx(bytes_below(run), rel=0.15)


@pytest.mark.usefixtures("still")
def test_disk_of_evidence_is_what_a_run_takes(tmp_path, config):
    method = config["studies"]["rmhmc_ais"]["methods"]["split_hmc_ep"]
    method |= {"particles": 64, "store_latents": True, "temperatures": [20]}
    config["execution"] |= {"segment_length": 10, "block_size": 32}
    place = tmp_path / "forecast"
    place.mkdir()
    here = context.Context(config, place)
    job = next(j for j in planned_jobs(config) if j.method == "split_hmc_ep")
    cost = rmhmc_ais.evidence_cost(here, job)
    dataset, problem = here.dataset("digits"), config["problems"]["digits"]
    approximation, _ = approximate(dataset, problem, seed=1)
    run = tmp_path / "run"
    names = {"problem_name": "digits", "method_name": "split_hmc_ep", "seed": 1}
    settings = {"execution": config["execution"], "state_dir": run / "state"}
    tree, _ = rmhmc_ais_study.evidence(dataset, approximation, problem, method, **names, **settings)
    write_results(tree, run / "evidence.nc")
    assert cost.disk == pytest.approx(bytes_below(run), rel=0.15)


@pytest.mark.usefixtures("still")
def test_methods_that_differ_in_their_ladders_share_a_pilot(tmp_path, config, monkeypatch):
    made = []
    real = rmhmc_ais.find_pilot
    counted = lambda *args, **names: made.append(args[3].n_particles) or real(*args, **names)  # noqa: E731
    monkeypatch.setattr(rmhmc_ais, "find_pilot", counted)
    methods = config["studies"]["rmhmc_ais"]["methods"]
    first = methods["split_hmc_ep"]
    methods["longer"] = first | {"temperatures": [40], "particles": 8}
    methods["few"] = first | {"tuning": {"n_particles": 4}}
    here = context.Context(config, tmp_path)
    for job in planned_jobs(config):
        if job.method in ("split_hmc_ep", "longer", "few"):
            rmhmc_ais.evidence_cost(here, job)
    assert sorted(made) == [4, rmhmc_ais.PILOT_PARTICLES]


@pytest.mark.usefixtures("still")
def test_data_that_are_not_here_are_unknown_and_not_fetched(tmp_path, config, monkeypatch):
    monkeypatch.delenv(sources.ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.setattr(context, "cache_folder", lambda: tmp_path / "nothing")
    monkeypatch.setattr(sources, "download", lambda file: pytest.fail("a download"))
    config["problems"]["digits"]["dataset"] = "usps-3v5"
    found = forecast(config, folder=tmp_path)
    unknown = Counter(job.job.rule for job in found.unknown)
    assert unknown["rmhmc_ais_evidence"] == 6
    assert unknown["prepare"] == 1
    assert "split_hmc_chains" not in unknown
    table = forecast_table(found)
    assert re.search(r"^rmhmc_ais_evidence +digits .* unknown", table, re.MULTILINE)
    assert f"unknown {len(found.unknown)} jobs" in table


def test_many_cases_are_extrapolated_from_few(monkeypatch):
    dataset = xr.Dataset({"X": (("case", "feature"), np.zeros((2000, 1)))})

    def timed(work):
        n = work().sizes["case"]
        assert n <= timing.MOST_CASES
        return 2.0 + 1e-7 * n**3, None

    monkeypatch.setattr(timing, "timed", timed)
    assert timing.seconds_by_cases(lambda data: data, dataset) == pytest.approx(2.0 + 800.0)


def planned(name: str, seconds: float, memory: int = 1, cores: int = 1, needs=()) -> JobForecast:
    stage = Stage("rule", "", {"output": name if "/" in name else f"results/{name}"})
    return JobForecast(
        PlannedJob(stage, {"files": [f"results/{need}" for need in needs]}, {}, {}),
        Cost(seconds, memory, 1),
        cores,
    )


def test_time_to_the_end_waits_for_inputs_and_cores():
    jobs = [
        planned("data", 1.0),
        planned("a", 4.0, needs=["data"]),
        planned("b", 3.0, needs=["data"]),
        planned("c", 3.0, needs=["data"], cores=2),
        planned("table", 1.0, needs=["a", "b", "c"]),
    ]
    assert _makespan(jobs, 1) == 12.0
    assert _makespan(jobs, 2) == 9.0
    assert _makespan(jobs, 8) == 6.0


def test_memory_is_that_of_the_largest_jobs_side_by_side():
    jobs = [planned("a", 1.0, 50), planned("b", 1.0, 30), planned("c", 1.0, 40, cores=2)]
    assert [_peak_memory(jobs, cores) for cores in (1, 2, 3, 4)] == [50, 80, 90, 120]


def sized(**changed) -> Forecast:
    fields = {
        "jobs": [planned("results/a.nc", 1.0, 10**9)],
        "cores": 1,
        "seconds": 1.0,
        "share": 1.0,
    }
    fields |= {"memory": 10**9, "memory_limit": 2 * 10**9, "disk": 1, "disk_free": 2, "folder": "."}
    return Forecast(**(fields | changed))


def test_memory_of_a_start_is_not_that_of_the_process_that_measures_it(monkeypatch):
    """A kernel may count the pages of whoever starts a program among those of the program."""
    monkeypatch.setattr(timing, "user_caches", lambda: None)
    held = np.ones(150_000_000)
    _, taken = timing.startup.__wrapped__()
    assert 5e7 < taken < held.nbytes / 2


def test_the_slowest_model_of_a_long_run_is_named():
    def fits(**seconds: float) -> list[JobForecast]:
        made = [planned(f"{name}.nc", s) for name, s in seconds.items()]
        for job, name in zip(made, seconds, strict=True):
            job.job.wildcards["model"] = name
        return made

    (line,) = sized(jobs=fits(lines=60.0, relevance=6000.0), seconds=6060.0).slowest
    assert line.startswith("of the models relevance takes most, 1.7 h, the others 60 s together")
    assert sized(jobs=fits(lines=60.0, relevance=300.0), seconds=360.0).slowest == []
    assert sized(jobs=fits(relevance=6000.0), seconds=6000.0).slowest == []


def test_memory_of_a_fit_by_basis_functions_grows_with_the_rows_and_the_blocks_of_levels():
    """A group of 5,000 levels beside an intercept: a matrix of rows by levels would be 3 GB."""
    X = np.arange(10_000.0)[:, None] % 5000
    covariance = gp.Group(1.0, columns=[0]) + gp.Constant(2.0)
    dense, few = (
        gp.GPModel(X[:n], np.ones(n), covariance, gp.Poisson(), structure=kind)
        for n, kind in ((200, "dense"), (10_000, "basis"))
    )
    assert fitted_numbers(few) == 300 * 10_000 + 10 * (5000 + 5000 + 1)
    assert fitted_numbers(dense) == 12 * 200**2


@pytest.mark.parametrize("likelihood", ["gaussian", "logistic"])
def test_what_is_told_of_each_column_takes_time_where_it_is_told(likelihood, monkeypatch):
    n_columns = 40
    places = SimpleNamespace(swept=[None] * n_columns, tables={})
    parts = {
        "gaussian": SimpleNamespace(conjugate=True),
        "logistic": SimpleNamespace(conjugate=False),
    }
    model = SimpleNamespace(likelihood=parts[likelihood], basis=None)
    unit = costs.Unit(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 5.0, 2, 900, 10, 10)
    monkeypatch.setattr(costs, "_places", lambda context, job: places)
    monkeypatch.setattr(costs, "_unit", lambda context, job: unit)
    monkeypatch.setattr(costs, "_model", lambda context, job: model)
    monkeypatch.setattr(costs, "integrates", lambda model: False)
    monkeypatch.setattr(costs, "suits", lambda model: False)
    monkeypatch.setattr(costs.fitting, "too_much_annealing", lambda model, settings: True)
    settings = {"evidence": {}, "quick": True, "data": {"test_fraction": 0.2}, "models": {"m": {}}}
    job = SimpleNamespace(problem="t", method="m")
    context = SimpleNamespace(
        config={"analyses": {"t": settings}},
        single=lambda seconds, array_bytes, disk=0: Cost(seconds, array_bytes, disk),
    )
    told = costs.COLUMN_SECONDS * n_columns
    assert costs.fit_cost(context, job).seconds == 0.0  # scores of the rows held out alone
    assert costs.answer_cost(context, job).seconds == pytest.approx(5.0 + told)
    assert costs.report_cost(context, job).seconds == pytest.approx(costs.REPORT_SECONDS + told)


def test_draws_of_few_cases_are_counted_in_fits(monkeypatch):
    """As `draw` makes them: pilots and chains; the evidence needs no other pilot.

    Of labels and counts with 10 hyperparameters, and of counts with three, whose proposals come in blocks.
    """
    x, X = np.linspace(0.0, 1.0, 12), np.random.default_rng(0).standard_normal((12, 9))
    labels = gp.GPModel(X, np.sign(x - 0.4), gp.Matern32(ard=True), gp.Probit())
    counts = gp.GPModel(X, np.round(9.0 * x), gp.Matern32(ard=True), gp.Poisson())
    few = gp.GPModel(x, np.round(9.0 * x), gp.Matern32(), gp.Poisson())
    sampling = {"chains": 2, "draws": 40, "warmup": 5}
    settings = {"sampling": sampling, "evidence": {"draws": 40, "route": "two_ended"}}
    context = SimpleNamespace(
        config={"analyses": {"t": settings}},
        execution={"scheduler": None},
        cores=1,
        single=lambda seconds, array_bytes, disk=0: Cost(seconds, array_bytes, disk),
    )
    job = SimpleNamespace(problem="t", method="m")
    seconds = {}
    for name, model in {"labels": labels, "counts": counts, "few": few}.items():
        monkeypatch.setattr(costs, "_model", lambda context, job, own=model: own)
        for unit in ("fit", "gradient"):
            own = dict.fromkeys(costs.Unit._fields, 0) | {unit: 1.0, "dim": model.dim}
            monkeypatch.setattr(costs, "_unit", lambda context, job, own=own: costs.Unit(**own))
            for kind in ("draw", "evidence"):
                cost = getattr(costs, f"{kind}_cost")(context, job)
                seconds[name, unit, kind] = cost.seconds
    draws = gp.sample(labels, gp.PseudoMarginalHMC(), n_chains=1, n_draws=40)
    fits = float(draws.sample_stats["n_fit"].mean())
    in_all = fits * 2 * 45 + float(draws["pilot"]["n_fit"])
    assert seconds["labels", "gradient", "draw"] == pytest.approx(in_all, rel=0.4)
    assert seconds["labels", "fit", "draw"] == costs.WARM * seconds["labels", "gradient", "draw"]
    assert seconds["counts", "gradient", "draw"] > 0.0
    for name in ("labels", "counts", "few"):
        assert {seconds[name, unit, "evidence"] for unit in ("fit", "gradient")} == {0.0}
    assert seconds["counts", "fit", "draw"] == 0.0
    draws = gp.sample(few, gp.PseudoMarginalIndependence(), n_chains=1, n_draws=40)
    proposals = 2 * 45 * costs.PROPOSAL_FITS
    warm = proposals + float(draws["pilot"]["n_fit"])
    assert seconds["few", "fit", "draw"] == pytest.approx(costs.WARM * warm, rel=0.4)
    assert seconds["few", "gradient", "draw"] < costs.CLIMBS[0] + costs.CLIMBS[1] * 4


def test_a_refusal_says_what_helps_the_job(monkeypatch):
    for rule, helps in (("analysis_fit", "structure: basis"), ("draw", "fewer chains per block")):
        monkeypatch.setattr(PlannedJob, "rule", rule)
        with pytest.raises(ResourceError, match=helps):
            require_fit(sized(memory_limit=500_000_000))


def test_what_cannot_fit_is_refused_with_the_numbers(monkeypatch):
    require_fit(sized())
    with pytest.raises(ResourceError, match=r"results/a.nc: needs 1\.0 GB, over the limit of 0\.5"):
        require_fit(sized(memory_limit=500_000_000))
    with pytest.raises(ResourceError, match=r"4 cores: .* need 3 GB .* limit of 2 GB"):
        require_fit(sized(memory=3 * 10**9, cores=4))
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda path: Usage(10**12, 0, 5 * 10**9))
    with pytest.raises(ResourceError, match=r"needs 6 GB in \., where 5 GB are free"):
        require_fit(sized(disk=6 * 10**9))


def test_disk_of_a_folder_that_is_not_there_yet(tmp_path, monkeypatch):
    asked = []

    def usage(path):
        asked.append(Path(path))
        if not Path(path).exists():
            raise FileNotFoundError(path)
        return Usage(0, 0, 10**9)

    monkeypatch.setattr(disk.shutil, "disk_usage", usage)
    require_disk(900_000_000, tmp_path / "a" / "b", "draws")
    assert asked[-1] == tmp_path
    with pytest.raises(ResourceError, match="draws: needs 1 GB") as raised:
        require_disk(10**9, tmp_path, "draws")
    assert "\n" not in str(raised.value)


def test_bytes_for_people():
    shown = [human_bytes(n) for n in (0, 999_000, 1_000_000, 12_345_678, 3e9, 2.5e12)]
    assert shown == ["0 kB", "999 kB", "1 MB", "12.3 MB", "3 GB", "2.5 TB"]


@pytest.mark.usefixtures("still")
def test_forecast_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small = copy.deepcopy(SMALL)
    del small["studies"]["rmhmc_ais"]
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(small))
    assert main(["forecast", "--configfile", str(path), "--cores", "3"]) == 0
    assert "on 3 cores" in capsys.readouterr().out
    path.write_text(yaml.safe_dump(small | {"memory_limit_gb": 0.1}))
    assert main(["forecast", "--configfile", str(path)]) == 1
    captured = capsys.readouterr()
    assert "time each" in captured.out
    assert "over the limit of 0.1 GB" in captured.err
    with pytest.raises(SystemExit):
        main(["forecast", "--cores", "0"])
