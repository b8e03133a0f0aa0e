rule summarise:
    input:
        approximations=lambda w: expand(
            "results/{study}/{problem}/approximation.nc",
            study=w.study,
            problem=STUDIES[w.study]["problems"],
        ),
        evidence=lambda w: expand(
            "results/{study}/{problem}/evidence/{method}.nc",
            study=w.study,
            problem=STUDIES[w.study]["problems"],
            method=STUDIES[w.study]["methods"],
        ),
        posteriors=lambda w: expand(
            "results/{study}/{problem}/posterior.nc",
            study=w.study,
            problem=(
                STUDIES[w.study]["problems"] if STUDIES[w.study]["sampling"] else []
            ),
        ),
        map=lambda w: f"results/{w.study}/map.nc" if STUDIES[w.study]["map"] else [],
        published=os.path.join(PUBLISHED, "{study}.yaml"),
    output:
        evidence=report(
            "results/{study}/evidence.csv",
            caption="../report/evidence_table.rst",
            category="{study}",
        ),
        approximations=report(
            "results/{study}/approximations.csv",
            caption="../report/approximations_table.rst",
            category="{study}",
        ),
        verdict=report(
            "results/{study}/verdict.csv",
            caption="../report/verdict_table.rst",
            category="{study}",
        ),
    log:
        "results/logs/{study}/summarise.log",
    conda:
        "../envs/gpmcflow.yaml"
    params:
        code=code_digest("studies"),
    script:
        "../scripts/summarise.py"
