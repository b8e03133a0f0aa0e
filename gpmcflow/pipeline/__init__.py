"""From a config to its run: what is checked, planned, forecast and done around each job."""
