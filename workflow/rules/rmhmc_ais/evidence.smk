rule rmhmc_ais_evidence:
    input:
        data=lambda w: DATA[w.problem],
        approximation=rules.rmhmc_ais_approximate.output.results,
    output:
        results="results/rmhmc_ais/{problem}/evidence/{method}.nc",
        sidecar="results/rmhmc_ais/{problem}/evidence/{method}.nc.json",
    log:
        "results/logs/rmhmc_ais/{problem}/evidence/{method}.log",
    benchmark:
        "results/benchmarks/rmhmc_ais/{problem}/evidence/{method}.tsv"
    wildcard_constraints:
        method="|".join(RMHMC_AIS["methods"]),
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
            RMHMC_AIS["methods"][w.method],
        ),
        runtime=lambda w, input, attempt: runtime_minutes(
            config, w.problem, input.data, RMHMC_AIS["methods"][w.method], attempt
        ),
    params:
        problem=lambda w: config["problems"][w.problem],
        method=lambda w: RMHMC_AIS["methods"][w.method],
        seed=config["seed"],
        block_size=config["execution"]["block_size"],
        code=code_digest(
            *MODEL_CODE,
            "samplers",
            "evidence",
            "execution",
            "diagnostics",
            "studies.problems",
            "studies.stages",
            "studies.rmhmc_ais.study",
            "studies.rmhmc_ais.evidence_plans",
            "studies.rmhmc_ais.evidence_routes",
        ),
    script:
        "../../scripts/rmhmc_ais/evidence.py"
