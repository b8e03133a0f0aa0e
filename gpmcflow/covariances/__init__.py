"""Covariance expressions, and everything that evaluates them.

To add a covariance: its class in `leaves`, with its line in `LEAVES`; its values and the derivative by
its parameters in `passes`; its closed form in tests/covariances/test_covariances.py.
"""
