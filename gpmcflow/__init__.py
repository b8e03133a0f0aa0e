"""Monte Carlo inference for latent Gaussian models as a reproducible pipeline.

The public names are imported on first use, so that a Snakefile can read the config without loading NumPy.
"""

from __future__ import annotations

import importlib
from typing import Any

from gpmcflow.lazy_names import lazy_names

__version__ = "0.2.0"

_HOME = {
    "analyse": "pipeline.analyse",
    "approximate": "approximations.approximate",
    "AR1": "covariances.walks",
    "Areal": "covariances.areas",
    "BasisFunctions": "covariances.basis_functions",
    "Beta": "likelihoods",
    "BetaBinomial": "likelihoods",
    "Binomial": "likelihoods",
    "Categorical": "covariances.leaves",
    "CensoredGaussian": "likelihoods",
    "certify": "certificate.certificate",
    "change_hyperpriors": "evidence.hyperprior_change",
    "coefficients": "contrasts.coefficients",
    "CollapsedScale": "samplers",
    "check_likelihood": "likelihoods.check",
    "compare_models": "evidence.model_comparison",
    "Constant": "covariances.leaves",
    "contrast": "contrasts.contrast",
    "DataSplitHMC": "samplers",
    "decompose": "contrasts.decompose",
    "DensityHMC": "samplers",
    "DiscretizingChain": "samplers",
    "draws_at": "contrasts.draws_at",
    "effects": "contrasts.average",
    "EigenExact": "approximations.stand_ins",
    "EllipticalSlice": "samplers",
    "Execution": "execution",
    "expectation_propagation": "approximations.expectation_propagation",
    "explanations": "contrasts.explanations",
    "FittedIndependence": "samplers",
    "FunctionDensity": "models.log_density",
    "Gamma": "likelihoods",
    "Gaussian": "likelihoods",
    "GaussianSites": "models.gaussian_sites",
    "GPModel": "models.gp_model",
    "Group": "covariances.leaves",
    "HMC": "samplers",
    "HeteroscedasticGaussian": "likelihoods",
    "Hurdle": "likelihoods",
    "Hyperprior": "parameters.hyperpriors",
    "IndependenceMetropolis": "samplers",
    "IntegratedWiener": "covariances.walks",
    "JointIndependence": "samplers",
    "JointLogDensity": "models.joint_log_density",
    "JointSplitHMC": "samplers",
    "laplace": "approximations.laplace",
    "LatentGaussianModel": "models.latent_gaussian",
    "LatentHMC": "samplers",
    "leave_one_out": "approximations.stacking",
    "Likelihood": "likelihoods",
    "Linear": "covariances.leaves",
    "load_csv": "data",
    "load_dataset": "data",
    "load_results": "storage",
    "log_evidence": "evidence.log_evidence",
    "Logistic": "likelihoods",
    "LogNormal": "likelihoods",
    "Matern12": "covariances.leaves",
    "Matern32": "covariances.leaves",
    "Matern52": "covariances.leaves",
    "maximise_evidence": "approximations.hyperparameters",
    "model_evidence": "evidence.model_evidence",
    "MetropolisUpdate": "samplers.joint.hyperparameter_updates",
    "MultiGPModel": "models.multi_gp_model",
    "MultiLikelihood": "likelihoods",
    "NegativeBinomial": "likelihoods",
    "nested_annealing": "evidence.nested_annealing",
    "Nystrom": "approximations.stand_ins",
    "open_analysis": "pipeline.analyse",
    "open_results": "storage",
    "Ordinal": "likelihoods",
    "Parameter": "parameters.parameter",
    "parse_covariance": "covariances.text",
    "partial_results": "monitor.status_diagnostics",
    "Periodic": "covariances.leaves",
    "Poisson": "likelihoods",
    "Polynomial": "covariances.leaves",
    "PreconditionedSplitHMC": "samplers",
    "predict": "approximations.prediction",
    "Probit": "likelihoods",
    "PseudoMarginalHMC": "samplers",
    "PseudoMarginalIndependence": "samplers",
    "PythonCovariance": "covariances.python_covariance",
    "RandomWalkMetropolis": "samplers",
    "RationalQuadratic": "covariances.leaves",
    "RegressionDensity": "models.regression_density",
    "report": "pipeline.analyse",
    "RMHMC": "samplers",
    "sample": "samplers.sampling",
    "SAMPLERS": "samplers",
    "second_order_correction": "approximations.perturbative_correction",
    "simulate": "approximations.prediction",
    "SliceSweep": "samplers.density.univariate_slice",
    "SliceUpdate": "samplers.joint.hyperparameter_updates",
    "SplitHMC": "samplers",
    "SquaredExponential": "covariances.leaves",
    "stacking_weights": "approximations.stacking",
    "Softmax": "likelihoods",
    "StudentT": "likelihoods",
    "SubsetOfData": "approximations.stand_ins",
    "Summary": "samplers.program",
    "SurrogateSlice": "samplers",
    "Target": "models.tempered",
    "Survival": "likelihoods",
    "survival_curve": "approximations.survival_curve",
    "TemperedTransitions": "samplers",
    "TuningSettings": "samplers.adaptation.step_sizes",
    "UnivariateSlice": "samplers",
    "White": "covariances.leaves",
    "Wiener": "covariances.walks",
    "workers": "execution",
    "write_results": "storage",
    "ZeroInflated": "likelihoods",
}

__all__ = ["__version__", *sorted(_HOME)]
_named = lazy_names(__name__, _HOME)


def __getattr__(name: str) -> Any:
    if name in ("plot", "sklearn"):
        return importlib.import_module(f"gpmcflow.{name}")
    return _named(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
