"""Whatever happens to a workflow on a real SLURM, the same command ends in the same bytes.

python -m pytest -m slurm -n 0 -s tests/cluster        # half an hour; -s shows the table
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("slurm", Path(__file__).with_name("slurm.py"))
slurm = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(slurm)

pytestmark = pytest.mark.slurm
ABSENT = slurm.missing()
if importlib.util.find_spec("snakemake_executor_plugin_slurm") is None:
    ABSENT.append("snakemake-executor-plugin-slurm")
if ABSENT:
    pytest.skip(f"not on this machine: {', '.join(ABSENT)}", allow_module_level=True)

PROFILE = ROOT / "workflow" / "profiles" / "slurm"
# The plugin adds 10 s to its interval each time it asks in vain.
FASTER = ["--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "20"]
CHAINS = ["--until", "split_hmc_chains"]
TOO_LITTLE = [*CHAINS, "--set-resources", "split_hmc_chains:mem_mb=150 if attempt < 2 else 1500"]
PATIENCE = 600  # seconds in which a workflow writes nothing
SHORT, LONG = 2000, 16000  # draws; SLURM looks for walltimes that are over twice a minute


class Workflow:
    """The small workflow in a folder of its own, on the cluster unless `cores` is asked for."""

    def __init__(self, folder: Path, draws: int, environment: dict, **execution):
        self.folder, self.environment = folder, environment
        self.processes: list[subprocess.Popen] = []
        folder.mkdir(exist_ok=True)
        config = {
            "seed": 3,
            "execution": {"block_size": 2, "segment_length": 10, **execution},
            "datasets": {"drawn": {"shahbaba_simulated": {"n": 200}}},
            "problems": {
                "simulated": {"dataset": "drawn", "model": "linear", "likelihood": "logistic"}
            },
            "studies": {"split_hmc": {
                "chains": 4, "draws": draws, "thin": 4, "illustrations": False,
                "problems": {"simulated": {
                    "hmc": {"sampler": "latent_hmc", "n_steps": 20},
                    "split": {"sampler": "split_hmc", "step_size": 0.1, "n_steps": 8},
                }},
            }},
        }  # fmt: skip
        (folder / "config.yaml").write_text(yaml.safe_dump(config))

    def start(self, *arguments: str, cores: int | None = None) -> subprocess.Popen:
        """Give the command."""
        where = ["--profile", str(PROFILE), *FASTER] if cores is None else ["--cores", str(cores)]
        command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
        command += ["--directory", str(self.folder)]
        command += ["--configfile", str(self.folder / "config.yaml"), *where, *arguments]
        with open(self.folder / "output", "ab") as output:
            self.processes.append(subprocess.Popen(
                command, env=self.environment, stdout=output, stderr=output, start_new_session=True,
                # Where this runs in the background of a script, Ctrl-C would be ignored.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            ))  # fmt: skip
        return self.processes[-1]

    def finish(self, process: subprocess.Popen) -> None:
        """Wait for success, as long as it writes files: a busy machine may be slow."""
        while (code := self._code(process)) is None:
            if time.time() - self._last_written() > PATIENCE:
                os.killpg(process.pid, signal.SIGKILL)
                code = process.wait()
        assert code == 0, (self.folder / "output").read_text()[-3000:]

    def _last_written(self) -> float:
        times = [(self.folder / "output").stat().st_mtime]
        for folder, _, names in os.walk(self.folder):
            for name in names:
                with contextlib.suppress(FileNotFoundError):  # gone meanwhile
                    times.append(os.stat(os.path.join(folder, name)).st_mtime)
        return max(times)

    @staticmethod
    def _code(process: subprocess.Popen) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=30)
        return None

    def job_at_work(self, method: str = "hmc") -> str:
        """Id of the SLURM job of a method, once it has written some of its segments."""
        job = ""

        def at_work() -> bool:
            nonlocal job
            for about in (self.folder / "results" / ".state").glob("*/job.json"):
                if json.loads(about.read_text())["wildcards"].get("method") == method:
                    running = self.ask("squeue", "-h", "-t", "RUNNING", "-o", "%i %k").splitlines()
                    job = next((line.split()[0] for line in running if line.endswith(method)), "")
                    return bool(job) and len(list(about.parent.glob("*/segment_*"))) >= 4
            return False

        slurm.wait_until(at_work, 240, f"{method} is not at work; see {self.folder / 'output'}")
        return job

    def processes_of(self, job: str) -> list[psutil.Process]:
        """What runs of a job of SLURM, its daemon's processes included."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                words = " ".join(process.cmdline())
                inside = process.environ().get("SLURM_JOB_ID") == job and str(self.folder) in words
                if inside or words.startswith(f"slurmstepd: [{job}."):
                    found.append(process)
        return found

    def ask(self, *command: str) -> str:
        """Output of a command of SLURM."""
        return slurm.ask(self.environment, *command)

    def wait_for(self, job: str, *states: str) -> None:
        """Wait until SLURM says so of a job."""
        slurm.wait_until(
            lambda: self.ask("squeue", "-h", "--states=all", "-j", job, "-o", "%T").strip() in states,
            90, f"job {job} is not {' or '.join(states)}",
        )  # fmt: skip

    def digests(self) -> dict[str, str]:
        """SHA-256 of each NetCDF file."""
        results = self.folder / "results"
        return {
            str(path.relative_to(results)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(results.rglob("*.nc"))
        }


def cancel(workflow: Workflow, process: subprocess.Popen) -> None:
    """`scancel` of a running job."""
    job = workflow.job_at_work()
    workflow.ask("scancel", job)
    workflow.wait_for(job, "CANCELLED")
    workflow.finish(process)


def requeue(workflow: Workflow, process: subprocess.Popen) -> None:
    """`scontrol requeue` of a running job."""
    job = workflow.job_at_work()
    workflow.ask("scontrol", "requeue", job)
    workflow.wait_for(job, "PENDING")
    workflow.finish(process)
    assert "Restarts=1" in workflow.ask("scontrol", "show", "job", job)


def warn(workflow: Workflow, process: subprocess.Popen) -> None:
    """Walltime nearly over: SIGTERM from `--signal=TERM@120`, the job ends by itself."""
    job = workflow.job_at_work()
    workflow.ask("scontrol", "update", f"jobid={job}", "EndTime=now+110")
    workflow.wait_for(job, "FAILED")
    workflow.finish(process)


def time_out(workflow: Workflow, process: subprocess.Popen) -> None:
    """TIMEOUT: the walltime is over without a warning."""
    job = workflow.job_at_work()
    workflow.ask("scontrol", "update", f"jobid={job}", "EndTime=now+1")
    workflow.wait_for(job, "TIMEOUT")
    workflow.finish(process)


def interrupt(workflow: Workflow, process: subprocess.Popen) -> None:
    """Ctrl-C at the submit host, then the same command."""
    job = workflow.job_at_work()
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=120) != 0
    workflow.wait_for(job, "CANCELLED")
    workflow.finish(workflow.start(*CHAINS))


