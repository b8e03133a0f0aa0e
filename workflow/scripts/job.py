"""One job of any rule: the function that its params name."""

from gpmcflow.jobs.job import run_job

if __name__ == "__main__":
    run_job(snakemake)
