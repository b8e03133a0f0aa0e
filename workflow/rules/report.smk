rule build_report:
    input:
        tables=expand(
            "results/{study}/{table}.csv",
            study=STUDIES,
            table=["verdict", "evidence", "approximations"],
        ),
        figures=[path for study in STUDIES for path, caption in FIGURES[study]],
    output:
        report="results/report.html",
    log:
        "results/logs/report.log",
    conda:
        "../envs/gpmcflow.yaml"
    params:
        titles={study: TITLES[study] for study in STUDIES},
        captions={study: FIGURES[study] for study in STUDIES},
        config=config,
        code=code_digest("report"),
    script:
        "../scripts/report.py"