def kill_submit(workflow: Workflow, process: subprocess.Popen) -> None:
    """SIGKILL of Snakemake at the submit host while its jobs run on, `--unlock`, the same command."""
    job = workflow.job_at_work()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert "RUNNING" in workflow.ask("squeue", "-h", "-j", job, "-o", "%T")
    assert workflow.start(*CHAINS).wait(timeout=120) != 0  # it is locked
    workflow.finish(workflow.start("--unlock"))
    workflow.finish(workflow.start(*CHAINS))


def preempt(workflow: Workflow, process: subprocess.Popen) -> None:
    """Preemption: a job of an urgent partition takes the node, SLURM requeues the running job."""
    job = workflow.job_at_work()
    workflow.ask("sbatch", "-p", "urgent", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 5")
    workflow.wait_for(job, "PENDING")
    workflow.finish(process)
    assert "Restarts=1" in workflow.ask("scontrol", "show", "job", job)


def lose_node(workflow: Workflow, process: subprocess.Popen) -> None:
    """Loss of the node (`scontrol update nodename=... state=down`) until nothing is left of its job."""
    job = workflow.job_at_work()
    node = f"nodename={workflow.ask('sinfo', '-h', '-o', '%n').strip()}"
    workflow.ask("scontrol", "update", node, "state=down", "reason=test")
    workflow.wait_for(job, "PENDING")
    slurm.wait_until(
        lambda: not workflow.processes_of(job), 60, f"processes of the lost job {job} stay behind"
    )
    workflow.ask("scontrol", "update", node, "state=resume")
    workflow.finish(process)
    assert "Restarts=1" in workflow.ask("scontrol", "show", "job", job)


def run_out_of_memory(workflow: Workflow, process: subprocess.Popen) -> None:
    """Out of memory: SLURM ends the first attempts, whose limit is too low; the next ones ask for more."""
    log = Path(workflow.environment["SLURM_CONF"]).with_name("slurmd.log")
    before = log.read_text().count("exceeded memory limit")
    workflow.finish(process)
    assert log.read_text().count("exceeded memory limit") > before


def nothing(workflow: Workflow, process: subprocess.Popen) -> None:
    """Nothing: the README's command to its end."""
    workflow.finish(process)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Environment in which SLURM's commands find the one-node cluster."""
    with slurm.one_node_cluster(tmp_path_factory.mktemp("slurm")) as environment:
        environment["PYTHONPATH"] = str(ROOT)
        print("\n| case | wall time | NetCDF files equal |\n| --- | --- | --- |")
        yield environment


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, cluster):
    """A function: digests of the results of `snakemake --cores 1` with so many draws."""
    known: dict[int, dict[str, str]] = {}

    def digests(draws: int) -> dict[str, str]:
        if draws not in known:
            workflow = Workflow(tmp_path_factory.mktemp(f"local_{draws}"), draws, cluster)
            workflow.finish(workflow.start(*CHAINS, cores=1))
            known[draws] = workflow.digests()
        return known[draws]

    return digests


