rule fast_likelihood_summarise:
    input:
        tunings=expand("results/fast_likelihood/{type}/tuning.nc", type=FAST_LIKELIHOOD),
        runs=[path for paths in FAST_LIKELIHOOD_RUNS.values() for path in paths],
        published=os.path.join(PUBLISHED, "fast_likelihood.yaml"),
    output:
        runs=report(
            "results/fast_likelihood/runs.csv",
            caption="../../report/fast_likelihood/runs_table.rst",
            category="fast_likelihood",
        ),
        verdict=report(
            "results/fast_likelihood/verdict.csv",
            caption="../../report/verdict_table.rst",
            category="fast_likelihood",
        ),
    log:
        "results/logs/fast_likelihood/summarise.log",
    conda:
        "../../envs/gpmcflow.yaml"
    params:
        study="fast_likelihood",
        code=code_digest(
            "studies.fast_likelihood.claims",
            "studies.fast_likelihood.estimates",
            "studies.fast_likelihood.levers",
            "studies.fast_likelihood.orders",
            "studies.fast_likelihood.parts",
            "studies.fast_likelihood.tables",
            "studies.fast_likelihood.types",
            "studies.frame.judgement",
            "studies.frame.parts",
            "studies.verdict",
        ),
    script:
        "../../scripts/summarise.py"


rule fast_likelihood_figure_2:
    input:
        runs=FAST_LIKELIHOOD_RUNS[FAST_LIKELIHOOD_SHOWN],
    output:
        figure=report(
            "results/fast_likelihood/figures/figure_2.png",
            caption="../../report/fast_likelihood/autocorrelation.rst",
            category="fast_likelihood",
            labels={"figure": "figure 2"},
        ),
    log:
        "results/logs/fast_likelihood/figures/figure_2.log",
    conda:
        "../../envs/gpmcflow.yaml"
    params:
        title=FAST_LIKELIHOOD_SHOWN,
        code=code_digest("figures", "diagnostics"),
    script:
        "../../scripts/fast_likelihood/figure_2.py"


rule fast_likelihood_figure_cost:
    input:
        runs=rules.fast_likelihood_summarise.output.runs,
    output:
        figure=report(
            "results/fast_likelihood/figures/cost.png",
            caption="../../report/fast_likelihood/cost.rst",
            category="fast_likelihood",
            labels={"figure": "cost"},
        ),
    log:
        "results/logs/fast_likelihood/figures/cost.log",
    conda:
        "../../envs/gpmcflow.yaml"
    params:
        code=code_digest("figures"),
    script:
        "../../scripts/fast_likelihood/figure_cost.py"
