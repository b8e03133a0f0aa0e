# A rule for each stage that the studies of the config plan.
def marked_outputs(stage):
    """Outputs by name; those with a caption are part of Snakemake's report."""
    captioned = {
        name: report(
            path, category=stage.folder, labels={"shows": stage.captions[path]}
        )
        for name, path in stage.outputs.items()
        if path in stage.captions
    }
    return {**stage.files, **captioned}


for stage in PLAN.stages:

    rule:
        name:
            stage.rule
        input:
            unpack(PLAN.inputs(stage)),
        output:
            **marked_outputs(stage),
        log:
            stage.log,
        benchmark:
            stage.benchmark
        wildcard_constraints:
            **PLAN.constraints(stage),
        localrule: stage.local
        conda:
            "../envs/gpmcflow.yaml"
        threads: PLAN.threads(stage)
        resources:
            mem_mb=PLAN.megabytes(stage),
            runtime=PLAN.minutes(stage),
        params:
            entry=stage.entry,
            settings=PLAN.settings(stage),
            sources=PLAN.sources(stage),
            seed=config["seed"],
            block_size=config["execution"]["block_size"] if stage.in_blocks else None,
            code=PLAN.code(stage),
        script:
            "../scripts/job.py"
