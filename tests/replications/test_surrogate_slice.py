"""Runs of the surrogate-slice study: config to model and method, results files, parts."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr

from gpmcflow.approximations.independent_sites import (
    ConstantSites,
    LaplaceSites,
    ScaledSites,
    StandardSites,
    TaylorSites,
)
from gpmcflow.covariances.leaves import Group, Linear, Matern32, SquaredExponential
from gpmcflow.data import load_dataset
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import array_digest, code_digest
from gpmcflow.jobs.parts import part_name
from gpmcflow.jobs.problems import prepare_data
from gpmcflow.likelihoods import Gaussian, Poisson
from gpmcflow.models.gp_model import GPModel
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.pipeline.config import check_config
from gpmcflow.replications import parts
from gpmcflow.replications.surrogate_slice import runs as pace
from gpmcflow.replications.surrogate_slice import runs as study
from gpmcflow.replications.surrogate_slice.problems import (
    build_joint_model,
    published_names,
    representation_of,
    sampler_of,
    start_of,
)
from gpmcflow.replications.surrogate_slice.settings import (
    run_settings,
    shown_method,
    surrogate_slice_methods,
)
from gpmcflow.replications.surrogate_slice.tables import effective_size
from gpmcflow.samplers import SurrogateSlice
from gpmcflow.samplers.joint.hyperparameter_updates import MetropolisUpdate, SliceUpdate
from gpmcflow.samplers.sampling import sample
from gpmcflow.storage import load_results, write_results

EXECUTION = {"segment_length": 25}
UNIFORM = {"distribution": "loguniform", "parameters": {"a": 0.1, "b": 10.0}, "scale": "natural"}
WIDE = {
    "covariance": "squared_exponential(length_scale=wide, signal_sd=wide, ard=True)",
    "priors": {"wide": UNIFORM},
}
TOY = {"dataset": "ten-counts", "model": "joint", "likelihood": "poisson", **WIDE}


def checked(problem: dict | None = None, methods: dict | None = None, **section) -> dict:
    """A whole config of one problem, with its defaults."""
    shared = {"iterations": 40, "warmup": 10, **section}
    shared["problems"] = {"toy": methods or {"surr-site": {}}}
    return check_config(
        {"problems": {"toy": TOY | (problem or {})}, "studies": {"surrogate_slice": shared}}
    )


def methods_of(methods: dict, problem: dict | None = None, **section) -> dict:
    config = checked(problem, methods, **section)
    return surrogate_slice_methods(config["studies"]["surrogate_slice"])["toy"]


def chains(problem=None, method=None, name="surr-site", dataset=None, replicate=0, **more):
    config = checked(problem, {name: method or {}}, **more)
    found = surrogate_slice_methods(config["studies"]["surrogate_slice"])["toy"][name]
    data = load_dataset(TOY["dataset"]) if dataset is None else dataset
    names = {"problem_name": "toy", "method_name": name}
    problem, settings = config["problems"]["toy"], run_settings(found)
    return study.replicate_chains(
        data, replicate, problem, settings, **names, seed=5, execution=EXECUTION
    )


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(pace, "TIMED_SECONDS", 0.0)


# From config to methods


def test_methods_are_complete():
    given = {"surr-taylor": {}, "mh": {"representation": "fixed", "update": "metropolis"}}
    found = methods_of(given, iterations=80, chains=3, replicates=2)
    assert found["surr-taylor"] == {
        "representation": "surr-taylor", "sites": "taylor", "site_scale": 1.0, "update": "slice",
        "width": 1.0, "max_steps": 1, "elliptical": 10, "iterations": 80, "warmup": 10, "thin": 1,
        "chains": 3, "replicates": 2,
    }  # fmt: skip
    assert found["mh"]["sites"] is None
    assert (found["mh"]["scale"], found["mh"]["joint"]) == (0.1, False)
    own = methods_of({"post-site": {"iterations": 60, "chains": 1, "elliptical": 3}}, chains=3)
    assert [own["post-site"][k] for k in ("iterations", "chains", "elliptical")] == [60, 1, 3]
    assert "replicates" not in run_settings(own["post-site"])
    joint = methods_of({"joint-split": {}, "own": {"representation": "joint-split", "warmup": 4}})
    assert run_settings(joint["joint-split"]) == {
        "representation": "joint-split", "sites": None, "update": None, "elliptical": None,
        "iterations": 40, "warmup": 0, "thin": 1, "chains": 1,
    }  # fmt: skip
    assert joint["own"]["warmup"] == 4
    assert (shown_method(found), shown_method({"a": 0, "surr-site": 0})) == (
        "surr-taylor", "surr-site",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({}, StandardSites()),
        ({"site_scale": 100.0}, ScaledSites(100.0, StandardSites())),
        ({"sites": "laplace"}, LaplaceSites()),
        ({"sites": "taylor", "site_scale": 0.5}, ScaledSites(0.5, TaylorSites())),
        ({"site_variance": 0.7}, ConstantSites(0.7, StandardSites())),
    ],
)
def test_sites_of_a_method(settings, rule):
    method = methods_of({"post-site": settings})["post-site"]
    assert representation_of(method).rule == rule


def test_updates_of_a_method():
    given = {"a": {"width": 0.05, "max_steps": 8}, "b": {"update": "metropolis", "scale": 2.0}}
    found = methods_of({k: v | {"representation": "surr-site"} for k, v in given.items()})
    assert sampler_of(found["a"]).update == SliceUpdate(0.05, 8)
    assert sampler_of(found["b"]).update == MetropolisUpdate(2.0)


# From config to model


def model_of(dataset=None, **problem):
    data = load_dataset(TOY["dataset"]) if dataset is None else dataset
    return build_joint_model(data, "toy", checked(problem)["problems"]["toy"])


def priors(model):
    """Free parameters of a model with their hyperpriors."""
    return dict(zip(model.names, model.parameters.free_priors, strict=True))


def grid(rows: int = 4, columns: int = 3) -> xr.Dataset:
    """Counts on a grid row by row."""
    axes = np.meshgrid(np.arange(float(rows)), np.arange(float(columns)), indexing="ij")
    return xr.Dataset(
        {
            "X": (("case", "feature"), np.stack(axes, -1).reshape(-1, 2)),
            "y": ("case", np.arange(float(rows * columns)) % 4),
        },
        {"feature": ["age", "bmi"]},
        {"checksum": "c", "name": "grid"},
    )


def test_defaults_of_a_count_problem():
    stated = {"dataset": "ten-counts", "model": "joint", "likelihood": "poisson"}
    problem = check_config(
        {
            "problems": {"toy": stated},
            "studies": {"surrogate_slice": {"problems": {"toy": {"surr-site": {}}}}},
        }
    )["problems"]["toy"]
    model = build_joint_model(load_dataset("ten-counts"), "toy", problem)
    centre = np.log(2.3)  # the mean count
    assert model.names == ("length_scale", "signal_sd", "mean")
    assert isinstance(model.covariance, SquaredExponential)
    assert model.covariance.ard
    for name in ("length_scale", "signal_sd"):
        assert priors(model)[name] == Hyperprior("norm", {"loc": 0.0, "scale": 1.0})
    assert priors(model)["mean"].support == pytest.approx((centre - 3.0, centre + 3.0))
    assert (model.jitter, model.kronecker) == (1e-6, False)


def test_likelihoods_of_a_problem():
    fixed = model_of(likelihood={"gaussian": {"noise_sd": 0.4}})
    assert fixed.likelihood == Gaussian(0.4)
    assert fixed.names == ("length_scale", "signal_sd")
    free = model_of(likelihood="gaussian")  # by its name alone: the default hyperprior
    assert priors(free)["noise_sd"] == Hyperprior("norm", {"loc": -1.0, "scale": 1.0})
    named = model_of(likelihood={"student_t": {"scale": "wide", "df": 4.0}})
    assert priors(named)["scale"] == Hyperprior(**UNIFORM)
    assert named.parameters.natural(named.prior_median())["df"] == pytest.approx(4.0)
    own = model_of(likelihood={"negative_binomial": {"size": UNIFORM, "exposure": 2.0}})
    assert own.names == ("length_scale", "signal_sd", "mean", "size")
    assert priors(own)["size"] == Hyperprior(**UNIFORM)
    assert own.likelihood.exposure == 2.0


def test_a_covariance_is_the_one_the_library_makes_of_its_text():
    text = "matern32(age, length_scale=wide) * group('bmi') + linear(age, sd=5.0)"
    model = model_of(grid(), covariance=text)
    wide = Hyperprior(**UNIFORM)
    expected = GPModel(
        grid()["X"], grid()["y"].values,
        Matern32(wide, columns="age") * Group(columns="bmi") + Linear(5.0, columns="age"),
        Poisson(), priors(model)["mean"], jitter=1e-6,
    )  # fmt: skip
    assert model.digest() == expected.digest()
    assert priors(model)["matern32.length_scale"] == wide


def test_means_of_a_problem():
    assert model_of(mean=0.1).mean == 0.1
    assert model_of(mean="wide").mean == model_of(mean=UNIFORM).mean == Hyperprior(**UNIFORM)
    assert model_of(mean="mean-rate").mean == model_of().mean != model_of(mean="wide").mean
    assert model_of(likelihood="gaussian").mean == 0.0


def test_structures_of_a_problem():
    assert model_of(grid(), structure="kronecker").kronecker
    assert model_of(grid()).kronecker  # auto
    assert not model_of(grid(), structure="dense").kronecker
    assert not model_of().kronecker


def test_starts_are_in_natural_units():
    start = {"length_scale": 0.5, "signal_sd": 2.0, "mean": -0.3}
    problem = checked({"start": start})["problems"]["toy"]
    theta = start_of(model_of(), "toy", problem)
    np.testing.assert_allclose(theta, [np.log(0.5), np.log(2.0), -0.3])
    assert start_of(model_of(), "toy", checked()["problems"]["toy"]) is None


def test_log_uniform_is_the_density_of_scipy():
    prior = priors(model_of())["length_scale"]
    for theta in (-2.2, 0.0, 1.7):  # of the log: uniform between log 0.1 and log 10
        assert prior.log_density(theta) == pytest.approx(-np.log(np.log(100.0)), rel=1e-12)
    assert prior.log_density(2.31) == -np.inf


def test_any_distribution_and_fixed_numbers():
    gamma = {"distribution": "gamma", "parameters": {"a": 2.0, "scale": 0.3}, "scale": "natural"}
    text = "squared_exponential(length_scale=gamma, signal_sd=0.5)"
    model = model_of(covariance=text, priors={"gamma": gamma}, mean=0.1)
    assert priors(model) == {
        "length_scale": Hyperprior("gamma", {"a": 2.0, "scale": 0.3}, scale="natural")
    }
    assert model.parameters.natural(np.zeros(1)) == pytest.approx(
        {"length_scale": 1.0, "signal_sd": 0.5, "mean": 0.1}
    )


@pytest.mark.parametrize(
    ("names", "published"),
    [
        (("length_scale", "signal_sd", "mean"), ["log_length", "log_signal_sd", "offset"]),
        (
            ("length_scale[x]", "length_scale[y]", "signal_sd"),
            ["log_length_1", "log_length_2", "log_signal_sd"],
        ),
        (
            ("matern32.length_scale", "linear.sd", "noise_sd"),
            ["log_matern32.length_scale", "log_linear.sd", "log_noise_sd"],
        ),
    ],
)
def test_names_of_the_paper(names, published):
    assert published_names(names) == published


BAD = {
    "negative counts": ({}, {}, lambda d: d.assign(y=d["y"] - 1), "toy.likelihood: data set ten-counts: "),
    "counts that are not whole": ({}, {}, lambda d: d.assign(y=d["y"] + 0.5), "y[0] is 3.5; allowed: counts"),
    "labels for probit": ({"likelihood": "probit"}, {}, None, "toy.likelihood: data set ten-counts: probit"),
    "rate without counts": (
        {"likelihood": "gaussian", "mean": "mean-rate"}, {}, None, "toy.mean: mean-rate with the gaussian",
    ),
    "no counts at all": ({}, {}, lambda d: d.assign(y=0 * d["y"]), "toy.mean: all counts are 0"),
    "duplicates without jitter": (
        {"jitter": 0.0}, {}, lambda d: d.assign(X=0 * d["X"]), "toy.jitter: cases 0 and 1 have the same",
    ),
    "no grid of two": (
        {"structure": "kronecker"}, {}, None, "toy.structure: Kronecker grid: 1 columns; allowed: 2",
    ),
    "no grid": (
        {"structure": "kronecker"}, {}, lambda d: grid(5, 5).isel(case=slice(0, 25, 6)),
        "toy.structure: Kronecker grid: 5 cases at 5 x 5 distinct coordinates are no grid",
    ),
    "no product on a grid": (
        {"structure": "kronecker", "covariance": "matern32()"}, {}, lambda d: grid(),
        "toy.structure: Kronecker grid: matern32",
    ),
    "unknown column": (
        {"covariance": "matern32(agee) + linear(bmi)"}, {}, lambda d: grid(),
        "toy.covariance: Matern32: column: unknown name 'agee'; did you mean 'age'? (allowed: age, bmi)",
    ),
    "lengths too many": (
        {"covariance": "matern32(age, bmi, length_scale=(1.0, 2.0, 3.0))"}, {}, lambda d: grid(),
        "toy.covariance: Matern32: length_scale has 3 entries for 2 columns",
    ),
    "periodic of two columns": (
        {"covariance": "periodic(period=2.0)"}, {}, lambda d: grid(),
        "toy.covariance: Periodic: 2 columns; allowed: one",
    ),
    "no variance at a case": (
        {"covariance": "linear()"}, {}, lambda d: d.assign(X=0 * d["X"]),
        "toy.covariance: the prior variance of case 0 is 0",
    ),
    "one name for two": (
        {"covariance": "matern32(name='a') + linear(name='a') + matern32(name='a')"}, {}, None,
        "toy.covariance: parameters: ",
    ),
    "start outside the hyperprior": (
        {"start": {"length_scale": 50.0, "signal_sd": 1.0, "mean": 0.0}}, {}, None,
        "toy.start: start of length_scale is 3.91",
    ),
    "start of half the parameters": (
        {"start": {"length_scale": 1.0}}, {}, None, "toy.start: no value for signal_sd, mean; give one",
    ),
    "start of an old name": (
        {"start": {"log_length": 0.0}}, {}, None,
        "toy.start: parameter: unknown name 'log_length'; did you mean 'length_scale'?",
    ),
    "start below zero": (
        {"start": {"length_scale": -1.0, "signal_sd": 1.0, "mean": 0.0}}, {}, None,
        "toy.start: length_scale is -1.0; allowed: a positive number",
    ),
    "start that does not factorise": (
        {"jitter": 0.0, "start": {"length_scale": 9.9, "signal_sd": 1.0, "mean": 0.0}}, {}, None,
        "toy.jitter: the covariance is not positive definite at the start",
    ),
    "trials fewer than the counts": (
        {"likelihood": {"binomial": {"trials": 2}}}, {}, None,
        "toy.likelihood: data set ten-counts: binomial likelihood: y[",
    ),
    "misspelt rate": ({"mean": "mean-rat"}, {}, None, "toy.mean: hyperprior: unknown name 'mean-rat'; did"),
    "nothing unknown": (
        {"covariance": "matern32(length_scale=0.5, signal_sd=1.0)", "mean": 0.1}, {}, None,
        "toy: no parameter has a hyperprior",
    ),
    "not ergodic": (
        {}, {"elliptical": 0, "representation": "post-site"}, None, "surr-site.elliptical: found 0 with",
    ),
    "expansion of a logistic": (
        {"likelihood": "logistic"}, {"sites": "taylor"}, None, "surr-site.sites: found taylor with",
    ),
    "thinning": ({}, {"thin": 3}, None, "surr-site.thin: found 3; allowed: what divides iterations"),
    "sites of none": (
        {}, {"representation": "fixed", "sites": "laplace"}, None, "surr-site.sites: found with",
    ),
    "two variances": (
        {}, {"site_scale": 2.0, "site_variance": 1.0}, None, "surr-site.site_variance: found with",
    ),
    "sites of joint split HMC": (
        {}, {"representation": "joint-split", "sites": "laplace"}, None,
        "surr-site.sites: found with representation joint-split, which sets itself up; leave it out",
    ),
    "elliptical updates of joint split HMC": (
        {}, {"representation": "joint-split", "elliptical": 0}, None, "surr-site.elliptical: found with",
    ),
    "random walk of joint split HMC": (
        {}, {"representation": "joint-split", "update": "metropolis"}, None,
        "surr-site.update: found with",
    ),
    "width of joint split HMC": (
        {}, {"representation": "joint-split", "width": 0.5}, None, "surr-site.width: found with",
    ),
    "hyperprior of joint split HMC without a density at the start": (
        {"start": {"length_scale": 50.0, "signal_sd": 1.0, "mean": 0.0}},
        {"representation": "joint-split"}, None, "toy.start: start of length_scale is 3.91",
    ),
    "setting of the other update": (
        {}, {"update": "metropolis", "width": 1.0}, None, "surr-site: key: unknown name 'width'",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("problem", "method", "change", "text"), BAD.values(), ids=BAD)
def test_wrong_input_ends_in_one_line_with_the_key(problem, method, change, text):
    data = load_dataset(TOY["dataset"])
    with pytest.raises((InputError, NumericalError)) as caught:
        chains(problem, method, dataset=change(data) if change else data)
    message = str(caught.value)
    assert message.startswith("config: ")
    assert text in message
    assert len(message.splitlines()) == 1


def test_method_that_names_no_representation():
    with pytest.raises(InputError, match=r"toy\.mine\.representation: missing, and the method's"):
        checked(None, {"mine": {}})


def test_problems_of_other_studies_are_refused():
    linear = {"dataset": "breast-cancer", "model": "linear"}
    with pytest.raises(InputError, match="allowed: problems with model: joint"):
        check_config(
            {
                "problems": {"p": linear},
                "studies": {"surrogate_slice": {"problems": {"p": {"fixed": {}}}}},
            }
        )


# Runs


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Results folder with two replicates, thinned, and their trees."""
    folder = tmp_path_factory.mktemp("results")
    trees = []
    for k in range(2):
        tree, facts = chains(method={"thin": 5, "chains": 2}, replicate=k)
        path = folder / "surrogate_slice" / "toy" / "surr-site" / f"replicate_{k}.nc"
        write_results(tree, path, sidecar=facts)
        trees.append(tree)
    return folder, trees


