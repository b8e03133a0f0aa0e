rule rmhmc_ais_posterior:
    input:
        data=lambda w: DATA[w.problem],
        approximation=rules.rmhmc_ais_approximate.output.results,
    output:
        results="results/rmhmc_ais/{problem}/posterior.nc",
        sidecar="results/rmhmc_ais/{problem}/posterior.nc.json",
    log:
        "results/logs/rmhmc_ais/{problem}/posterior.log",
    benchmark:
        "results/benchmarks/rmhmc_ais/{problem}/posterior.tsv"
    conda:
        "../../envs/gpmcflow.yaml"
    threads: WORKERS
    resources:
        mem_mb=lambda w, input, threads, attempt: memory_mb(
            config,
            w.problem,
            input.data,
            threads,
            attempt,
            RMHMC_AIS["sampling"],
        ),
        runtime=lambda w, input, attempt: runtime_minutes(
            config, w.problem, input.data, RMHMC_AIS["sampling"], attempt
        ),
    params:
        problem=lambda w: config["problems"][w.problem],
        sampling=lambda w: RMHMC_AIS["sampling"],
        seed=config["seed"],
        block_size=config["execution"]["block_size"],
        code=code_digest(
            *MODEL_CODE,
            "samplers",
            "execution",
            "diagnostics",
            "studies.problems",
            "studies.stages",
        ),
    script:
        "../../scripts/rmhmc_ais/posterior.py"
