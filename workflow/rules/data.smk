# Problem -> the file of its data set.
DATA = {
    name: f"results/data/{problem['dataset']}.nc"
    for name, problem in config["problems"].items()
}


rule prepare:
    input:
        csv=lambda w: config["datasets"].get(w.dataset, {}).get("csv", []),
    output:
        results="results/data/{dataset}.nc",
        sidecar="results/data/{dataset}.nc.json",
    log:
        "results/logs/data/{dataset}.log",
    benchmark:
        "results/benchmarks/data/{dataset}.tsv"
    conda:
        "../envs/gpmcflow.yaml"
    params:
        settings=lambda w: config["datasets"].get(w.dataset),
        code=code_digest("datasets", "studies.problems"),
    script:
        "../scripts/prepare.py"
