"""Config files, schema, config/README.md and the package's registries say the same.

`python tests/workflow/test_config_documents.py` prints the table that config/README.md has to hold.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from gpmcflow.approximations.independent_sites import SITE_RULES
from gpmcflow.covariances.leaves import LEAVES
from gpmcflow.covariances.text import parse_covariance
from gpmcflow.data import CATALOGUE
from gpmcflow.data.outcome_kinds import KINDS
from gpmcflow.evidence.schedule import LADDERS
from gpmcflow.jobs.problems import prepare_data
from gpmcflow.jobs.stated_models import check_models
from gpmcflow.likelihoods import LIKELIHOODS
from gpmcflow.models.gp_model import STRUCTURES
from gpmcflow.parameters.hyperpriors import Hyperprior, default_hyperpriors
from gpmcflow.parameters.parameter import LOG, LOGIT, own_units
from gpmcflow.pipeline.config import (
    check_config,
    describe,
    load_schema,
    resolve,
)
from gpmcflow.pipeline.studies import PAPERS
from gpmcflow.replications.surrogate_slice.problems import build_joint_model
from gpmcflow.replications.surrogate_slice.settings import METHODS, OF_UPDATE
from gpmcflow.samplers import HMC, LATENT_SAMPLERS
from gpmcflow.samplers.adaptation.step_sizes import TuningSettings
from gpmcflow.storage.input_files import load_yaml

ROOT = Path(__file__).parents[2]
CONFIGS = [*sorted((ROOT / "config").glob("*.yaml")), ROOT / "tests" / "workflow" / "small.yaml"]
TEXTS = ("covariance", "likelihood")
PLACES = {
    "graphs": "<graph>",
    "correlations": "<correlation>",
    "analyses": "<analysis>",
    "models": "<model>",
    "units": "<column>",
    "datasets": "<dataset>",
    "problems": "<problem>",
    "methods": "<method>",
    "<problem>": "<method>",
    "types": "<type>",
    "parameters": "<parameter>",
    "start": "<parameter>",
    "priors": "<hyperprior>",
    "covariance": "<function>",
    "likelihood": "<likelihood>",
    "base": "<likelihood>",
    "<likelihood>": "<setting>",
}


def branches(node: dict, schema: dict):
    """A schema node with all that its if, then and else may add; the usual case (else) first."""
    node = resolve(node, schema)
    yield node
    for branch in ("else", "then"):
        if branch in node:
            yield from branches(node[branch], schema)


def keys(node: dict, schema: dict, path: str = ""):
    """All keys below a schema node: (dotted path, key's node, whether it is required)."""
    for branch in branches(node, schema):
        for key, child in branch.get("properties", {}).items():
            child = resolve(child, schema)
            here = f"{path}.{key}".lstrip(".")
            yield here, child, key in branch.get("required", [])
            yield from keys(child, schema, here)
        for child in branch.get("patternProperties", {}).values():
            here = f"{path}.{PLACES[path.rsplit('.')[-1]]}"
            yield here, resolve(child, schema), False
            yield from keys(child, schema, here)


def expected_rows() -> list[str]:
    schema = load_schema()
    found: dict[str, dict] = {}
    for path, node, required in keys(schema, schema):
        row = found.setdefault(path, {"types": [], "meaning": "", "default": ""})
        row["types"] += [t for t in describe(node, schema).split(" or ") if t not in row["types"]]
        row["meaning"] = row["meaning"] or node.get("description", "")
        if "default" in node and "`" not in row["default"]:  # that of the usual case
            row["default"] = f"`{json.dumps(node['default'])}`"
        elif required:
            row["default"] = row["default"] or "required"
    return [
        f"| `{path}` | {' or '.join(row['types'])} | {row['default']} | {row['meaning']} |"
        for path, row in found.items()
    ]


def test_readme_documents_every_key_of_the_schema_and_no_other():
    readme = (ROOT / "config" / "README.md").read_text().partition("## All keys")[2]
    rows = [line for line in readme.splitlines() if re.match(r"\| `", line)]
    expected = expected_rows()
    assert len(expected) > 50
    assert rows == expected


def test_every_key_has_a_description():
    for row in expected_rows():
        assert row.split("|")[-2].strip(), row


def test_every_mapping_of_the_schema_refuses_unknown_keys():
    def walk(node: dict, where: str):
        if {"properties", "patternProperties"} & set(node):
            assert node.get("additionalProperties") is False, where
        for key, child in node.items():
            if isinstance(child, dict) and key != "if":  # an `if` asks, it does not allow
                walk(child, f"{where}.{key}")

    walk(load_schema(), "schema")


def test_every_mapping_of_the_schema_says_which_keys_it_takes():
    schema = load_schema()
    for path, node, _ in keys(schema, schema):
        if "object" in node.get("type", []):
            known = [{"properties", "patternProperties"} & set(b) for b in branches(node, schema)]
            assert any(known), path


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_config_files_are_valid(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    own = {"folder": path.parent} if path.stem == "own_data" else {}
    filled = check_config(load_yaml(path), **own)
    assert check_config(filled, **own) == filled  # what is filled in is valid, and final


def enums(name: str) -> list[set[str]]:
    schema = load_schema()
    found = [set(node["enum"]) for path, node, _ in keys(schema, schema) if path.endswith(name)]
    assert found
    return found


def test_names_of_the_schema_are_those_of_the_package():
    schema = load_schema()
    assert sorted(schema["$defs"]["catalogue"]["enum"]) == sorted(CATALOGUE)
    assert enums(".outcome") == [set(KINDS)]
    for enum in enums(".ladder"):
        assert enum == set(LADDERS)
    assert set().union(*enums(".sampler")) == {
        "data_split_hmc", "hmc", "independence_metropolis", "latent_hmc",
        "preconditioned_split_hmc", "random_walk_metropolis", "rmhmc", "split_hmc",
    } <= set(LATENT_SAMPLERS)  # fmt: skip
    for enum in enums(".representation"):
        assert enum == set(METHODS)
    for enum in enums(".update"):
        assert enum == set(OF_UPDATE)
    for enum in enums(".sites"):
        assert enum == set(SITE_RULES) - {"constant", "scaled"}
    of_problems = set(STRUCTURES) - {"basis"}  # whose models have no representations
    assert sorted(map(sorted, enums(".structure"))) == [sorted(STRUCTURES), sorted(of_problems)]
    described = {path: node.get("description") for path, node, _ in keys(schema, schema)}
    covariance, likelihood = (described[f"problems.<problem>.{key}"] for key in TEXTS)
    assert [name for name in LEAVES if name not in covariance] == []
    assert [name for name in LIKELIHOODS if name not in likelihood] == []
    parse_covariance(schema_default("covariance"))


def schema_default(key: str):
    """Default of a key of problems with hyperpriors."""
    return load_schema()["$defs"]["problem"]["else"]["then"]["properties"][key]["default"]


def tables_of_readme() -> dict[str, list[list[str]]]:
    """Rows of the tables of config/README.md by their first heading, code marks left out."""
    tables, heading = {}, None
    for line in (ROOT / "config" / "README.md").read_text().splitlines():
        cells = [cell.strip().replace("`", "") for cell in line.strip("|").split(" | ")]
        if not line.startswith("|"):
            heading = None
        elif heading is None:
            heading = cells[0]
            tables[heading] = []
        elif not line.startswith("| ---"):
            tables[heading].append(cells)
    return tables


def test_readme_has_all_covariances_with_their_parameters():
    rows = {row[0]: row for row in tables_of_readme()["covariance"]}
    assert list(rows) == list(LEAVES)
    for name, kind in LEAVES.items():
        wanted = {field.name for field in fields(kind)} - {"columns", "name"}
        assert set(rows[name][2].split(", ")) - {""} == wanted, name


def test_readme_has_all_likelihoods_with_their_settings():
    rows = {row[0]: row for row in tables_of_readme()["likelihood"]}
    assert rows.pop("multinomial")[1] == ""
    assert rows.pop("softmax")[1] == ""  # its levels are those of the file
    assert rows.pop("heteroscedastic_gaussian")[1] == ""
    assert list(rows) == list(LIKELIHOODS)
    for name, kind in LIKELIHOODS.items():
        assert [s for s in rows[name][1].split(", ") if s] == list(kind.__dataclass_fields__), name


def test_readme_has_the_default_hyperpriors():
    rows = tables_of_readme()["parameter"]
    assert {row[0] for row in rows} == set(default_hyperpriors())
    for name, loc, scale, median, low, high in rows:
        prior = default_hyperpriors()[name]
        coordinate = LOGIT if name in ("probability", "rho", "mix") else LOG
        assert prior == Hyperprior("norm", {"loc": float(loc), "scale": float(scale)}, coordinate)
        quantiles = [own_units(prior.quantile(p), coordinate) for p in (0.5, 0.025, 0.975)]
        shown = [f"{value:.2g}" for value in quantiles]
        assert [median, low, high] == shown, name


def test_examples_of_the_readme_are_models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "config" / "README.md").read_text().partition("## Models as text")[2]
    blocks = re.findall(r"(?m)(?:^    .*\n)+", text.partition("## All keys")[0])
    problems = {
        name: problem for block in blocks for name, problem in yaml.safe_load(block).items()
    }
    assert len(problems) == 3
    (tmp_path / "mine.csv").write_text(
        "age,bmi,dose,week,clinic,visits\n"
        + "".join(
            f"{20 + 5 * k},{18 + k % 7},{k % 4}.5,{7 * k},{k % 3},{k % 5}\n" for k in range(12)
        )
    )
    config = check_config(
        {
            "datasets": {"mine": {"csv": "mine.csv", "target": "visits", "task": "counts"}},
            "problems": problems,
            "studies": {"surrogate_slice": {"problems": {p: {"surr-site": {}} for p in problems}}},
        }
    )
    check_models(config)
    data = prepare_data("mine", config["datasets"]["mine"])
    for name, problem in config["problems"].items():
        assert build_joint_model(data, name, problem).dim > 1, name


def test_each_paper_has_its_folder_its_schema_and_its_printed_numbers():
    """And no other shared file: rules, scripts and captions come from its `Study`."""
    names = [study.name for study in PAPERS]
    assert list(load_schema()["properties"]["studies"]["properties"]) == names
    for place in ("schemas/studies/{}.yaml", "published/{}.yaml"):
        assert all((ROOT / "workflow" / place.format(name)).is_file() for name in names)
    for name in names:
        package = ROOT / "gpmcflow" / "studies" / name
        assert len(list(package.glob("*.py"))) <= 15 + 1  # beside __init__, which is empty


def test_defaults_of_tuning_are_those_of_the_package():
    tuning = load_schema()["$defs"]["tuning"]["properties"]
    for key, node in tuning.items():
        found = getattr(TuningSettings(), key)
        if found is None and hasattr(HMC, key) and key != "n_steps":  # the sampler's own
            found = getattr(HMC, key)
        assert found == node["default"]


if __name__ == "__main__":
    print("| key | type | default | meaning |\n| --- | --- | --- | --- |")
    print("\n".join(expected_rows()))
