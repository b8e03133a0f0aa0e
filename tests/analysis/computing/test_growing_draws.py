"""Draws of an analysis: which sampler makes them, and how chains that do not converge go on."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

import gpmcflow as gp
from gpmcflow.analysis import fitting, steps, study
from gpmcflow.analysis.choice import RULED_OUT
from gpmcflow.analysis.convergence import convergence as stored_convergence
from gpmcflow.execution import tasks
from gpmcflow.pipeline.config import check_config
from gpmcflow.storage import write_results

QUIET = gp.Execution(progress=False)
GOOD = {"r_hat": 1.0, "r_hat_limit": 1.02, "ess_bulk": 500.0, "ess_tail": 450.0}
FEW = GOOD | {"ess_tail": 250.0}


def runs_of(monkeypatch, model, *worst, draws=1000, **settings):
    """The sampler and the draws of a chain of each run; the first converge as ``worst`` says."""
    runs = []

    def sample(model, sampler=None, *, n_draws, n_wanted=None, **_):
        there = 0
        while there < n_draws:
            runs.append((type(sampler).__name__, n_draws))
            posterior = xr.DataTree(xr.Dataset(coords={"draw": range(n_draws)}))
            tree = xr.DataTree(xr.Dataset(attrs={"run": len(runs)}), {"posterior": posterior})
            there = n_draws
            n_draws = there if n_wanted is None else n_wanted(tree)
        return tree

    def convergence(tree):
        return (*worst, GOOD, GOOD)[tree.attrs["run"] - 1]

    monkeypatch.setattr(fitting, "sample", sample)
    monkeypatch.setattr(fitting, "convergence", convergence)
    monkeypatch.setattr("gpmcflow.analysis.convergence.convergence", convergence)
    sampling = {"chains": 4, "draws": draws, "warmup": 20}
    tree = fitting.draw(model, sampling, seed=1, key=("a", "b"), **settings)
    assert tree.attrs["run"] == len(runs)
    assert stored_convergence(tree) == convergence(tree)
    return runs


def labels(n, covariance=None):
    x = [[float(k)] for k in range(n)]
    y = [(-1.0) ** (k // 3) for k in range(n)]
    return gp.GPModel(x, y, covariance or gp.SquaredExponential(), gp.Probit())


def counts(n, columns=9):
    """Of so many hyperparameters that trajectories take them."""
    X = np.random.default_rng(0).standard_normal((n, columns))
    return gp.GPModel(X, [1.0] * n, gp.Matern32(ard=True), gp.Poisson())


@pytest.mark.parametrize(
    ("model", "sampler"),
    [
        (labels(500), "NoneType"),  # what `sample` chooses
        (counts(20), "JointSplitHMC"),
        (counts(20, columns=2), "NoneType"),
        (gp.GPModel(np.arange(20.0), np.ones(20), gp.Matern32(), gp.StudentT()), "NoneType"),
        (labels(20, gp.Linear() + gp.Constant(signal_sd=2.0)), "JointSplitHMC"),  # few weights
    ],
)
def test_models_with_good_fits_are_drawn_by_what_sample_chooses(monkeypatch, model, sampler):
    assert runs_of(monkeypatch, model) == [(sampler, 1000)]


@pytest.mark.parametrize(
    ("worst", "draws"),
    [
        ([FEW], 1760),  # 1.1 x 400 / 250
        ([GOOD | {"ess_bulk": 399.0}], 1250),
        ([GOOD | {"ess_bulk": 5.0}], 2000),
        ([GOOD | {"r_hat": 1.03}], 2000),
        ([FEW, FEW], 3098),  # 1,760 x 1.76, rounded up
        ([FEW, FEW, FEW], 4000),  # the most, which ends it
        ([FEW, FEW, FEW, FEW], 4000),
    ],
)
def test_chains_that_do_not_converge_go_on(monkeypatch, worst, draws):
    own = runs_of(monkeypatch, counts(20), *worst)
    assert len(own) == min(len(worst) + 1, 4)
    assert own[0] == ("JointSplitHMC", 1000)
    assert own[-1] == ("JointSplitHMC", draws)


def test_chains_go_on_from_where_they_ended(monkeypatch, tmp_path):
    """The longer run takes what the short one left, and has the numbers of a run of its own."""
    monkeypatch.setattr(fitting, "converged", lambda tree: tree["posterior"].sizes["draw"] > 100)
    monkeypatch.setattr(fitting, "n_wanted", lambda *_: 200)
    sampling = {"chains": 4, "draws": 100, "warmup": 20}
    how = gp.Execution(
        state_dir=tmp_path, block_size=1, segment_length=30, scheduler="synchronous", progress=False
    )
    written, model = [], counts(8, columns=2)
    real = tasks.write_arrays

    def spied(path, *args, **settings):
        written.append(path)
        return real(path, *args, **settings)

    monkeypatch.setattr(tasks, "write_arrays", spied)
    run = {"seed": 1, "key": ("a",), "predictive": False}
    draws = fitting.draw(model, sampling, execution=how, **run)
    assert draws["posterior"].sizes["draw"] == 200
    segments = [path for path in written if path.match("block_*/segment_*")]
    of_chains = [path for path in segments if "pilot" not in path.parts]
    assert len(of_chains) == 4 * 8  # of 30 draws, 20 of them warm-up; none is written twice
    own = gp.sample(model, n_chains=4, n_draws=200, n_warmup=20, execution=QUIET, **run)
    np.testing.assert_array_equal(draws["posterior/theta"], own["posterior/theta"])


def job_of(tmp_path, model="b", every=False):
    """Draws of a model, of which the fits of two are there."""
    fits = []
    for name in ("a", "b"):
        fits.append(tmp_path / name / "fit.nc")
        write_results(xr.DataTree(xr.Dataset(attrs={"of": name})), fits[-1])
    return SimpleNamespace(
        input=SimpleNamespace(
            fits=list(map(str, fits)), draws=str(tmp_path / model / "posterior.nc")
        ),
        settings={"sampling": {"every_model": every}},
        wildcards=SimpleNamespace(analysis="x", model=model),
    )


class Step:
    """A step that says when draws are made."""

    model = data = None

    def __init__(self, job):
        self.settings = job.settings

    def draws(self, **given):
        return "draws"

    def stamped(self, tree):
        return tree


def test_no_draws_are_made_of_models_that_quick_fits_rule_out(monkeypatch, tmp_path):
    """An attribute says so, also of summary and evidence; unless draws of every model are asked for."""
    monkeypatch.setattr(steps, "_Step", Step)
    monkeypatch.setattr(steps.Candidate, "of_trees", lambda trees: trees["fit"].attrs["of"])
    asked = []
    monkeypatch.setattr(steps, "ruled_out", lambda *given: asked.append(given) or given[0] == "b")
    job = job_of(tmp_path)
    made = steps.draw(job)
    assert asked == [("b", {"a": "a", "b": "b"}, False)]  # they are fits at the maximum
    assert made.attrs == {RULED_OUT: 1}
    assert not made.children
    write_results(made, job.input.draws)
    for handed_on in (steps.summarise(job), steps.evidence(job)):
        assert handed_on.attrs[RULED_OUT] == 1
        assert not handed_on.children
    assert steps.draw(job_of(tmp_path, "a")) == "draws"
    assert steps.draw(job_of(tmp_path, "b", every=True)) == "draws"


def test_draws_wait_for_the_fits_of_all_models(tmp_path):
    (tmp_path / "x.csv").write_text("a,y\n" + "".join(f"{k},{k % 7}.5\n" for k in range(40)))
    models = {name: {"covariance": f"{name}(a)"} for name in ("matern32", "matern52")}
    own = {"data": {"csv": "x.csv", "target": "y"}, "likelihood": "gaussian", "models": models}
    config = check_config(own, folder=tmp_path, path="x.yaml")
    draws = [job for job in study.jobs(config) if job.rule == "analysis_draw"]
    fits = [f"results/x/{name}/fit.nc" for name in models]
    assert [job.inputs["fits"] for job in draws] == [fits, fits]


def test_few_draws_may_grow_to_4000(monkeypatch):
    apart = GOOD | {"r_hat": 1.03}
    own = runs_of(monkeypatch, counts(20), *[apart] * 5, draws=250)
    assert [draws for _, draws in own] == [250, 500, 1000, 2000, 4000]


def test_independence_draws_grow_before_another_sampler_is_taken(monkeypatch):
    """They are cheap: 250 draws a chain of which a third is effective are too few, 500 enough."""
    x = np.linspace(0.0, 1.0, 12)
    model = gp.GPModel(
        x, np.sin(6.0 * x) + 0.1 * np.cos(40.0 * x), gp.SquaredExponential(), gp.Gaussian()
    )
    found = ("sampler", 0.9)
    monkeypatch.setattr(fitting, "_independent", lambda *_: found)
    assert runs_of(monkeypatch, model, FEW, draws=250) == [("str", 250), ("str", 440)]


def test_chains_that_are_too_short_to_converge_are_left_as_they_are(monkeypatch):
    assert len(runs_of(monkeypatch, counts(20), FEW, draws=99)) == 1
    assert len(runs_of(monkeypatch, counts(20), FEW, draws=100)) == 2


@pytest.mark.parametrize(
    ("changes", "used"), [({}, True), ({"ess_bulk": 90.0}, False), ({"names": ["a", "b"]}, False)]
)
def test_draws_given_all_rows_begin_with_the_pilot_of_those_given_some(monkeypatch, changes, used):
    """Unless these have not converged, or have other parameters."""
    model = counts(20)
    stages = {"stage": ["mode", "step"], "theta_dim": list(model.names)}
    pilot = xr.Dataset(
        {
            "center": ("theta_dim", np.zeros(model.dim)),
            "scale": (("theta_dim", "scale_dim"), np.eye(model.dim)),
            "step_size": ("stage", [0.3, 0.4]),
        },
        stages,
    )
    names = changes.pop("names", list(model.names))
    posterior = xr.Dataset(coords={"theta_dim": names})
    group = xr.Dataset({**GOOD, **changes})
    earlier = xr.DataTree.from_dict({"posterior": posterior, "pilot": pilot, fitting.GROUP: group})
    samplers, sample = [], fitting.sample

    def told(model, sampler=None, **run):
        samplers.append(sampler)
        return sample(model, sampler, **run)

    monkeypatch.setattr(fitting, "sample", told)
    sampling = {"chains": 2, "draws": 4, "warmup": 0}
    fitting.draw(model, sampling, seed=1, key=("a",), execution=QUIET, earlier=earlier)
    (sampler,) = samplers
    assert (sampler.earlier is not None) == used
    assert not used or sampler.earlier.step_size == 0.4


def test_the_final_draws_are_told_of_those_of_the_shown_model(monkeypatch):
    trees = {f"results/x/{m}/{k}.nc": xr.DataTree() for m in "ab" for k in ("fit", "posterior")}
    monkeypatch.setattr(steps, "load_results", lambda path: trees[str(path)])
    monkeypatch.setattr(steps.Candidate, "of_trees", lambda own: own)
    monkeypatch.setattr(steps, "chosen", lambda candidates: SimpleNamespace(name="b"))
    step = SimpleNamespace(
        settings={"models": ["a", "b"]}, job=SimpleNamespace(input=SimpleNamespace(results=trees))
    )
    data = SimpleNamespace(whole=lambda: "all rows")
    assert steps._Final._taken(step, data) == ("b", "all rows", fitting.ALL_ROWS)
    assert step.earlier is trees["results/x/b/posterior.nc"]
    step.draws = lambda **given: given
    monkeypatch.setattr(steps, "_Final", lambda job: step)
    assert steps.final_draw(step.job) == {"earlier": step.earlier}


def test_draws_given_all_rows_are_chosen_again_unless_earlier_ones_were_trajectories():
    """A pilot of joint split HMC has stages; one of blocks, or of trajectories on the evidence, has none."""
    blocks = xr.DataTree.from_dict({"pilot": xr.Dataset({"share": 0.8})})
    for earlier in (None, blocks):
        assert fitting._joint(counts(20, columns=2), earlier) is None
        assert isinstance(fitting._joint(counts(20), earlier), gp.JointSplitHMC)
    draws = gp.sample(
        counts(8, columns=2), gp.JointSplitHMC(rounds=(20, 20)), n_chains=2, n_draws=8,
        execution=QUIET,
    )  # fmt: skip
    draws[fitting.GROUP] = xr.DataTree(xr.Dataset(GOOD))
    assert fitting._joint(counts(20, columns=2), draws).earlier is not None
