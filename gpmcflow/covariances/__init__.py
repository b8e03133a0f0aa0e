"""Covariance expressions, and everything that evaluates them.

To add a covariance: its class in `leaves`, with its two loops and its line in `LEAVES`, and its closed form
in tests/covariances/test_covariances.py.
"""
