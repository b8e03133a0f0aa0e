"""The paper's figures 1 and 2."""

from gpmcflow.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from gpmcflow.figures.surrogate_slice_illustrations import figure_1, figure_2
        from gpmcflow.storage import load_results, write_figure

        tree = load_results(snakemake.input.illustrations)
        for draw, path in zip((figure_1, figure_2), snakemake.output.figures, strict=True):
            write_figure(draw(tree), path)
