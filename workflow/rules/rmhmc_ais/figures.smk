rule rmhmc_ais_figure_evidence:
    input:
        evidence="results/rmhmc_ais/evidence.csv",
        approximations="results/rmhmc_ais/approximations.csv",
    output:
        figure=report(
            "results/rmhmc_ais/figures/{problem}/evidence_against_time.png",
            caption="../../report/rmhmc_ais/evidence_against_time.rst",
            category="rmhmc_ais",
            labels={"problem": "{problem}", "figure": "evidence against time"},
        ),
    log:
        "results/logs/rmhmc_ais/figures/{problem}/evidence_against_time.log",
    conda:
        "../../envs/gpmcflow.yaml"
    params:
        methods=list(RMHMC_AIS["methods"]),
        code=code_digest("figures", "diagnostics"),
    script:
        "../../scripts/rmhmc_ais/figure_evidence.py"


rule rmhmc_ais_figure_log_weights:
    input:
        evidence=expand(
            "results/rmhmc_ais/{{problem}}/evidence/{method}.nc",
            method=WEIGHTED,
        ),
    output:
        figures=report(
            expand(
                "results/rmhmc_ais/figures/{{problem}}/log_weights_{method}.png",
                method=WEIGHTED,
            ),
            caption="../../report/rmhmc_ais/log_weights.rst",
            category="rmhmc_ais",
            labels={"problem": "{problem}", "figure": "log weights"},
        ),
    log:
        "results/logs/rmhmc_ais/figures/{problem}/log_weights.log",
    conda:
        "../../envs/gpmcflow.yaml"
    params:
        code=code_digest("figures", "diagnostics"),
    script:
        "../../scripts/rmhmc_ais/figure_log_weights.py"


rule rmhmc_ais_figure_ladders:
    input:
        evidence=expand(
            "results/rmhmc_ais/{{problem}}/evidence/{method}.nc", method=ANNEALING
        ),
    output:
        effective_size=report(
            "results/rmhmc_ais/figures/{problem}/effective_size.png",
            caption="../../report/rmhmc_ais/effective_size.rst",
            category="rmhmc_ais",
            labels={"problem": "{problem}", "figure": "effective size by temperature"},
        ),
        acceptance=report(
            "results/rmhmc_ais/figures/{problem}/acceptance.png",
            caption="../../report/rmhmc_ais/acceptance.rst",
            category="rmhmc_ais",
            labels={"problem": "{problem}", "figure": "acceptance by temperature"},
        ),
    log:
        "results/logs/rmhmc_ais/figures/{problem}/ladders.log",
    conda:
        "../../envs/gpmcflow.yaml"
    params:
        methods=list(RMHMC_AIS["methods"]),
        code=code_digest("figures", "diagnostics"),
    script:
        "../../scripts/rmhmc_ais/figure_ladders.py"


rule rmhmc_ais_figure_posterior:
    input:
        posterior="results/rmhmc_ais/{problem}/posterior.nc",
    output:
        figure=report(
            "results/rmhmc_ais/figures/{problem}/posterior.png",
            caption="../../report/rmhmc_ais/posterior.rst",
            category="rmhmc_ais",
            labels={"problem": "{problem}", "figure": "posterior draws"},
        ),
    log:
        "results/logs/rmhmc_ais/figures/{problem}/posterior.log",
    conda:
        "../../envs/gpmcflow.yaml"
    params:
        code=code_digest("figures", "diagnostics"),
    script:
        "../../scripts/rmhmc_ais/figure_posterior.py"


rule rmhmc_ais_figure_map:
    input:
        map="results/rmhmc_ais/map.nc",
    output:
        figure=report(
            "results/rmhmc_ais/figures/map.png",
            caption="../../report/rmhmc_ais/map.rst",
            category="rmhmc_ais",
            labels={"problem": "map", "figure": "hyperparameters"},
        ),
    log:
        "results/logs/rmhmc_ais/figures/map.log",
    conda:
        "../../envs/gpmcflow.yaml"
    params:
        code=code_digest("figures", "diagnostics"),
    script:
        "../../scripts/rmhmc_ais/figure_map.py"
