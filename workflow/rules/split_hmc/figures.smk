rule split_hmc_figure_illustrations:
    input:
        illustrations=rules.split_hmc_illustrate.output.results,
    output:
        figures=report(
            expand(
                "results/split_hmc/figures/figure_{number}.png", number=range(1, 5)
            ),
            caption="../../report/split_hmc/illustrations.rst",
            category="split_hmc",
            labels={"problem": "illustration", "figure": "figures 1 to 4"},
        ),
    log:
        "results/logs/split_hmc/figures/illustrations.log",
    conda:
        "../../envs/gpmcflow.yaml"
    params:
        code=code_digest("figures", "studies.split_hmc.illustrations"),
    script:
        "../../scripts/split_hmc/figure_illustrations.py"


rule split_hmc_figure_cost:
    input:
        runs=rules.split_hmc_summarise.output.runs,
    output:
        figure=report(
            "results/split_hmc/figures/cost.png",
            caption="../../report/split_hmc/cost.rst",
            category="split_hmc",
            labels={"problem": "all", "figure": "cost"},
        ),
    log:
        "results/logs/split_hmc/figures/cost.log",
    conda:
        "../../envs/gpmcflow.yaml"
    params:
        code=code_digest("figures", "studies"),
    script:
        "../../scripts/split_hmc/figure_cost.py"


rule split_hmc_figure_runs:
    input:
        chains=lambda w: expand(
            "results/split_hmc/{problem}/{method}.nc",
            problem=w.problem,
            method=SPLIT_HMC[w.problem],
        ),
    output:
        traces=report(
            "results/split_hmc/figures/{problem}/traces.png",
            caption="../../report/split_hmc/traces.rst",
            category="split_hmc",
            labels={"problem": "{problem}", "figure": "traces"},
        ),
        autocorrelation=report(
            "results/split_hmc/figures/{problem}/autocorrelation.png",
            caption="../../report/split_hmc/autocorrelation.rst",
            category="split_hmc",
            labels={"problem": "{problem}", "figure": "autocorrelation"},
        ),
    log:
        "results/logs/split_hmc/figures/{problem}/runs.log",
    conda:
        "../../envs/gpmcflow.yaml"
    params:
        code=code_digest("figures", "diagnostics", "studies.split_hmc.illustrations"),
    script:
        "../../scripts/split_hmc/figure_runs.py"
