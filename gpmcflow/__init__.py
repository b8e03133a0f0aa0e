"""Monte Carlo inference for latent Gaussian models as a reproducible pipeline.

The public names are imported on first use, so that a Snakefile can read the config without loading NumPy.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Binomial": "likelihoods",
    "Categorical": "covariances.expressions",
    "Constant": "covariances.expressions",
    "DataSplitHMC": "samplers",
    "Gaussian": "likelihoods",
    "GaussianSites": "models.gaussian_sites",
    "GPModel": "models.gp_model",
    "GPRegression": "models.gp_regression",
    "Group": "covariances.expressions",
    "HMC": "samplers",
    "Hyperprior": "parameters.hyperpriors",
    "IndependenceMetropolis": "samplers",
    "JointSplitHMC": "samplers.joint_split_hmc",
    "LatentGaussianModel": "models.latent_gaussian",
    "LatentHMC": "samplers",
    "Linear": "covariances.expressions",
    "Logistic": "likelihoods",
    "Matern12": "covariances.expressions",
    "Matern32": "covariances.expressions",
    "Matern52": "covariances.expressions",
    "NegativeBinomial": "likelihoods",
    "Parameter": "parameters.parameter",
    "Periodic": "covariances.expressions",
    "Poisson": "likelihoods",
    "Polynomial": "covariances.expressions",
    "PreconditionedSplitHMC": "samplers",
    "Probit": "likelihoods",
    "PythonCovariance": "covariances.python_covariance",
    "RandomWalkMetropolis": "samplers",
    "RationalQuadratic": "covariances.expressions",
    "RMHMC": "samplers",
    "SplitHMC": "samplers",
    "SquaredExponential": "covariances.expressions",
    "StudentT": "likelihoods",
    "White": "covariances.expressions",
    "annealed_importance_sampling": "evidence.annealing",
    "expectation_propagation": "approximations.expectation_propagation",
    "importance_sampling": "evidence.importance_sampling",
    "laplace": "approximations.laplace",
    "load_csv": "datasets",
    "load_dataset": "datasets",
    "load_results": "storage",
    "maximise_evidence": "approximations.hyperparameters",
    "open_results": "storage",
    "parallel_tempering": "evidence.parallel_tempering",
    "parse_covariance": "covariances.text",
    "predict_from_draws": "approximations.prediction",
    "predict_latent": "approximations.prediction",
    "sample": "samplers.sampling",
    "sample_density": "samplers.density_sampling",
    "sample_joint": "samplers.joint_sampling",
    "second_order_correction": "approximations.perturbative_correction",
    "sequential_monte_carlo": "evidence.sequential_monte_carlo",
    "workers": "execution",
    "write_results": "storage",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
