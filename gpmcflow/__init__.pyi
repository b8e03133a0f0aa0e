from gpmcflow.approximations.approximate import approximate as approximate
from gpmcflow.approximations.eigen import EigenExact as EigenExact
from gpmcflow.approximations.expectation_propagation import (
    expectation_propagation as expectation_propagation,
)
from gpmcflow.approximations.hyperparameters import maximise_evidence as maximise_evidence
from gpmcflow.approximations.laplace import laplace as laplace
from gpmcflow.approximations.nystrom import Nystrom as Nystrom
from gpmcflow.approximations.perturbative_correction import (
    second_order_correction as second_order_correction,
)
from gpmcflow.approximations.prediction import predict as predict
from gpmcflow.approximations.prediction import simulate as simulate
from gpmcflow.approximations.subset_of_data import SubsetOfData as SubsetOfData
from gpmcflow.covariances.basis_functions import BasisFunctions as BasisFunctions
from gpmcflow.covariances.leaves import Categorical as Categorical
from gpmcflow.covariances.leaves import Constant as Constant
from gpmcflow.covariances.leaves import Group as Group
from gpmcflow.covariances.leaves import Linear as Linear
from gpmcflow.covariances.leaves import Matern12 as Matern12
from gpmcflow.covariances.leaves import Matern32 as Matern32
from gpmcflow.covariances.leaves import Matern52 as Matern52
from gpmcflow.covariances.leaves import Periodic as Periodic
from gpmcflow.covariances.leaves import Polynomial as Polynomial
from gpmcflow.covariances.leaves import RationalQuadratic as RationalQuadratic
from gpmcflow.covariances.leaves import SquaredExponential as SquaredExponential
from gpmcflow.covariances.leaves import White as White
from gpmcflow.covariances.python_covariance import PythonCovariance as PythonCovariance
from gpmcflow.covariances.text import parse_covariance as parse_covariance
from gpmcflow.datasets import load_csv as load_csv
from gpmcflow.datasets import load_dataset as load_dataset
from gpmcflow.evidence.hyperprior_change import change_hyperpriors as change_hyperpriors
from gpmcflow.evidence.log_evidence import log_evidence as log_evidence
from gpmcflow.evidence.model_comparison import compare_models as compare_models
from gpmcflow.evidence.model_evidence import model_evidence as model_evidence
from gpmcflow.evidence.nested_annealing import nested_annealing as nested_annealing
from gpmcflow.execution import Execution as Execution
from gpmcflow.execution import workers as workers
from gpmcflow.likelihoods import Beta as Beta
from gpmcflow.likelihoods import Binomial as Binomial
from gpmcflow.likelihoods import Gamma as Gamma
from gpmcflow.likelihoods import Gaussian as Gaussian
from gpmcflow.likelihoods import Likelihood as Likelihood
from gpmcflow.likelihoods import Logistic as Logistic
from gpmcflow.likelihoods import LogNormal as LogNormal
from gpmcflow.likelihoods import NegativeBinomial as NegativeBinomial
from gpmcflow.likelihoods import Poisson as Poisson
from gpmcflow.likelihoods import Probit as Probit
from gpmcflow.likelihoods import StudentT as StudentT
from gpmcflow.models.gaussian_sites import GaussianSites as GaussianSites
from gpmcflow.models.gp_model import GPModel as GPModel
from gpmcflow.models.latent_gaussian import LatentGaussianModel as LatentGaussianModel
from gpmcflow.models.log_density import FunctionDensity as FunctionDensity
from gpmcflow.models.regression_density import RegressionDensity as RegressionDensity
from gpmcflow.models.tempered import Target as Target
from gpmcflow.monitor.unfinished_runs import partial_results as partial_results
from gpmcflow.parameters.hyperpriors import Hyperprior as Hyperprior
from gpmcflow.parameters.parameter import Parameter as Parameter
from gpmcflow.samplers import HMC as HMC
from gpmcflow.samplers import RMHMC as RMHMC
from gpmcflow.samplers import SAMPLERS as SAMPLERS
from gpmcflow.samplers import CollapsedScale as CollapsedScale
from gpmcflow.samplers import DataSplitHMC as DataSplitHMC
from gpmcflow.samplers import DensityHMC as DensityHMC
from gpmcflow.samplers import DiscretizingChain as DiscretizingChain
from gpmcflow.samplers import EllipticalSlice as EllipticalSlice
from gpmcflow.samplers import FittedIndependence as FittedIndependence
from gpmcflow.samplers import IndependenceMetropolis as IndependenceMetropolis
from gpmcflow.samplers import JointIndependence as JointIndependence
from gpmcflow.samplers import JointSplitHMC as JointSplitHMC
from gpmcflow.samplers import LatentHMC as LatentHMC
from gpmcflow.samplers import PreconditionedSplitHMC as PreconditionedSplitHMC
from gpmcflow.samplers import RandomWalkMetropolis as RandomWalkMetropolis
from gpmcflow.samplers import SplitHMC as SplitHMC
from gpmcflow.samplers import SurrogateSlice as SurrogateSlice
from gpmcflow.samplers import TemperedTransitions as TemperedTransitions
from gpmcflow.samplers import UnivariateSlice as UnivariateSlice
from gpmcflow.samplers.adaptation.step_sizes import TuningSettings as TuningSettings
from gpmcflow.samplers.density.univariate_slice import SliceSweep as SliceSweep
from gpmcflow.samplers.joint.hyperparameter_updates import MetropolisUpdate as MetropolisUpdate
from gpmcflow.samplers.joint.hyperparameter_updates import SliceUpdate as SliceUpdate
from gpmcflow.samplers.program import Summary as Summary
from gpmcflow.samplers.sampling import sample as sample
from gpmcflow.storage import load_results as load_results
from gpmcflow.storage import open_results as open_results
from gpmcflow.storage import write_results as write_results

__version__: str
