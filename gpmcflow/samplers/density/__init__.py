"""Samplers of a log density of a few coordinates."""
