"""Marginal likelihoods: one file per route, with what all share in `estimates`, `schedule` and `alarms`."""
