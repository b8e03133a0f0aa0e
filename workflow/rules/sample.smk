rule posterior:
    input:
        data=lambda w: f"results/data/{config['problems'][w.problem]['dataset']}.nc",
        approximation=rules.approximate.output.results,
    output:
        results="results/{study}/{problem}/posterior.nc",
        sidecar="results/{study}/{problem}/posterior.nc.json",
    log:
        "results/logs/{study}/{problem}/posterior.log",
    benchmark:
        "results/benchmarks/{study}/{problem}/posterior.tsv"
    conda:
        "../envs/gpmcflow.yaml"
    threads: WORKERS
    resources:
        mem_mb=lambda w, threads, attempt: memory_to_ask_for(config, threads, attempt),
        runtime=lambda w, attempt: 60 * attempt,
    params:
        problem=lambda w: config["problems"][w.problem],
        sampling=lambda w: STUDIES[w.study]["sampling"],
        seed=config["seed"],
        block_size=config["execution"]["block_size"],
        code=code_digest(
            "models",
            "approximations",
            "samplers",
            "execution",
            "diagnostics",
            "studies.problems",
            "studies.stages",
        ),
    script:
        "../scripts/posterior.py"
