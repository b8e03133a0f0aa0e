"""The paper's figure 3."""

from gpmcflow.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        import pandas as pd

        from gpmcflow.figures.surrogate_slice import figure_3
        from gpmcflow.storage import write_figure

        efficiency = pd.read_csv(snakemake.input.efficiency, dtype={"problem": str})
        write_figure(figure_3(efficiency), snakemake.output.figure)
