rule rmhmc_ais_approximate:
    input:
        data=lambda w: DATA[w.problem],
    output:
        results="results/rmhmc_ais/{problem}/approximation.nc",
        sidecar="results/rmhmc_ais/{problem}/approximation.nc.json",
    log:
        "results/logs/rmhmc_ais/{problem}/approximation.log",
    benchmark:
        "results/benchmarks/rmhmc_ais/{problem}/approximation.tsv"
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
        code=code_digest(*MODEL_CODE, "studies.problems", "studies.stages"),
    script:
        "../../scripts/rmhmc_ais/approximate.py"


rule rmhmc_ais_hyperparameter_map:
    input:
        data=lambda w: DATA[RMHMC_AIS["map"]["problem"]],
    output:
        results="results/rmhmc_ais/map.nc",
        sidecar="results/rmhmc_ais/map.nc.json",
    log:
        "results/logs/rmhmc_ais/map.log",
    benchmark:
        "results/benchmarks/rmhmc_ais/map.tsv"
    conda:
        "../../envs/gpmcflow.yaml"
    threads: 1
    resources:
        mem_mb=lambda w, input, threads, attempt: memory_mb(
            config, RMHMC_AIS["map"]["problem"], input.data, threads, attempt
        ),
        runtime=lambda w, attempt: 60 * attempt,
    params:
        problem=lambda w: config["problems"][RMHMC_AIS["map"]["problem"]],
        grid=lambda w: RMHMC_AIS["map"],
        marked=lambda w: marked_settings(config, "rmhmc_ais"),
        seed=config["seed"],
        code=code_digest(*MODEL_CODE, "studies.problems", "studies.rmhmc_ais.runs"),
    script:
        "../../scripts/rmhmc_ais/hyperparameter_map.py"
