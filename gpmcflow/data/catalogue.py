"""The data sets by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from gpmcflow.data import loaders
from gpmcflow.data.layout import Parts, build
from gpmcflow.data.loaders import coal, redwood, simulated_cox, ten_counts
from gpmcflow.data.simulated import shahbaba_simulated, synthetic_gpc, synthetic_regression
from gpmcflow.data.sources import SourceFile, fetch
from gpmcflow.errors import InputError, unknown_name

# The data sets by name; `by_name` loads them.
#
# A new data set is one entry here and one loader (files -> `Parts`) in `loaders.py`.

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
PRNN = "https://www.stats.ox.ac.uk/pub/PRNN"
NO_LICENCE = "none stated upstream"
SAT_TRN = SourceFile(
    "statlog/sat.trn",
    "e896dc88a960fa2404160fc4c3cb3dc53fcf4afd80ba920bf2d261bd42d12613",
    f"{UCI}/statlog/satimage/sat.trn",
)
MURRAY_ADAMS = "Murray & Adams (2010), Advances in Neural Information Processing Systems 23"
STATLOG_CITATION = "Srinivasan (1993), Statlog (Landsat Satellite), UCI, doi:10.24432/C55887"


@dataclass(frozen=True)
class Entry:
    """One data set: its loader, called as `loader(paths, **options)`, its files, its papers.

    `fallback` replaces `files` where one of these is found nowhere and cannot be downloaded.
    `source` says where data come from that have no file.
    """

    loader: Callable[..., Parts]
    title: str
    description: str
    citation: str
    licence: str
    files: tuple[SourceFile, ...] = ()
    fallback: tuple[SourceFile, ...] = ()
    task: str = "classification"
    source: str = ""


CATALOGUE: dict[str, Entry] = {
    "digits-3v5": Entry(
        loader=loaders.digits_3v5,
        title="Handwritten digits 8 x 8, 3 against 5",
        description="243 training and 122 test cases, 64 features; comes with scikit-learn",
        citation="Alpaydin & Kaynak (1998), Optical Recognition of Handwritten Digits, UCI, "
        "doi:10.24432/C50P49",
        licence="CC BY 4.0",
        source="scikit-learn, sklearn.datasets.load_digits",
    ),
    "usps-3v5": Entry(
        loader=loaders.usps_3v5,
        title="USPS digits 16 x 16, 3 against 5, resampled",
        description="767 training and 773 test cases, 256 features",
        citation="Hull (1994), IEEE PAMI 16(5), 550-554; Rasmussen & Williams (2006), Gaussian "
        "Processes for Machine Learning, MIT Press",
        licence=NO_LICENCE,
        files=(
            SourceFile(
                "usps/usps_3v5_resampled.npz",
                "10499fcb70197ba57f9e4a2c843491d8a115d37d1fb9a2ef1c2dd44118d0378c",
            ),
        ),
        fallback=(
            SourceFile(
                "usps/usps3vs5.mat",
                "2321c193897b868c3165d8fe6e3498497adac80d0a8f2f525824e48b8c0d888b",
                "https://github.com/karlnapf/kameleon-mcmc/raw/master/data/usps3vs5.mat",
            ),
        ),
    ),
    "ionosphere": Entry(
        loader=loaders.ionosphere,
        title="Ionosphere, good against bad radar returns",
        description="200 training and 151 test cases, 33 features; option keep_constant (34)",
        citation="Sigillito, Wing, Hutton & Baker (1989), Johns Hopkins APL Tech. Digest 10, "
        "262-266; UCI, doi:10.24432/C5W01B",
        licence="CC BY 4.0",
        files=(
            SourceFile(
                "ionosphere/ionosphere.data",
                "46d52186b84e20be52918adb93e8fb9926b34795ff7504c24350ae0616a04bbd",
                f"{UCI}/ionosphere/ionosphere.data",
            ),
        ),
    ),
    "sonar": Entry(
        loader=loaders.sonar,
        title="Sonar, mines against rocks",
        description="104 training and 104 test cases, 60 features",
        citation="Gorman & Sejnowski (1988), Neural Networks 1, 75-89; UCI, doi:10.24432/C5T01Q",
        licence="CC BY 4.0",
        files=(
            SourceFile(
                "gpc/sonar.all-data",
                "e90434cdbf00fcf93ffa911fe447ae25606979658e60f1d32e155c3b5240234d",
                f"{UCI}/undocumented/connectionist-bench/sonar/sonar.all-data",
            ),
        ),
    ),
    "pima": Entry(
        loader=loaders.pima,
        title="Diabetes among Pima women, complete cases",
        description="200 training and 332 test cases, 7 features",
        citation="Smith et al. (1988), Proc. Symp. Computer Applications in Medical Care, "
        "261-265; Ripley (1996), Pattern Recognition and Neural Networks",
        licence=NO_LICENCE,
        files=(
            SourceFile(
                "gpc/pima.tr",
                "789098206b1ef9482743f197aaf98d27d98b49a0f46317fd773563f200c4449a",
                f"{PRNN}/pima.tr",
            ),
            SourceFile(
                "gpc/pima.te",
                "a065e2debfad108fa24d40d43dd97d95b05832f2f2e6689ce53fbf41f9282b4b",
                f"{PRNN}/pima.te",
            ),
        ),
    ),
    "crabs": Entry(
        loader=loaders.crabs,
        title="Leptograpsus crabs, male against female",
        description="200 cases, 5 features, no test set",
        citation="Campbell & Mahon (1974), Australian Journal of Zoology 22, 417-425; Ripley "
        "(1996), Pattern Recognition and Neural Networks",
        licence=NO_LICENCE,
        files=(
            SourceFile(
                "gpc/crabs.dat",
                "7425e025e84665544502f62aea1f481a318cf3ac34179d8cee2782aa5334fa6c",
                f"{PRNN}/crabs.dat",
            ),
        ),
    ),
    "statlog-cotton": Entry(
        loader=loaders.statlog_cotton,
        title="Landsat satellite image, cotton crop against soil",
        description="4435 cases, 36 features, no test set",
        citation=STATLOG_CITATION,
        licence="CC BY 4.0",
        files=(SAT_TRN,),
    ),
    "statlog": Entry(
        loader=loaders.statlog,
        title="Landsat satellite image, six classes of soil",
        description="4435 cases, 36 features, class codes 0..5, no test set",
        citation=STATLOG_CITATION,
        licence="CC BY 4.0",
        task="multiclass",
        files=(SAT_TRN,),
    ),
    "ctg": Entry(
        loader=loaders.ctg,
        title="Cardiotocography, pathologic against normal and suspect",
        description="2126 cases, 21 features, no test set",
        citation="Campos & Bernardes (2000), Cardiotocography, UCI, doi:10.24432/C51S4N; Ayres de "
        "Campos et al. (2000), J Matern Fetal Med 5, 311-318",
        licence="CC BY 4.0",
        files=(
            SourceFile(
                "ctg/CTG.csv",
                "328e7c0bdae051d6a0c23085e254f25d161638192fbcab52715dca74f658c3d8",
            ),
        ),
        fallback=(
            SourceFile(
                "ctg/CTG.txt",
                "e47a369992161be8e3a2a48807a5f9f31cf1c411bbdaaa5e7013803ab4886b52",
                "https://github.com/babaks/Codes/raw/master/SplitHMC/CTG.txt",
            ),
        ),
    ),
    "chess": Entry(
        loader=loaders.chess,
        title="Chess, king and rook against king and pawn, won or not",
        description="3196 cases, 36 features, no test set",
        citation="Shapiro (1983), Chess (King-Rook vs. King-Pawn), UCI, doi:10.24432/C5DK5C",
        licence="CC BY 4.0",
        files=(
            SourceFile(
                "chess/kr-vs-kp.data",
                "70a5540902b4063d3977d3e820ac5b9fe5624eb5d93709eee5d50d7a94fca205",
                f"{UCI}/chess/king-rook-vs-king-pawn/kr-vs-kp.data",
            ),
        ),
    ),
    "breast-cancer": Entry(
        loader=loaders.breast_cancer,
        title="Breast cancer (Wisconsin, diagnostic), malignant against benign",
        description="569 cases, 30 features, no test set; comes with scikit-learn",
        citation="Wolberg, Mangasarian, Street & Street (1993), Breast Cancer Wisconsin "
        "(Diagnostic), UCI, doi:10.24432/C5DW2B",
        licence="CC BY 4.0",
        source="scikit-learn, sklearn.datasets.load_breast_cancer",
    ),
    "shahbaba-simulated": Entry(
        loader=shahbaba_simulated,
        title="Simulated logistic regression of Shahbaba et al.",
        description="10000 cases, 100 features, no test set; the authors' own draw, or with option "
        "seed a fresh one; options n, seed",
        citation="Shahbaba, Lan, Johnson & Neal (2014), Statistics and Computing 24, 339-349, "
        "doi:10.1007/s11222-012-9373-1",
        licence="none needed, generated",
        source="drawn by gpmcflow",
    ),
    "synthetic-gpc": Entry(
        loader=synthetic_gpc,
        title="Synthetic Gaussian process classification",
        description="squared-exponential covariance, probit labels, known latent; options n, "
        "n_test, n_features, log_length_scale, log_signal_sd, seed",
        citation="Rasmussen & Williams (2006), Gaussian Processes for Machine Learning, sec. 3.3",
        licence="none needed, generated",
        source="drawn by gpmcflow",
    ),
    "synthetic-regression": Entry(
        loader=synthetic_regression,
        title="Synthetic Gaussian process regression",
        description="200 cases, 10 features, one length scale a feature, known latent and noise; "
        "options n, n_features, noise_sd, least_length, largest_length, seed",
        citation=MURRAY_ADAMS,
        licence="none needed, generated",
        task="regression",
        source="drawn by gpmcflow",
    ),
    "coal": Entry(
        loader=coal,
        title="Coal-mining disasters, counts in bins of days",
        description="112 bins of 365 days, 191 events; comes with gpmcflow; option bin_days",
        citation="Jarrett (1979), Biometrika 66, 191-193; Hand et al. (1994), A Handbook of Small "
        "Data Sets",
        licence="unlimited (R package boot)",
        task="counts",
        source="R package boot, coal",
    ),
    "redwood": Entry(
        loader=redwood,
        title="Redwood seedlings, counts in square cells",
        description="625 cells of 25 x 25, 195 trees; option side",
        citation="Strauss (1975), Biometrika 62, 467-475",
        licence="GPL (>= 2) (R package spatstat.data)",
        task="counts",
        files=(
            SourceFile(
                "redwood/redwoodfull.csv",
                "9fcf85e482481e9122259a5314b65e86bd4e4d544e17f8f71012e874580ef28b",
            ),
        ),
        fallback=(
            SourceFile(
                "redwood/redwoodfull.txt",
                "525b6b229a7e281ffc3be66c0de0a8299dc271eb0a57b8f02c3e914f9902c336",
                "https://github.com/gpstuff-dev/gpstuff/raw/HEAD/gp/demodata/redwoodfull.txt",
            ),
        ),
    ),
    "simulated-cox": Entry(
        loader=simulated_cox,
        title="Simulated log-Gaussian Cox process",
        description="60 bins of the unit interval, known latent; options n, log_length_scale, "
        "log_signal_sd, log_rate, seed",
        citation=MURRAY_ADAMS,
        licence="none needed, generated",
        task="counts",
        source="drawn by gpmcflow",
    ),
    "ten-counts": Entry(
        loader=ten_counts,
        title="Ten counts, for exact answers",
        description="10 cases, 1 feature; comes with gpmcflow",
        citation="none, made up",
        licence="none needed",
        task="counts",
        source="made up for gpmcflow",
    ),
}


# Data sets by their names in the catalogue.


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
