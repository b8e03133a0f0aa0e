"""The paper's figure 2."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from gpmcflow.storage import write_figure
        from gpmcflow.studies.fast_likelihood.figures import autocorrelation_panels
        from gpmcflow.studies.fast_likelihood.tables import shown_series

        series = shown_series(snakemake.input.runs)
        figure = autocorrelation_panels(series, title=snakemake.params.title)
        write_figure(figure, snakemake.output.figure)
