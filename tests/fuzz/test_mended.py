"""What fuzzing has found, each once by name."""

from __future__ import annotations

import contextlib
import json

import pytest

from gpmcflow.analysis.page import answer_of, build_page
from gpmcflow.covariances.text import parse_covariance
from gpmcflow.data.columns import parse_dates
from gpmcflow.data.own_table import prepare_table
from gpmcflow.errors import GpmcflowError, InputError, InputErrors, StorageError
from gpmcflow.monitor.status import job_statuses
from gpmcflow.pipeline.config import check_config
from gpmcflow.replications.parts import PUBLISHED, read_parts, rebuild
from gpmcflow.storage.input_files import MOST_BYTES, is_file, load_json, load_yaml, user_path

from . import valid
from .outcome import limited
from .readers import MADE


def refusal(call, *arguments, kind=GpmcflowError, **options) -> str:
    """The one line in which a call refuses its arguments, within the limits of a reader."""
    with limited(), pytest.raises(kind) as error:
        call(*arguments, **options)
    assert len(str(error.value).splitlines()) == 1
    return str(error.value)


def yaml_file(folder, text: str | bytes):
    path = folder / "mine.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


BILLION = "\n".join(["a0: &a0 [x, x, x, x, x, x, x, x, x]"] + [
    f"a{k}: &a{k} [{', '.join(9 * [f'*a{k - 1}'])}]" for k in range(1, 12)
])  # fmt: skip


NO_YAML = [
    *(
        "a: 2020-13-45",
        "a: " + "[" * 5000,
        "a: {b: " * 900,
        "a: " + "9" * 5000,
        "- &a [*a]",
        "\x00",
    ),
    *("a: !!timestamp 1", "a: !!bool x", "a: !!float x", "a: !!int ''", "? {a: 1}\n: 1"),
    *(BILLION.replace("a11: ", "- "), "a: \ud800".encode("utf-8", "surrogatepass")),
]


@pytest.mark.parametrize("text", NO_YAML, ids=lambda text: ascii(text)[:30])
def test_yaml_that_cannot_be_read(tmp_path, text):
    assert "mine.yaml: " in refusal(load_yaml, yaml_file(tmp_path, text), kind=InputError)


def test_a_huge_file_is_no_config(tmp_path):
    path = yaml_file(tmp_path, "a: " + "x" * MOST_BYTES)
    assert "give a config, not data" in refusal(load_yaml, path, kind=InputError)


@pytest.mark.parametrize("top", ["seed", "data", "analyses", "studies", "problems", "title"])
def test_aliases_that_grow_without_bounds(tmp_path, top):
    config = load_yaml(yaml_file(tmp_path, f"{BILLION}\n{top}: *a11\n"))
    assert "its aliases" in refusal(check_config, config, kind=InputError)


@pytest.mark.parametrize(
    "text", ["studies: &a {b: *a}", "data: &a [*a]", "analyses: &a {a: {models: *a}}"]
)
def test_an_alias_inside_of_what_it_names(tmp_path, text):
    config = load_yaml(yaml_file(tmp_path, text))
    assert "its aliases" in refusal(check_config, config, kind=InputError)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("seed: 9223372036854775808", "64 bits"),
        ("memory_limit_gb: 0x" + "f" * 5000, "64 bits"),
        ("seed: 2020-01-01", "in quotes"),
        ("seed: !!set {a}", "in quotes"),
        ("seed: !!binary AAAA", "in quotes"),
        ("? 2020-01-01\n: 1", "in quotes"),
        ('studies: {"rmhmc_ais\\n": {}}', "one line of text"),
        ('datasets: {"a\\n": {synthetic: {}}}', "one line of text"),
    ],
)
def test_values_that_no_schema_refuses(tmp_path, text, says):
    assert says in refusal(check_config, load_yaml(yaml_file(tmp_path, text)), kind=InputError)


@pytest.mark.parametrize(
    "given", ["~nobody-of-that-name/a.csv", "a" * 5000, "a\x00b", "\ud800", "", "."]
)
@pytest.mark.parametrize("key", ["csv", "new"])
def test_a_path_that_cannot_be_one(tmp_path, given, key):
    valid.write_table(tmp_path)
    config = load_yaml(yaml_file(tmp_path, valid.ANALYSIS))
    config["data"][key] = given
    refusal(check_config, config, folder=tmp_path, path=tmp_path / "mine.yaml", kind=InputError)
    if given:
        refusal(prepare_table, config["data"], tmp_path, kind=InputErrors)


