from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

from gpmcflow.errors import InputError
from gpmcflow.execution import ChainGenerators, chain_generators, stable_key


def test_stable_key_is_the_same_in_a_process_with_another_hash_seed():
    code = "from gpmcflow.execution import stable_key; print(stable_key('pima', 3, 2**40))"
    printed = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
        ).stdout.strip()
        for seed in ("1", "2")
    ]
    assert printed == [str(stable_key("pima", 3, 2**40))] * 2


def test_stable_key_words():
    key = stable_key("a", 7, 2**32)
    assert len(key) == 8 + 1 + 8
    assert key[0] == 0xCA978112  # sha256("a") = ca978112ca1bbdca...
    assert key[8] == 7
    assert all(0 <= word < 2**32 for word in key)
    # One large integer is not the two words NumPy would cut it into.
    assert stable_key(2**32) != stable_key(0, 1)


@pytest.mark.parametrize("part", [-1, 1.5, None, True, ("a",)])
def test_stable_key_refuses(part):
    with pytest.raises(InputError, match="random key"):
        stable_key("a", part)


def test_the_streams_are_those_of_numpy():
    rng = chain_generators(5, chains=[2])
    bits = np.random.PCG64(np.random.SeedSequence((1, 5), spawn_key=(2,)))
    expected = np.random.Generator(bits)
    np.testing.assert_array_equal(rng.standard_normal(4)[0], expected.standard_normal(4))
    np.testing.assert_array_equal(rng.uniform((2, 3))[0], expected.random((2, 3)))
    np.testing.assert_array_equal(rng.standard_normal()[0], expected.standard_normal())


def test_a_chain_has_its_stream_whatever_chains_are_beside_it():
    many = chain_generators(1, "pima", "hmc", 0, chains=range(8))
    few = chain_generators(1, "pima", "hmc", 0, chains=[5, 2])
    assert few.chains == (5, 2)
    np.testing.assert_array_equal(many.standard_normal(6)[[5, 2]], few.standard_normal(6))


def test_other_seed_key_or_chain_gives_other_numbers():
    keys = [
        (1, ("a", 0), 0),
        (2, ("a", 0), 0),
        (1, ("b", 0), 0),
        (1, ("a", 1), 0),
        (1, ("a", 0), 1),
    ]
    keys += [(1, ("a",), 0), (1, ("a", 0, 0), 0), (1, (), 0), (1, (0,), 0), (1, (0, 0), 0)]
    first = [chain_generators(seed, *key, chains=[chain]).uniform()[0] for seed, key, chain in keys]
    assert len(set(first)) == len(keys)


def test_moments():
    rng = chain_generators(3, chains=range(4))
    n = 20_000
    normal, uniform = rng.standard_normal(n), rng.uniform(n)
    assert normal.shape == (4, n)
    for draws, mean, sd in ((normal, 0, 1), (uniform, 0.5, 12**-0.5)):
        np.testing.assert_allclose(draws.mean(axis=1), mean, atol=4.5 * sd / n**0.5)
        np.testing.assert_allclose(draws.std(axis=1), sd, rtol=0.05)
    assert uniform.min() >= 0
    assert uniform.max() < 1


def test_state_round_trip():
    rng = chain_generators(1, chains=[4, 9])
    rng.standard_normal(5)
    state = rng.state
    assert state.dtype == np.uint64
    assert state.shape == (2, 6)
    copies = [ChainGenerators.from_state(state, rng.chains), pickle.loads(pickle.dumps(rng))]
    expected = rng.standard_normal(7)
    for copy in copies:
        assert copy.chains == (4, 9)
        np.testing.assert_array_equal(copy.standard_normal(7), expected)
    with pytest.raises(InputError, match="uint64"):
        ChainGenerators.from_state(state.astype(float))
