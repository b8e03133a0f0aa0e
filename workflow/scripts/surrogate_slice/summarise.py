"""Efficiencies and posteriors of all methods, and their numbers beside the printed ones."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from gpmcflow.storage import write_csv
        from gpmcflow.studies.surrogate_slice.tables import summarise

        tables = summarise(snakemake.input.runs, snakemake.input.published)
        for name, path in snakemake.output.items():
            write_csv(tables[name], path)
