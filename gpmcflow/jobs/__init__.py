"""What the workflow asks of a study, and the studies that answer."""
