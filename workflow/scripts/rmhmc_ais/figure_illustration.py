"""Figure 1: HMC and RMHMC on a mixture of three Gaussians."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from gpmcflow.storage import load_results, write_figure
        from gpmcflow.studies.rmhmc_ais.illustration import figures

        drawn = figures(load_results(snakemake.input.illustration))
        write_figure(drawn["figure_1"], snakemake.output.figure)
