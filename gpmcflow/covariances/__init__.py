"""Covariance expressions, and everything that evaluates them.

To add a covariance: its class in `stationary`, `levels` or `leaves`, with its line in `LEAVES`; its number in
`nodes`, its values in `leaf_values` and the derivative by its parameters in `leaf_slopes`; its closed form in
tests/covariances/test_covariances.py.
"""
