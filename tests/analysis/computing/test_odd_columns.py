"""Columns and models with names, and cells, that something else could be taken for."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from gpmcflow.analysis.baselines import baselines
from gpmcflow.analysis.effects import MOST_LEVELS, Sweep, effect, sweeps
from gpmcflow.analysis.models import marks_apart
from gpmcflow.analysis.page import words
from gpmcflow.analysis.reading import prepare
from gpmcflow.cli import main
from gpmcflow.covariances.leaves import Matern32
from gpmcflow.data.columns import date_text, describe_columns
from gpmcflow.data.csv_table import read_csv
from gpmcflow.data.large_models import LargeModels
from gpmcflow.data.own_table import prepare_table
from gpmcflow.data.suggestions import suggest
from gpmcflow.errors import InputError
from gpmcflow.pipeline.predict import predict_file
from gpmcflow.storage import write_result_text

LIKE_PREDICTIONS = ["row", "mean", "q025", "q975"]


@pytest.fixture(scope="module")
def done(tmp_path_factory, analysis):
    """An analysis of columns named as those of predictions, and models of digits; its folder."""
    folder, rng = tmp_path_factory.mktemp("odd"), np.random.default_rng(5)
    rows = pd.DataFrame(rng.normal(50.0, 10.0, (60, 4)).round(2), columns=LIKE_PREDICTIONS)
    rows["outcome"] = rng.permutation([f"P{k:03d}" for k in range(60)])
    rows["store"] = rng.permutation(np.repeat(np.arange(12341, 12351), 6))
    y = rows[LIKE_PREDICTIONS].sum(axis=1) / 10 + rows["store"] % 7 + rng.normal(0, 0.5, 60)
    rows.assign(y=y.round(3)).to_csv(folder / "file.csv", index=False)
    rows.head(9).to_csv(folder / "new.csv", index=False)
    data = {"csv": "file.csv", "target": "y", "new": "new.csv", "categorical": ["store"]}
    models = {"1": {"covariance": "linear()"}, "2": {"covariance": "matern32(mean)"}}
    return folder, analysis(folder, {"data": data, "models": models, "quick": True})


def test_a_column_named_as_one_of_the_predictions_stands_beside_it(done, monkeypatch):
    folder, run = done
    table = pd.read_csv(run.folder / "predictions_new.csv")
    assert table.columns.is_unique
    assert list(table["row"]) == list(range(2, 11))
    new = pd.read_csv(folder / "new.csv")
    for name in (*LIKE_PREDICTIONS, "outcome"):
        assert list(table[f"{name} (column)"]) == list(new[name])
    monkeypatch.chdir(folder)
    told = predict_file("mine", "new.csv", "mine.csv")
    assert f"  first row: y {table['mean'][0]:.3g} (" in "\n".join(told)
    assert list(pd.read_csv("mine.csv").columns) == list(table.columns)


def test_predictions_do_not_go_into_the_file_they_are_of(done, monkeypatch):
    folder, _ = done
    monkeypatch.chdir(folder)
    before = (folder / "new.csv").read_bytes()
    with pytest.raises(InputError, match="the file of the new rows itself"):
        predict_file("mine", "new.csv", folder / "new.csv")
    assert (folder / "new.csv").read_bytes() == before


def test_predictions_do_not_go_into_files_of_the_analysis(done, monkeypatch):
    folder, run = done
    monkeypatch.chdir(folder)
    settings = yaml.safe_load((run.folder / "config.yaml").read_text())
    for output, why in (
        (settings["data"]["csv"], "a file that the analysis is made of"),
        (run.folder / "data.nc", "a place for results"),
    ):
        before = Path(output).read_bytes()
        with pytest.raises(InputError, match=why):
            predict_file("mine", "new.csv", output)
        assert Path(output).read_bytes() == before
    write_result_text("of another project", "copied.html")
    for output in ("copied.html", run.folder / "later.csv", run.folder.parent / "report.html"):
        with pytest.raises(InputError, match="a place for results"):
            predict_file("mine", "new.csv", output)


def test_predictions_go_into_pipes_and_to_standard_output_but_not_over_devices(
    done, monkeypatch, capsys
):
    folder, _ = done
    monkeypatch.chdir(folder)
    predict_file("mine", "new.csv", "mine.csv")
    expected = Path("mine.csv").read_text()
    assert main(["predict", "mine", "new.csv", "-o", "-"]) == 0
    captured = capsys.readouterr()
    assert captured.out == expected
    assert "wrote standard output: row" in captured.err
    os.mkfifo("pipe")
    reader = subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE, text=True)
    predict_file("mine", "new.csv", "pipe")
    assert reader.communicate(timeout=20)[0] == expected
    assert Path("pipe").is_fifo()
    with socket.socket(socket.AF_UNIX) as server:  # as a device, which only root could make
        server.bind("device")
        with pytest.raises(InputError, match="a device or a socket"):
            predict_file("mine", "new.csv", "device")
        assert Path("device").is_socket()
        Path("link").symlink_to("device")
        with pytest.raises(InputError, match="a device or a socket"):
            predict_file("mine", "new.csv", "link")
    Path("way").symlink_to("elsewhere.csv")
    predict_file("mine", "new.csv", "way")
    assert Path("way").is_symlink()
    assert Path("elsewhere.csv").read_text() == expected


def test_numbers_that_are_names_are_shown_as_they_are(done):
    _, run = done
    page = (run.folder / "report.html").read_text()
    text = re.sub(r"<svg.*?</svg>|<[^>]*>", " ", page, flags=re.DOTALL)
    assert re.search(r"\b1234\d to 1234\d\b|1234\d.{1,20}1234\d", text)
    assert words.number(12340, 4) not in text
    models = pd.read_csv(run.folder / "models.csv", dtype=str)
    assert list(models.loc[models["role"] == "model", "name"]) == ["1", "2"]


def test_a_category_of_many_levels_is_swept_over_the_most_frequent(data, table):
    rows = table("real", 300)
    zips = np.repeat(np.arange(100), 3)
    rows["zip"] = np.where(zips < 40, zips % 10, zips).astype(str)
    own = data("real", rows=rows, categorical=["zip"])
    (sweep,) = (s for s in sweeps(own, np.random.default_rng(0)) if s.column == "zip")
    assert len(sweep.values) == MOST_LEVELS
    assert set(sweep.values[:10]) == set("0123456789")


@pytest.mark.parametrize("levels", [["a"], ["a", "b"], ["a", "b", "c"]])
def test_the_mark_of_missing_cells_is_that_of_any_category(data, table, levels):
    rows = table("binary", 60)
    rows["kind"] = [levels[k % len(levels)] if k % 4 else "" for k in range(60)]
    own = data("binary", rows=rows, categorical=["kind"])
    apart = marks_apart(Matern32(columns=("age", "kind")), own.encoding, "here")
    slopes = [leaf.columns for leaf in apart.leaves() if leaf.term == "linear"]
    assert slopes == [("age missing", "kind missing")]


@pytest.mark.parametrize("name", ["class", "from", "µg", "größe", "x y", "age"])
def test_a_start_for_many_rows_names_columns_as_the_text_of_a_covariance_does(
    tmp_path, data, model, table, name
):
    rows = table("real", 60).rename(columns={"dose": name}).assign(second=np.arange(60) % 11)
    own = data("real", rows=rows)
    rows.to_csv(tmp_path / "file.csv", index=False)
    columns = describe_columns(read_csv(tmp_path / "file.csv", ",", "row"))
    large = LargeModels(columns, [name, "second"], [])
    for text in large.covariances.values():
        text = text.replace("length_scale=reach", "length_scale=1.0")
        text = text.replace("length_scale=wide", "length_scale=1.0")
        assert model(own, text).n_cases == len(own.learning.row)


def test_codes_of_many_digits_stay_apart(tmp_path):
    codes = [f"12345678901234567{k}" for k in range(3)]
    lines = ["code,x,y", *(f"{codes[k % 3]},{k % 7}.5,{k}.25" for k in range(30))]
    (tmp_path / "file.csv").write_text("\n".join(lines))
    settings = {"csv": "file.csv", "target": "y", "categorical": ["code"]}
    prepared = prepare_table(settings, tmp_path)
    assert set(prepared.encoding.code("code").levels) == set(codes)
    assert not any(prepared.train.note)


def test_names_that_differ_in_a_stroke_alone_are_refused(tmp_path, table):
    rows = table("real", 30).assign(**{"a/b": np.arange(30) % 7, "a_b": np.arange(30) % 5})
    rows.to_csv(tmp_path / "file.csv", index=False)
    with pytest.raises(InputError, match="columns a/b and a_b differ in / and _ alone; rename"):
        prepare_table({"csv": "file.csv", "target": "yield"}, tmp_path)


def test_use_goes_with_a_separator_by_name(tmp_path, table):
    table("binary").to_csv(tmp_path / "file.csv", index=False, sep="\t")
    for separator in ("tab", "\\t", "\t"):
        data = {"csv": "file.csv", "target": "ill", "use": ["age"], "separator": separator}
        assert prepare("mine", {"data": data}, tmp_path, 0, "data").encoding.columns == ["age"]


def test_a_date_is_not_the_day_before_by_a_rounding_error():
    assert date_text(19723.0 - 1e-9) == date_text(19723.0) == "2024-01-01"
    assert date_text(19723.0 - 0.01) == "2023-12-31"


@pytest.mark.parametrize("kind", ["binary", "counts"])
def test_a_value_far_outside_leaves_the_baselines_finite(data, table, kind):
    rows = table(kind, 200)
    own = data(kind, rows=rows, test_fraction=0.3)
    X = own.held_out.X.copy()
    X.iloc[:2] = [[1e4] * X.shape[1], [-1e4] * X.shape[1]]
    for baseline in baselines(own, own.held_out._replace(X=X)):
        assert np.isfinite(baseline.log_density).all()


def test_a_level_that_lowers_a_real_outcome_is_seen_as_one_that_raises_it():
    draws = np.random.default_rng(0).normal([10.0, 5.0], 0.2, (400, 2))
    category = Sweep("ward", "category", ("a", "b"), (0, 0), pd.DataFrame())
    down, up = (effect(category, averages, "real") for averages in (draws, draws[:, ::-1]))
    assert down.change[1] > 4.0
    assert down.places == (1, 0)
    assert up.places == (0, 1)
    np.testing.assert_allclose(down.change, up.change)


@pytest.mark.parametrize(
    "values", [np.arange(60) % 13 == 0, np.where(np.arange(60) < 57, 0, np.arange(60))]
)
def test_a_column_of_mostly_one_value_is_told_between_its_ends(data, table, values):
    own = data("real", rows=table("real", 60).assign(rare=values.astype(int)))
    (sweep,) = (s for s in sweeps(own, np.random.default_rng(0)) if s.column == "rare")
    low, high = (sweep.values[place] for place in sweep.usual)
    learning = own.encoding.natural("rare", own.learning.X["rare"].to_numpy())
    assert (low, high) == pytest.approx((learning.min(), learning.max()))


@pytest.mark.parametrize("kind", ["binary", "real"])
def test_a_date_alone_is_shown_as_dates(tmp_path, table, analysis, kind):
    rows = table("many" if kind == "real" else "binary", 60)[
        ["day", "yield" if kind == "real" else "ill"]
    ]
    rows.to_csv(tmp_path / "file.csv", index=False)
    data = {"csv": "file.csv", "target": rows.columns[1]}
    config = {"data": data, "models": {"a": {"covariance": "matern32()"}}, "quick": True}
    run = analysis(tmp_path, config)
    for name, year in (("effects", "2024"), ("curve", r"202[345]")):
        values = pd.read_csv(run.folder / f"{name}.csv")["value"]
        assert values.str.fullmatch(year + r"-\d\d-\d\d").all()


def test_use_does_not_make_an_input_of_what_holds_rows_out(tmp_path, table):
    table("binary").to_csv(tmp_path / "file.csv", index=False)
    data = {"csv": "file.csv", "target": "ill", "use": ["age"], "test_by": "day"}
    assert prepare("mine", {"data": data}, tmp_path, 0, "data").encoding.columns == ["age"]


def test_a_word_among_zeros_and_ones_leaves_the_outcome_binary(tmp_path):
    lines = ["x,y", *(f"{k}.5,{'unknown' if k == 7 else k % 2}" for k in range(40))]
    (tmp_path / "file.csv").write_text("\n".join(lines))
    text = suggest(tmp_path / "file.csv", "y").text("mine", csv="file.csv")
    assert "likelihood: probit" in text
    assert '"unknown" read as no value' in text
    settings = {"csv": "file.csv", "target": "y", "positive": "1"}
    with pytest.raises(InputError, match=r"is not a number; add it to data\.missing"):
        prepare_table(settings, tmp_path)
    prepared = prepare_table({**settings, "missing": ["unknown"]}, tmp_path)
    assert prepared.target.kind == "binary"
    one = prepare_table({**settings, "positive": "unknown"}, tmp_path)  # against the rest
    assert one.target.negative == "not unknown"


def test_a_stated_likelihood_says_what_the_outcome_is(tmp_path):
    """Marks from 1 would be a real outcome; without the statement of a likelihood they still are."""
    lines = ["x,y", *(f"{k}.5,{k % 5 + 1}" for k in range(40))]
    (tmp_path / "file.csv").write_text("\n".join(lines))
    data = {"csv": "file.csv", "target": "y"}
    for likelihood, kind in {
        "negative_binomial": "counts",
        "student_t": "real",
        "log_normal": "positive",
        "gamma": "positive",
        None: "real",
    }.items():
        settings = {"data": data, "likelihood": likelihood}
        assert prepare("mine", settings, tmp_path, 0, "data").target.kind == kind
    settings = {"data": data, "likelihood": {"negative_binomial": {"size": 3.0}}}
    assert prepare("mine", settings, tmp_path, 0, "data").target.kind == "counts"


def test_a_target_in_another_notation_says_so(tmp_path):
    lines = ["x;y", *(f"{k};1,{100 + 7 * k}" for k in range(60))]
    (tmp_path / "file.csv").write_text("\n".join(lines))
    settings = {"csv": "file.csv", "target": "y", "separator": ";"}
    with pytest.raises(
        InputError, match=r'"1,100" is 1100 or 1\.100; write decimal: ","'
    ) as raised:
        prepare_table(settings, tmp_path)
    assert "classes" not in str(raised.value)
    assert suggest(tmp_path / "file.csv", "y").settings.decimal == ","


def test_new_rows_are_to_be_saved_with_the_separator_of_the_first_file(tmp_path, table):
    table("real", 30).to_csv(tmp_path / "file.csv", index=False)
    table("real", 30).to_csv(tmp_path / "new.csv", index=False, sep=";")
    settings = {"csv": "file.csv", "target": "yield", "new": "new.csv"}
    with pytest.raises(InputError, match=r'new\.csv.*no separator ",", but ";"; save it with ","'):
        prepare_table(settings, tmp_path)
    settings |= {"csv": "new.csv", "new": None}
    with pytest.raises(InputError, match='write separator: ";"'):
        prepare_table(settings, tmp_path)


def test_words_of_places_tell_neighbours_apart():
    assert [words.near(value, 0.05) for value in (11.575, 11.623)] == ["11.575", "11.623"]
    assert words.near(2014.5, 10.0) == "2014.5"
    assert words.near(8.213, 20.0) == "8.2"
    assert words.ends("230.1", "230.4") == ("230.1", "230.4")
    assert words.ends("57", "131") == ("57", "131")
    assert words.ends("a", "a") == ("a", "a")
