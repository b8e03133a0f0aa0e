from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from gpmcflow.cli import main
from gpmcflow.data import CATALOGUE
from gpmcflow.storage import standard_attributes, write_results


def test_datasets_lists_the_catalogue(capsys):
    assert main(["datasets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(CATALOGUE)


def test_check_of_a_good_and_of_a_wrong_config(tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    text = "problems: {a: {dataset: pima, hyperparameters: {select: maximum}}}\n"
    text += "studies: {rmhmc_ais: {problems: [a], methods: {m: {}}}}\n"
    path.write_text(text)
    assert main(["check", str(path)]) == 0
    assert "ok" in capsys.readouterr().out
    path.write_text(text.replace("pima", "pyma"))
    assert main(["check", str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert (
        "mine.yaml: problems.a.dataset: unknown name 'pyma'; did you mean 'pima'?" in captured.err
    )
    path.write_text(text.replace("pima,", "pima, likelihood: {gaussian: {noise: 1.0}},"))
    assert main(["check", str(path)]) == 1
    captured = capsys.readouterr()
    assert "mine.yaml: problems.a.likelihood: gaussian: setting: unknown name" in captured.err
    assert captured.err.count("\n") == 1


def test_show_names_groups_sizes_and_settings(tmp_path, capsys):
    root = xr.Dataset(attrs=standard_attributes(settings={"a": 7}, seed=1, data_checksum="x"))
    posterior = xr.Dataset({"latent": (("chain", "draw"), np.zeros((2, 3)))})
    path = tmp_path / "file.nc"
    write_results(xr.DataTree.from_dict({"/": root, "posterior": posterior}), path)
    assert main(["show", str(path)]) == 0
    out = capsys.readouterr().out
    assert "/posterior  (chain 2, draw 3)" in out
    assert "latent (chain, draw)" in out
    assert '"a": 7' in out


def test_show_of_a_truncated_file_is_one_line(tmp_path, capsys):
    path = tmp_path / "file.nc"
    write_results(xr.DataTree(xr.Dataset({"a": ("x", np.arange(1000.0))})), path)
    path.write_bytes(path.read_bytes()[:3000])
    assert main(["show", str(path)]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "file.nc" in error


def test_no_command_is_an_error(capsys):
    with pytest.raises(SystemExit):
        main([])
    assert "command" in capsys.readouterr().err
