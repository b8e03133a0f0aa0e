rule rmhmc_ais_illustrate:
    output:
        results="results/rmhmc_ais/illustration.nc",
        sidecar="results/rmhmc_ais/illustration.nc.json",
    log:
        "results/logs/rmhmc_ais/illustration.log",
    benchmark:
        "results/benchmarks/rmhmc_ais/illustration.tsv"
    conda:
        "../../envs/gpmcflow.yaml"
    threads: 1
    resources:
        mem_mb=lambda w, attempt: 1200 * attempt,
        runtime=lambda w, attempt: 15 * attempt,
    params:
        seed=config["seed"],
        code=code_digest(
            "studies.rmhmc_ais.gaussian_mixture",
            "samplers.latent.fixed_point",
            "samplers.latent.generalised_leapfrog",
            "studies.rmhmc_ais.illustration",
            "studies.rmhmc_ais.mixture_metric",
        ),
    script:
        "../../scripts/rmhmc_ais/illustrate.py"


rule rmhmc_ais_figure_illustration:
    input:
        illustration=rules.rmhmc_ais_illustrate.output.results,
    output:
        figure=report(
            "results/rmhmc_ais/figures/figure_1.png",
            caption="../../report/rmhmc_ais/illustration.rst",
            category="rmhmc_ais",
            labels={"problem": "illustration", "figure": "figure 1"},
        ),
    log:
        "results/logs/rmhmc_ais/figures/illustration.log",
    conda:
        "../../envs/gpmcflow.yaml"
    params:
        code=code_digest("figures", "studies.rmhmc_ais.illustration"),
    script:
        "../../scripts/rmhmc_ais/figure_illustration.py"
