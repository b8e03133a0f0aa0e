"""Monte Carlo inference for Gaussian-process and latent Gaussian models as a reproducible pipeline."""

__version__ = "0.1.0"
