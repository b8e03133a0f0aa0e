"""The paper's figure 3."""

from gpmcflow.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from gpmcflow.figures.surrogate_slice import figure_3
        from gpmcflow.storage import read_csv, write_figure

        efficiency = read_csv(snakemake.input.efficiency, dtype={"problem": str})
        write_figure(figure_3(efficiency), snakemake.output.figure)
