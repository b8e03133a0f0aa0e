"""No name in a config leads out of the results folder."""

from __future__ import annotations

import copy
import functools
import posixpath

import pytest
import yaml

from gpmcflow.errors import InputError
from gpmcflow.pipeline import config as config_module
from gpmcflow.pipeline.config import check_config
from gpmcflow.pipeline.plan import planned_jobs

from . import valid

NAMES = [
    *(
        "",
        " ",
        ".",
        "..",
        "../up",
        "a/../../b",
        "/tmp/x",
        "~",
        "~/x",
        "a/b",
        "a\\b",
        "C:\\x",
        ".hidden",
    ),
    *(
        "-rf",
        "--yes",
        "a\x00b",
        "a\nb",
        "a\n",
        "\na",
        "a\u2028",
        "a b",
        "a{b}",
        "a*",
        "a?b",
        "$HOME",
        "ä",
    ),
    *("a;b", "a|b", "a'b", 'a"b', "a%b", "a\ud800"),
]
PLACES = {  # key of the config -> a path to a mapping whose keys become files
    "analyses": ("analyses", "own"),
    "models": ("analyses", "own", "models", "curves"),
    "datasets": ("datasets", "drawn"),
    "problems": ("problems", "digits"),
    "studies": ("studies", "split_hmc"),
    "methods of a study": ("studies", "rmhmc_ais", "methods", "hmc_prior"),
    "problems of a study": ("studies", "split_hmc", "problems", "simulated"),
    "methods of a problem": ("studies", "split_hmc", "problems", "simulated", "split"),
    "types": ("studies", "fast_likelihood", "types", "small"),
    "surrogates": ("studies", "surrogate_slice", "problems", "made", "mh"),
}


@pytest.fixture(scope="module", autouse=True)
def schema_read_once():
    """Reading it takes far longer than checking a config by it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config_module, "load_schema", functools.cache(config_module.load_schema))
        yield


@pytest.fixture(scope="module")
def small():
    """A config in which each of the places is there."""
    config = valid.config_trees()[0]
    check_config(config)
    for path in PLACES.values():
        node = config
        for key in path:
            assert key in node, path
            node = node[key]
    return config


def outputs(config) -> list[str]:
    return [job.output for job in planned_jobs(check_config(config))]


def below_results(path: str) -> bool:
    return posixpath.normpath(path) == path and path.startswith("results/")


def test_files_of_all_jobs_are_below_the_results_folder(small):
    assert all(map(below_results, outputs(small)))


@pytest.mark.parametrize("place", PLACES)
def test_a_name_that_is_no_plain_word_is_refused(small, place):
    for name in NAMES:
        config = copy.deepcopy(small)
        node = config
        for key in PLACES[place][:-1]:
            node = node[key]
        node[name] = node.pop(PLACES[place][-1])
        with pytest.raises(InputError) as error:  # for a name that is taken, see -l
            check_config(config)
        assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("stem", ["..", ".hidden", "-rf", "a b", "a\nb", "data", "logs", "ä"])
def test_an_analysis_has_no_such_name_from_its_file(tmp_path, stem):
    valid.write_table(tmp_path)
    config = yaml.safe_load(valid.ANALYSIS)
    with pytest.raises(InputError, match="the file is named"):
        check_config(config, folder=tmp_path, path=tmp_path / f"{stem}.yaml")


@pytest.mark.parametrize("key", ["output", "results", "folder", "log", "workdir", "__use_yte__"])
def test_a_config_names_no_place_for_results(tmp_path, key):
    valid.write_table(tmp_path)
    config = {**yaml.safe_load(valid.ANALYSIS), key: "/tmp"}
    with pytest.raises(InputError, match="unknown name"):
        check_config(config, folder=tmp_path, path=tmp_path / "mine.yaml")
