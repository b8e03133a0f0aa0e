"""Each column here gives the outcome away; its twin does not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.data.small_files import seen

N = 120
RNG = np.random.default_rng(8)
A = RNG.normal(size=N).round(3)
GUESS = RNG.integers(10, 90, N)
ILL = np.repeat([0, 1], N // 2)


def dropped(folder, target, /, **columns):
    """Why columns are dropped."""
    return seen(folder, target, a=A, **columns).dropped


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (np.abs(GUESS - 45), "how far y is from 45"),
        (np.abs(GUESS - 45) + (np.arange(N) % 2), None),
        (np.diff(GUESS, prepend=0), "the change of y since the row before"),
        (np.append("", (100 * np.diff(np.log(GUESS))).round(9)), "the change of y since the row before"),
        (GUESS - RNG.permutation(GUESS), None),
        (np.where(np.arange(N) % 10, GUESS, GUESS - 7), "y itself in 108 of 120 rows"),
        (np.where(np.arange(N) % 2, GUESS, GUESS - 7), None),
    ],
)  # fmt: skip
def test_a_number_that_the_outcome_makes(tmp_path, column, why):
    assert dropped(tmp_path, "y", x=column, y=GUESS) == ({"x": why} if why else {})


@pytest.mark.parametrize(
    ("rescaled", "drop"),
    [
        (lambda y: np.log(y).round(2), True),
        (lambda y: (3.0 - 2.0 * np.log10(y)).round(6), True),
        (lambda y: np.sqrt(y).round(3), True),
        (lambda y: (60.0 / y).round(6), True),
        (lambda y: (y**2).round(1), True),
        (lambda y: (np.log(y) + 0.02 * RNG.normal(size=len(y))).round(2), False),
        (lambda y: np.sort(RNG.gamma(2.0, 3.0, len(y)))[y.argsort().argsort()].round(2), False),
        (lambda y: RNG.permutation(np.log(y)).round(2), False),
    ],
)
def test_a_rescaled_outcome_in_few_rows(tmp_path, rescaled, drop):
    """In either direction; what merely rises with it, as a calibration does, stays."""
    y = np.exp(RNG.normal(3.0, 1.0, 24)).round(2)
    other, a = rescaled(y), A[:24]
    assert set(seen(tmp_path, "y", a=a, x=other, y=y).dropped) == ({"x"} if drop else set())
    assert set(seen(tmp_path, "x", a=a, x=other, y=y).dropped) == ({"y"} if drop else set())


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_rescaled_outcome_of_values_that_repeat(tmp_path, sign):
    """Three rows for each value: neither column changes from most rows to the next."""
    y = np.repeat(np.exp(np.linspace(1.0, 4.0, 8)).round(2), 3)[RNG.permutation(24)]
    other = (sign * np.log(y)).round(6)
    assert set(seen(tmp_path, "y", a=A[:24], x=other, y=y).dropped) == {"x"}


@pytest.mark.parametrize("noise", [0.0, 0.08])
def test_an_outcome_to_one_decimal_in_a_dozen_rows(tmp_path, noise):
    """Too few for a line: each is the log of the other to its last decimal, or is not."""
    y = np.exp(np.linspace(-2.0, 3.5, 12)[RNG.permutation(12)]).round(4)
    x = (np.log(y) + noise * RNG.choice([-1.0, 1.0], 12)).round(1)
    assert set(seen(tmp_path, "y", a=A[:12], x=x, y=y).dropped) == (set() if noise else {"x"})


def test_parts_of_a_sum_that_a_few_rows_miss(tmp_path):
    """As where a cell was mistyped or corrected; ever more rows are another sum."""
    entry, stay = RNG.integers(700, 1000, N), RNG.integers(1, 130, N)
    for errors, drop in ((3, {"exit"}), (20, set())):
        wrong = np.where(np.arange(N) < errors, 12, 0)
        found = dropped(tmp_path, "stay", entry=entry, exit=entry + stay + wrong, stay=stay)
        assert set(found) == drop


def test_a_share_beside_the_counts_that_make_it(tmp_path):
    won, lost = RNG.integers(0, 12, N), RNG.integers(1, 12, N)
    tied = 24 - won - lost
    for share in (won / (won + lost), (won + tied / 2) / 24):
        found = dropped(tmp_path, "share", won=won, lost=lost, share=share.round(4))
        assert set(found) == {"won", "lost"}
    chance = RNG.uniform(0.1, 0.9, N).round(4)
    assert not dropped(tmp_path, "share", won=won, lost=lost, share=chance)


def test_the_shares_of_a_log_ratio(tmp_path):
    mine, yours = RNG.uniform(0.2, 0.6, N).round(4), RNG.uniform(0.1, 0.5, N).round(4)
    columns = {"mine": mine, "yours": yours, "rest": (1.0 - mine - yours).round(4)}
    assert set(dropped(tmp_path, "y", **columns, y=np.log(mine / yours).round(4))) >= {*columns} - {
        "rest"
    }
    blurred = (np.log(mine / yours) + 0.05 * RNG.normal(size=N)).round(4)
    assert not dropped(tmp_path, "y", **columns, y=blurred)


def test_the_outcome_in_prices_of_another_year(tmp_path):
    year = np.repeat([1951, 1955, 1963, 1971], N // 4)
    factor = np.repeat([8.25, 7.64, 6.5, 5.1], N // 4)
    money = RNG.uniform(100, 900, N).round(2)
    real = (money * factor).round(4)
    found = dropped(tmp_path, "real", year=year, money=money, real=real)
    assert found == {"money": "real but for a factor of each year"}
    near = (real * RNG.uniform(0.98, 1.02, N)).round(4)
    assert not dropped(tmp_path, "real", year=year, money=money, real=near)


def test_finer_classes_of_the_outcome(tmp_path):
    work = ["none" if not ill else "part" if k % 3 else "full" for k, ill in enumerate(ILL)]
    assert dropped(tmp_path, "ill", work=work, ill=ILL) == {"work": "ill follows from it"}
    other = ["none", *work[1:-1], "none"]
    assert not dropped(tmp_path, "ill", work=other, ill=ILL)


def test_what_is_known_of_those_alone_whom_it_befell(tmp_path):
    """A cause of death beside an event, and beside yes or no; gaps of both classes are gaps."""
    cause = np.array(["heart", "lungs", "other"])[np.arange(N) % 3]
    told = np.where(ILL == 1, cause, "")
    found = dropped(tmp_path, "ill", cause=told, ill=ILL)
    assert found == {"cause": "known only where ill is 1"}
    days = RNG.integers(1, 900, N)
    found = dropped(tmp_path, "time", cause=told, dead=ILL, time=days)
    assert found == {"cause": "known only where dead is 1"}
    asked = np.where(np.arange(N) % 2 == 0, cause, "")
    assert not dropped(tmp_path, "ill", cause=asked, ill=ILL)


def test_a_difference_whose_sign_is_the_outcome(tmp_path):
    """It is never 0, so that the threshold is between -1 and 1."""
    lead = np.where(RNG.random(N) < 0.4, -1, 1) * RNG.integers(1, 15, N)
    assert dropped(tmp_path, "won", lead=lead, won=(lead > 0) * 1) == {"lead": "won is cut from it"}


def test_of_a_difference_the_later_value_goes_or_what_a_total_leaves(tmp_path):
    first, change = RNG.normal(50, 9, (2, N)).round(2)
    found = dropped(tmp_path, "gain", week0=first, week8=first + change, gain=change)
    assert set(found) == {"week8"}
    found = dropped(tmp_path, "saved", spent=first, income=first + change, saved=change)
    assert set(found) == {"spent"}


def test_both_sides_of_a_question_go_and_values_before_stay(tmp_path):
    """For and against in percent, of which either tells their difference; not so two prices."""
    agree = RNG.integers(20, 80, N)
    against = 100 - agree - RNG.integers(0, 15, N)
    found = dropped(tmp_path, "net", agree=agree, against=against, net=against - agree)
    assert found == {
        "agree": "gives net together with against",
        "against": "gives net together with agree",
    }
    against = RNG.permutation(against)
    found = dropped(tmp_path, "net", agree=agree, against=against, net=against - agree)
    assert set(found) == {"against"}


def test_failures_that_leave_the_successes(tmp_path):
    """Not where trials came to no end, as in a third of the rows."""
    n, y = RNG.integers(10, 40, N), RNG.integers(0, 10, N)
    found = dropped(tmp_path, "ill", n=n, ill=y, well=n - y)
    assert found == {"well": "what ill leaves of n"}
    assert dropped(tmp_path, "ill", n=n, ill=y, well=n - y - (np.arange(N) % 3 == 0)) == {}
    deaths, pop = RNG.poisson(5, N), RNG.integers(10**4, 10**5, N)
    found = dropped(tmp_path, "deaths", population=pop, deaths=deaths, alive=pop - deaths)
    assert found == {"alive": "what deaths leaves of population"}


def test_ages_that_set_heights_apart_are_not_cut_from_them(tmp_path):
    """Nor is a dose from what it does; classes 1, 2, 3 are, and numbers rounded."""
    height = np.sort(RNG.uniform(0, 60, N).round(2))
    parts = np.repeat(range(6), N // 6)
    ages, order = np.array([3, 5, 10, 15, 20, 25])[parts], RNG.permutation(N)
    for column, cut in ((ages, False), (parts + 1, True), (np.floor(height / 10) * 10, True)):
        found = dropped(tmp_path, "height", age=column[order], height=height[order])
        assert ("age" in found) == cut
    found = dropped(tmp_path, "dose", height=height[order], dose=ages[order] / 20)
    assert found == {}


@pytest.mark.parametrize(
    ("column", "drop"),
    [
        (lambda spent, sold: (100.0 * spent / sold).round(3), True),
        (lambda spent, sold: (spent / sold * RNG.uniform(0.97, 1.03, 32)).round(5), False),
        (lambda spent, sold: (RNG.permutation(spent) / sold).round(5), False),
        (lambda spent, sold: (spent / RNG.uniform(4.0, 900.0, 32)).round(5), False),
    ],
)
def test_a_quotient_of_the_outcome_by_another_column(tmp_path, column, drop):
    """It goes, the other stays; so does a quotient but for a few percent, or by what is not in the file."""
    spent, sold = np.exp(RNG.normal(4.0, 1.0, (2, 32))).round(1)
    columns = {"x": column(spent, sold), "sold": sold, "spent": spent}
    found = seen(tmp_path, "spent", a=A[:32], **columns).dropped
    assert found == ({"x": "spent per sold"} if drop else {})


def test_numbers_that_hardly_vary_are_no_quotients_of_each_other(tmp_path):
    """Any product of them is the outcome but for a factor, nearly: they are the same in the first digits."""
    weights = {name: (1e5 + RNG.normal(0, 0.5, N)).round(1) for name in ("left", "right", "y")}
    assert not dropped(tmp_path, "y", **weights)


def test_of_two_columns_and_their_product_the_one_named_after_it_goes(tmp_path):
    """Else the one with more decimals, whichever is first."""
    sold, price = RNG.integers(10, 500, N), RNG.uniform(2, 90, N).round(2)
    value = (sold * price).round(2)
    for names in (("sold", "price"), ("price", "sold")):
        columns = dict(
            zip(names, (sold, price) if names[0] == "sold" else (price, sold), strict=True)
        )
        assert set(dropped(tmp_path, "value", **columns, value=value)) == {"price"}
    found = dropped(tmp_path, "value", mean_value=sold, price=price, value=value)
    assert set(found) == {"mean_value"}


def test_how_cases_ended_in_other_words(tmp_path):
    """A cause with a class for those who live, and flags of it; a flag of few of the dead stays."""
    dead = RNG.permutation(np.repeat([0, 1], N // 2))
    heart = (dead == 1) & (RNG.random(N) < 0.5)
    cause = np.where(dead == 0, "alive", np.where(heart, "heart", "other"))
    sudden = heart & (np.cumsum(heart) % 4 > 0)  # most of these
    rare = heart & (np.cumsum(heart) % 3 == 0)
    columns = {
        "heart": heart * 1,
        "sudden": sudden * 1,
        "stage4": rare * 1,
        "sex": RNG.integers(0, 2, N),
    }
    time = RNG.integers(1, 900, N)
    found = dropped(tmp_path, "time", cause=cause, **columns, dead=dead, time=time)
    told = "says more of one class of cause"
    assert found == {"cause": "dead follows from it", "heart": told, "sudden": told}
    mixed = np.where(np.arange(N) == dead.argmax(), "alive", cause)  # not the same in one row
    assert not dropped(tmp_path, "time", cause=mixed, **columns, dead=dead, time=time)


def test_classes_named_after_a_count_that_is_mostly_round(tmp_path):
    """Of a dozen different numbers five classes are known as cut by their name alone."""
    smoked = RNG.choice([3, 5, 8, 10, 12, 15, 18, 20, 25, 30, 40, 50], N)
    classes = np.digitize(smoked, [6, 11, 16, 26]) + 1
    assert dropped(tmp_path, "smoked", smoked_class=classes, smoked=smoked) == {
        "smoked_class": "cut from smoked"
    }
    assert not dropped(tmp_path, "smoked", ward=classes, smoked=smoked)
    assert not dropped(tmp_path, "smoked", smoked_class=RNG.permutation(classes), smoked=smoked)


def test_parts_of_which_three_or_more_make_the_outcome(tmp_path):
    """With gaps for none, and a total mistyped here and there; not two less a third, nor most parts."""
    rng = np.random.default_rng(21)
    parts = {name: rng.poisson(rate, N) for name, rate in zip("pqrs", (40, 9, 70, 3), strict=True)}
    total, others = sum(parts.values()), {"age": rng.integers(20, 80, N), "z": A}
    wrong = total.copy()
    wrong[[5, 60]] += 37
    gaps = parts | {"s": [n or "" for n in parts["s"]]}
    for columns, y in ((parts, total), (gaps, total), (parts, wrong)):
        found = dropped(tmp_path, "total", **columns, **others, total=y)
        assert found == dict.fromkeys("pqrs", "one of 4 whose sum is total")
    for y in (
        parts["p"] + parts["q"] - parts["r"],
        total + rng.poisson(2, N),
        2 * parts["p"] + parts["q"] + parts["r"],
    ):
        assert not dropped(tmp_path, "y", **parts, **others, y=y)


def test_reasons_of_a_class_are_known_by_their_name_however_few_their_rows(tmp_path):
    ill = np.where(RNG.permutation(N) < N // 2, "yes", "no")
    reason = np.where(ill == "yes", "fever", "none")
    reason[np.flatnonzero(ill == "yes")[:2]] = "cough"
    told = {"ill_reason": "ill follows from it"}
    assert dropped(tmp_path, "ill", ill_reason=reason, ill=ill) == told
    for name in ("ward", "illness"):
        assert not dropped(tmp_path, "ill", **{name: reason}, ill=ill)


def test_ranks_of_the_outcome_in_each_race(tmp_path):
    """By their name alone: the number of a visit ranks the height of a child as well."""
    race = np.repeat(["spring", "autumn", "winter"], [20, 30, N - 50])
    time = RNG.uniform(40.0, 90.0, N).round(2)
    table = pd.DataFrame({"race": race, "time": time})
    for rising in (True, False):
        rank = table.groupby("race")["time"].rank(ascending=rising, method="first").astype(int)
        found = dropped(tmp_path, "time", race=race, rank=rank, time=time)
        assert found == {"rank": "ranks of time in each race"}
        assert not dropped(tmp_path, "time", race=race, visit=rank, time=time)
    start = RNG.permutation(N) + 1
    assert not dropped(tmp_path, "time", race=race, rank=start, time=time)


def test_another_version_of_the_outcome(tmp_path):
    """Adjusted prices go with the prices, but on no line; the price of something else stays."""
    price = np.exp(RNG.normal(3.0, 0.5, N)).round(2)
    adjusted = (price * np.linspace(0.6, 1.0, N)).round(2)
    found = dropped(
        tmp_path, "price", **{"adj price": adjusted, "oil price": adjusted}, price=price
    )
    assert found == {"adj price": "another price"}
    unlike = RNG.permutation(adjusted)
    assert not dropped(tmp_path, "price", **{"adj price": unlike}, price=price)


def test_another_time_that_many_cases_have_as_theirs(tmp_path):
    """Known as late as the time itself: of relapse, or of death had there been no treatment."""
    time, more = RNG.integers(100, 9000, (2, N)) / 10.0
    relapse = np.where(RNG.random(N) < 0.4, time, time * RNG.uniform(0.1, 0.9, N)).round(1)
    ended = (RNG.random(N) < 0.6) * 1
    same = int((relapse == time).sum())
    found = dropped(tmp_path, "time", relapse=relapse, stay=more, status=ended, time=time)
    assert found == {"relapse": f"time itself in {same} of {N} rows"}


@pytest.mark.parametrize("outcome", ["ill", "visits"])
def test_what_is_zero_just_where_the_outcome_is(tmp_path, outcome):
    """Days until symptoms, of the ill alone; a dose that some of the others had, too, is kept."""
    ill = ILL if outcome == "ill" else ILL * RNG.integers(1, 9, N)
    delay = ILL * RNG.integers(9, 30, N)
    reason = "0 just where ill is 0" if outcome == "ill" else "0 just where visits is"
    found = dropped(tmp_path, outcome, delay=delay, **{outcome: ill})
    assert found == {"delay": reason}
    delay[np.flatnonzero(ILL == 0)[0]] = 20
    assert not dropped(tmp_path, outcome, delay=delay, **{outcome: ill})
