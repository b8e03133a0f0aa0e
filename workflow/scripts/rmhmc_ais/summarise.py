"""Tables of the evidence study, and its numbers beside the printed ones."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from pathlib import Path

        from gpmcflow.storage import write_csv
        from gpmcflow.studies.rmhmc_ais.tables import summarise

        approximations = {Path(path).parent.name: path for path in snakemake.input.approximations}
        posteriors = {Path(path).parent.name: path for path in snakemake.input.posteriors}
        tables = summarise(
            approximations,
            snakemake.input.evidence,
            posteriors,
            snakemake.input.get("map") or None,
            snakemake.input.published,
        )
        for name, path in snakemake.output.items():
            write_csv(tables[name], path)
