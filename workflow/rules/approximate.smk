rule approximate:
    input:
        data=lambda w: f"results/data/{config['problems'][w.problem]['dataset']}.nc",
    output:
        results="results/{study}/{problem}/approximation.nc",
        sidecar="results/{study}/{problem}/approximation.nc.json",
    log:
        "results/logs/{study}/{problem}/approximation.log",
    benchmark:
        "results/benchmarks/{study}/{problem}/approximation.tsv"
    conda:
        "../envs/gpmcflow.yaml"
    threads: 1
    resources:
        mem_mb=lambda w, threads, attempt: memory_to_ask_for(config, threads, attempt),
        runtime=lambda w, attempt: 30 * attempt,
    params:
        problem=lambda w: config["problems"][w.problem],
        seed=config["seed"],
        code=code_digest(
            "models", "approximations", "studies.problems", "studies.stages"
        ),
    script:
        "../scripts/approximate.py"


rule hyperparameter_map:
    input:
        data=lambda w: f"results/data/{config['problems'][STUDIES[w.study]['map']['problem']]['dataset']}.nc",
    output:
        results="results/{study}/map.nc",
        sidecar="results/{study}/map.nc.json",
    log:
        "results/logs/{study}/map.log",
    benchmark:
        "results/benchmarks/{study}/map.tsv"
    conda:
        "../envs/gpmcflow.yaml"
    threads: 1
    resources:
        mem_mb=lambda w, threads, attempt: memory_to_ask_for(config, threads, attempt),
        runtime=lambda w, attempt: 60 * attempt,
    params:
        problem=lambda w: config["problems"][STUDIES[w.study]["map"]["problem"]],
        grid=lambda w: STUDIES[w.study]["map"],
        marked=lambda w: marked_settings(config, w.study),
        seed=config["seed"],
        code=code_digest(
            "models", "approximations", "studies.problems", "studies.rmhmc_ais"
        ),
    script:
        "../scripts/hyperparameter_map.py"
