"""What a release consists of says the same in each of its files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

import gpmcflow

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RECIPE = (ROOT / "packaging" / "conda" / "meta.yaml").read_text()
#: names of conda's channels where they are not those of PyPI, and what extras bring along
CONDA = {"matplotlib": "matplotlib-base", "snakemake": "snakemake-minimal"}
EXTRAS = {"dask[distributed]": "distributed", "arviz-stats[xarray]": "xarray-einstats"}


def recipe() -> dict:
    return yaml.safe_load(RECIPE.replace('"{{ PYTHON }}', '"python'))


@pytest.mark.parametrize(
    "found",
    [
        PROJECT["version"],
        yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"],
        recipe()["package"]["version"],
        re.search(r"^## (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)[1],
        re.search(r"^## (\S+)$", (ROOT / "docs" / "history.md").read_text(), re.M)[1],
        re.search(r"gpmcflow-(\S+)-py3", (ROOT / "docs" / "start.md").read_text())[1],
    ],
    ids=["pyproject", "citation", "conda", "changes", "history", "start"],
)
def test_the_version_is_the_same_everywhere(found):
    assert found == gpmcflow.__version__


def test_the_conda_recipe_asks_for_what_the_wheel_asks_for():
    wanted = {"python": PROJECT["requires-python"].removeprefix(">=")}
    for line in PROJECT["dependencies"]:
        need = Requirement(line)
        (bound,) = need.specifier
        assert bound.operator == ">="
        wanted[CONDA.get(need.name, need.name).lower()] = bound.version
        for extra in need.extras:
            brought = EXTRAS[f"{need.name}[{extra}]"]
            wanted[brought] = bound.version if brought == "distributed" else ""
    found = dict(line.partition(" >=")[::2] for line in recipe()["requirements"]["run"])
    assert found == wanted
    (script,) = recipe()["build"]["entry_points"]
    assert script == "gpmcflow = " + PROJECT["scripts"]["gpmcflow"]


def test_the_image_copies_what_an_installation_needs():
    text = (ROOT / "packaging" / "container" / "gpmcflow.def").read_text()
    copied = re.findall(r"^    (\S+) /opt/source", text.partition("%files")[2], re.M)
    assert all((ROOT / path).exists() for path in copied)
    by_setup = {"Snakefile", "workflow", "config", "gpmcflow", "MANIFEST.in", "setup.py"}
    assert by_setup | {PROJECT["readme"], *PROJECT["license-files"], "pyproject.toml"} <= set(
        copied
    )
    python = re.search(r"^From: python:([\d.]+)", text, re.M)[1]
    assert Version(python) >= Version(PROJECT["requires-python"].removeprefix(">="))


def test_release_notes_are_one_page_and_link_the_long_list():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert len(text.splitlines()) <= 60
    assert "(docs/history.md)" in text
    assert "(docs/stability.md)" in text


@pytest.mark.parametrize("name", ["wrong_number", "fault", "question"])
def test_issue_forms_ask_one_thing_each(name):
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text())
    assert {"name", "description", "body"} <= set(form)
    ids = [field["id"] for field in form["body"]]
    assert len(set(ids)) == len(ids)
    assert all(field["attributes"]["label"] for field in form["body"])
    assert form["body"][0]["validations"]["required"]
