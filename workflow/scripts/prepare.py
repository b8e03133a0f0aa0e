"""Data set by name, or the user's own, to NetCDF."""

from gpmcflow.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake) as job:
        import xarray as xr

        from gpmcflow.studies.stages import prepare_data

        dataset = prepare_data(
            snakemake.wildcards.dataset, snakemake.params.settings, snakemake.config["data_dir"]
        )
        job.write(xr.DataTree(dataset))
