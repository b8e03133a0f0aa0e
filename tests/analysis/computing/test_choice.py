"""Which model a page shows: by leave-one-out, then the evidence, then the fewest hyperparameters."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from gpmcflow.analysis.choice import RULED_OUT, Candidate, chosen, ruled_out

N = 100
ROWS = np.random.default_rng(0).normal(-0.6, 0.3, N)
SPREAD = np.resize([1.0, -1.0], N)  # of differences: their standard error is 0.1 sqrt(101/99) nats


def candidate(ahead=0.0, evidence=-60.0, n_parameters=2, bad_share=0.0):
    """A model that leaves rows out better than `ROWS`, by so many standard errors of the difference."""
    error = np.sqrt(N) * (0.01 * SPREAD).std(ddof=1)
    left_out = ROWS + (0.01 * SPREAD + ahead * error / N) * (ahead != 0.0)
    return Candidate(left_out, bad_share, evidence, n_parameters)


def test_leave_one_out_decides_beyond_one_standard_error_whatever_the_evidence():
    choice = chosen({"plain": candidate(), "curves": candidate(1.1, -70.0, 5)})
    assert choice == ("curves", "leave-one-out", (), (), ())


def test_within_one_standard_error_the_evidence_decides():
    """The model ahead by leave-one-out, with 39 % of the evidence of the other, is not shown."""
    candidates = {"curves": candidate(0.9, -64.0, 5), "smooth": candidate(0.0, -60.0, 4)}
    assert chosen(candidates) == ("smooth", "evidence", ("curves", "smooth"), (), ())


@pytest.mark.parametrize("name", ["curves", "plain"])
def test_where_neither_tells_them_apart_the_fewest_hyperparameters_decide(name):
    own = {"curves": candidate(0.9, -60.0, 5), "plain": candidate(0.0, -61.0, 1)}
    assert chosen(own) == ("plain", "simplicity", ("curves", "plain"), (), ())
    own[name] = own[name]._replace(n_parameters=1)
    other = own["curves"]._replace(n_parameters=1, log_evidence=-60.5)
    assert chosen({"a": other, "b": own["plain"]}).name == "a"  # of equals the larger evidence


def test_leave_one_out_that_cannot_be_relied_on_leaves_a_model_to_the_evidence():
    far = {"plain": candidate(), "curves": candidate(9.0, -70.0, 5, bad_share=0.06)}
    assert chosen(far) == ("plain", "evidence", ("plain", "curves"), (), ())
    assert chosen({**far, "curves": candidate(9.0, -70.0, 5, bad_share=0.05)}).name == "curves"
    behind = candidate(-9.0, -50.0, 5, bad_share=1.0)
    assert chosen({"plain": candidate(), "curves": behind}).name == "curves"
    none = {name: own._replace(bad_share=1.0) for name, own in far.items()}
    assert chosen(none) == ("plain", "evidence", ("plain", "curves"), (), ())


def test_an_evidence_with_an_alarm_decides_nothing():
    own = {"plain": candidate(0.0, -70.0, 1), "curves": candidate(0.5, np.nan, 5)}
    assert chosen(own) == ("plain", "simplicity", ("plain", "curves"), (), ())
    same = {"a": candidate(0.0, np.nan, 2), "b": candidate(0.5, -70.0, 2)}
    assert chosen(same).name == "b"  # of equals the better left out


def test_a_model_is_ruled_out_where_no_draws_would_make_it_the_shown_one():
    wide = candidate(0.0, -65.6, 1)._replace(left_out=ROWS + 0.5 * SPREAD)  # 5 nats of error
    quick = {"plain": candidate(), "curves": wide}
    assert [ruled_out(name, quick, True) for name in quick] == [
        False,
        False,
    ]  # within a factor of 300
    quick["curves"] = wide._replace(log_evidence=-65.8)
    assert ruled_out("curves", quick, True)
    assert not ruled_out("curves", quick, False)  # evidences at the maximum tell nothing of it
    assert not ruled_out("plain", quick, True)
    assert not ruled_out("curves", {**quick, "other": candidate(0.0, np.nan)}, True)
    own = {"plain": candidate(0.0, -60.0, 1), "curves": candidate(9.0, -90.0, 5)}
    assert not ruled_out("curves", own, True)  # leave-one-out would show it
    assert not ruled_out("plain", own, True)  # 0.9 nats behind in it
    own["curves"] = candidate(30.0, -90.0, 5)  # 3 nats
    assert not ruled_out("plain", own, True)
    own["curves"] = candidate(45.0, -90.0, 5)  # 4.5 nats, of which draws may add 3
    assert ruled_out("plain", own, True)
    assert not ruled_out("plain", {"plain": own["plain"]}, True)
    assert ruled_out("plain", own, False)
    assert not ruled_out("plain", {**own, "plain": own["plain"]._replace(sound=False)}, True)


def test_a_fit_whose_settings_may_have_missed_a_mode_is_not_sound():
    assert Candidate.of_trees({"fit": fit(-50.0, 3)}).sound
    assert not Candidate.of_trees({"fit": fit(-50.0, 3, size=24.9)}).sound
    assert not Candidate.of_trees({"fit": fit(-50.0, 3, k=0.71)}).sound


def test_a_model_whose_draws_have_not_converged_is_shown_only_if_none_has():
    far = candidate(9.0, -50.0, 1)._replace(converged=False)
    own = {"plain": candidate(), "curves": candidate(1.1, -70.0, 5), "far": far}
    assert chosen(own) == ("curves", "leave-one-out", (), ("far",), ())
    assert chosen({"far": far, "plain": candidate()}) == ("plain", "convergence", (), ("far",), ())
    lost = {name: each._replace(converged=False) for name, each in own.items()}
    assert chosen(lost) == ("far", "leave-one-out", (), (), ())


def fit(value, n, alarm="", size=25.0, k=0.7):
    return xr.DataTree.from_dict(
        {
            "leave_one_out": xr.Dataset(
                {
                    "log_density": ("case", ROWS.copy()),
                    "pareto_k": ("case", np.linspace(0.0, 1.0, N)),
                }
            ),
            "evidence": xr.Dataset({"log_evidence": value}, attrs={"alarm": alarm}),
            "settings": xr.Dataset(
                {
                    "theta": (("setting", "parameter"), np.zeros((30, n))),
                    "effective_size": size,
                    "pareto_k": k,
                }
            ),
        }
    )


def test_a_full_run_is_judged_by_its_draws_and_the_evidence_of_its_page():
    summary = fit(np.nan, 3)
    summary["leave_one_out/log_density"].values[:] += 1.0
    evidence = xr.Dataset(
        {"log_evidence": ("estimator", [-40.0, -41.0]), "alarm": ("estimator", ["", ""])},
        {"estimator": ["bridge", "stepping_stones"]},
    )
    trees = {"fit": fit(-50.0, 3), "summary": summary}
    whole = trees | {"evidence": xr.DataTree.from_dict({"evidence": evidence})}
    own = Candidate.of_trees(whole)
    np.testing.assert_array_equal(own.left_out, ROWS + 1.0)
    assert own[1:] == (0.3, -40.0, 3, True, False, True)
    assert Candidate.of_trees(trees).log_evidence == -50.0
    assert np.isnan(Candidate.of_trees({"fit": fit(-50.0, 3, "two ways differ")}).log_evidence)


def test_of_a_model_that_is_ruled_out_the_first_fit_counts():
    nothing = xr.DataTree(xr.Dataset(attrs={RULED_OUT: 1}))
    trees = {"fit": fit(-50.0, 3), "posterior": nothing, "summary": nothing, "evidence": nothing}
    own = Candidate.of_trees(trees)
    np.testing.assert_array_equal(own.left_out, ROWS)
    assert own[1:] == (0.3, -50.0, 3, True, True, True)


def test_models_that_are_ruled_out_take_no_part_in_the_choice():
    """Whatever draws made of the others: the first fits have the last word of them."""
    out = candidate(9.0, -50.0, 1)._replace(ruled_out=True)
    own = {"out": out, "plain": candidate(), "curves": candidate(0.9, -64.0, 5)}
    assert chosen(own) == ("plain", "evidence", ("plain", "curves"), (), ("out",))
    assert chosen({"out": out, "plain": candidate()}) == ("plain", "first fits", (), (), ("out",))
    own["curves"] = candidate(9.0, -64.0, 5)._replace(converged=False)
    assert chosen(own) == ("plain", "convergence", (), ("curves",), ("out",))


def test_a_best_model_with_a_row_that_it_holds_impossible_is_chosen_for_all_that():
    impossible = candidate()._replace(left_out=np.append(ROWS[1:], -np.inf))
    assert chosen({"a": impossible, "b": impossible}).name == "a"
