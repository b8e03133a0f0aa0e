"""Which tests are slow, which a change reaches, and which changes count as wrong programs."""

from __future__ import annotations

import ast
import inspect
import random

import pytest

from tests import affected, mutants, tiers
from tests.each import for_each


def test_a_complete_run_renews_the_table_and_a_part_changes_its_own_rows(tmp_path):
    path, slow = tmp_path / "durations.csv", tiers.SLOW
    tiers.write_durations({"a.py::x[1,2]": 2.345, "a.py::y": slow, "b.py::z": 1.0}, path, True)
    assert tiers.read_durations(path) == {"a.py::x[1,2]": 2.3, "b.py::z": 1.0}
    tiers.write_durations({"a.py::x[1,2]": 0.1, "c.py::w": 4.0}, path, complete=False)
    assert tiers.read_durations(path) == {"b.py::z": 1.0, "c.py::w": 4.0}
    tiers.write_durations({"c.py::w": 5.0}, path, complete=True)
    assert tiers.read_durations(path) == {"c.py::w": 5.0}


def test_a_question_about_the_affected_tests_runs_none(monkeypatch, capsys):
    monkeypatch.setattr(affected.subprocess, "call", None)
    for asked, code in (("--help", 0), ("--all", 2)):
        with pytest.raises(SystemExit) as ended:
            affected.main([asked])
        assert ended.value.code == code
    shown = capsys.readouterr()
    assert "the fast ones first" in shown.out
    assert "--all" in shown.err


def test_the_table_names_tests_that_are_there():
    files = {test.partition("::")[0] for test in tiers.read_durations()}
    assert files
    assert files <= set(affected.test_files())


def test_a_fixture_shared_by_tests_counts_in_each_of_them(pytester):
    pytester.makeconftest(
        "from tests import tiers\n"
        "def pytest_configure(config):\n"
        "    config.pluginmanager.register(tiers.Durations('seconds.csv', True))\n"
    )
    pytester.makepyfile(
        test_here="import time, pytest\n"
        "@pytest.fixture(scope='module')\n"
        "def shared(): time.sleep(0.4)\n"
        "def test_first(shared): pass\n"
        "def test_second(shared): pass\n"
        "def test_alone(): pass\n",
        test_there="import pytest\n"
        "@pytest.fixture\n"
        "def shared(): pass\n"
        "def test_with_another_of_that_name(shared): pass\n",
    )
    pytester.runpytest_inprocess("-p", "no:xdist").assert_outcomes(passed=4)
    found = tiers.read_durations(pytester.path / "seconds.csv")
    (file,) = {test.partition("::")[0] for test in found}
    assert set(found) == {f"{file}::test_first", f"{file}::test_second"}
    assert all(0.4 <= seconds < 0.7 for seconds in found.values())


def test_a_change_reaches_tests_by_imports_fixtures_and_processes():
    nodes = affected.affected(["gpmcflow/covariances/nodes.py"])
    assert nodes[0].startswith("tests/covariances/")  # the room of the change comes first
    assert "tests/workflow/test_run.py" in nodes  # by processes
    assert "tests/likelihoods/test_registry.py" not in affected.affected(["gpmcflow/cli/parser.py"])
    lazily = affected.affected(["gpmcflow/samplers/sampling.py"])
    assert "tests/test_verbs.py" in lazily  # as an attribute of the package
    by_fixture = affected.affected(["tests/samplers/conftest.py"])
    assert "tests/samplers/test_split_hmc.py" in by_fixture
    assert "tests/samplers/test_rmhmc.py" not in by_fixture
    assert "tests/workflow/test_run.py" in affected.affected(["workflow/rules/stages.smk"])
    assert affected.affected(["tests/numerics/test_of_no_one.py"]) == []


def test_every_mutant_is_a_program_and_another_one():
    for mutant in random.Random(0).sample(list(mutants.mutants()), 150):
        before = ast.dump(ast.parse((affected.ROOT / mutant.path).read_bytes()))
        assert ast.dump(ast.parse(mutant.source())) != before, mutant


def test_a_case_that_fails_in_a_loop_is_named():
    seen = []

    @for_each("a, b", [(1, 2), (3, 4), (5, 6)])
    def check(a, b, more):
        seen.append((a, b, more))
        assert a != 3

    assert list(inspect.signature(check).parameters) == ["more"]
    with pytest.raises(AssertionError) as caught:
        check(more=0)
    assert seen == [(1, 2, 0), (3, 4, 0)]
    assert caught.value.__notes__ == ["a, b: (3, 4)"]
