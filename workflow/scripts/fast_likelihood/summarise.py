"""Table of all runs, and its numbers beside the printed ones."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from gpmcflow.storage import write_csv
        from gpmcflow.studies.fast_likelihood.tables import summarise

        paths = [*snakemake.input.tunings, *snakemake.input.runs]
        tables = summarise(paths, snakemake.input.published)
        for name, path in snakemake.output.items():
            write_csv(tables[name], path)