def test_chains_are_those_of_the_library(finished):
    model, method = model_of(), methods_of({"surr-site": {"thin": 5, "chains": 2}})["surr-site"]
    sampler = SurrogateSlice(representation_of(method), sampler_of(method).update)
    expected = sample(
        model, sampler, n_chains=2, n_draws=8, n_warmup=2, thin=5, seed=5,
        key=("surrogate_slice", "toy", "surr-site", 0),
    )  # fmt: skip
    tree = finished[1][0]
    np.testing.assert_array_equal(tree["posterior/theta"], expected["posterior/theta"])
    np.testing.assert_array_equal(tree["trace/n_cov"], expected["trace/n_cov"])
    assert tree["trace"].sizes["iteration"] == 40
    other = finished[1][1]["posterior/theta"].values
    assert not np.isclose(other, tree["posterior/theta"].values).any()  # streams of their own


def test_attributes_tell_where_a_file_comes_from(finished):
    tree = load_results(finished[0] / "surrogate_slice/toy/surr-site/replicate_1.nc")
    settings = json.loads(tree.attrs["settings"])
    assert [tree.attrs[k] for k in ("study", "problem", "method")] == [
        "surrogate_slice", "toy", "surr-site",
    ]  # fmt: skip
    assert settings["replicate"] == 1
    assert settings["method"]["thin"] == 5
    assert settings["problem"]["dataset"] == "ten-counts"
    for node in tree.subtree:
        assert node.attrs["settings"] == tree.attrs["settings"]
        assert node.attrs["data_checksum"] == load_dataset("ten-counts").attrs["checksum"]
    assert tree["constant_data"]["feature"].values.tolist() == ["time"]


