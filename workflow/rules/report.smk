rule build_report:
    input:
        tables=TABLES,
        figures=FIGURES,
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
        code=code_digest("report", "figures", "studies"),
    script:
        "../scripts/report.py"
