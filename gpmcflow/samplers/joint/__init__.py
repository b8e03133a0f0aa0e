"""Samplers of hyperparameters and latents together."""
