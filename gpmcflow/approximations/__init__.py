"""Gaussian approximations of posteriors, the search for the best hyperparameters, and predictions."""
