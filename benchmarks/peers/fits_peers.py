"""A covariance and a maximum-likelihood fit of a peer: fits_peers.py PROBLEM.npz RESULT.npz PEER.

Needs nothing of gpmcflow. The likelihood is that of y ~ N(0, s^2 K + sigma^2 I); each optimiser starts at
the length scale sqrt(p), s = 1 and sigma = 0.5, and is restarted once from where it ended.
"""

from __future__ import annotations

import sys
import time

import numpy as np

NOISE = 0.25  # variance at the start


def scikit_learn(X, y, length, signal):
    import sklearn
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    def fit():
        start = ConstantKernel(1.0) * RBF(np.sqrt(X.shape[1])) + WhiteKernel(NOISE)
        first = GaussianProcessRegressor(start, alpha=0.0).fit(X, y)
        best = GaussianProcessRegressor(first.kernel_, alpha=0.0).fit(X, y)
        own = best.kernel_
        at = own.k1.k2.length_scale, own.k1.k1.constant_value**0.5, own.k2.noise_level**0.5
        return best.log_marginal_likelihood_value_, at

    return (ConstantKernel(signal**2) * RBF(length))(X), fit, "scikit-learn", sklearn.__version__


def gpy(X, y, length, signal):
    import GPy

    p = X.shape[1]

    def fit():
        model = GPy.models.GPRegression(
            X, y[:, None], GPy.kern.RBF(p, 1.0, np.sqrt(p)), noise_var=NOISE
        )
        for _ in range(2):
            model.optimize(max_iters=1000)
        own = model.kern
        at = own.lengthscale[0], own.variance[0] ** 0.5, model.likelihood.variance[0] ** 0.5
        return float(model.log_likelihood()), at

    return GPy.kern.RBF(p, signal**2, length).K(X), fit, "GPy", GPy.__version__


def gpflow(X, y, length, signal):
    import gpflow

    p = X.shape[1]

    def fit():
        kernel = gpflow.kernels.SquaredExponential(1.0, np.sqrt(p))
        model = gpflow.models.GPR((X, y[:, None]), kernel, noise_variance=NOISE)
        for _ in range(2):
            gpflow.optimizers.Scipy().minimize(
                model.training_loss, model.trainable_variables, options={"maxiter": 1000}
            )
        at = kernel.lengthscales, kernel.variance**0.5, model.likelihood.variance**0.5
        return float(model.log_marginal_likelihood()), tuple(
            float(np.asarray(value)) for value in at
        )

    covariance = gpflow.kernels.SquaredExponential(signal**2, length)(X).numpy()
    return covariance, fit, "GPflow", gpflow.__version__


def main() -> None:
    problem = dict(np.load(sys.argv[1]))
    peers = {"scikit-learn": scikit_learn, "gpy": gpy, "gpflow": gpflow}
    given = problem["X"], problem["y"], float(problem["length"]), float(problem["signal"])
    covariance, fit, name, version = peers[sys.argv[3]](*given)
    for _ in range(2):
        began = time.perf_counter()
        maximum, at = fit()
        seconds = time.perf_counter() - began
    np.savez(
        sys.argv[2], covariance=covariance, maximum=maximum, at=at, seconds=seconds, name=name,
        version=version,
    )  # fmt: skip


if __name__ == "__main__":
    main()
