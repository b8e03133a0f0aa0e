"""Table of all runs, and its numbers beside the printed ones."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from pathlib import Path

        from gpmcflow.storage import write_csv
        from gpmcflow.studies.split_hmc.tables import summarise

        fits = {Path(path).parent.name: path for path in snakemake.input.fits}
        chains = {
            (Path(path).parent.name, Path(path).stem): path for path in snakemake.input.chains
        }
        tables = summarise(
            fits, chains, snakemake.input.published, snakemake.input.get("illustrations") or None
        )
        for name, path in snakemake.output.items():
            write_csv(tables[name], path)
