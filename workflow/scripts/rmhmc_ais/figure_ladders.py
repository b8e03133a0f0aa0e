"""Effective size and acceptance rate by temperature, all annealing methods on one problem."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from pathlib import Path

        from gpmcflow.figures import acceptance_and_step_size, effective_size_by_temperature
        from gpmcflow.storage import open_results, write_figure

        trees = {Path(path).stem: open_results(path) for path in snakemake.input.evidence}
        looks = {"title": snakemake.wildcards.problem, "methods": snakemake.params.methods}
        figure = effective_size_by_temperature(trees, **looks)
        write_figure(figure, snakemake.output.effective_size)
        write_figure(acceptance_and_step_size(trees, **looks), snakemake.output.acceptance)
