"""Surrogate-data slice sampling of covariance hyperparameters."""
