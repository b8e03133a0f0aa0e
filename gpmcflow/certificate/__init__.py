"""Whether fits of a model's own simulated data hold what they promise."""
