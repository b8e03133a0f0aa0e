"""`check_likelihood`: silent on the package's own, and each mistake is named by what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import gpmcflow as gp
from gpmcflow.errors import InputError
from tests.likelihoods.test_protocol import CASES

Y = np.array([0.2, 1.7, 3.0])


@pytest.mark.parametrize("name", CASES)
def test_all_of_the_package_pass(name):
    rng = np.random.default_rng(0)
    y = CASES[name].simulate(rng, rng.uniform(-1.0, 1.0, 12))
    gp.check_likelihood(CASES[name], y)


def test_free_parameters_are_drawn():
    for free in (gp.NegativeBinomial(), gp.Survival("loglogistic"), gp.Ordinal(4)):  # at draws
        gp.check_likelihood(free, [1.0, 2.0, 3.0])


@dataclass(frozen=True, eq=False, repr=False)
class Waiting(gp.Likelihood):
    """Times ~ Gamma(shape 2) of rate r exp(eta)."""

    rate: object = None
    parameters = ("rate",)
    defaults: ClassVar = {"rate": gp.Hyperprior("norm", {"loc": 0.0, "scale": 0.5})}

    def derivatives(self, eta, y):
        hazard = self.number("rate") * y * np.exp(eta)
        value = 2.0 * (eta + np.log(self.number("rate"))) + np.log(y) - hazard
        return value, 2.0 - hazard, -hazard, -hazard

    def parameter_gradient(self, eta, y):
        return (2.0 - self.number("rate") * y * np.exp(eta)).sum(-1)[..., None]

    def simulate(self, rng, eta):
        return rng.gamma(2.0, np.exp(-eta) / self.number("rate"))

    def conditional_mean(self, eta):
        return 2.0 * np.exp(-eta) / self.number("rate")


class WrongSecond(Waiting):
    def derivatives(self, eta, y):
        value, first, second, third = super().derivatives(eta, y)
        return value, first, -second, third


class SummedTwice(Waiting):
    def derivatives(self, eta, y):
        value, *rest = super().derivatives(eta, y)
        return value.sum(-1), *rest


class ByTheParameter(Waiting):
    def parameter_gradient(self, eta, y):
        return super().parameter_gradient(eta, y) / self.number("rate")


class OtherLaw(Waiting):
    def simulate(self, rng, eta):
        return rng.gamma(1.0, np.exp(-eta) / self.number("rate"))


class LacksAConstant(Waiting):
    def derivatives(self, eta, y):
        value, *rest = super().derivatives(eta, y)
        return value - np.log(self.number("rate")), *rest

    def parameter_gradient(self, eta, y):
        return super().parameter_gradient(eta, y) - np.shape(eta)[-1]


class OtherMean(Waiting):
    def conditional_mean(self, eta):
        return np.exp(-eta) / self.number("rate")


class NotConcave(Waiting):
    def derivatives(self, eta, y):
        value, first, second, third = super().derivatives(eta, y)
        own = 9.0 * np.cos(eta)
        return value + own, first - 9.0 * np.sin(eta), second - own, third + 9.0 * np.sin(eta)


class OtherGradient(Waiting):
    def log_density_and_gradient(self, eta, y):
        value, slope = super().log_density_and_gradient(eta, y)
        return value + 1.0, slope


class Refuses(Waiting):
    def validate(self, y):
        super().validate(y)
        if np.any(y == np.round(y, 9)):
            return
        raise InputError("waiting likelihood: times have more than nine digits")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (WrongSecond, "derivatives: the second derivative of case 0 .* differences of the first"),
        (SummedTwice, r"derivatives: the log p has shape \(3,\) where eta has \(3, 3\)"),
        (ByTheParameter, "parameter_gradient: by the log of rate it is"),
        (OtherLaw, "simulate: over 4000 simulated y the first derivative of case 0"),
        (LacksAConstant, "simulate: .* the slope by rate has mean"),
        (OtherMean, "conditional_mean: .* simulated y have the mean"),
        (NotConcave, "log_concave: the second derivative is .* > 0 somewhere"),
        (OtherGradient, "log_density_and_gradient: the value is not that of derivatives"),
        (Refuses, "validate: refuses what simulate returns"),
    ],
)
def test_each_mistake_is_named(kind, message):
    gp.check_likelihood(Waiting(), Y)
    with pytest.raises(InputError, match=f"{kind.__name__}: {message}") as caught:
        gp.check_likelihood(kind(0.7) if kind is ByTheParameter else kind(), Y)
    assert "\n" not in str(caught.value)


def test_what_is_no_likelihood_and_a_parameter_without_a_default():
    with pytest.raises(InputError, match="found str; allowed: a likelihood such as"):
        gp.check_likelihood("poisson", Y)
    with pytest.raises(InputError, match=r"y has shape \(1, 3\); allowed"):
        gp.check_likelihood(gp.Gaussian(0.3), Y[None])

    @dataclass(frozen=True, eq=False, repr=False)
    class Odd(gp.Likelihood):
        pace: object = None
        parameters = ("pace",)

        def derivatives(self, eta, y):
            return (0.0 * eta,) * 4

        def simulate(self, rng, eta):
            return eta

    with pytest.raises(
        InputError, match=r"pace is left out and has no default; .* defaults = \{'pace'"
    ):
        Odd()