def test_intensity_is_of_the_kept_latents():
    exposed = {"likelihood": {"poisson": {"exposure": 2.0}}}
    for offset in ({}, {"mean": 0.5}):
        tree, _ = chains(exposed | offset, {"chains": 2})
        latent, theta = tree["posterior/latent"].values, tree["posterior/theta"].values
        c = 0.5 if offset else theta[..., 2:]
        rates = 2.0 * np.exp(latent + c).reshape(-1, 10)
        np.testing.assert_allclose(tree["intensity/mean"], rates.mean(0), rtol=1e-12)
        np.testing.assert_allclose(tree["intensity/lower"], np.quantile(rates, 0.05, axis=0))
        np.testing.assert_allclose(tree["intensity/upper"], np.quantile(rates, 0.95, axis=0))
    plain, _ = chains({"likelihood": "gaussian"})
    assert "intensity" not in plain


def test_events_of_a_point_pattern_are_kept():
    data = load_dataset("simulated-cox", n=15, seed=1)
    tree, _ = chains(dataset=data)
    events = tree["observed_data/events"]
    assert events.dims == ("event", "feature")
    np.testing.assert_array_equal(events.values[:, 0], data["event_time"].values)
    assert "events" not in chains()[0]["observed_data"]


def test_seconds_of_an_iteration(monkeypatch):
    _, facts = chains({"structure": "kronecker"}, {"chains": 2}, dataset=grid())
    seconds = facts["seconds"]
    assert 0 < seconds["iteration"] < 0.1
    assert seconds["total"] == pytest.approx(seconds["iteration"] * 40 * 2)
    assert seconds["dense_iteration"] > 0
    monkeypatch.setattr(study, "LARGEST_DENSE", 11)
    assert chains(dataset=grid())[1]["seconds"]["dense_iteration"] is None
    assert chains()[1]["seconds"]["dense_iteration"] is None


