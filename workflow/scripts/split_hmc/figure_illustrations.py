"""The paper's figures 1 to 4."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from pathlib import Path

        from gpmcflow.storage import load_results, write_figure
        from gpmcflow.studies.split_hmc.illustrations import figures

        drawn = figures(load_results(snakemake.input.illustrations))
        for path in snakemake.output.figures:
            write_figure(drawn[Path(path).stem], path)
