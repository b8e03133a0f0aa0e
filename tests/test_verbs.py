"""Misuse of the five verbs is refused in one line that says what to do; others read what `sample` gives."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from itertools import product

import arviz_base
import arviz_stats
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import gpmcflow as gp
from gpmcflow.approximations.stand_ins import SubsetOfData
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import Execution
from gpmcflow.models.log_density import FunctionDensity
from gpmcflow.models.regression_density import RegressionDensity
from gpmcflow.samplers import SAMPLERS, UnivariateSlice
from gpmcflow.samplers.adaptation.step_sizes import TuningSettings
from tests.each import for_each

X, NEW = np.linspace(0.0, 1.0, 6), [0.2, 0.7]
TINY = {"n_chains": 2, "n_draws": 3, "n_warmup": 0}
WIDE = gp.Hyperprior.log_uniform(0.1, 5.0)
LATENT = gp.HMC(0.3, 2)
JOINT = gp.SurrogateSlice("prior-white", n_elliptical=1)


def gp_of(n=6, length=0.5, likelihood=None):
    x = np.linspace(0.0, 1.0, n)
    covariance = gp.SquaredExponential(length, 1.0)
    return gp.GPModel(x, np.sin(5.0 * x), covariance, likelihood or gp.Gaussian(0.3))


def table(**columns):
    return pd.DataFrame(columns)


PAIR = table(a=[0.2, 0.7, 0.9], b=[0.1, 0.3, 0.0])


def square(theta):
    return -0.5 * theta @ theta


@pytest.fixture(scope="module")
def things():
    """What can be given to a verb, by name."""
    free, fixed = gp_of(length=WIDE), gp_of()
    density, fit = RegressionDensity(free), gp.approximate(fixed)
    two = gp.GPModel(
        table(a=X, b=np.cos(3.0 * X)),
        np.sin(5.0 * X),
        gp.Matern32((0.5, 1.5), 1.0),
        gp.Gaussian(0.3),
    )
    return {
        "an array": X,
        "a text": "model",
        "nothing": None,
        "a number": 3,
        "a Dataset": xr.Dataset({"y": ("case", X)}),
        "an empty tree": xr.DataTree(),
        "an empty list": [],
        "a likelihood": gp.Gaussian(0.3),
        "a class": gp.GPModel,
        "a free model": free,
        "a list of models": [free],
        "a fixed model": fixed,
        "a latent model": fixed.at(),
        "a density": density,
        "densities": [density, SubsetOfData(free, [0, 3])],
        "a density and an array": [density, X],
        "a fit": fit,
        "sites": fit.sites,
        "draws": gp.sample(free, JOINT, **TINY),
        "draws at fixed theta": gp.sample(fit, LATENT, **TINY),
        "draws of a density": gp.sample(density, UnivariateSlice(), start=[0.0], **TINY),
        "draws of a function": gp.sample(
            FunctionDensity(square, ("a", "b")), UnivariateSlice(), start=[0.0, 1.0], **TINY
        ),
        "draws of a design": gp.sample(
            gp.LatentGaussianModel.from_design(np.eye(3), 1.0, gp.Probit(), np.ones(3)),
            LATENT,
            **TINY,
        ),
        "two columns": gp.approximate(two),
    }


def refused(call, *words, kind=InputError):
    """The call raises an error of one line, with these words in it."""
    with pytest.raises(kind) as found:
        call()
    message = str(found.value)
    assert "\n" not in message
    assert len(message) < 700
    for word in words:
        assert word in message, message


# -- the wrong kind of object ----------------------------------------------------------------------

NO_MODEL = ("an array", "a text", "nothing", "a number", "a Dataset", "an empty tree", "an empty list",
            "a likelihood", "a class", "a list of models")  # fmt: skip
DRAWS = ("draws", "draws at fixed theta", "draws of a density")
DENSITIES = ("a density", "densities", "a density and an array")
VERBS = {
    "approximate": (lambda thing: gp.approximate(thing), (*DRAWS, *DENSITIES, "a fit", "sites")),
    "sample": (lambda thing: gp.sample(thing, **TINY), (*DRAWS, "a density and an array")),
    "log_evidence": (lambda thing: gp.log_evidence(thing, n_particles=4), (*DRAWS, *DENSITIES)),
    "predict": (lambda thing: gp.predict(thing, NEW), ("a latent model", *DENSITIES)),
    "simulate": (
        lambda thing: gp.simulate(thing),
        ("a latent model", *DENSITIES, "a fit", "sites"),
    ),
}
WRONG = [(verb, thing) for verb, (_, more) in VERBS.items() for thing in (*NO_MODEL, *more)]


@for_each("verb, thing", WRONG)
def test_wrong_objects_are_named_and_what_is_allowed(things, verb, thing):
    call, found = VERBS[verb][0], things[thing]
    words = (f"found {type(found).__name__}; allowed: ", "a GPModel")
    if thing == "an empty tree" and verb in ("predict", "simulate"):
        words = ("these draws do not tell their model; give draws of sample from a GPModel",)
    refused(lambda: call(found), f"{verb}: ", *words)


@pytest.mark.parametrize("verb", ["predict", "simulate"])
@pytest.mark.parametrize("thing", ["draws of a function", "draws of a design"])
def test_draws_that_tell_no_model(things, verb, thing):
    refused(
        lambda: VERBS[verb][0](things[thing]),
        f"{verb}: these draws do not tell their model; give draws of sample from a GPModel",
    )


def test_a_free_model_has_no_evidence(things):
    free = things["a free model"]
    for route in (
        "annealing",
        "importance_sampling",
        "parallel_tempering",
        "sequential_monte_carlo",
    ):
        refused(
            lambda route=route: gp.log_evidence(free, route),
            "log_evidence: length_scale are free; give approximate(model)", "model.at(theta)",
        )  # fmt: skip


def test_a_function_of_theta_needs_a_start(things):
    own = FunctionDensity(square, ("a", "b"))
    refused(
        lambda: gp.sample(own, **TINY),
        "sample: a log density tells no start; give start, (2,): a, b",
    )
    refused(lambda: gp.sample([own, own], **TINY), "give start, (2,): a, b")


def test_densities_of_a_model_need_no_start(things):
    refused(lambda: gp.sample(things["densities"], **TINY), "UnivariateSlice: found 2 densities")


# -- samplers --------------------------------------------------------------------------------------

KINDS = {
    "a free model": ("hmc", "HMC is a sampler of latents, found GPModel; give it model.at(theta)"),
    "a fixed model": ("joint_split_hmc", "found GPModel; give it a GPModel with free parameters"),
    "a latent model": ("surrogate_slice", "give it a GPModel with free parameters, or take one of"),
    "a fit": ("univariate_slice", "found Approximation; give it a log density"),
    "a density": ("rmhmc", "found RegressionDensity; give it model.at(theta)"),
    "densities": ("joint_split_hmc", "found list; give it a GPModel with free parameters"),
}


@pytest.mark.parametrize("thing", KINDS)
def test_samplers_of_another_kind(things, thing):
    name, words = KINDS[thing]
    for sampler in (name, SAMPLERS[name]()):
        call = lambda sampler=sampler: gp.sample(things[thing], sampler, start=[0.0], **TINY)  # noqa: E731
        refused(call, f"sample: {SAMPLERS[name].__name__} is a sampler of ", words)


def test_a_sampler_of_a_density_for_a_model_without_parameters(things):
    words = "UnivariateSlice is a sampler of density, found GPModel"
    for sampler in ("univariate_slice", UnivariateSlice()):
        refused(lambda sampler=sampler: gp.sample(things["a fixed model"], sampler, **TINY), words)


def test_by_name_is_as_by_class(things):
    """Of a GPModel a sampler of a density takes the hyperparameters."""
    free = things["a free model"]
    one, other = (
        gp.sample(free, sampler, **TINY) for sampler in ("univariate_slice", UnivariateSlice())
    )
    xr.testing.assert_identical(one.posterior.to_dataset(), other.posterior.to_dataset())
    assert set(one.posterior.data_vars) == {"theta", *free.names}


@pytest.mark.parametrize(
    ("found", "near"),
    [("joint_split_hcm", "joint_split_hmc"), ("surogate_slice", "surrogate_slice"), ("HMC", "hmc")],
)
def test_a_misspelt_sampler_gets_the_nearest_name(things, found, near):
    for thing in ("a free model", "a fit", "a density"):
        if near == "hmc":
            words = (f"sampler: unknown name {found!r}", "allowed: collapsed_scale")
        else:
            words = (f"sampler: unknown name {found!r}; did you mean {near!r}?",)
        refused(lambda thing=thing: gp.sample(things[thing], found, start=[0.0], **TINY), *words)


@pytest.mark.parametrize("sampler", [gp.HMC, 3, ["hmc"], len])
def test_what_is_no_sampler(things, sampler):
    refused(
        lambda: gp.sample(things["a fit"], sampler, **TINY), "sample: sampler is ", "or its name"
    )
    refused(
        lambda: gp.log_evidence(things["a fit"], "annealing", sampler), "log_evidence: sampler is "
    )


@pytest.mark.parametrize("sampler", ["joint_split_hmc", gp.JointSplitHMC(), UnivariateSlice()])
def test_evidence_takes_samplers_of_latents(things, sampler):
    for route in ("annealing", "parallel_tempering", "sequential_monte_carlo"):
        refused(
            lambda route=route: gp.log_evidence(things["a fit"], route, sampler),
            "log_evidence: sampler is ", "allowed: samplers of latents", "preconditioned_split_hmc",
        )  # fmt: skip


def test_tuning_is_for_latents(things):
    for sampler in (gp.JointSplitHMC(), JOINT, "joint_split_hmc", None):
        refused(
            lambda sampler=sampler: gp.sample(
                things["a free model"], sampler, tuning=TuningSettings(), **TINY
            ),
            "sample: tuning has no use with ", "leave it out",
        )  # fmt: skip
    refused(
        lambda: gp.sample(things["a density"], tuning=TuningSettings(), start=[0.0], **TINY),
        "tuning has no use with UnivariateSlice",
    )
    for wrong in (3, {"rounds": 3}):
        refused(
            lambda wrong=wrong: gp.sample(things["a fit"], tuning=wrong, **TINY),
            f"sample: tuning is {wrong!r}; allowed: TuningSettings",
        )


# -- names and sizes -------------------------------------------------------------------------------


def test_unknown_routes_methods_and_settings(things):
    fit = things["a fit"]
    cases = {
        "log_evidence: route: unknown name 'anealing'; did you mean 'annealing'?": lambda: (
            gp.log_evidence(fit, "anealing")
        ),
        "allowed: annealing, importance_sampling, ": lambda: gp.log_evidence(fit, None),
        "approximate: method: unknown name 'laplce'; did you mean 'laplace'?": lambda: (
            gp.approximate(things["a free model"], "laplce")
        ),
        "ladder: unknown name 'adaptve'; did you mean 'adaptive'?": lambda: gp.log_evidence(
            fit, ladder="adaptve"
        ),
        "setting of annealing: unknown name 'n_particle'; did you mean 'n_particles'?": lambda: (
            gp.log_evidence(fit, n_particle=8)
        ),
        "setting of importance_sampling: unknown name 'n_particles'; did you mean 'n_draws'?": lambda: (
            gp.log_evidence(fit, "importance_sampling", n_particles=8)
        ),
        "unseen: unknown name 'nw'; did you mean 'new'?": lambda: gp.predict(fit, NEW, unseen="nw"),
    }
    for words, call in cases.items():
        refused(call, words)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *product(["n_chains", "n_draws", "thin"], [-1, 2.5, "many", None]),
        *product(["n_warmup"], [-1, 2.5, "many"]),  # None: what the sampler drops by default
    ],
)
def test_counts(things, name, value):
    settings = TINY | {name: value}
    refused(
        lambda: gp.sample(things["a fit"], LATENT, **settings),
        f"sample: {name} is {value!r}; allowed",
    )


@pytest.mark.parametrize("value", [0, 2.5, "many"])
def test_replicates_are_counted(things, value):
    refused(lambda: gp.simulate(things["draws"], n_draws=value), f"simulate: n_draws is {value!r}")


@pytest.mark.parametrize("value", [2, {"workers": 2}, "threads"])
def test_execution(things, value):
    for call in (gp.sample, gp.log_evidence):
        refused(
            lambda call=call: call(things["a fit"], execution=value),
            f"execution is {value!r}; allowed: Execution(workers=2), say",
        )
    found = gp.sample(things["a fit"], LATENT, execution=Execution(block_size=1), **TINY)
    assert found.posterior.sizes["chain"] == 2


# -- starts ----------------------------------------------------------------------------------------


def test_starts_of_another_model(things):
    """Draws of a model with more cases."""
    more = gp_of(n=9, length=WIDE)
    draws = gp.sample(more, JOINT, **TINY)
    latents, fit, free = draws.posterior["latent"], things["a fit"], things["a free model"]
    refused(
        lambda: gp.sample(fit, LATENT, start=latents[0].values, **TINY),
        "sample: start of latents has shape (3, 9); allowed: finite numbers (6,) or (pool, 6)",
    )
    refused(
        lambda: gp.sample(free, JOINT, start={"latent": latents[0].values}, **TINY),
        "sample: start of latent has shape (3, 9); allowed: finite numbers (6,) or (pool, 6)",
    )
    refused(
        lambda: gp.sample(free, JOINT, start=latents[0].values, **TINY),
        "sample: start of theta has shape (3, 9); allowed: finite numbers (1,) or (pool, 1)",
    )
    refused(
        lambda: gp.sample(things["a density"], start=np.zeros(9), **TINY),
        "sample: start of length_scale has shape (9,); allowed: finite numbers (1,) or (pool, 1)",
    )


NO_ROWS = ["prior", np.zeros((1, 2, 6)), 1.0]
NO_ROWS_BY_NAME = {"a fit": {"latent": np.zeros((1, 2, 6))}, "a density": {"theta": 1.0}}


@pytest.mark.parametrize(
    ("thing", "start"), [*product(NO_ROWS_BY_NAME, NO_ROWS), *NO_ROWS_BY_NAME.items()]
)
def test_starts_that_are_no_rows_of_numbers(things, thing, start):
    refused(
        lambda: gp.sample(things[thing], start=start, **TINY),
        "sample: start of ",
        "; allowed: finite numbers (",
    )


def test_starts_by_name(things):
    free = things["a free model"]
    cases = {
        "unknown name 'length'; did you mean 'length_scale'?": {"length": 1.0},
        "length_scale is -1; allowed: a positive number": {"length_scale": -1},
        "has no density; start between": {"length_scale": 100.0},
        "values are {'length_scale': 'a'}; allowed: a number for": {"length_scale": "a"},
        "sample: start of theta is a str; allowed: finite numbers (1,) or (pool, 1)": "prior",
    }
    for words, start in cases.items():
        refused(lambda start=start: gp.sample(free, JOINT, start=start, **TINY), words)
    latent = {"latent": np.zeros(6)}
    refused(
        lambda: gp.sample(things["a density"], start=latent, **TINY),
        "unknown name 'latent'; did you mean 'length_scale'?",
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # squares overflow there
def test_a_start_without_a_density(things):
    words = "is -inf at [100.0]; move the start"
    refused(
        lambda: gp.sample(things["a density"], start=[100.0], **TINY), words, kind=NumericalError
    )
    nowhere = np.full(6, 1e200)
    call = lambda: gp.sample(things["a fit"], LATENT, start=nowhere, **TINY)  # noqa: E731
    refused(call, "no finite likelihood; check the prior's scale", kind=NumericalError)


# -- predictions -----------------------------------------------------------------------------------


def test_columns_in_another_order_and_more_of_them(things):
    fit = things["two columns"]
    expected = gp.predict(fit, PAIR)
    for other in (PAIR[["b", "a"]], PAIR.assign(c=7.0), PAIR.to_numpy()):
        xr.testing.assert_identical(gp.predict(fit, other), expected)
    swapped = gp.predict(fit, PAIR.rename(columns={"a": "b", "b": "a"}))
    assert np.abs(swapped.latent_mean - expected.latent_mean).max() > 0.01


def test_columns_that_are_not_those_of_the_model(things):
    fit = things["two columns"]
    cases = {
        "new inputs: column: unknown name 'b'. (allowed: a, c)": PAIR.rename(columns={"b": "c"}),
        "new inputs: column: unknown name 'b'. (allowed: a)": PAIR[["a"]],
        "new inputs have 3 columns; allowed: 2: a, b": np.zeros((4, 3)),
        "new inputs have 1 columns; allowed: 2: a, b": NEW,
        "column 'a', row 0 is 'x'; give finite numbers": table(a=["x"], b=[1.0]),
        "row 1 is nan; give finite numbers": np.array([[0.0, 1.0], [0.0, np.nan]]),
        "allowed: (n, p) or (n,)": None,
    }
    for words, new in cases.items():
        refused(lambda new=new: gp.predict(fit, new), words)


def test_units_of_likelihoods_that_have_none(things):
    counts = gp.GPModel(X, np.ones(6), gp.SquaredExponential(0.5, 1.0), gp.Poisson(2.0))
    fit = gp.approximate(counts)
    for source, name, kind in (
        (things["a fit"], "exposure", "gaussian"),
        (fit, "trials", "poisson"),
    ):
        refused(
            lambda source=source, name=name: gp.predict(source, NEW, **{name: 2.0}),
            f"predict: the {kind} likelihood has no {name}; leave it out",
        )
    for wrong in (-1.0, [1.0, np.nan]):
        refused(
            lambda wrong=wrong: gp.predict(fit, NEW, exposure=wrong), "allowed: positive numbers"
        )
    for wrong in ([1.0, 2.0, 3.0], "two"):
        refused(
            lambda wrong=wrong: gp.predict(fit, NEW, exposure=wrong),
            "predict: exposure is ", "allowed: a number, or one for each of 2 new inputs",
        )  # fmt: skip


@pytest.mark.parametrize("levels", [[1.5], [-0.1, 0.5], [np.nan], 0.5, "median", ["low"]])
def test_levels_of_quantiles(things, levels):
    refused(
        lambda: gp.predict(things["a fit"], NEW, quantiles=levels),
        "predict: quantiles is ", "allowed: numbers from 0 to 1",
    )  # fmt: skip


def test_a_model_for_draws_that_is_not_theirs(things):
    draws = things["draws"]
    refused(
        lambda: gp.predict(draws, NEW, model=things["a fit"]), "predict: model is a Approximation"
    )
    refused(
        lambda: gp.predict(draws, NEW, model=gp_of(n=9, length=WIDE)),
        "predict: draws of 6 latents for a model of 9 cases",
    )
    refused(lambda: gp.predict(draws, NEW, model=gp_of()), "theta has shape (1,); allowed: (0,)")
    refused(
        lambda: gp.predict(things["a fit"], NEW, model=things["a free model"]),
        "predict: model has no use with Approximation; leave it out",
    )


def test_draws_of_hyperparameters_alone(things):
    """With Gaussian noise latents are exact given them; replicates of the data need draws."""
    draws, free = things["draws of a density"], things["a free model"]
    same = gp.sample(free, JOINT, start=[0.0], **TINY)
    same["posterior"] = same["posterior"].to_dataset().drop_vars("latent")
    same["posterior"]["theta"] = draws["posterior"]["theta"]
    xr.testing.assert_allclose(gp.predict(draws, NEW), gp.predict(same, NEW))
    refused(lambda: gp.simulate(draws), "simulate: these draws hold no latents")


def test_draws_without_latents(things):
    counts = gp.GPModel(X, np.ones(6), gp.SquaredExponential(WIDE, 1.0), gp.Poisson())
    draws = gp.sample(counts, JOINT, keep_latents=False, **TINY)
    for verb in ("predict", "simulate"):
        refused(
            lambda verb=verb: VERBS[verb][0](draws),
            f"{verb}: these draws hold no latents; sample with keep_latents=True",
        )


# -- what is documented ----------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_examples_give_what_they_say(verb, caplog):
    (example,) = doctest.DocTestFinder(recurse=False).find(getattr(gp, verb), verb)
    assert example.examples
    found = doctest.DocTestRunner().run(example)
    assert found.failed == 0


# -- what others read ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def draws():
    covariance = gp.SquaredExponential(WIDE, gp.Hyperprior("norm", {"loc": 0.0, "scale": 0.5}))
    model = gp.GPModel(X, [0.0, 3.0, 1.0, 0.0, 2.0, 5.0], covariance, gp.Poisson(1.5), 0.2)
    return gp.sample(model, gp.SurrogateSlice(), n_chains=4, n_draws=250, n_warmup=50, seed=2)


def test_arviz_reads_results_as_they_are(draws):
    names = ["length_scale", "signal_sd"]
    ess, rhat = arviz_stats.ess(draws), arviz_stats.rhat(draws)
    for found in (ess, rhat):
        assert {"theta", "latent", *names} <= set(found.data_vars)
        assert list(found["theta"]["theta_dim"].values) == names
    for name in names:  # by ranks, which do not know the log of theta
        theta = float(ess["theta"].sel(theta_dim=name))
        assert float(ess[name]) == pytest.approx(theta, rel=1e-9)
        assert 20 < theta < 2000
        assert 0.99 < float(rhat[name]) < 1.2
        np.testing.assert_allclose(
            np.log(draws.posterior[name]), draws.posterior["theta"].sel(theta_dim=name), atol=1e-12
        )
    flat = arviz_base.extract(draws, var_names=["theta", *names])
    assert dict(flat.sizes) == {"sample": 1000, "theta_dim": 2}
    assert set(arviz_stats.summary(draws, var_names=names).index) == set(names)


READ = """
import json, sys
import gpmcflow as gp
tree = gp.open_results(sys.argv[1])
found = gp.predict(tree, [0.2, 0.7, 3.0], exposure=2.0, seed=5)
print(json.dumps({name: found[name].values.ravel().tolist() for name in found.data_vars}))
"""


def test_another_process_predicts_the_same(draws, tmp_path):
    gp.write_results(draws, tmp_path / "draws.nc")
    command = [sys.executable, "-c", READ, str(tmp_path / "draws.nc")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    theirs = json.loads(done.stdout.splitlines()[-1])
    ours = gp.predict(draws, [0.2, 0.7, 3.0], exposure=2.0, seed=5)
    assert set(theirs) == set(ours.data_vars)
    for name, values in theirs.items():
        np.testing.assert_array_equal(values, ours[name].values.ravel())
