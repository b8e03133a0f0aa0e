"""Sampling with fast approximations of a Gaussian process likelihood."""