@pytest.fixture
def started(tmp_path, cluster):
    """A function: the workflow, which is ended with the test."""
    workflows: list[Workflow] = []

    def start(draws: int, **execution) -> Workflow:
        workflows.append(Workflow(tmp_path / "project", draws, cluster, **execution))
        return workflows[-1]

    yield start
    for process in (process for workflow in workflows for process in workflow.processes):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    slurm.ask(cluster, "scancel", "-u", str(os.getuid()))


def compare(case: str, began: float, workflow: Workflow, wanted: dict[str, str]) -> None:
    seconds, got = time.monotonic() - began, workflow.digests()
    equal = sum(got.get(name) == digest for name, digest in wanted.items())
    print(f"| {case} | {seconds:.0f} s | {equal}/{len(wanted)} |", flush=True)
    assert got == wanted


@pytest.mark.parametrize(
    ("disturb", "draws", "arguments"),
    [
        (nothing, SHORT, []),
        (cancel, SHORT, CHAINS),
        (requeue, SHORT, CHAINS),
        (warn, LONG, CHAINS),
        (time_out, LONG, CHAINS),
        (interrupt, SHORT, CHAINS),
        (kill_submit, LONG, CHAINS),
        (preempt, SHORT, CHAINS),
        (lose_node, SHORT, CHAINS),
        (run_out_of_memory, SHORT, TOO_LITTLE),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_same_bytes(disturb, draws, arguments, undisturbed, started):
    wanted = undisturbed(draws)
    workflow, began = started(draws), time.monotonic()
    disturb(workflow, workflow.start(*arguments))
    compare(disturb.__doc__.rstrip("."), began, workflow, wanted)


def test_same_bytes_from_dask_workers_that_are_jobs(undisturbed, started, tmp_path, cluster):
    wanted = undisturbed(SHORT)
    file, dask = tmp_path / "scheduler.json", (sys.executable, "-m", "dask")
    workflow, began = started(SHORT, scheduler=str(file)), time.monotonic()
    scheduler = subprocess.Popen(
        [*dask, "scheduler", "--scheduler-file", str(file), "--host", "127.0.0.1", "--port", "0",
         "--no-dashboard"],
        env=cluster, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    workflow.processes.append(scheduler)
    worker = f"{shlex.join(dask)} worker --scheduler-file {file} --nthreads 1 --no-dashboard"
    for _ in range(2):
        workflow.ask("sbatch", "--mem", "1000", "-o", str(tmp_path / "worker-%j"), "--wrap", worker)
    workflow.finish(workflow.start(*CHAINS))
    case = 'Two Dask workers as SLURM jobs (`sbatch --wrap "dask worker ..."`)'
    compare(case, began, workflow, wanted)
