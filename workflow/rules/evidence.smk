rule evidence:
    input:
        data=lambda w: f"results/data/{config['problems'][w.problem]['dataset']}.nc",
        approximation=rules.approximate.output.results,
    output:
        results="results/{study}/{problem}/evidence/{method}.nc",
        sidecar="results/{study}/{problem}/evidence/{method}.nc.json",
    log:
        "results/logs/{study}/{problem}/evidence/{method}.log",
    benchmark:
        "results/benchmarks/{study}/{problem}/evidence/{method}.tsv"
    conda:
        "../envs/gpmcflow.yaml"
    threads: WORKERS
    resources:
        mem_mb=lambda w, threads, attempt: memory_to_ask_for(config, threads, attempt),
        runtime=lambda w, attempt: 120 * attempt,
    params:
        problem=lambda w: config["problems"][w.problem],
        method=lambda w: STUDIES[w.study]["methods"][w.method],
        seed=config["seed"],
        block_size=config["execution"]["block_size"],
        code=code_digest(
            "models",
            "approximations",
            "samplers",
            "evidence",
            "execution",
            "diagnostics",
            "studies.problems",
            "studies.stages",
            "studies.rmhmc_ais",
        ),
    script:
        "../scripts/evidence.py"