def test_paths_of_people(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    valid.write_table(tmp_path)
    assert is_file(user_path("~/patients.csv", "/elsewhere"))
    assert is_file(user_path("patients.csv", tmp_path))
    assert not is_file(tmp_path)


def test_a_data_set_of_a_study_without_a_home(tmp_path):
    data = {"mine": {"csv": "~nobody-of-that-name/a.csv", "target": "y"}}
    assert "no home" in refusal(check_config, {"datasets": data, "studies": {}}, kind=InputError)


@pytest.mark.parametrize(
    "cells", [["2021-03-05", "9999-12-31"], ["2021-03-05 10:00:00.123456789", "9999-12-31"]]
)
def test_dates_far_apart(cells):
    days = parse_dates(cells, "YYYY-MM-DD")
    assert [int(day) for day in days] == [18691, 2932896]


def test_no_path_of_a_table_is_a_problem_and_not_an_empty_list():
    assert "data.csv: missing" in refusal(prepare_table, {"csv": "", "target": "a"}, ".")


@pytest.mark.parametrize("priors", [[1], "wide", 3])
def test_priors_that_are_no_mapping(priors):
    assert "priors are" in refusal(parse_covariance, "linear()", priors, kind=InputError)


@pytest.mark.parametrize(
    "content", [b"\xa3", b"[" * 9000, b"[]", b"", b"9" * 9000, b'"a"', b"\x00"]
)
def test_a_part_or_a_fact_that_is_none(tmp_path, content):
    path = tmp_path / "part.json"
    path.write_bytes(content)
    assert "part.json" in refusal(read_parts, path)
    assert "part.json: " in refusal(load_json, path, kind=StorageError)


@pytest.mark.parametrize("study", sorted(valid.parts()))
def test_a_part_with_a_value_of_another_type(tmp_path, study):
    *lines, last = valid.parts()[study]
    table, part = tmp_path / "parts.jsonl", json.loads(last)
    for key in ("problem", "seed", "settings", "values"):
        changed = json.dumps({**part, key: [[]]}).encode()
        table.write_bytes(b"\n".join([*lines, changed]))
        with contextlib.suppress(StorageError):
            rebuild(study, table, PUBLISHED / f"{study}.yaml")


def test_a_table_of_an_analysis_with_a_word_among_its_numbers(tmp_path):
    info, tables = MADE["patients"]()
    for name, frame in tables.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    path = tmp_path / "models.csv"
    path.write_text(path.read_text().replace("-0.", "-0.x"))
    for make in (build_page, answer_of):
        assert "a table: damaged" in refusal(make, tmp_path, info, kind=StorageError)


def test_a_table_of_an_analysis_with_its_header_twice(tmp_path):
    info, tables = MADE["machine"]()
    for name, frame in tables.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    path = tmp_path / "rug.csv"
    header, rest = path.read_text().split("\n", 1)
    path.write_text(f"{header}\n{header}\n{rest}")
    assert "damaged" in refusal(build_page, tmp_path, info, kind=StorageError)


@pytest.mark.parametrize(
    "change",
    [{"n_chains": 10**18}, {"length": 10**18, "segment_length": 1}, {"pid": 10**400}, {"host": [1]},
     {"settings": {"method": {"replicates": 10**12, "temperatures": [3], "particles": 1}}},
     {"settings": {"method": {"replicates": "a", "temperatures": [3], "particles": 1}}},
     {"settings": {"method": {"replicates": 1}}}, {"label": {"a": 1}}, {"first_chain": "a"}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("file", ["run.json", "job.json"])
def test_a_damaged_manifest_does_not_stop_status(tmp_path, change, file):
    state = tmp_path / "results" / ".state" / "0"
    for path, content in valid.state_files().items():
        (state / path).parent.mkdir(parents=True, exist_ok=True)
        (state / path).write_bytes(content)
    manifest = json.loads((state / file).read_text())
    (state / file).write_text(json.dumps({**manifest, **change}))
    with limited():
        (status,) = job_statuses(tmp_path / "results")
    assert status.state_dir == str(state)


@pytest.mark.parametrize("output", ["a\x00b", "a" * 5000, "\ud800"])
def test_an_output_that_is_no_path(tmp_path, output):
    state = tmp_path / "results" / ".state" / "0"
    state.mkdir(parents=True)
    (state / "job.json").write_text(json.dumps({"output": output}))
    (status,) = job_statuses(tmp_path / "results")
    assert status.state != "finished"
