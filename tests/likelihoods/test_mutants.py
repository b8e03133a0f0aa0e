"""Mistakes in likelihoods of times, grades, amounts and counts: each must fail the check of its kind."""

from __future__ import annotations

import numpy as np
import pytest

import gpmcflow as gp
from gpmcflow.errors import InputError

from .families import COUNTS, FAMILIES, evidence_is_right


def no_jacobian(self, low, high):
    return np.where(low == high, -np.log(self.s), 0.0)


def exchanged(self, y):
    log_y = np.log(y)
    return np.where(self.event < 0, -np.inf, log_y), np.where(self.event == 1, np.inf, log_y)


def lower_end_alone(self, y):
    low, high = gp.CensoredGaussian.ends(self, y)
    return low, np.where(np.isnan(self.until), high, low)


def both_limits_above(self, y):
    low, high = gp.CensoredGaussian.ends(self, y)
    return np.where(np.isinf(low), y, low), np.where(np.isinf(low), np.inf, high)


def one_grade_higher(self, y):
    low, high = gp.Ordinal.ends(self, np.minimum(y + 1.0, self.n_levels))
    return low, high


def by_upper_ends(self, eta, y):
    _, high = self.by_ends(eta, y)
    cuts = self._cutpoints()
    by_cut = [high * (y == k + 1.0) for k in range(1, len(cuts))]
    return np.moveaxis(np.cumsum(by_cut[::-1], axis=0)[::-1], 0, -1) * np.diff(cuts)


def first_gap_alone(self, eta, y):
    low, high = self.by_ends(eta, y)
    cuts = self._cutpoints()
    by_cut = [high * (y == k + 1.0) + low * (y == k + 2.0) for k in range(1, len(cuts))]
    return np.moveaxis(np.array(by_cut), 0, -1) * np.diff(cuts)


def weights_exchanged(self, x):
    w, rest = gp.ZeroInflated._weights(self, x)
    return rest, w


def certain_above_zero(self, eta, y):
    value, *rest = gp.ZeroInflated.derivatives(self, eta, y)
    return value + np.where(y == 0, 0.0, -np.log1p(-self._pi())), *rest


def not_truncated(self, eta, y):
    value = self.base.derivatives(eta, y)[0] + np.log1p(-self._pi())
    return np.where(y > 0, value, np.log(self._pi())), *gp.Hurdle.derivatives(self, eta, y)[1:]


def density_of_the_logarithm(self, eta, y):
    value, *rest = gp.LogNormal.derivatives(self, eta, y)
    return value + np.log(y), *rest


DENSITIES = {
    "the Jacobian -log t is dropped": ("Weibull times", "log_measure", no_jacobian),
    "event and censoring are exchanged": ("log-logistic times", "ends", exchanged),
    "a grouped value is its lower end": ("grouped", "ends", lower_end_alone),
    "a value at the lower limit is above it": ("limits", "ends", both_limits_above),
    "grades are one too high": ("grades, probit", "ends", one_grade_higher),
    "counts above 0 are certain": (
        "zero-inflated Poisson",
        "derivatives",
        certain_above_zero,
    ),
    "hurdle counts are not truncated": ("hurdle negative binomial", "derivatives", not_truncated),
    "an amount has the density of its logarithm": (
        "log-normal",
        "derivatives",
        density_of_the_logarithm,
    ),
}
GRADES = np.array([1.0, 2.0, 3.0, 4.0, 2.0, 3.0])
DERIVATIVES = {
    "a cutpoint moves the grade below it alone": (
        gp.Ordinal(4),
        GRADES,
        "case_slopes",
        by_upper_ends,
    ),
    "a gap moves its own cutpoint alone": (gp.Ordinal(4), GRADES, "case_slopes", first_gap_alone),
    "the two kinds of zeros are exchanged": (
        gp.ZeroInflated(gp.Poisson()),
        COUNTS,
        "_weights",
        weights_exchanged,
    ),
}


def broken(likelihood, method, wrong):
    """The likelihood with another method."""
    kind = type(likelihood)
    own = type(kind.__name__, (kind,), {method: wrong})
    changed = object.__new__(own)
    changed.__dict__.update(likelihood.__dict__)
    return changed


@pytest.mark.parametrize("mistake", DENSITIES)
def test_mutants_of_densities_have_another_evidence(mistake):
    name, method, wrong = DENSITIES[mistake]
    family = FAMILIES[name]
    assert evidence_is_right(family)
    mutant = broken(family.likelihood, method, wrong)
    assert not evidence_is_right(family._replace(likelihood=mutant))


@pytest.mark.parametrize("mistake", DERIVATIVES)
def test_mutants_of_derivatives_are_caught_by_differences(mistake):
    likelihood, y, method, wrong = DERIVATIVES[mistake]
    gp.check_likelihood(likelihood, y)
    with pytest.raises(InputError, match=r"differences of (the )?log p give"):
        gp.check_likelihood(broken(likelihood, method, wrong), y)