def test_memory_is_asked_for_before_the_work():
    from gpmcflow.errors import ResourceError

    config = checked()
    method = run_settings(methods_of({"surr-site": {}})["surr-site"])
    with pytest.raises(ResourceError, match="toy: surr-site"):
        study.replicate_chains(
            load_dataset("ten-counts"), 0, config["problems"]["toy"], method,
            problem_name="toy", method_name="surr-site", seed=5, execution=EXECUTION,
            memory_limit_gb=7e-6,
        )  # fmt: skip


def test_a_csv_file_of_ones_own(tmp_path):
    rng = np.random.default_rng(4)
    x = np.sort(rng.uniform(0.0, 40.0, 18))
    rows = [f"{a:.6f},{int(v)}" for a, v in zip(x, rng.poisson(3.0, 18), strict=True)]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(["hours,calls", *rows]) + "\n")
    data = prepare_data("mine", {"csv": str(path), "target": "calls", "task": "counts"})
    tree, _ = chains(dataset=data, method={"chains": 2}, name="post-site")
    assert tree["posterior"]["theta_dim"].values.tolist() == [
        "log_length", "log_signal_sd", "offset",
    ]  # fmt: skip
    assert np.isfinite(tree["posterior/latent"].values).all()
    assert tree.attrs["data_checksum"] == data.attrs["checksum"]


