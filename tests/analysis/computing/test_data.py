"""What is read from a file, kept in a results file, and read from there."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gpmcflow.analysis.data import data_of, data_of_table, data_tree
from gpmcflow.analysis.reading import cells_of, prepare, tree_of, write_rows
from gpmcflow.analysis.report import groups_scored
from gpmcflow.data.own_table import prepare_table
from gpmcflow.data.scikit_tables import scikit_table
from gpmcflow.errors import InputError, InputErrors
from gpmcflow.storage import load_results, write_results


@pytest.mark.parametrize("kind", ["binary", "counts", "binomial", "many"])
def test_the_same_from_a_results_file(tmp_path, table, kind):
    table(kind).to_csv(tmp_path / "file.csv", index=False)
    table(kind, 12).drop(columns=["ill"], errors="ignore").to_csv(tmp_path / "new.csv", index=False)
    stated = {
        "binary": {"target": "ill"},
        "counts": {"target": "count", "exposure": "hours"},
        "binomial": {"target": "sick", "trials": "tested"},
        "many": {"target": "yield", "test_fraction": 0.0},
    }[kind]
    prepared = prepare_table({"csv": "file.csv", "new": "new.csv", **stated}, tmp_path)
    settings = {"data": {"csv": "file.csv", "new": "new.csv", **stated}}
    write_results(tree_of("mine", settings, prepared, 1), tmp_path / "data.nc", sidecar={})
    stored = load_results(tmp_path / "data.nc")
    data = data_of(stored)
    assert stored.attrs["data_checksum"] == prepared.checksum
    assert data.encoding == prepared.encoding
    assert data.target == prepared.target
    for rows, part in ((data.learning, prepared.train), (data.held_out, prepared.test)):
        assert (rows is None) == (part is None)
        if part is None:
            continue
        pd.testing.assert_frame_equal(rows.X, part.X)
        np.testing.assert_array_equal(rows.row, part.row)
        for name in ("y", "outcome", "unit"):
            kept, made = getattr(rows, name), getattr(part, name)
            assert (kept is None) == (made is None)
            if made is not None:
                np.testing.assert_array_equal(kept, made)
    assert (data.held_out is None) == (kind == "many")
    assert data.new.y is None
    pd.testing.assert_frame_equal(data.new.X, prepared.new.X)


@pytest.mark.parametrize(
    ("kind", "stated"),
    [
        ("binary", {"target": "ill"}),
        ("counts", {"target": "count", "exposure": "hours", "coordinates": ["east", "north"]}),
        ("classes", {"target": "kind"}),
        ("survival", {"target": "weeks", "outcome": "survival", "event": "died"}),
        ("many", {"target": "yield", "test_fraction": 0.0}),
    ],
)
def test_a_prepared_table_is_the_data_of_its_tree(tmp_path, table, kind, stated):
    frame = table(kind)
    frame.to_csv(tmp_path / "file.csv", index=False)
    frame.head(5).to_csv(tmp_path / "new.csv", index=False)
    settings = {"csv": "file.csv", "new": "new.csv", **stated}
    prepared = prepare_table(settings, tmp_path)
    own, expected = data_of_table(prepared), data_of(data_tree(prepared))
    assert own.encoding == expected.encoding
    for rows, other in zip(own[1:], expected[1:], strict=True):
        assert (rows is None) == (other is None)
        if rows is None:
            continue
        pd.testing.assert_frame_equal(rows.X, other.X)
        for name in ("row", "y", "outcome", "unit"):
            values, same = getattr(rows, name), getattr(other, name)
            assert (values is None) == (same is None)
            if values is not None:
                np.testing.assert_array_equal(values, same, strict=True)


def test_units_go_by_the_name_of_the_likelihood(data):
    counts, binomial = data("counts").learning, data("binomial").learning
    assert list(counts.units("counts")) == ["exposure"]
    assert list(binomial.units("binomial")) == ["trials"]
    np.testing.assert_array_equal(counts.units("counts")["exposure"], counts.unit)
    assert data("binary").learning.units("binary") == {}


@pytest.mark.parametrize(
    ("by", "known"), [({}, True), ({"test_by": "subject"}, False)], ids=["at random", "by subject"]
)
def test_scored_rows_are_of_known_or_of_new_groups(tmp_path, by, known):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"subject": np.repeat([f"s{k}" for k in range(30)], 4), "dose": rng.random(120)}
    )
    frame.assign(gain=rng.standard_normal(120)).to_csv(tmp_path / "file.csv", index=False)
    stated = {"csv": "file.csv", "target": "gain", "groups": ["subject"], **by}
    prepared = prepare_table(stated, tmp_path)
    settings = {"data": stated}
    found = groups_scored(data_of(tree_of("mine", settings, prepared, 1)))
    assert found == [{"name": "subject", "held_out": known, "left_out": True}]


def test_a_file_without_optional_parts(data):
    tree = data_tree_of = data("binary", test_fraction=0.0)
    assert data_tree_of.held_out is None
    assert tree.new is None


def test_rows_and_columns_are_written(tmp_path, table):
    table("binary", 20).to_csv(tmp_path / "file.csv", index=False)
    new = table("binary", 12).drop(columns="ill").assign(note="mine")
    new.to_csv(tmp_path / "new.csv", index=False)
    prepared = prepare_table({"csv": "file.csv", "target": "ill", "new": "new.csv"}, tmp_path)
    write_rows(tmp_path, prepared)
    assert sorted(pd.read_csv(tmp_path / "rows.csv")["row"]) == list(range(2, 22))
    cells = pd.read_csv(tmp_path / "new_rows.csv", dtype=str, keep_default_na=False)
    assert list(cells["row"]) == [str(row) for row in range(2, 14)]
    assert list(cells["id"]) == list(new["id"])
    assert list(cells_of(None).columns) == ["row", "note"]


def test_columns_named_as_those_of_a_table_get_another_name(tmp_path, table):
    rows = table("real", 20)
    rows = rows.rename(columns={"dose": "row"}).assign(note=np.random.default_rng(0).random(20))
    rows.to_csv(tmp_path / "file.csv", index=False)
    rows.to_csv(tmp_path / "new.csv", index=False)
    prepared = prepare_table({"csv": "file.csv", "target": "yield", "new": "new.csv"}, tmp_path)
    cells = cells_of(prepared.new)
    assert list(cells.columns) == ["row", "note", "row (column)", "note (column)"]


def test_use_leaves_other_columns_out(tmp_path, table):
    table("binary").to_csv(tmp_path / "file.csv")  # with a first column without a name
    settings = {"data": {"csv": "file.csv", "target": "ill", "use": ["age", "ward"]}}
    prepared = prepare("mine", settings, tmp_path, 0, "data")
    assert prepared.encoding.columns == ["age", "ward"]
    settings["data"]["use"] = ["age", "wrad"]
    with pytest.raises(
        InputError, match=r"data\.use: column: unknown name 'wrad'; did you mean 'w"
    ):
        prepare("mine", settings, tmp_path, 0, "data")


def test_use_of_an_empty_file_is_one_line(tmp_path):
    (tmp_path / "file.csv").write_text("")
    settings = {"data": {"csv": "file.csv", "target": "ill", "use": ["age"]}}
    with pytest.raises(InputErrors, match="is empty"):
        prepare("mine", settings, tmp_path, 0, "data")


def test_tables_of_scikit_learn(tmp_path):
    cancer, diabetes = scikit_table("breast-cancer"), scikit_table("diabetes")
    assert cancer["diagnosis"].value_counts().to_dict() == {"benign": 357, "malignant": 212}
    assert cancer["mean radius"][0] == 17.99  # natural units
    assert cancer["diagnosis"][0] == "malignant"
    assert diabetes.shape == (442, 11)
    assert diabetes["age"][0] == 59.0
    assert diabetes["progression"].mean() == pytest.approx(152.133, abs=1e-3)
    assert set(diabetes["sex"]) == {"group 1", "group 2"}
    with pytest.raises(InputError, match="table: unknown name 'diabetis'; did you mean 'diabetes'"):
        scikit_table("diabetis")
    settings = {"data": {"table": "diabetes", "target": "progression", "use": ["bmi", "sex"]}}
    prepared = prepare("mine", settings, tmp_path, 0, "data")
    assert prepared.encoding.columns == ["sex", "bmi"]
    written = pd.read_csv(tmp_path / "results" / "mine" / "diabetes.csv")
    assert len(written) == 442
    assert data_of(data_tree(prepared)).target.kind == "real"
