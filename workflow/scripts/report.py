"""All tables and figures on one self-contained page."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from pathlib import Path

        from gpmcflow.report.page import Answer, build_report
        from gpmcflow.storage import write_result_text
        from gpmcflow.studies.frame.registry import STUDIES

        studies = {
            name: {**study, "frames": {}} for name, study in snakemake.params.studies.items()
        }
        for path in snakemake.input.tables:
            studies[Path(path).parent.name]["frames"][Path(path).stem] = path
        answers = [
            Answer(*answer)
            for study in STUDIES
            if snakemake.config[study.key]
            for answer in study.load("answers")(snakemake.config, ".")
        ]
        page = build_report(
            studies, title="Results", config=snakemake.params.config, answers=answers
        )
        write_result_text(page, snakemake.output.report)
