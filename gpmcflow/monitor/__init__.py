"""What runs have left on disk while they go on: their progress, and what can be cleared away."""
