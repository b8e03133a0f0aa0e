rule surrogate_slice_figure_3:
    input:
        efficiency=rules.surrogate_slice_summarise.output.efficiency,
    output:
        figure=report(
            "results/surrogate_slice/figures/figure_3.png",
            caption="../../report/surrogate_slice/figure_3.rst",
            category="surrogate_slice",
            labels={"problem": "all", "figure": "figure 3"},
        ),
    log:
        "results/logs/surrogate_slice/figures/figure_3.log",
    conda:
        "../../envs/gpmcflow.yaml"
    params:
        code=code_digest("figures", "studies"),
    script:
        "../../scripts/surrogate_slice/figure_3.py"


rule surrogate_slice_figure_illustrations:
    input:
        illustrations=rules.surrogate_slice_illustrate.output.results,
    output:
        figures=report(
            expand(
                "results/surrogate_slice/figures/figure_{number}.png", number=(1, 2)
            ),
            caption="../../report/surrogate_slice/illustrations.rst",
            category="surrogate_slice",
            labels={"problem": "illustration", "figure": "figures 1 and 2"},
        ),
    log:
        "results/logs/surrogate_slice/figures/illustrations.log",
    conda:
        "../../envs/gpmcflow.yaml"
    params:
        code=code_digest("figures", "studies"),
    script:
        "../../scripts/surrogate_slice/figure_illustrations.py"


rule surrogate_slice_figure_intensity:
    input:
        chains=lambda w: SURROGATE_SLICE_RUNS[w.problem][
            shown_method(SURROGATE_SLICE[w.problem])
        ][0],
    output:
        figure=report(
            "results/surrogate_slice/figures/{problem}/intensity.png",
            caption="../../report/surrogate_slice/intensity.rst",
            category="surrogate_slice",
            labels={"problem": "{problem}", "figure": "intensity"},
        ),
    log:
        "results/logs/surrogate_slice/figures/{problem}/intensity.log",
    conda:
        "../../envs/gpmcflow.yaml"
    params:
        code=code_digest("figures", "studies"),
    script:
        "../../scripts/surrogate_slice/figure_intensity.py"
