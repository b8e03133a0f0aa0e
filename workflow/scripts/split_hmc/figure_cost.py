"""What an independent draw costs by each method, all problems."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from gpmcflow.storage import read_csv, write_figure
        from gpmcflow.studies.split_hmc.figures import cost_comparison

        write_figure(cost_comparison(read_csv(snakemake.input.runs)), snakemake.output.figure)
