"""Traces and autocorrelation of each method on one problem."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from pathlib import Path

        from gpmcflow.storage import write_figure
        from gpmcflow.studies.split_hmc.illustrations import run_figures

        drawn = run_figures({Path(path).stem: path for path in snakemake.input.chains})
        for name, path in snakemake.output.items():
            write_figure(drawn[name], path)
