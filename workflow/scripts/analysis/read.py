"""The CSV file of an analysis: its rows as a model takes them, and what became of rows and columns."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake) as job:
        from pathlib import Path

        from gpmcflow.studies.analysis.reading import prepare, tree_of, write_rows

        name, settings = snakemake.wildcards.analysis, snakemake.params.settings
        seed = snakemake.params.seed
        table = prepare(name, settings, ".", seed, f"analyses.{name}.data")
        write_rows(Path(snakemake.output.rows).parent, table)
        job.write(tree_of(name, settings, table, seed))
