"""What an independent draw costs by each method, all problems."""

from gpmcflow.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        import pandas as pd

        from gpmcflow.figures.split_hmc import cost_comparison
        from gpmcflow.storage import write_figure

        write_figure(cost_comparison(pd.read_csv(snakemake.input.runs)), snakemake.output.figure)
