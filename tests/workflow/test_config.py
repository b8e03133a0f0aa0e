"""A wrong config ends in one line with path, what was found, what is allowed."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gpmcflow.errors import InputError, StorageError
from gpmcflow.jobs.stated_models import check_models, likelihood_of
from gpmcflow.likelihoods import Gaussian, Logistic, NegativeBinomial, Poisson, StudentT
from gpmcflow.pipeline.config import (
    check_config,
    portable,
)
from gpmcflow.pipeline.plan import count_runs
from gpmcflow.replications.split_hmc.study import methods_of
from gpmcflow.samplers import RandomWalkMetropolis
from gpmcflow.storage.input_files import load_yaml

ROOT = Path(__file__).parents[2]
SMALL = yaml.safe_load((ROOT / "tests" / "workflow" / "small.yaml").read_text())
METHODS = "studies.rmhmc_ais.methods"
SPLIT = "studies.split_hmc"

# (path, value, what the message has to say)
WRONG = {
    "unknown key": ("sede", 3, "key: unknown name 'sede'; did you mean 'seed'?"),
    "unknown key deep down": (
        f"{METHODS}.split_hmc_ep.ladders",
        "linear",
        f"{METHODS}.split_hmc_ep: key: unknown name 'ladders'; did you mean 'ladder'?",
    ),
    "key of another kind": (f"{METHODS}.is_ep.ladder", "linear", "unknown name 'ladder'"),
    "unknown data set": (
        "problems.digits.dataset",
        "digit-3v5",
        "problems.digits.dataset: unknown name 'digit-3v5'; did you mean 'digits-3v5'?",
    ),
    "unknown problem": ("studies.rmhmc_ais.problems", ["digit"], "did you mean 'digits'?"),
    "unknown problem of the map": ("studies.rmhmc_ais.map.problem", "x", "map.problem: unknown"),
    "unknown sampler": (
        f"{METHODS}.split_hmc_ep.sampler",
        "spli_hmc",
        "(allowed: hmc, latent_hmc, prec",
    ),
    "unknown ladder": (f"{METHODS}.split_hmc_ep.ladder", "geometrical", "mean 'geometric'?"),
    "unknown reference": (f"{METHODS}.is_ep.reference", "epp", "did you mean 'ep'?"),
    "unknown coordinates": (f"{METHODS}.split_hmc_ep.coordinates", "modes", "mean 'mode'?"),
    "unknown likelihood": ("problems.digits.likelihood", "probits", "did you mean 'probit'?"),
    "unknown select": ("problems.digits.hyperparameters.select", "maximun", "mean 'maximum'?"),
    "negative step size": (
        f"{METHODS}.hmc_prior.step_size",
        -0.2,
        f"{METHODS}.hmc_prior.step_size: found -0.2; allowed: a number above 0 or null",
    ),
    "half of a hand-set sampler": (f"{METHODS}.hmc_prior.n_steps", None, "n_steps together"),
    "no particles": (f"{METHODS}.is_ep.particles", 0, "found 0; allowed: a whole number at least"),
    "fraction of a particle": (f"{METHODS}.is_ep.particles", 8.0, "found 8.0; allowed: a whole"),
    "temperature 0": (f"{METHODS}.split_hmc_ep.temperatures", [5, 0], "temperatures[1]: found 0"),
    "temperature twice": (f"{METHODS}.split_hmc_ep.temperatures", [5, 5], "5 found twice"),
    "no temperatures": (f"{METHODS}.split_hmc_ep.temperatures", [], "nothing found"),
    "acceptance of 1": (
        f"{METHODS}.split_hmc_ep.tuning.target_acceptance",
        1,
        "found 1; allowed: a number above 0 and below 1",
    ),
    "negative seed": ("seed", -1, "seed: found -1; allowed: a whole number at least 0"),
    "true for a number": ("seed", True, "seed: found true; allowed: a whole number"),
    "not finite": ("problems.digits.hyperparameters.log_signal_sd", float("nan"), "found nan"),
    "text for a number": (f"{METHODS}.hmc_prior.step_size", "1e-3", "write 1.0e-3"),
    "missing key": ("problems.digits", {"dataset": "digits-3v5"}, "hyperparameters: missing"),
    "missing target": ("datasets", {"mine": {"csv": "x.csv"}}, "datasets.mine.target: missing"),
    "missing file": (
        "datasets",
        {"mine": {"csv": "nowhere.csv", "target": "y"}},
        "datasets.mine.csv: no file 'nowhere.csv'",
    ),
    "name of the catalogue": ("datasets", {"pima": {"synthetic": {}}}, "choose another one"),
    "name with a space": ("problems.my digits", {}, "name 'my digits' found; allowed: lower-case"),
    "number for a name": ("datasets", {3: {}}, "key 3 is not text"),
    "scheduler that is no address": ("execution.scheduler", "threads", "such as tcp://"),
    "noise for probit": (
        "problems.digits.likelihood",
        {"probit": {"noise_sd": 1.0}},
        "config: problems.digits.likelihood: probit: setting: unknown name 'noise_sd'",
    ),
    "misspelt noise": (
        "problems.digits.likelihood",
        {"gaussian": {"noise": 1.0}},
        "digits.likelihood: gaussian: setting: unknown name 'noise'; did you mean 'noise_sd'?",
    ),
    "negative noise": (
        "problems.digits.likelihood",
        {"gaussian": {"noise_sd": -1}},
        "digits.likelihood: Gaussian likelihood: noise_sd is -1.0; allowed: a positive number",
    ),
    "no trials": (
        "problems.digits.likelihood",
        "binomial",
        "binomial: setting 'trials' is missing; give it",
    ),
    "two likelihoods": (
        "problems.digits.likelihood",
        {"probit": {}, "logistic": {}},
        "digits.likelihood: found logistic, probit; give one of them",
    ),
    "likelihood of nothing": ("problems.digits.likelihood", {}, "likelihood: nothing found"),
    "settings that are none": (
        "problems.digits.likelihood",
        {"gaussian": 0.3},
        "digits.likelihood.gaussian: found 0.3; allowed: a mapping",
    ),
    "hyperprior of a model without": (
        "problems.digits.likelihood",
        {"student_t": {"df": {"distribution": "norm"}}},
        "digits.likelihood: student_t: scale is Hyperprior('norm', {'loc': -1.0, 'scale': 1.0}, "
        "scale='log'); allowed: a number, as it is held fixed with model: gp",
    ),
    "covariance of a model with another": (
        "problems.digits.covariance",
        "matern32()",
        "digits: key: unknown name 'covariance'",
    ),
    "linear problem for a GP study": (
        "studies.rmhmc_ais.problems",
        ["digits", "simulated"],
        "studies.rmhmc_ais.problems[1]: found 'simulated', which has model: linear; allowed: ",
    ),
    "linear problem for the map": (
        "studies.rmhmc_ais.map.problem",
        "simulated",
        "studies.rmhmc_ais.map.problem: found 'simulated', which has model: linear; allowed: ",
    ),
    "unknown model": ("problems.simulated.model", "linea", "did you mean 'linear'?"),
    "hyperparameters of a linear problem": (
        "problems.simulated.hyperparameters",
        {"select": "maximum"},
        "simulated: key: unknown name 'hyperparameters'",
    ),
    "prior of a GP problem": ("problems.digits.prior_sd", 2.0, "unknown name 'prior_sd'"),
    "prior without spread": ("problems.simulated.prior_sd", 0, "found 0; allowed: a number above"),
    "multinomial for a GP": (
        "problems.digits.likelihood",
        "multinomial",
        "problems.digits.likelihood: unknown name 'multinomial'",
    ),
    "one case": ("datasets.drawn.shahbaba_simulated.n", 1, "found 1; allowed: a whole number at"),
    "more cases than the paper's": (
        "datasets.drawn.shahbaba_simulated.n",
        10001,
        "datasets.drawn.shahbaba_simulated.n: found 10001 without a seed; allowed: at most 10000",
    ),
    "two ways to data": (
        "datasets.drawn.csv",
        "x.csv",
        "datasets.drawn: key: unknown name 'csv'",
    ),
    "two kinds of drawn data": (
        "datasets.drawn.coal",
        {},
        "datasets.drawn: found coal, shahbaba_simulated; give one of them",
    ),
    "unknown problem of the split study": (
        f"{SPLIT}.problems.simulate",
        {"hmc": {"sampler": "latent_hmc"}},
        f"{SPLIT}.problems: unknown name 'simulate'; did you mean 'simulated'?",
    ),
    "problem without methods": (f"{SPLIT}.problems.simulated", {}, "simulated: nothing found"),
    "method without a sampler": (
        f"{SPLIT}.problems.simulated.hmc",
        {"n_steps": 4},
        f"{SPLIT}.problems.simulated.hmc.sampler: missing; give one of latent_hmc, hmc,",
    ),
    "misspelt sampler with settings of its own": (
        f"{SPLIT}.problems.simulated.split",
        {"sampler": "splt_hmc", "flow": "fixed"},
        f"{SPLIT}.problems.simulated.split.sampler: unknown name 'splt_hmc'; did you mean",
    ),
    "setting of another sampler": (
        f"{SPLIT}.problems.simulated.hmc.flow",
        "fixed",
        f"{SPLIT}.problems.simulated.hmc: key: unknown name 'flow'",
    ),
    "flow of the data split": (
        f"{SPLIT}.problems.simulated.data_split.flow",
        "fixed",
        "data_split: key: unknown name 'flow'",
    ),
    "split of the Gaussian split": (
        f"{SPLIT}.problems.simulated.split.fraction",
        0.3,
        "split: key: unknown name 'fraction'",
    ),
    "steps of an independent proposal": (
        f"{SPLIT}.problems.simulated.independence.step_size",
        0.3,
        "independence: key: unknown name 'step_size'",
    ),
    "all of the cases": (
        f"{SPLIT}.problems.simulated.data_split.fraction",
        1.0,
        "found 1.0; allowed: a number above 0 and below 1",
    ),
    "unknown flow": (f"{SPLIT}.problems.simulated.split.flow", "fix", "did you mean 'fixed'?"),
    "no inner steps": (
        f"{SPLIT}.problems.simulated.data_split.inner_steps",
        0,
        "found 0; allowed: a whole number at least 1",
    ),
    "one chain": (f"{SPLIT}.chains", 1, "found 1; allowed: a whole number at least 2"),
    "too few draws": (f"{SPLIT}.draws", 511, "found 511; allowed: a whole number at least 512"),
    "GP problem of the split study": (
        f"{SPLIT}.problems.digits",
        {"hmc": {"sampler": "latent_hmc"}},
        f"{SPLIT}.problems: found 'digits', which has model: gp; allowed: problems with model: lin",
    ),
    "step size without steps": (
        f"{SPLIT}.problems.simulated.split.n_steps",
        None,
        f"{SPLIT}.problems.simulated.split.step_size: found without n_steps",
    ),
    "thinned to nothing": (
        f"{SPLIT}.thin",
        33,
        f"{SPLIT}.thin: found 33; allowed: what divides the draws of each method, and "
        "simulated.hmc has 512",
    ),
    "method by the name of the fit": (
        f"{SPLIT}.problems.simulated.fit",
        {"sampler": "latent_hmc"},
        f"{SPLIT}.problems.simulated.fit: the name of the file of the Gaussian fit",
    ),
    "list for a section": ("problems", [], "problems: found []; allowed: a mapping"),
}


def changed(path: str, value) -> dict:
    config = copy.deepcopy(SMALL)
    *parents, last = path.split(".")
    node = config
    for part in parents:
        node = node.setdefault(part, {})
    node[last] = value
    return config


@pytest.mark.parametrize("case", WRONG)
def test_wrong_value(case):
    path, value, message = WRONG[case]
    with pytest.raises(InputError) as raised:
        check_models(check_config(changed(path, value)))
    text = str(raised.value)
    assert message in text
    assert text.startswith("config: ")
    assert "\n" not in text


NORMAL = {"distribution": "norm", "parameters": {"loc": 1.0e-9}}


def joint(**problem) -> dict:
    """A config of one problem with hyperpriors."""
    stated = {"dataset": "ten-counts", "model": "joint", "likelihood": "poisson", **problem}
    return {
        "problems": {"mine": stated},
        "studies": {"surrogate_slice": {"problems": {"mine": {"surr-site": {}}}}},
    }


# problem with hyperpriors, what the message has to say after "config: problems.mine"
WRONG_MODELS = {
    "unknown covariance": (
        {"covariance": "linear() + mattern32(age)"},
        ".covariance: covariance: unknown name 'mattern32'; did you mean 'matern32'? (allowed: ar1",
    ),
    "unknown parameter": (
        {"covariance": "matern32(lenght_scale=2.0)"},
        ".covariance: matern32: parameter: unknown name 'lenght_scale'; did you mean 'length_scale'",
    ),
    "period without a value": (
        {"covariance": "periodic(age) + linear()"},
        ".covariance: Periodic: period is missing, and has no default; give a number in the units",
    ),
    "negative length": (
        {"covariance": "matern32(length_scale=-1)"},
        ".covariance: Matern32: length_scale is -1.0; allowed: a positive number",
    ),
    "unknown hyperprior": (
        {"covariance": "matern32(length_scale=wid)", "priors": {"wide": NORMAL}},
        ".covariance: hyperprior: unknown name 'wid'; did you mean 'wide'? (allowed: wide)",
    ),
    "no hyperpriors": (
        {"covariance": "matern32(length_scale=wide)"},
        ".covariance: hyperprior: unknown name 'wide'. (allowed: none)",
    ),
    "unknown distribution": (
        {"priors": {"wide": {"distribution": "nrm"}}},
        ".priors.wide: hyperprior: distribution: unknown name 'nrm'; did you mean",
    ),
    "unknown parameter of a distribution": (
        {"priors": {"wide": {"distribution": "norm", "parameters": {"lc": 1.0}}}},
        ".priors.wide: hyperprior norm: parameter: unknown name 'lc'; did you mean 'loc'?",
    ),
    "empty log-uniform": (
        {"priors": {"wide": {"distribution": "loguniform", "parameters": {"a": 3.0, "b": 1.0}}}},
        ".priors.wide: hyperprior loguniform: parameters {'a': 3.0, 'b': 1.0} are out",
    ),
    "name that no text can hold": ({"priors": {"a-b": NORMAL}}, ".priors: name 'a-b' found; allowed"),
    "distribution in the text": (
        {"covariance": "matern32(length_scale=prior('gamm', a=2.0))"},
        ".covariance: hyperprior: distribution: unknown name 'gamm'; did you mean 'gamma'?",
    ),
    "words for a number": (
        {"covariance": "matern32(length_scale=prior('gamma', a='two'))"},
        ".covariance: \"prior('gamma', a='two')\"; allowed: numbers for the parameters",
    ),
    "shared words": ({"covariance": "linear(sd=shared('s', 'x'))"}, ".covariance: parameter s: found 'x'"),
    "parameter given twice": (
        {"covariance": "linear(sd=1.0, sd=2.0)"}, ".covariance: linear: sd is given twice; give it once",
    ),
    "flag that is none": (
        {"covariance": "matern32(ard='no')"}, ".covariance: matern32: ard is 'no'; allowed: True or False",
    ),
    "name that is no text": (
        {"covariance": "matern32(name=3)"}, ".covariance: matern32: name is 3; allowed: a text in quotes",
    ),
    "parameter without its name": (
        {"covariance": "matern32(age, 2.0)"}, ".covariance: '2.0'; allowed: names of columns first",
    ),
    "difference": ({"covariance": "matern32() - linear()"}, ".covariance: 'matern32() - linear()'; allowed"),
    "name without a call": ({"covariance": "matern32"}, ".covariance: 'matern32'; allowed: calls of"),
    "no expression": (
        {"covariance": "matern32(age"}, ".covariance: 'matern32(age' cannot be read ('(' was never",
    ),
    "no text": ({"covariance": 3}, ".covariance: found 3; allowed: text"),
    "nothing": ({"covariance": ""}, ".covariance: nothing found"),
    "unknown hyperprior of the noise": (
        {"likelihood": {"gaussian": {"noise_sd": "wid"}}, "priors": {"wide": NORMAL}},
        ".likelihood: hyperprior: unknown name 'wid'; did you mean 'wide'?",
    ),
    "unknown likelihood": (
        {"likelihood": "negative-binomial"},
        ".likelihood: unknown name 'negative-binomial'; did you mean 'negative_binomial'?",
    ),
    "hyperprior of a constant": (
        {"likelihood": {"poisson": {"exposure": NORMAL}}}, ".likelihood: Poisson likelihood: exposure",
    ),
    "multinomial": ({"likelihood": "multinomial"}, ".likelihood: unknown name 'multinomial'; did"),
    "mean rate without counts": (
        {"likelihood": "student_t", "mean": "mean-rate"},
        ".mean: mean-rate with the student_t likelihood; allowed: with counts only; leave it out",
    ),
    "unknown hyperprior of the mean": (
        {"mean": "mean-rat"}, ".mean: hyperprior: unknown name 'mean-rat'; did you mean 'mean-rate'?",
    ),
    "unknown structure": ({"structure": "kroneker"}, ".structure: unknown name 'kroneker'; did you mean"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_MODELS)
def test_wrong_model(case):
    problem, message = WRONG_MODELS[case]
    with pytest.raises(InputError) as raised:
        check_models(check_config(joint(**problem)))
    text = str(raised.value)
    assert text.startswith(f"config: problems.mine{message}")
    assert "\n" not in text


@pytest.mark.parametrize(
    "text",
    [
        "open({path!r}, 'w')",
        "__import__('pathlib').Path({path!r}).touch()",
        "matern32(length_scale=open({path!r}, 'w'))",
        "matern32(open({path!r}, 'w'))",
        "matern32(*[open({path!r}, 'w')])",
        "[linear() for _ in [open({path!r}, 'w')]][0]",
        "(lambda: open({path!r}, 'w'))() + linear()",
        "linear(name=f'{{open({path!r}, 'w')}}')",
    ],
)
def test_nothing_in_a_text_is_executed(text, tmp_path):
    path = tmp_path / "executed"
    with pytest.raises(InputError, match=r"^config: problems\.mine\.covariance: "):
        check_models(check_config(joint(covariance=text.format(path=str(path)))))
    assert not path.exists()


def test_defaults_are_filled_in_by_kind():
    filled = check_config(SMALL)
    methods = filled["studies"]["rmhmc_ais"]["methods"]
    assert list(methods["is_ep"]) == ["kind", "reference", "particles", "replicates"]
    assert methods["split_hmc_ep"]["coordinates"] == "reference"
    assert methods["split_hmc_ep"]["tuning"]["target_acceptance"] == 0.8
    assert methods["split_hmc_ep"]["tuning"]["max_steps"] == 4
    assert filled["problems"]["digits"]["likelihood"] == "probit"
    assert filled["execution"]["workers"] == 1
    assert "select" not in filled["problems"]["digits"]["hyperparameters"]


def test_defaults_of_a_linear_problem_and_of_each_sampler():
    filled = check_config(SMALL)
    assert filled["problems"]["digits"]["model"] == "gp"
    linear = {"dataset": "drawn", "model": "linear", "likelihood": "logistic", "prior_sd": 5.0}
    assert filled["problems"]["simulated"] == linear
    assert filled["datasets"]["drawn"] == {"shahbaba_simulated": {"n": 200, "seed": None}}
    methods = filled["studies"]["split_hmc"]["problems"]["simulated"]
    shared = {"sampler", "gaussian", "draws", "chains"}
    steps = {"step_size", "n_steps", "target_acceptance"}
    for name, own in {
        "hmc": steps,
        "split": steps | {"flow"},
        "data_split": steps | {"inner_steps", "fraction", "order"},
        "independence": set(),
    }.items():
        assert set(methods[name]) == shared | own
        assert methods[name]["gaussian"] == "laplace"
    assert methods["hmc"]["step_size"] is None
    assert methods["hmc"]["target_acceptance"] == 0.65
    walk = changed(f"{SPLIT}.problems.simulated.hmc", {"sampler": "random_walk_metropolis"})
    walk = check_config(walk)["studies"]["split_hmc"]["problems"]["simulated"]["hmc"]
    assert set(walk) == shared | steps
    assert walk["target_acceptance"] == RandomWalkMetropolis.target_acceptance
    assert methods["split"]["flow"] == "exact"
    assert methods["data_split"]["order"] == "curvature"
    bare = changed(SPLIT, {"problems": {"simulated": {"hmc": {"sampler": "latent_hmc"}}}})
    study = check_config(bare)["studies"]["split_hmc"]
    assert [study[key] for key in ("chains", "draws", "thin")] == [16, 50000, 50]


def test_methods_of_the_split_study_carry_its_chains_draws_and_thin():
    methods = methods_of(check_config(SMALL)["studies"]["split_hmc"])["simulated"]
    assert {name: method["draws"] for name, method in methods.items()} == {
        "hmc": 512,
        "split": 512,
        "data_split": 512,
        "independence": 600,
    }
    assert all(method["chains"] == 4 and method["thin"] == 4 for method in methods.values())
    assert methods["split"]["step_size"] == 0.1


def test_a_run_is_a_method_on_a_problem():
    config = check_config(SMALL)
    assert count_runs(config) == 6 + 4 + 3 + 2
    config["studies"]["rmhmc_ais"]["problems"].append("other")
    assert count_runs(config) == 12 + 4 + 3 + 2


def test_multinomial_is_for_a_linear_model():
    filled = check_config(changed("problems.simulated.likelihood", "multinomial"))
    assert filled["problems"]["simulated"]["likelihood"] == "multinomial"


def test_the_given_config_is_left_alone():
    before = copy.deepcopy(SMALL)
    filled = check_config(SMALL)
    filled["studies"]["rmhmc_ais"]["problems"].append("other")
    assert before == SMALL


def test_order_of_keys_does_not_matter_to_snakemake():
    method = SMALL["studies"]["rmhmc_ais"]["methods"]["split_hmc_ep"]
    turned = changed(f"{METHODS}.split_hmc_ep", dict(reversed(method.items())))
    assert repr(check_config(turned)) == repr(check_config(SMALL))


@pytest.mark.parametrize(
    ("stated", "made"),
    [
        ("logistic", Logistic()),
        ("gaussian", Gaussian(1.0)),  # fixed hyperparameters have no hyperpriors
        ({"gaussian": {"noise_sd": 0.3}}, Gaussian(0.3)),
        ({"poisson": {}}, Poisson()),
        ("student_t", StudentT(1.0, 1.0)),
        ({"student_t": {"df": 4, "scale": 0.5}}, StudentT(0.5, 4.0)),
        ("negative_binomial", NegativeBinomial(1.0, 1.0)),
    ],
)
def test_likelihood_by_name_or_with_its_settings(stated, made):
    config = check_config(changed("problems.digits.likelihood", stated))
    check_models(config)
    problem = config["problems"]["digits"]
    assert problem["likelihood"] == stated
    assert likelihood_of(problem) == made


@pytest.mark.parametrize(
    "hyperparameters",
    [
        {"select": "maximum", "ard": True},
        {"select": "grid", "log_length_scale": [0.0, 1.0], "log_signal_sd": [0.0]},
        {"log_length_scale": [0.1, 0.2], "log_signal_sd": 1},
    ],
)
def test_hyperparameters_stated_or_found(hyperparameters):
    check_config(changed("problems.digits.hyperparameters", hyperparameters))


@pytest.mark.parametrize("content", ["seed: [", "- 1", "\xff"])
def test_file_that_is_no_config(tmp_path, content):
    path = tmp_path / "config.yaml"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(InputError, match=r"config\.yaml: "):
        load_yaml(path)


def test_file_that_is_missing(tmp_path):
    with pytest.raises(StorageError, match="No such file"):
        load_yaml(tmp_path / "none.yaml")


def test_portable_config_has_what_changes_the_numbers_and_nothing_else():
    config = check_config(SMALL)
    machine = {"data_dir": "/data", "memory_limit_gb": 2.0}
    execution = {"workers": 9, "scheduler": "tcp://a:1", "segment_length": 99}
    elsewhere = config | machine | {"execution": config["execution"] | execution}
    assert portable(elsewhere) == portable(config)
    assert portable(config)["execution"] == {"block_size": 8}
    assert set(config) - set(portable(config)) == set(machine)
    assert portable(config | {"seed": 4}) != portable(config)
    problems = {"workers": config["problems"]["digits"]}  # a name, not the key
    assert portable(config | {"problems": problems})["problems"] == problems


def test_what_the_snakefile_imports_is_light():
    code = (
        "import sys, gpmcflow.pipeline.config, gpmcflow.errors, gpmcflow.execution.code;"
        "import gpmcflow.pipeline.plan, gpmcflow.pipeline.parent;"
        "print([m for m in ('numpy', 'scipy', 'xarray', 'dask', 'numba') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_snakefile_imports_nothing_else():
    allowed = {
        "os", "snakemake.exceptions", "gpmcflow.errors",
        "gpmcflow.pipeline.config", "gpmcflow.pipeline.plan", "gpmcflow.analysis.study",
        "gpmcflow.jobs.job_errors", "gpmcflow.pipeline.parent",
    }  # fmt: skip
    files = [ROOT / "Snakefile", *(ROOT / "workflow" / "rules").rglob("*.smk")]
    lines = [line.split() for file in files for line in file.read_text().splitlines()]
    modules = {words[1] for words in lines if words and words[0] in ("import", "from")}
    once = {
        "gpmcflow.jobs.stated_models",
        "gpmcflow.storage.input_files",
    }  # in the main process only, see below
    assert modules == allowed | once


def test_models_are_read_in_the_main_process_only():
    lines = (ROOT / "Snakefile").read_text().splitlines()
    place = next(k for k, line in enumerate(lines) if "stated_models" in line)
    assert lines[place - 1].strip().startswith("if workflow.is_main_process:")


def test_a_wrong_model_ends_a_dry_run_before_any_job(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(joint(covariance="mattern32()")))
    command = [sys.executable, "-m", "snakemake", "--dry-run", "--cores", "1"]
    command += ["--snakefile", str(ROOT / "Snakefile"), "--directory", str(tmp_path)]
    command += ["--configfile", str(path)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SNAKEMAKE")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode != 0
    text = done.stdout + done.stderr
    assert "config: problems.mine.covariance: covariance: unknown name 'mattern32'" in text
    assert "surrogate_slice_replicate" not in text


def test_units_likelihoods_and_hyperpriors_of_an_analysis_are_kept(tmp_path):
    """What is named by the user is filled in as it stands, all the way down."""
    (tmp_path / "own.csv").write_text("a,y\n1,2\n")
    wide = {"distribution": "norm", "parameters": {"loc": 0.0, "scale": 2.0}, "scale": "log"}
    stated = {
        "data": {"csv": "own.csv", "target": "y"},
        "units": {"a": "km", "y (sum)": "mm/s"},
        "priors": {"wide": wide},
        "likelihood": {"student_t": {"df": 4.0, "scale": "wide"}},
        "models": {
            "m": {
                "covariance": "matern32(length_scale=own)",
                "priors": {"own": wide},
                "likelihood": {"gaussian": {"noise_sd": wide}},
            }
        },
    }
    filled = check_config(stated, folder=tmp_path, path=tmp_path / "own.yaml")["analyses"]["own"]
    assert filled["units"] == stated["units"]
    assert filled["priors"] == stated["priors"]
    assert filled["likelihood"] == stated["likelihood"]
    assert filled["models"]["m"]["priors"] == {"own": wide}
    assert filled["models"]["m"]["likelihood"] == stated["models"]["m"]["likelihood"]
