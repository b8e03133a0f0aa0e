"""Covariance expressions, and everything that evaluates them.

To add a covariance: its class in `leaves` with its line in `LEAVES`, its number in `nodes`, its values and
the derivatives by its parameters in `sweep`, its closed form in tests/covariances/test_covariances.py.
"""