# Parts


def test_parts_hold_the_estimates_of_each_chain(finished, tmp_path):
    folder, trees = finished
    written = parts.collect("surrogate_slice", folder, tmp_path / "parts.jsonl")
    assert list(map(part_name, written)) == [f"toy.surr-site.replicate_{k}" for k in range(2)]
    part, tree = parts.read_parts(tmp_path / "parts.jsonl")[0], trees[0]
    assert (part["kind"], part["replicate"]) == ("replicate", 0)
    values = part["values"]
    assert values["n_cases"] == 10
    assert values["names"] == ["log_length", "log_signal_sd", "offset"]
    assert set(part["settings"]) == {"problem", "method"}
    trace = tree["trace"]
    assert len(values["chains"]) == 2
    for k, chain in enumerate(values["chains"]):
        T, theta = trace["complete_log_likelihood"].values[k], trace["theta"].values[k]
        assert chain["iterations"] == 40
        assert chain["ess"] == pytest.approx(effective_size(T))
        assert chain["theta_ess"] == pytest.approx([effective_size(theta[:, j]) for j in range(3)])
        for name in ("n_hyp", "n_cov", "n_lik"):
            # what is summed over a draw's iterations is the sum over the trace
            assert chain[name] == trace[name].values[k].sum()
            assert chain[name] == tree["sample_stats"][name].values[k].sum()
        assert (chain["T_mean"], chain["T_sd"]) == pytest.approx((T.mean(), T.std(ddof=1)))
        assert chain["theta_sd"] == pytest.approx(theta.std(0, ddof=1))
        seconds = part["facts"]["seconds"]["iteration"]
        assert chain["seconds"] == chain["dense_seconds"] == pytest.approx(40 * seconds)


