"""Samplers of latents at fixed hyperparameters."""
