"""Log weights of each method on one problem."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from pathlib import Path

        from gpmcflow.figures import log_weights
        from gpmcflow.storage import write_figure

        for path, output in zip(snakemake.input.evidence, snakemake.output.figures, strict=True):
            title = f"{snakemake.wildcards.problem}: {Path(path).stem}"
            write_figure(log_weights(path, title=title), output)
