"""Riemannian-manifold HMC and annealed importance sampling for Gaussian process classification."""
