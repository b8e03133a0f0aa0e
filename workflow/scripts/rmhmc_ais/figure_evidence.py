"""Log evidence against compute time, one problem."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from gpmcflow.figures import evidence_against_time
        from gpmcflow.storage import read_csv, write_figure

        figure = evidence_against_time(
            read_csv(snakemake.input.evidence),
            read_csv(snakemake.input.approximations),
            snakemake.wildcards.problem,
            methods=snakemake.params.methods,
        )
        write_figure(figure, snakemake.output.figure)
