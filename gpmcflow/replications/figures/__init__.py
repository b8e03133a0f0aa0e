"""One function a published figure; each returns a matplotlib Figure and touches no global state."""
