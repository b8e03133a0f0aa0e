"""Tables of a study, and its numbers beside the printed ones."""

from gpmcflow.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from gpmcflow.storage import write_csv
        from gpmcflow.studies.parts import summarise

        published = snakemake.input.published
        paths = [path for path in snakemake.input if path != published]
        tables = summarise(snakemake.params.study, paths, published)
        for name, path in snakemake.output.items():
            write_csv(tables[name], path)
