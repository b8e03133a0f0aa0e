"""The paper's figure 3."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from gpmcflow.storage import read_csv, write_figure
        from gpmcflow.studies.surrogate_slice.figures import figure_3

        efficiency = read_csv(snakemake.input.efficiency, dtype={"problem": str})
        write_figure(figure_3(efficiency), snakemake.output.figure)
