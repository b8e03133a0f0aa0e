"""The commands for own data, all problems of a config, names of analyses, and forecasts."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from gpmcflow.analysis import costs
from gpmcflow.analysis.costs import COSTS, Unit
from gpmcflow.analysis.study import ANALYSIS, FEWEST_DRAWS, TEST_FRACTION, expanded, jobs
from gpmcflow.cli import main
from gpmcflow.data.own_settings import TableSettings, read_settings
from gpmcflow.errors import InputError, InputErrors
from gpmcflow.evidence.two_ends import LEAST_DRAWS
from gpmcflow.jobs.costs import Context
from gpmcflow.pipeline import in_process
from gpmcflow.pipeline.config import check_config, config_problems
from gpmcflow.pipeline.forecast import forecast
from gpmcflow.pipeline.new import new
from gpmcflow.pipeline.run import check


def problems(path) -> list[str]:
    """What `check` finds wrong."""
    try:
        check(path, 1)
    except InputErrors as errors:
        return errors.problems
    except InputError as error:
        return [str(error)]
    return []


CONFIG = {
    "data": {"csv": "file.csv", "target": "ill"},
    "models": {"a": {"covariance": "matern32(age)"}, "b": {"covariance": "linear()"}},
}


pytestmark = pytest.mark.usefixtures("quick_measurements")


@pytest.fixture
def folder(tmp_path, monkeypatch, table):
    """The working directory, with a file of patients."""
    monkeypatch.chdir(tmp_path)
    table("binary", 24).to_csv("file.csv", index=False)
    return tmp_path


def written(config, name="mine.yaml"):
    Path(name).write_text(yaml.safe_dump(config), encoding="utf-8")
    return name


def test_new_writes_a_config_without_problems(folder):
    told = new("file.csv", "ill")
    assert told[-1] == "Wrote file.yaml. Read it, then: gpmcflow check file.yaml"
    assert problems("file.yaml") == []
    config = yaml.safe_load(Path("file.yaml").read_text())
    assert config["data"]["csv"] == "file.csv"
    assert config["data"]["target"] == "ill"


def test_new_does_not_overwrite(folder):
    Path("file.yaml").write_text("mine")
    with pytest.raises(InputError, match=r"^file\.yaml: is there already; .*--force$"):
        new("file.csv", "ill")
    assert Path("file.yaml").read_text() == "mine"
    new("file.csv", "ill", force=True)
    assert "ill" in Path("file.yaml").read_text()


@pytest.mark.parametrize(
    ("file", "config"),
    [("data.csv", "my-data.yaml"), ("my file (2).csv", "my-file-2.yaml"), ("_all.csv", "all.yaml"),
     ("é.csv", "analysis.yaml"), ("sub/deep.csv", "deep.yaml")],
)  # fmt: skip
def test_new_gives_names_that_results_can_have(folder, table, file, config):
    Path(file).parent.mkdir(exist_ok=True)
    table("binary", 24).to_csv(file, index=False)
    new(file, "ill")
    assert problems(config) == []


def test_problems_of_the_schema_come_at_once(folder):
    config = {
        "data": {"csv": "file.csv", "targt": "ill", "test_fraction": 2},
        "modles": {},
        "models": {"a": {"covariance": "linear()", "mean": [1]}},
    }
    lines = problems(written(config))
    assert "key: unknown name 'modles'; did you mean 'models'?" in lines[0]
    assert any("data: key: unknown name 'targt'; did you mean 'target'?" in line
               for line in lines)  # fmt: skip
    assert any(line.startswith("data.test_fraction: found 2; allowed") for line in lines)
    assert any(line.startswith("models.a.mean: found [1]") for line in lines)
    assert any(line.startswith("data.target: missing") for line in lines)
    assert len(lines) == 5
    assert not any("analyses" in line for line in lines)


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        (
            "outcome",
            "yes/no",
            "unknown name 'yes/no'. (allowed: binary, binomial, classes, counts,",
        ),
        ("coordinates", ["x"], 'found ["x"]; allowed: a list of 2, each text'),
        ("coordinates", ["x", "y", "z"], 'found ["x", "y", "z"]; allowed: a list of 2, each text'),
        ("coordinates", ["x", "x"], "'x' found twice; list each once"),
        ("levels", ["good"], 'found ["good"]; allowed: a list of 2 or more, each text or a number'),
        ("separator", "|", 'found \'|\'; allowed: ",", ";", tab or " " (one space or several)'),
        ("decimal", "·", 'found \'·\'; allowed: "." or ","'),
        ("csv", "", "nothing found; give one at least"),
        ("test_by", None, "found null; allowed: text"),
    ],
)
def test_the_schema_says_what_each_setting_of_a_table_may_be(key, value, line):
    config = {**CONFIG, "data": {"csv": "file.csv", "target": "ill", key: value}}
    (found,) = config_problems(config, path="mine.yaml")
    assert found.startswith(f"config: data.{key}: {line}")


@pytest.mark.parametrize("separator", [",", ";", "\t", "tab", "\\t"])
def test_separators_as_people_write_them(separator):
    config = {**CONFIG, "data": {"csv": "f", "target": "ill", "separator": separator}}
    assert config_problems(config, path="mine.yaml") == []
    read, problems = read_settings(config["data"], "data")
    assert (read.separator, problems) == (separator if len(separator) == 1 else "\t", [])


def test_a_config_without_models_says_so(folder):
    lines = config_problems({"data": {"csv": "file.csv", "target": "ill"}}, path="mine.yaml")
    assert lines == ["config: models: missing; give a mapping"]


def test_problems_of_the_file_come_at_once(folder):
    config = {
        **CONFIG,
        "data": {"csv": "file.csv", "target": "il", "drop": ["aeg"], "exposure": "x"},
    }
    lines = problems(written(config))
    assert lines[:3] == [
        'data.target: no column "il" in file.csv; did you mean "ill"?',
        'data.drop: no column "aeg" in file.csv; did you mean "age"?',
        'data.exposure: no column "x" in file.csv; there are: id, age, ward, smoker, day, ill',
    ]


def test_problems_of_each_model(folder, capsys):
    config = {**CONFIG, "models": {"a": {"covariance": "matern32(aeg)"}, "b": {"covariance": "linear(",},
                                   "c": {"covariance": "linear()", "likelihood": "poisson"},
                                   "d": {"covariance": "linear(age)"}}}  # fmt: skip
    lines = problems(written(config))
    assert [line.split(":")[0] for line in lines] == [
        "models.a.covariance", "models.b.covariance", "models.c.likelihood"
    ]  # fmt: skip
    assert "did you mean 'age'?" in lines[0]
    assert not any("\n" in line for line in lines)
    assert main(["run", "mine.yaml", "--quick"]) == 1
    assert [line.strip() for line in capsys.readouterr().err.splitlines()[1:]] == lines
    assert set(os.listdir(folder)) == {"file.csv", "mine.yaml"}  # no job has run


def test_a_file_that_is_not_there(folder):
    config = {**CONFIG, "data": {"csv": "flie.csv", "target": "ill"}}
    (line,) = problems(written(config))
    assert "no file 'flie.csv'; a relative path starts at" in line


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"csv": "file.csv", "table": "diabetes"}, "allowed: csv or table, one of them"),
        ({}, "allowed: csv or table, one of them"),
        ({"csv": "file.csv", "use": ["age"], "drop": ["day"]}, "found use and drop"),
    ],
)
def test_settings_that_contradict_each_other(folder, data, message):
    (line,) = problems(written({**CONFIG, "data": {"target": "ill", **data}}))
    assert message in line


def test_an_analysis_has_the_name_of_its_file(folder):
    found = expanded({**CONFIG, "seed": 4, "quick": True}, "some/where/my-file_2.yaml", "config")
    assert found == {"seed": 4, "analyses": {"my-file_2": {**CONFIG, "quick": True}}}
    assert list(expanded(CONFIG, None, "config")["analyses"]) == ["analysis"]
    several = {"analyses": {"a": CONFIG}}
    assert expanded(several, "x y.yaml", "config") == several
    filled = check_config(CONFIG, path="mine.yaml")
    sampling = {"chains": 4, "draws": 200, "warmup": 20, "every_model": False}
    assert filled["analyses"]["mine"]["sampling"] == sampling


@pytest.mark.parametrize("name", ["my file", "logs", "split_hmc", "-a", "data", "ü"])
def test_names_that_results_cannot_have(folder, name):
    with pytest.raises(InputError, match=r"^mine: the file is named .* rename it$"):
        expanded(CONFIG, f"{name}.yaml", "mine")
    if name in ("logs", "data"):
        with pytest.raises(InputError, match=rf"analyses\.{name}: the name of other results"):
            check_config({"analyses": {name: CONFIG}})


def test_an_analysis_at_the_top_and_several_do_not_go_together(folder):
    with pytest.raises(InputError, match="analyses beside data and models"):
        expanded({**CONFIG, "analyses": {}}, "mine.yaml", "mine")


def test_jobs_wait_for_what_they_need(folder):
    config = check_config({**CONFIG}, path="mine.yaml")
    planned = list(jobs(config))
    made = set()
    for job in planned:
        assert set(job.needs) <= made
        made |= set(job.outputs.values())
    assert [job.rule for job in planned].count("analysis_fit") == 2
    report = planned[-1]
    assert report.output == "results/mine/report.html"
    assert len(report.needs) == 4 + 4 * 2 + 2
    final = next(job for job in planned if job.rule == "analysis_final")
    every = [job for job in planned if job.wildcards.get("model") in ("a", "b")]
    shown = {path for job in every for path in job.outputs.values()}
    assert (
        len(shown) == 4 * 2
    )  # fit, draws, their summary, evidence: by which the shown model is chosen
    needed = {"results/mine/data.nc", *shown, "results/mine/final_posterior.nc"}
    assert set(final.needs) == needed
    quick = list(jobs(check_config({**CONFIG, "quick": True}, path="mine.yaml")))
    assert [job.rule for job in quick] == [
        "analysis_read", "analysis_fit", "analysis_fit", "analysis_final", "analysis_report"
    ]  # fmt: skip
    all_learnt = {**CONFIG, "data": {**CONFIG["data"], "test_fraction": 0.0}, "quick": True}
    assert TableSettings("file.csv", "ill").test_fraction == TEST_FRACTION
    none = list(jobs(check_config(all_learnt, path="mine.yaml")))
    assert "analysis_final" not in [job.rule for job in none]


def test_an_evidence_is_averaged_from_draws_where_there_are_enough(folder):
    assert FEWEST_DRAWS == LEAST_DRAWS
    for more, n_jobs in (
        ({}, 2),
        ({"evidence": {"route": "maximum"}}, 0),
        ({"quick": True}, 0),
        ({"sampling": {"draws": FEWEST_DRAWS}}, 2),
        ({"sampling": {"draws": FEWEST_DRAWS - 1}}, 0),
    ):
        config = check_config({**CONFIG, **more}, path="mine.yaml")
        planned = [job for job in jobs(config) if job.rule == "analysis_evidence"]
        assert len(planned) == n_jobs
        for job in planned:
            assert job.needs == ("results/mine/data.nc", f"results/mine/{job.method}/posterior.nc")


def test_a_forecast_counts_the_ladder_that_a_route_may_take(folder, table, monkeypatch):
    """Of counts, whose draws leave their pilot to the bridge: it costs less than they do, a ladder more.

    And a note says when a ladder is run. Draws of blocks have the weights of their proposals, and no bridge.
    """
    table("counts", 24).to_csv("file.csv", index=False)
    counts = {
        "data": {"csv": "file.csv", "target": "count", "exposure": "hours"},
        "models": {"a": {"covariance": "matern32(east)"}},
    }

    def cost(cores=1, **evidence):
        filled = check_config({**counts, "evidence": evidence}, path="mine.yaml")
        context = Context(filled, folder, folder, cores)
        # the same measured seconds whatever the route
        unit = Unit(*(1e-3,) * 3, 3e-4, *(1e-3,) * 3, dim=3, n=24, held=600, fitted=6000)
        context.once(("unit", "mine", "a"), lambda: unit)
        of_draws, of_evidence = (
            COSTS[job.rule](context, job)
            for job in jobs(filled)
            if job.method == "a" and job.rule in ("analysis_draw", "analysis_evidence")
        )
        return of_draws, of_evidence, context.notes

    blocks, none, _ = cost()
    monkeypatch.setattr(costs, "suits_independence", lambda model: False)
    draws, bridge, notes = cost()
    assert none.seconds < bridge.seconds < draws.seconds
    assert blocks.seconds != draws.seconds
    assert bridge.cores == 1
    assert not notes
    fewer = cost(draws=125)[1]
    start = cost(draws=100)[1].seconds - 100 * (bridge.seconds - fewer.seconds) / 75
    assert bridge.seconds - start == pytest.approx(4 * 200 * 3 * 3e-4, rel=1e-6)
    _, ladder, notes = cost(route="auto")
    assert ladder.seconds > 3 * bridge.seconds
    assert ladder.disk > 2 * bridge.disk
    assert "the most that route: auto takes" in notes[0]
    assert cost(route="ladder")[1] == ladder
    assert cost(cores=2, route="ladder")[1].cores == 2
    assert cost(cores=2)[1].cores == 1


@pytest.mark.parametrize("kind", ["binary", "many"])
def test_every_job_has_a_cost(folder, table, kind):
    table(kind, 24).to_csv("file.csv", index=False)
    target = {"binary": "ill", "many": "yield"}[kind]
    config = {**CONFIG, "data": {"csv": "file.csv", "target": target},
              "sampling": {"chains": 2, "draws": 200}}  # fmt: skip

    def costs(cores, **sampling):
        own = {**config, "sampling": {**config["sampling"], **sampling}}
        filled = check_config(own, path="mine.yaml")
        context = Context(filled, folder, folder, cores)
        planned = list(jobs(filled))
        assert {job.rule for job in planned} == set(COSTS) == set(ANALYSIS.load("costs"))
        return {(job.rule, job.method): COSTS[job.rule](context, job) for job in planned}

    one, two = costs(1), costs(2)
    for cost in one.values():
        assert np.isfinite(cost.seconds)
        assert cost.seconds > 0
        assert cost.memory > 0
        assert cost.cores == 1
    for model in "ab":
        assert two["analysis_draw", model].cores == 2
        assert two["analysis_draw", model].memory > one["analysis_draw", model].memory
        assert two["analysis_fit", model].cores == 1
    final, draws = one["analysis_final_draw", None], one["analysis_draw", "a"]
    assert final.seconds > draws.seconds  # of more rows
    assert final.memory > draws.memory
    many = costs(1, draws=200_000)
    assert many["analysis_draw", "a"].seconds > 2 * one["analysis_draw", "a"].seconds
    assert many["analysis_draw", "a"].disk > 500 * one["analysis_draw", "a"].disk / 2


def test_a_quick_run_starts_python_once(folder, quick_measurements, monkeypatch):
    config = check_config({**CONFIG, "quick": True}, path="mine.yaml")
    start, _ = quick_measurements
    alone = forecast(config, folder=folder)
    of_jobs = sum(each.cost.seconds for each in alone.jobs)
    assert alone.seconds == pytest.approx(start + of_jobs)
    monkeypatch.setattr(
        in_process, "usable", lambda: False
    )  # then each job is a Python of Snakemake's
    apart = forecast(config, folder=folder)
    more = apart.seconds - alone.seconds
    assert more == pytest.approx(start * (len(apart.jobs) - 1), abs=0.5 * start)


def test_check_prints_a_forecast_or_all_problems(folder, capsys):
    path = written({**CONFIG, "quick": True})
    assert main(["check", path, "--cores", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"mine\.yaml: no problems; about .* on 2 cores.*, [\d.]+ [MG]B", lines[0])
    assert lines[1] == "next: gpmcflow run mine.yaml"
    path = written(CONFIG)
    assert main(["check", path, "--cores", "2"]) == 0
    quick = "next: gpmcflow run mine.yaml --quick   # an answer in seconds; without --quick by Monte Carlo"
    assert capsys.readouterr().out.splitlines()[-1] == quick
    assert main(["check", written({**CONFIG, "data": {"csv": "file.csv", "target": "il"}})]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith('gpmcflow: mine.yaml: data.target: no column "il" in file.csv')
    wrong = {"csv": "file.csv", "target": "il", "drop": ["agee"]}
    assert main(["check", written({**CONFIG, "data": wrong})]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "gpmcflow: mine.yaml: 2 problems"
    assert [line[:8] for line in lines[1:]] == ["  data.t", "  data.d"]
    assert sorted(os.listdir()) == ["file.csv", "mine.yaml"]


def test_forecast_of_a_quick_run_has_no_draws(folder):
    config = check_config({**CONFIG, "quick": True}, path="mine.yaml")
    forecast_ = forecast(config)
    assert not {"analysis_draw", "analysis_summarise"} & {job.job.rule for job in forecast_.jobs}
    assert forecast_.seconds > 0


def test_paths_start_at_the_folder_of_the_config(folder, monkeypatch):
    Path("sub").mkdir()
    Path("file.csv").rename("sub/file.csv")
    written(CONFIG, "sub/mine.yaml")
    assert problems("sub/mine.yaml") == []
    assert len(pd.read_csv("sub/file.csv")) == 24


def test_clean_and_forecast_know_an_analysis_by_the_name_of_its_file(folder, monkeypatch, capsys):
    Path("sub/results").mkdir(parents=True)
    Path("file.csv").rename("sub/file.csv")
    path = written({**CONFIG, "quick": True}, "sub/patients.yaml")
    outputs = []
    nothing = lambda _, own: outputs.extend(own) or []  # noqa: E731
    monkeypatch.setattr("gpmcflow.monitor.clean.unneeded_state", nothing)
    assert main(["clean", "sub/results", "--configfile", path]) == 0
    assert "results/patients/a/fit.nc" in outputs
    assert main(["forecast", "--configfile", path]) == 0
    assert re.search(r"^analysis_fit +patients +2 ", capsys.readouterr().out, re.MULTILINE)


def test_a_file_below_results_is_no_job_of_ours(folder):
    Path("results").mkdir()
    Path("file.csv").rename("results/file.csv")
    data = {"csv": "results/file.csv", "target": "ill"}
    assert problems(written({**CONFIG, "data": data, "quick": True})) == []


def test_the_home_of_the_user_is_a_path_of_the_workflow_too(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    data = {"csv": "~/file.csv", "target": "ill"}
    config = check_config({**CONFIG, "data": data}, path="mine.yaml")
    first = next(iter(jobs(config)))
    assert first.inputs["files"] == [str(folder / "file.csv")]


def test_quick_is_for_a_file_of_one_analysis(folder, capsys):
    path = written({"analyses": {"mine": CONFIG}})
    for command in ("check", "run"):
        assert main([command, path, "--quick"]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert "--quick is for a file of one analysis" in line


@pytest.mark.parametrize("place", ["results", "results/mine"])
@pytest.mark.parametrize("command", ["check", "run"])
def test_results_that_are_a_file_are_told_before_anything_runs(folder, capsys, place, command):
    path = written({**CONFIG, "quick": True})
    Path(place).parent.mkdir(exist_ok=True)
    Path(place).write_text("mine")
    assert main([command, path]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{place}: results go into a folder of that name" in line
    assert Path(place).read_text() == "mine"


def test_what_stops_a_command_is_no_traceback(folder, monkeypatch, capsys):
    path = written({**CONFIG, "quick": True})

    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr("gpmcflow.pipeline.forecast.tempfile.TemporaryDirectory", refuse)
        assert main(["check", path]) == 1
    assert "cannot be written" in capsys.readouterr().err

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("gpmcflow.pipeline.forecast.forecast", interrupt)
    assert main(["check", path]) == 130
    assert capsys.readouterr().err == "gpmcflow: interrupted\n"
