# Own data: from a CSV file to results/<analysis>/report.html.
from gpmcflow.studies.analysis.study import (
    AT_MAXIMUM,
    AVERAGED,
    draw_threads,
    evidence_settings,
    files_of,
    ladder_threads,
    result_files,
    settings_of,
)

ANALYSES = config["analyses"]
# The rooms that what a model says comes from.
ANALYSIS_CODE = (
    *MODEL_CODE,
    "samplers",
    "execution",
    "evidence",
    "diagnostics",
    "datasets",
    "studies.stated_models",
)
ANALYSIS_STEPS = ("data", "models", "effects", "summaries", "leave_one_out", "fitting")


wildcard_constraints:
    analysis="|".join(ANALYSES),
    model="|".join({m for analysis in ANALYSES.values() for m in analysis["models"]}),


localrules:
    analysis_read,
    analysis_report,


rule analysis_read:
    input:
        files=lambda w: files_of(ANALYSES[w.analysis]),
    output:
        results="results/{analysis}/data.nc",
        sidecar="results/{analysis}/data.nc.json",
        rows="results/{analysis}/rows.csv",
        columns="results/{analysis}/columns.csv",
        new="results/{analysis}/new_rows.csv",
    log:
        "results/logs/{analysis}/read.log",
    conda:
        "../envs/gpmcflow.yaml"
    params:
        settings=lambda w: {"data": ANALYSES[w.analysis]["data"]},
        seed=config["seed"],
        code=code_digest(
            "datasets", "studies.analysis.reading", "studies.analysis.data"
        ),
    script:
        "../scripts/analysis/read.py"


rule analysis_fit:
    input:
        data=rules.analysis_read.output.results,
    output:
        results="results/{analysis}/{model}/fit.nc",
        sidecar="results/{analysis}/{model}/fit.nc.json",
    log:
        "results/logs/{analysis}/{model}/fit.log",
    benchmark:
        "results/benchmarks/{analysis}/{model}/fit.tsv"
    conda:
        "../envs/gpmcflow.yaml"
    threads: 1
    resources:
        mem_mb=lambda w, input, threads, attempt: analysis_memory_mb(
            config,
            input.data,
            threads,
            attempt,
            ANALYSES[w.analysis]["models"][w.model]["structure"],
        ),
        runtime=lambda w, attempt: min(60, 30 * attempt),
    params:
        settings=lambda w: evidence_settings(ANALYSES[w.analysis], *AT_MAXIMUM),
        seed=config["seed"],
        code=code_digest(
            *ANALYSIS_CODE, *(f"studies.analysis.{step}" for step in ANALYSIS_STEPS)
        ),
    script:
        "../scripts/analysis/fit.py"


rule analysis_draw:
    input:
        data=rules.analysis_read.output.results,
    output:
        results="results/{analysis}/{model}/posterior.nc",
        sidecar="results/{analysis}/{model}/posterior.nc.json",
    log:
        "results/logs/{analysis}/{model}/draw.log",
    benchmark:
        "results/benchmarks/{analysis}/{model}/draw.tsv"
    conda:
        "../envs/gpmcflow.yaml"
    threads: lambda w: draw_threads(config, w.analysis)
    resources:
        mem_mb=lambda w, input, threads, attempt: analysis_memory_mb(
            config,
            input.data,
            threads,
            attempt,
            ANALYSES[w.analysis]["models"][w.model]["structure"],
        ),
        runtime=lambda w, attempt: min(60, 30 * attempt),
    params:
        settings=lambda w: settings_of(ANALYSES[w.analysis], "sampling"),
        seed=config["seed"],
        code=code_digest(
            *ANALYSIS_CODE,
            *(
                f"studies.analysis.{step}"
                for step in ("data", "models", "fitting", "convergence")
            ),
        ),
    script:
        "../scripts/analysis/draw.py"


rule analysis_summarise:
    input:
        data=rules.analysis_read.output.results,
        draws=rules.analysis_draw.output.results,
    output:
        results="results/{analysis}/{model}/summary.nc",
        sidecar="results/{analysis}/{model}/summary.nc.json",
    log:
        "results/logs/{analysis}/{model}/summarise.log",
    benchmark:
        "results/benchmarks/{analysis}/{model}/summarise.tsv"
    conda:
        "../envs/gpmcflow.yaml"
    threads: 1
    resources:
        mem_mb=lambda w, input, threads, attempt: analysis_memory_mb(
            config,
            input.data,
            threads,
            attempt,
            ANALYSES[w.analysis]["models"][w.model]["structure"],
        ),
        runtime=lambda w, attempt: min(60, 30 * attempt),
    params:
        settings=rules.analysis_fit.params.settings,
        seed=config["seed"],
        code=rules.analysis_fit.params.code,
    script:
        "../scripts/analysis/summarise.py"


rule analysis_evidence:
    input:
        data=rules.analysis_read.output.results,
        draws=rules.analysis_draw.output.results,
    output:
        results="results/{analysis}/{model}/evidence.nc",
        sidecar="results/{analysis}/{model}/evidence.nc.json",
    log:
        "results/logs/{analysis}/{model}/evidence.log",
    benchmark:
        "results/benchmarks/{analysis}/{model}/evidence.tsv"
    conda:
        "../envs/gpmcflow.yaml"
    threads: lambda w: ladder_threads(config, w.analysis)
    resources:
        mem_mb=lambda w, input, threads, attempt: analysis_memory_mb(
            config,
            input.data,
            threads,
            attempt,
            ANALYSES[w.analysis]["models"][w.model]["structure"],
        ),
        runtime=lambda w, attempt: min(60, 30 * attempt),
    params:
        settings=lambda w: evidence_settings(ANALYSES[w.analysis], *AVERAGED),
        seed=config["seed"],
        code=code_digest(
            *ANALYSIS_CODE,
            *(
                f"studies.analysis.{step}"
                for step in ("data", "models", "averaged_evidence")
            ),
        ),
    script:
        "../scripts/analysis/evidence.py"


rule analysis_report:
    input:
        data=rules.analysis_read.output.results,
        tables=[
            rules.analysis_read.output.rows,
            rules.analysis_read.output.columns,
            rules.analysis_read.output.new,
        ],
        results=lambda w: sum(
            result_files(w.analysis, ANALYSES[w.analysis]).values(), []
        ),
    output:
        report="results/{analysis}/report.html",
        info="results/{analysis}/info.json",
        models="results/{analysis}/models.csv",
        relevance="results/{analysis}/relevance.csv",
        more=expand(
            "results/{{analysis}}/{table}.csv",
            table=["effects", "rug", "hyperparameters", "checks"],
        ),
        config="results/{analysis}/config.yaml",
    log:
        "results/logs/{analysis}/report.log",
    conda:
        "../envs/gpmcflow.yaml"
    params:
        settings=lambda w: ANALYSES[w.analysis],
        seed=config["seed"],
        config_name=os.path.basename(CONFIGFILE or "config.yaml"),
        code=code_digest("studies.analysis", "figures.style"),
    script:
        "../scripts/analysis/report.py"
