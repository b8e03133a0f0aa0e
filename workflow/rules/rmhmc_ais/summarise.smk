rule rmhmc_ais_summarise:
    input:
        approximations=expand(
            "results/rmhmc_ais/{problem}/approximation.nc",
            problem=RMHMC_AIS["problems"],
        ),
        evidence=expand(
            "results/rmhmc_ais/{problem}/evidence/{method}.nc",
            problem=RMHMC_AIS["problems"],
            method=RMHMC_AIS["methods"],
        ),
        posteriors=expand(
            "results/rmhmc_ais/{problem}/posterior.nc",
            problem=RMHMC_AIS["problems"] if RMHMC_AIS["sampling"] else [],
        ),
        map="results/rmhmc_ais/map.nc" if RMHMC_AIS["map"] else [],
        published=os.path.join(PUBLISHED, "rmhmc_ais.yaml"),
    output:
        evidence=report(
            "results/rmhmc_ais/evidence.csv",
            caption="../../report/rmhmc_ais/evidence_table.rst",
            category="rmhmc_ais",
        ),
        approximations=report(
            "results/rmhmc_ais/approximations.csv",
            caption="../../report/rmhmc_ais/approximations_table.rst",
            category="rmhmc_ais",
        ),
        verdict=report(
            "results/rmhmc_ais/verdict.csv",
            caption="../../report/verdict_table.rst",
            category="rmhmc_ais",
        ),
    log:
        "results/logs/rmhmc_ais/summarise.log",
    conda:
        "../../envs/gpmcflow.yaml"
    params:
        code=code_digest("studies.rmhmc_ais_tables", "studies.verdict"),
    script:
        "../../scripts/rmhmc_ais/summarise.py"
