"""Gaussian process models, their log densities, and the structures of their priors."""
