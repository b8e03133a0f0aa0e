# One thread: two of these jobs side by side beat two workers in one.
rule split_hmc_chains:
    input:
        data=lambda w: DATA[w.problem],
        fit=rules.split_hmc_fit.output.results,
    output:
        results="results/split_hmc/{problem}/{method}.nc",
        sidecar="results/split_hmc/{problem}/{method}.nc.json",
    log:
        "results/logs/split_hmc/{problem}/{method}.log",
    benchmark:
        "results/benchmarks/split_hmc/{problem}/{method}.tsv"
    wildcard_constraints:
        method="|".join(
            sorted({name for methods in SPLIT_HMC.values() for name in methods})
        ),
    conda:
        "../../envs/gpmcflow.yaml"
    threads: 1
    resources:
        mem_mb=lambda w, input, threads, attempt: memory_mb(
            config,
            w.problem,
            input.data,
            threads,
            attempt,
            SPLIT_HMC[w.problem][w.method],
        ),
        runtime=lambda w, input, attempt: runtime_minutes(
            config, w.problem, input.data, SPLIT_HMC[w.problem][w.method], attempt
        ),
    params:
        problem=lambda w: config["problems"][w.problem],
        method=lambda w: SPLIT_HMC[w.problem][w.method],
        seed=config["seed"],
        block_size=config["execution"]["block_size"],
        code=code_digest(
            *MODEL_CODE,
            "samplers",
            "execution",
            "diagnostics",
            "studies.frame.pace",
            "studies.problems",
            "studies.stages",
            "studies.split_hmc.study",
        ),
    script:
        "../../scripts/split_hmc/chains.py"
