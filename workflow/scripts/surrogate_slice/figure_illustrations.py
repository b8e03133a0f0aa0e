"""The paper's figures 1 and 2."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from gpmcflow.storage import load_results, write_figure
        from gpmcflow.studies.surrogate_slice.paper_figures import figure_1, figure_2

        tree = load_results(snakemake.input.illustrations)
        for draw, path in zip((figure_1, figure_2), snakemake.output.figures, strict=True):
            write_figure(draw(tree), path)