@pytest.mark.parametrize("thin", [1, 5])
def test_iterations_are_timed_in_the_frame_of_the_pilot(monkeypatch, thin):
    seen, made = [], pace.transition
    tree, _ = chains(method={"chains": 2, "thin": thin}, name="joint-split")

    def recorded(rng, target, state, step, n_steps, jitter):
        seen.append((target.center, target.density.sites, state.theta, step, n_steps))
        return made(rng, target, state, step, n_steps, jitter)

    monkeypatch.setattr(pace, "transition", recorded)
    method = run_settings(methods_of({"joint-split": {"chains": 2, "thin": thin}})["joint-split"])
    pace.seconds_per_iteration(model_of(), method, tree)
    theta, pilot = tree["posterior/theta"].values, tree["pilot"].to_dataset()
    owners = [
        int(np.flatnonzero(np.isclose(theta, at, rtol=1e-9).all(-1).any(1))[0])
        for _, _, at, _, _ in seen
    ]
    assert set(owners) == {0, 1}
    for center, sites, _, step, n_steps in seen:
        np.testing.assert_array_equal(center, pilot["center"])
        np.testing.assert_array_equal(sites.precision, pilot["precision"])
        assert (step, n_steps) == (pilot["step_size"].values[-1], pilot["n_steps"].values[-1])


