"""Problems of the paper config, as models, for jobs that state them to a peer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import yaml

import gpmcflow as gp
from gpmcflow.jobs.problems import prepare_data
from gpmcflow.pipeline.config import check_config
from gpmcflow.replications.surrogate_slice.problems import build_joint_model

CONFIG = Path(__file__).parents[2] / "config" / "paper.yaml"


def load(problem: str) -> gp.GPModel:
    """Model of a problem of the paper config with unknown hyperparameters."""
    config = check_config(yaml.safe_load(CONFIG.read_text()))
    settings = config["problems"][problem]
    name = settings["dataset"]
    dataset = prepare_data(name, config["datasets"].get(name), config["data_dir"])
    return build_joint_model(dataset, problem, settings)


def stated(model: gp.GPModel) -> dict:
    """Arrays of a squared exponential model with uniform hyperpriors: log lengths, log signal sd, offset.

    Equal ends fix a coordinate; on a grid the coordinates of its rows and columns are there, too.
    """
    ends = [getattr(prior, "support", (prior, prior)) for prior in model.parameters.priors]
    low, high = np.array(ends, dtype=float).T
    problem = {
        "X": model.X, "y": model.y, "likelihood": model.likelihood.name, "jitter": model.epsilon,
        "low": low, "high": high,
    }  # fmt: skip
    if model.kronecker:
        problem |= {"rows": np.unique(model.X[:, 0]), "columns": np.unique(model.X[:, 1])}
    return problem
