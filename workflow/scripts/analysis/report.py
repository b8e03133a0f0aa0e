"""Tables, predictions and the page of an analysis."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from pathlib import Path

        import yaml

        from gpmcflow.storage import write_result_text
        from gpmcflow.studies.analysis.report import write_report

        name, settings = snakemake.wildcards.analysis, snakemake.params.settings
        folder = Path(snakemake.output.report).parent
        write_result_text(yaml.safe_dump(settings, sort_keys=False), snakemake.output.config)
        write_report(
            folder,
            name,
            settings,
            seed=snakemake.params.seed,
            config=snakemake.params.config_name,
        )
