rule build_report:
    input:
        tables=TABLES,
        figures=[
            path for study in REPORT.values() for path, caption in study["figures"]
        ],
        answers=[f"results/{name}/report.html" for name in config["analyses"]],
        template=str(REPORT_TEMPLATE),
    output:
        report="results/report.html",
    log:
        "results/logs/report.log",
    conda:
        "../envs/gpmcflow.yaml"
    params:
        studies=REPORT,
        config=portable(config),
        code=code_digest("report", "report_tables", "figures", "studies.analysis"),
    script:
        "../scripts/report.py"
