STUDY = STUDIES["rmhmc_ais"]
ANNEALING = [
    name for name, method in STUDY["methods"].items() if method["kind"] == "ais"
]

# Paths and captions, in the order of the report.
TITLES["rmhmc_ais"] = "Evidence by annealing (Paquet & Fraccaro 2018)"
FIGURES["rmhmc_ais"] = [
    *[
        [f"results/rmhmc_ais/figures/{problem}/{name}.png", f"{problem}: {text}"]
        for problem in STUDY["problems"]
        for name, text in {
            "evidence_against_time": "log evidence against compute time and gradient evaluations, "
            "with error bars; lines are EP, corrected EP and Laplace.",
            "effective_size": "effective size of the weights along the longest ladder.",
            "acceptance": "acceptance rate and tuned step size along the longest ladder.",
            "posterior": "convergence of the posterior draws.",
            **{
                f"log_weights_{method}": f"log weights of {method}."
                for method in STUDY["methods"]
            },
        }.items()
        if ANNEALING or name not in ("effective_size", "acceptance")
        if STUDY["sampling"] or name != "posterior"
    ],
    *(
        [["results/rmhmc_ais/figures/map.png", "EP evidence over the hyperparameters."]]
        if STUDY["map"]
        else []
    ),
]


rule figure_evidence:
    input:
        evidence="results/rmhmc_ais/evidence.csv",
        approximations="results/rmhmc_ais/approximations.csv",
    output:
        figure=report(
            "results/rmhmc_ais/figures/{problem}/evidence_against_time.png",
            caption="../report/evidence_against_time.rst",
            category="rmhmc_ais",
            labels={"problem": "{problem}", "figure": "evidence against time"},
        ),
    log:
        "results/logs/rmhmc_ais/figures/{problem}/evidence_against_time.log",
    conda:
        "../envs/gpmcflow.yaml"
    params:
        methods=list(STUDY["methods"]),
        code=code_digest("figures", "diagnostics"),
    script:
        "../scripts/figure_evidence.py"


rule figure_log_weights:
    input:
        evidence=expand(
            "results/rmhmc_ais/{{problem}}/evidence/{method}.nc",
            method=STUDY["methods"],
        ),
    output:
        figures=report(
            expand(
                "results/rmhmc_ais/figures/{{problem}}/log_weights_{method}.png",
                method=STUDY["methods"],
            ),
            caption="../report/log_weights.rst",
            category="rmhmc_ais",
            labels={"problem": "{problem}", "figure": "log weights"},
        ),
    log:
        "results/logs/rmhmc_ais/figures/{problem}/log_weights.log",
    conda:
        "../envs/gpmcflow.yaml"
    params:
        code=code_digest("figures", "diagnostics"),
    script:
        "../scripts/figure_log_weights.py"


rule figure_ladders:
    input:
        evidence=expand(
            "results/rmhmc_ais/{{problem}}/evidence/{method}.nc", method=ANNEALING
        ),
    output:
        effective_size=report(
            "results/rmhmc_ais/figures/{problem}/effective_size.png",
            caption="../report/effective_size.rst",
            category="rmhmc_ais",
            labels={"problem": "{problem}", "figure": "effective size by temperature"},
        ),
        acceptance=report(
            "results/rmhmc_ais/figures/{problem}/acceptance.png",
            caption="../report/acceptance.rst",
            category="rmhmc_ais",
            labels={"problem": "{problem}", "figure": "acceptance by temperature"},
        ),
    log:
        "results/logs/rmhmc_ais/figures/{problem}/ladders.log",
    conda:
        "../envs/gpmcflow.yaml"
    params:
        methods=list(STUDY["methods"]),
        code=code_digest("figures", "diagnostics"),
    script:
        "../scripts/figure_ladders.py"


rule figure_posterior:
    input:
        posterior="results/rmhmc_ais/{problem}/posterior.nc",
    output:
        figure=report(
            "results/rmhmc_ais/figures/{problem}/posterior.png",
            caption="../report/posterior.rst",
            category="rmhmc_ais",
            labels={"problem": "{problem}", "figure": "posterior draws"},
        ),
    log:
        "results/logs/rmhmc_ais/figures/{problem}/posterior.log",
    conda:
        "../envs/gpmcflow.yaml"
    params:
        code=code_digest("figures", "diagnostics"),
    script:
        "../scripts/figure_posterior.py"


rule figure_map:
    input:
        map="results/rmhmc_ais/map.nc",
    output:
        figure=report(
            "results/rmhmc_ais/figures/map.png",
            caption="../report/map.rst",
            category="rmhmc_ais",
            labels={"problem": "map", "figure": "hyperparameters"},
        ),
    log:
        "results/logs/rmhmc_ais/figures/map.log",
    conda:
        "../envs/gpmcflow.yaml"
    params:
        code=code_digest("figures", "diagnostics"),
    script:
        "../scripts/figure_map.py"
