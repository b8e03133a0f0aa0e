rule build_report:
    input:
        tables=expand(
            "results/{study}/{table}.csv",
            study=STUDIES,
            table=["verdict", "evidence", "approximations"],
        ),
        figures=[path for study in STUDIES for path, caption in FIGURES[study]],
        template=os.path.join(workflow.basedir, "gpmcflow", "report_template.html"),
    output:
        report="results/report.html",
    log:
        "results/logs/report.log",
    conda:
        "../envs/gpmcflow.yaml"
    params:
        titles={study: TITLES[study] for study in STUDIES},
        captions={study: FIGURES[study] for study in STUDIES},
        config=portable(config),
        code=code_digest("report", "report_tables", "figures"),
    script:
        "../scripts/report.py"
