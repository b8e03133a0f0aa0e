"""EP evidence and the size of its correction over hyperparameters."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from gpmcflow.figures import hyperparameter_map
        from gpmcflow.storage import load_results, write_figure

        write_figure(hyperparameter_map(load_results(snakemake.input.map)), snakemake.output.figure)
