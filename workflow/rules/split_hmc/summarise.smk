rule split_hmc_summarise:
    input:
        fits=expand("results/split_hmc/{problem}/fit.nc", problem=SPLIT_HMC),
        chains=[
            f"results/split_hmc/{problem}/{method}.nc"
            for problem, methods in SPLIT_HMC.items()
            for method in methods
        ],
        illustrations=(
            rules.split_hmc_illustrate.output.results
            if STUDIES["split_hmc"]["illustrations"]
            else []
        ),
        published=os.path.join(PUBLISHED, "split_hmc.yaml"),
    output:
        runs=report(
            "results/split_hmc/runs.csv",
            caption="../../report/split_hmc/runs_table.rst",
            category="split_hmc",
        ),
        verdict=report(
            "results/split_hmc/verdict.csv",
            caption="../../report/verdict_table.rst",
            category="split_hmc",
        ),
    log:
        "results/logs/split_hmc/summarise.log",
    conda:
        "../../envs/gpmcflow.yaml"
    params:
        study="split_hmc",
        code=code_digest(
            "diagnostics",
            "studies.split_hmc.claims",
            "studies.split_hmc.parts",
            "studies.split_hmc.tables",
            "studies.frame.judgement",
            "studies.frame.parts",
            "studies.verdict",
        ),
    script:
        "../../scripts/summarise.py"
