"""Data sets by their names in the catalogue."""

from __future__ import annotations

import inspect
from pathlib import Path

import xarray as xr

from gpmcflow.data.catalogue import CATALOGUE, Entry
from gpmcflow.data.layout import build
from gpmcflow.data.sources import SourceFile, fetch
from gpmcflow.errors import InputError, unknown_name


def list_datasets() -> list[str]:
    """Return the names `load_dataset` knows."""
    return list(CATALOGUE)


def load_dataset(name: str, *, data_dir: str | Path | None = None, **options) -> xr.Dataset:
    """Load a data set by its name; `gpmcflow datasets` lists them with their options.

    Files are looked for in ``data_dir``, then in the folder named by the environment variable
    GPMCFLOW_DATA, then in the download cache, then upstream.

    Parameters
    ----------
    name:
        Of the data set, such as "digits-3v5", "breast-cancer" or "coal".
    data_dir:
        Folder that holds files under the paths they have in the catalogue, such as statlog/sat.trn.
    options:
        What some data sets take, such as ``n`` and ``seed`` of the synthetic ones.

    Returns
    -------
    Variables `X` (case, feature) and `y` (case), `X_test` (test_case, feature) and `y_test`
    (test_case) where there is a test set, `latent` (case) and `latent_test` (test_case) where the
    latent values are known; all float64, binary labels in {-1, +1}, those of more classes in
    {0, .., K-1}. There is no column of ones: models add the intercept. Attributes tell the
    source, the label coding, the preprocessing and the checksum.

    Raises
    ------
    InputError:
        For an unknown name, option or folder.
    StorageError:
        For a file with a wrong checksum, or one that cannot be had.

    Examples
    --------
    >>> import gpmcflow as gp
    >>> data = gp.load_dataset("ten-counts")
    >>> data["y"].values.astype(int).tolist()
    [3, 5, 4, 2, 0, 0, 1, 0, 2, 6]
    >>> dict(gp.load_dataset("synthetic-regression", n=20, n_features=2)["X"].sizes)
    {'case': 20, 'feature': 2}
    """
    if name not in CATALOGUE:
        raise unknown_name("load_dataset: name", name, CATALOGUE)
    entry = CATALOGUE[name]
    _check_options(name, entry, options)
    paths, used = fetch(entry.files, fallback=entry.fallback, data_dir=data_dir)
    return build(
        entry.loader(paths, **options),
        name=name,
        title=entry.title,
        task=entry.task,
        citation=entry.citation,
        licence=entry.licence,
        source="; ".join(file.origin for file in used) or entry.source,
        source_checksum=_source_checksum(used),
    )


def _check_options(name: str, entry: Entry, options: dict[str, object]) -> None:
    """Raise InputError for an option the loader does not have."""
    parameters = inspect.signature(entry.loader).parameters.values()
    allowed = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    for option in options:
        if not allowed:
            raise InputError(
                f"load_dataset: {name}: found option {option!r}, this data set has none; remove it"
            )
        if option not in allowed:
            raise unknown_name(f"load_dataset: {name}: option", option, allowed)


def _source_checksum(used: tuple[SourceFile, ...]) -> str:
    """Return the sha256 of the one file, or `path=sha256; ...` of several."""
    if len(used) == 1:
        return used[0].sha256
    return "; ".join(f"{file.path}={file.sha256}" for file in used)
