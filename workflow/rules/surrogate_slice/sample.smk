# One thread: two of these jobs side by side beat two workers in one.
rule surrogate_slice_replicate:
    input:
        data=lambda w: DATA[w.problem],
    output:
        results="results/surrogate_slice/{problem}/{method}/replicate_{replicate}.nc",
        sidecar="results/surrogate_slice/{problem}/{method}/replicate_{replicate}.nc.json",
    log:
        "results/logs/surrogate_slice/{problem}/{method}/replicate_{replicate}.log",
    benchmark:
        "results/benchmarks/surrogate_slice/{problem}/{method}/replicate_{replicate}.tsv"
    wildcard_constraints:
        problem="|".join(SURROGATE_SLICE),
        method="|".join(
            sorted({name for methods in SURROGATE_SLICE.values() for name in methods})
        ),
        replicate=r"\d+",
    conda:
        "../../envs/gpmcflow.yaml"
    threads: 1
    resources:
        mem_mb=lambda w, input, threads, attempt: memory_mb(
            config, w.problem, input.data, threads, attempt
        ),
        runtime=lambda w, attempt: min(60, 30 * attempt),
    params:
        problem=lambda w: config["problems"][w.problem],
        method=lambda w: run_settings(SURROGATE_SLICE[w.problem][w.method]),
        seed=config["seed"],
        code=lambda w: SURROGATE_SLICE_DIGESTS[
            code_of(SURROGATE_SLICE[w.problem][w.method])
        ],
    script:
        "../../scripts/surrogate_slice/replicate.py"


rule surrogate_slice_illustrate:
    output:
        results="results/surrogate_slice/illustrations.nc",
        sidecar="results/surrogate_slice/illustrations.nc.json",
    log:
        "results/logs/surrogate_slice/illustrations.log",
    benchmark:
        "results/benchmarks/surrogate_slice/illustrations.tsv"
    conda:
        "../../envs/gpmcflow.yaml"
    threads: 1
    resources:
        mem_mb=1200,
        runtime=lambda w, attempt: 15 * attempt,
    params:
        seed=config["seed"],
        code=code_digest(
            *MODEL_CODE,
            "samplers",
            "studies.surrogate_slice",
        ),
    script:
        "../../scripts/surrogate_slice/illustrate.py"