@pytest.mark.parametrize("thin", [1, 5])
def test_parts_of_joint_split_hmc(tmp_path, thin):
    """A gradient is one setting of theta, one covariance and one likelihood; pilots are apart."""
    given = {"thin": thin, "chains": 2, "representation": "joint-split"}
    tree, facts = chains(method=given, name="joint-split")
    write_results(
        tree, tmp_path / "surrogate_slice" / "toy" / "joint-split" / "replicate_0.nc", sidecar=facts
    )
    (part,) = parts.collect("surrogate_slice", tmp_path, tmp_path / "parts.jsonl")
    pilot = tree["pilot"].to_dataset()
    assert part["facts"]["code"] == code_digest(study.__name__)
    steps = int(pilot["n_steps"].values[-1])
    # a gradient costs the same in all chains, in their beginnings and in the pilot that two of them share
    each = part["facts"]["seconds"]["iteration"] / steps
    shared = each * (0.5 * pilot["n_gradient"].values.sum() + 60 * steps)
    for k, chain in enumerate(part["values"]["chains"]):
        assert chain["n_hyp"] == chain["n_cov"] == chain["n_lik"] == 40 * steps
        assert chain["n_failed"] == int(tree["sample_stats"]["diverging"].values[k].sum())
        assert chain["seconds"] == chain["dense_seconds"] == pytest.approx(each * chain["n_lik"])
        assert chain["pilot_seconds"] == pytest.approx(shared)
        latents = tree["posterior/latent"].values[k]
        sizes = [effective_size(latents[:, i]) for i in range(10)]
        assert chain["latent_ess"] == pytest.approx(min(sizes))
    total = sum(chain["seconds"] for chain in part["values"]["chains"])
    assert total == pytest.approx(part["facts"]["seconds"]["total"])
    assert part["values"]["chains"][0]["iterations"] == 40
    assert part["facts"]["seconds"]["dense_iteration"] is None


def test_thinning_changes_no_number_of_the_parts(tmp_path):
    found = []
    for thin in (1, 5):
        tree, facts = chains(method={"thin": thin})
        path = tmp_path / f"{thin}" / "surrogate_slice" / "toy" / "surr-site" / "replicate_0.nc"
        write_results(
            tree, path, sidecar=facts | {"seconds": {"iteration": 1.0, "dense_iteration": 2.0}}
        )
        (part,) = parts.collect("surrogate_slice", tmp_path / f"{thin}", tmp_path / "parts.jsonl")
        found.append(part["values"]["chains"])
    full, thinned = (each[0].pop("latent_ess") for each in found)  # of the kept values only
    assert 0.0 < thinned <= 8.0
    assert full != thinned
    assert found[0] == found[1]
    assert found[0][0]["dense_seconds"] == 80.0


def test_same_numbers_after_a_stop(tmp_path):
    """Chains cut into other segments are the same, bit for bit."""
    config = checked(None, {"surr-site": {}})
    method = run_settings(methods_of({"surr-site": {}})["surr-site"])
    digests = set()
    for length in (1, 25):
        tree, _ = study.replicate_chains(
            load_dataset("ten-counts"), 0, config["problems"]["toy"], method,
            problem_name="toy", method_name="surr-site", seed=5,
            execution={"segment_length": length}, state_dir=tmp_path / f"{length}",
        )  # fmt: skip
        posterior = tree["posterior"].to_dataset()
        digests.add(array_digest({name: posterior[name].values for name in posterior}))
    assert len(digests) == 1
