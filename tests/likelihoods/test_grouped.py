"""Latents that several cases share, against one likelihood a case."""

from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.likelihoods import Binomial, Gaussian, GroupedLikelihood, Logistic, NegativeBinomial
from gpmcflow.likelihoods.compiled import likelihood_code, log_likelihood
from gpmcflow.parameters.hyperpriors import Hyperprior

INDEX = np.array([2, 0, 1, 2, 2, 0, 3])
ETA = np.array([[0.3, -0.7, 1.1, 0.2], [1.0, 0.1, -2.0, 0.4]])


def test_sums_over_the_cases_of_each_latent():
    inner = NegativeBinomial(1.4, np.linspace(0.5, 2.0, 7))
    y = np.array([3.0, 0.0, 1.0, 7.0, 2.0, 4.0, 1.0])
    grouped = GroupedLikelihood(inner, INDEX)
    for ours, each in zip(
        grouped.derivatives(ETA, y), inner.derivatives(ETA[:, INDEX], y), strict=True
    ):
        for latent in range(4):
            np.testing.assert_allclose(
                ours[:, latent], each[:, latent == INDEX].sum(-1), rtol=1e-13
            )
    value = inner.log_density(ETA[:, INDEX], y)
    np.testing.assert_allclose(grouped.log_density(ETA, y), value)
    assert log_likelihood(likelihood_code(grouped, y), ETA[1], 0.0) == pytest.approx(value[1])
    np.testing.assert_array_equal(
        grouped.parameter_gradient(ETA, y), inner.parameter_gradient(ETA[:, INDEX], y)
    )
    some = grouped.take(np.array([0, 3, 6]))  # latents 2, 2, 3
    expected = grouped.take(slice(0, 7)).derivatives(ETA, y)[0]
    np.testing.assert_allclose(expected, grouped.derivatives(ETA, y)[0])
    found = some.derivatives(ETA[:, 2:], y[[0, 3, 6]])[1]
    np.testing.assert_allclose(found, inner.take([0, 3, 6]).gradient(ETA[:, [2, 2, 3]], y[[0, 3, 6]])
                               @ np.array([[1, 0], [1, 0], [0, 1]]))  # fmt: skip


def test_what_the_inner_likelihood_says():
    free = GroupedLikelihood(NegativeBinomial(Hyperprior.log_uniform(0.1, 9.0)), INDEX)
    assert [entry.name for entry in free.entries()] == ["dispersion"]
    assert free.with_values([2.0]) == GroupedLikelihood(NegativeBinomial(2.0), INDEX)
    assert (free.name, free.counts, free.standard_sites) == ("negative_binomial", True, "laplace")
    binary = GroupedLikelihood(Logistic(), INDEX)
    assert binary.relative_sites and binary.binary  # noqa: PT018


def test_tilted_moments_of_labels_are_those_of_their_number():
    """Labels that share a latent are one binomial observation: the same EP fit up to its constant."""
    labels = np.array([1.0, -1.0, 1.0, 1.0, 1.0, -1.0, -1.0])
    successes, trials = np.bincount(INDEX, labels > 0), np.bincount(INDEX)
    grouped, binomial = GroupedLikelihood(Logistic(), INDEX), Binomial(trials)
    mean, variance = np.array([0.1, -2.0, 1.0, 0.0]), np.array([0.5, 4.0, 1.0, 0.1])
    ours, other = (
        likelihood.tilted(y, mean, variance)
        for likelihood, y in ((grouped, labels), (binomial, successes))
    )
    np.testing.assert_allclose(ours[1:], other[1:], rtol=1e-9)
    ways = binomial._constant(successes)
    np.testing.assert_allclose(ours[0] + ways, other[0], rtol=1e-9)
    for rule in ("moment_sites", "laplace_sites"):
        found, expected = (
            getattr(likelihood, rule)(y, 1.3, 0.2)
            for likelihood, y in ((grouped, labels), (binomial, successes))
        )
        np.testing.assert_allclose(found.precision, expected.precision, rtol=1e-8)
        np.testing.assert_allclose(found.shift, expected.shift, rtol=1e-8, atol=1e-10)


def test_repeated_measurements_are_their_mean():
    y = np.array([0.3, 1.0, -0.4, 0.5, 0.1, 1.4, 2.0])
    grouped = GroupedLikelihood(Gaussian(0.5), INDEX)
    counts = np.bincount(INDEX)
    mean, variance = np.zeros(4), np.full(4, 2.0)
    alpha, r = grouped.tilted(y, mean, variance)[1:]
    expected = Gaussian(0.5 / np.sqrt(counts)).tilted(
        np.bincount(INDEX, y) / counts, mean, variance
    )
    np.testing.assert_allclose(alpha, expected[1], rtol=1e-8)
    np.testing.assert_allclose(r, expected[2], rtol=1e-8)
