"""What an independent draw costs by each method, all problems."""

from gpmcflow.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from gpmcflow.figures.split_hmc import cost_comparison
        from gpmcflow.storage import read_csv, write_figure

        write_figure(cost_comparison(read_csv(snakemake.input.runs)), snakemake.output.figure)
