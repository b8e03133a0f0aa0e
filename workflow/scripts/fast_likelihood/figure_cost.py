"""Cost against autocorrelation time, all types and methods."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from gpmcflow.storage import read_csv, write_figure
        from gpmcflow.studies.fast_likelihood.figures import cost_against_time
        from gpmcflow.studies.fast_likelihood.types import METHODS

        runs = read_csv(snakemake.input.runs, dtype={"problem": str})
        figure = cost_against_time(runs[runs["method"].isin(METHODS)], methods=METHODS)
        write_figure(figure, snakemake.output.figure)
