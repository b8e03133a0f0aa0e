rule split_hmc_fit:
    input:
        data=lambda w: DATA[w.problem],
    output:
        results="results/split_hmc/{problem}/fit.nc",
        sidecar="results/split_hmc/{problem}/fit.nc.json",
    log:
        "results/logs/split_hmc/{problem}/fit.log",
    benchmark:
        "results/benchmarks/split_hmc/{problem}/fit.tsv"
    conda:
        "../../envs/gpmcflow.yaml"
    threads: 1
    resources:
        mem_mb=lambda w, input, threads, attempt: memory_mb(
            config, w.problem, input.data, threads, attempt
        ),
        runtime=lambda w, attempt: 30 * attempt,
    params:
        problem=lambda w: config["problems"][w.problem],
        seed=config["seed"],
        code=code_digest(
            *MODEL_CODE,
            "studies.frame.pace",
            "studies.problems",
            "studies.stages",
            "studies.split_hmc.study",
        ),
    script:
        "../../scripts/split_hmc/fit.py"


rule split_hmc_illustrate:
    output:
        results="results/split_hmc/illustrations.nc",
        sidecar="results/split_hmc/illustrations.nc.json",
    log:
        "results/logs/split_hmc/illustrations.log",
    benchmark:
        "results/benchmarks/split_hmc/illustrations.tsv"
    conda:
        "../../envs/gpmcflow.yaml"
    threads: 1
    resources:
        mem_mb=1200,
        runtime=lambda w, attempt: 15 * attempt,
    params:
        seed=config["seed"],
        code=code_digest(*MODEL_CODE, "samplers", "studies.split_hmc.illustrations"),
    script:
        "../../scripts/split_hmc/illustrate.py"
