"""The one page of a run."""
