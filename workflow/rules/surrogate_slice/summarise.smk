rule surrogate_slice_summarise:
    input:
        runs=[
            path
            for methods in SURROGATE_SLICE_RUNS.values()
            for paths in methods.values()
            for path in paths
        ],
        published=os.path.join(PUBLISHED, "surrogate_slice.yaml"),
    output:
        which_sampler=report(
            "results/surrogate_slice/which_sampler.csv",
            caption="../../report/surrogate_slice/which_sampler_table.rst",
            category="surrogate_slice",
        ),
        efficiency=report(
            "results/surrogate_slice/efficiency.csv",
            caption="../../report/surrogate_slice/efficiency_table.rst",
            category="surrogate_slice",
        ),
        posterior=report(
            "results/surrogate_slice/posterior.csv",
            caption="../../report/surrogate_slice/posterior_table.rst",
            category="surrogate_slice",
        ),
        verdict=report(
            "results/surrogate_slice/verdict.csv",
            caption="../../report/verdict_table.rst",
            category="surrogate_slice",
        ),
    log:
        "results/logs/surrogate_slice/summarise.log",
    conda:
        "../../envs/gpmcflow.yaml"
    params:
        study="surrogate_slice",
        code=code_digest(
            "diagnostics",
            "studies.frame.judgement",
            "studies.frame.parts",
            "studies.surrogate_slice",
            "studies.verdict",
        ),
    script:
        "../../scripts/summarise.py"
