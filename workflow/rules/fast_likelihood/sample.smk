# One job has one chain of every method on one data set, which they share, and the pilot of them all.
# Data sets can be added later: their number is in no job's params.
rule fast_likelihood_tune:
    output:
        results="results/fast_likelihood/{type}/tuning.nc",
        sidecar="results/fast_likelihood/{type}/tuning.nc.json",
    log:
        "results/logs/fast_likelihood/{type}/tuning.log",
    benchmark:
        "results/benchmarks/fast_likelihood/{type}/tuning.tsv"
    wildcard_constraints:
        type="|".join(FAST_LIKELIHOOD),
    conda:
        "../../envs/gpmcflow.yaml"
    threads: 1
    resources:
        mem_mb=1500,
        runtime=lambda w, attempt: min(60, 30 * attempt),
    params:
        settings=lambda w: {
            key: value
            for key, value in FAST_LIKELIHOOD[w.type].items()
            if key not in ("replicates", "iterations")
        },
        tuning=STUDIES["fast_likelihood"]["tuning"],
        seed=config["seed"],
        code=code_digest(*FAST_LIKELIHOOD_CODE),
    script:
        "../../scripts/fast_likelihood/tune.py"


rule fast_likelihood_replicate:
    input:
        tuning=rules.fast_likelihood_tune.output.results,
    output:
        results="results/fast_likelihood/{type}/replicate_{replicate}.nc",
        sidecar="results/fast_likelihood/{type}/replicate_{replicate}.nc.json",
    log:
        "results/logs/fast_likelihood/{type}/replicate_{replicate}.log",
    benchmark:
        "results/benchmarks/fast_likelihood/{type}/replicate_{replicate}.tsv"
    wildcard_constraints:
        type="|".join(FAST_LIKELIHOOD),
        replicate=r"\d+",
    conda:
        "../../envs/gpmcflow.yaml"
    threads: 1
    resources:
        mem_mb=1500,
        runtime=lambda w, attempt: min(60, 30 * attempt),
    params:
        settings=lambda w: {
            key: value
            for key, value in FAST_LIKELIHOOD[w.type].items()
            if key != "replicates"
        },
        seed=config["seed"],
        code=code_digest(*FAST_LIKELIHOOD_CODE),
    script:
        "../../scripts/fast_likelihood/replicate.py"
