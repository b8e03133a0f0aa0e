"""Data set by name, or the user's own, to NetCDF."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake) as job:
        import xarray as xr

        from gpmcflow.storage import standard_attributes
        from gpmcflow.studies.stages import prepare_data

        settings = snakemake.params.settings
        dataset = prepare_data(snakemake.wildcards.dataset, settings, snakemake.config["data_dir"])
        # Which file it was is told by `source` and its checksum; its path is the machine's.
        told = {key: value for key, value in (settings or {}).items() if key != "csv"}
        standard = standard_attributes(
            settings=told,
            seed=told.get("synthetic", told).get("seed", 0),
            data_checksum=dataset.attrs["checksum"],
        )
        job.write(xr.DataTree(dataset.assign_attrs(standard | dataset.attrs)))
