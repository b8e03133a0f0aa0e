"""CPU seconds of a submitted SLURM job from its first process to its end, its own work next to nothing.

    python benchmarks/job_start.py [--rounds 5]

The job's own batch script, as Snakemake's SLURM plugin submits it, runs here: `sbatch` is a stand-in that
keeps it, `srun` one that runs its command. A job is two Snakemakes, one inside the other, and the script of
the rule. Beside it: the same two Snakemakes with a workflow of one rule that does nothing.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONFIG = """
datasets: {drawn: {shahbaba_simulated: {n: 40}}}
problems: {drawn: {dataset: drawn, model: linear, likelihood: logistic}}
studies:
  split_hmc:
    illustrations: false
    problems: {drawn: {hmc: {sampler: latent_hmc, n_steps: 1}}}
"""
NOTHING = 'rule nothing:\n    output: "x"\n    shell: "touch x"\n'
STAND_INS = {
    "sbatch": """#!/bin/sh
for word; do case "$word" in --wrap=*) echo "${word#--wrap=}" > $HERE/job.sh;; esac; done
echo 1
""",
    "srun": '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nexec "$@"\n',
    "squeue": "#!/bin/sh\n",
    "scancel": "#!/bin/sh\n",
    "sacct": "#!/bin/sh\n",
    "scontrol": "#!/bin/sh\necho 'MinJobAge = 300 sec'\n",
    "sinfo": "#!/bin/sh\n",
}


def batch_script(folder: Path, arguments: list[str], environment: dict[str, str]) -> None:
    """Let Snakemake submit its first job; `sbatch` leaves that job's script in the folder."""
    script = folder / "job.sh"
    command = [sys.executable, "-m", "snakemake", "--executor", "slurm", "--jobs", "1", "--nolock"]
    options = ["--directory", str(folder), "--slurm-status-command", "squeue"]
    process = subprocess.Popen(
        [*command, *options, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    until = time.monotonic() + 120
    while not script.exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.1)
    process.kill()
    told = process.communicate()[0].decode()
    if not script.exists():
        sys.exit(f"nothing was submitted:\n{told}")


def cpu_seconds(folder: Path, environment: dict[str, str]) -> float:
    """User and system time of a job's script and all it waits for, in its folder."""
    command = ["sh", str(folder / "job.sh")]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


WORK = """
import time
from gpmcflow.storage import load_results, write_results
from gpmcflow.replications.split_hmc.runs import fit
began = time.process_time()
problem = {"dataset": "drawn", "model": "linear", "likelihood": "logistic", "prior_sd": 5.0}
tree, _ = fit(load_results("results/data/drawn.nc").to_dataset(), problem, seed=1)
write_results(tree, "work.nc")
print(time.process_time() - began)
"""


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        commands = {}
        for kind in ("ours", "nothing"):
            folder = base / kind
            folder.mkdir()
            for tool, text in STAND_INS.items():
                (folder / tool).write_text(text)
                (folder / tool).chmod(0o755)
            environment = {
                **os.environ,
                "PATH": f"{folder}:{os.environ['PATH']}",
                "HERE": str(folder),
            }
            if kind == "ours":
                (folder / "c.yaml").write_text(CONFIG)
                which = [
                    "--snakefile",
                    str(ROOT / "Snakefile"),
                    "--configfile",
                    str(folder / "c.yaml"),
                ]
                data = ["--directory", str(folder), "--cores", "1", "results/data/drawn.nc"]
                local = [sys.executable, "-m", "snakemake", *which, *data]
                subprocess.run(local, check=True, capture_output=True)
                which += ["--until", "split_hmc_fit"]
            else:
                (folder / "Snakefile").write_text(NOTHING)
                which = ["--snakefile", str(folder / "Snakefile")]
            batch_script(folder, which, environment)
            commands[kind] = (folder, {**environment, "SLURM_JOB_ID": "1"})
        seconds = {kind: [] for kind in commands}
        for _ in range(rounds):
            for kind, command in commands.items():
                seconds[kind].append(cpu_seconds(*command))
        work = [sys.executable, "-c", WORK]
        told = subprocess.run(work, cwd=base / "ours", check=True, capture_output=True, text=True)
        print(f"of ours, the work itself: {float(told.stdout):.2f} CPU s")
        for kind, values in seconds.items():
            print(
                f"{kind}: {statistics.median(values):.2f} CPU s ({min(values):.2f} to {max(values):.2f})"
            )


if __name__ == "__main__":
    main()
