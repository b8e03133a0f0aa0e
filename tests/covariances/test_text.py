import pytest

from gpmcflow.covariances.leaves import (
    Categorical,
    Linear,
    Matern32,
    Periodic,
    Polynomial,
    SquaredExponential,
)
from gpmcflow.covariances.text import parse_covariance
from gpmcflow.errors import InputError
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.parameters.parameter import Parameter

WIDE = Hyperprior.log_uniform(0.1, 10.0)
GAMMA = Hyperprior("gamma", {"a": 2.0, "scale": 0.3}, "natural")
EXPRESSIONS = [
    Matern32(columns=("age", "bmi"), ard=True) + Categorical(columns="sex") + Linear(5.0, columns="dose"),
    (SquaredExponential(WIDE, columns="t", name="trend") + Matern32(columns="t"))
    * Periodic(GAMMA, 1.0, 12.0, columns="t"),
    SquaredExponential((WIDE, 0.5), WIDE, columns=("body mass", 3)) * Polynomial(3, (WIDE,)) * Linear(),
    Matern32(columns=("class", "µg", -1)) + Linear(columns="naïve"),
    Matern32(Parameter("ell", WIDE), columns="a") + Matern32(Parameter("ell", WIDE), columns="b"),
]  # fmt: skip


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("priors", [{}, {"wide": WIDE, "short": GAMMA}])
def test_an_expression_is_read_as_it_is_printed(expression, priors):
    text = expression.text(priors)
    assert parse_covariance(text, priors) == expression
    assert parse_covariance(text, priors).text(priors) == text
    assert ("wide" in text) == (bool(priors) and "log" in repr(expression) and "prior(" not in text)


def test_what_the_issue_writes_is_read():
    text = "matern32(age, bmi) + categorical(sex) * linear(dose)"
    assert parse_covariance(text).text() == text
    wide = {"distribution": "norm", "parameters": {"loc": 1.0}}
    leaf = parse_covariance("periodic(t, period=7, length_scale=wide)", {"wide": wide})
    assert leaf == Periodic(Hyperprior("norm", {"loc": 1.0}), period=7.0, columns="t")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mattern32(age)", "did you mean 'matern32'"),
        ("matern32(age, length=1.0)", "did you mean 'length_scale'"),
        ("matern32(age, length_scale=wid)", "did you mean 'wide'"),
        ("__import__('os').system('touch /tmp/owned')", "allowed: calls of covariances"),
        ("matern32(age, length_scale=open('x'))", "allowed: a number"),
        ("matern32(age) - linear(age)", "allowed: calls of covariances"),
        ("matern32(age[0])", "names of columns first"),
        ("matern32(", "cannot be read"),
        ("periodic(t)", "problems.a.covariance: Periodic: period is missing"),
        ("matern32(t, signal_sd=-1)", "signal_sd is -1.0"),
        ("[matern32(t) for t in (1,)]", "allowed: calls of covariances"),
    ],
)
def test_anything_else_is_one_line_and_not_executed(text, message):
    with pytest.raises(InputError, match=message):
        parse_covariance(text, {"wide": WIDE}, "problems.a.covariance")


def test_numbers_beside_plus_and_times_are_variances():
    text = "2.0 * matern32(age) + 1 + linear(dose) * 3"
    made = parse_covariance(text)
    assert made == 2.0 * Matern32(columns="age") + 1 + Linear(columns="dose") * 3
    assert parse_covariance(made.text()) == made
    for wrong in ("2.0", "2 + 3", "2 * 3 * matern32(age)"):
        with pytest.raises(InputError, match="allowed: calls of covariances"):
            parse_covariance(wrong)
    with pytest.raises(InputError, match="covariance: Constant: found 0 beside"):
        parse_covariance("0 + matern32(age)")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (" + ".join(["matern32(a)"] * 1500), "found 1500 terms; allowed: at most 200"),
        ("linear()" + " + 1.0" * 1500, "nested too deeply"),
    ],
)
def test_sums_without_end_are_one_line(text, told):
    with pytest.raises(InputError, match=told) as error:
        parse_covariance(text)
    assert len(str(error.value)) < 2000


def test_a_sum_of_as_many_terms_as_are_allowed_is_read():
    k = parse_covariance(" + ".join(["matern32(a)"] * 200))
    assert repr(k).count("Matern32") == 200
