"""A study as the workflow sees it, one job of it, and what a job costs and asks for."""
