"""A SLURM of one node, this machine, in a folder of its own; without accounting and without systemd.

    python tests/cluster/slurm.py [--install] [COMMAND ...]

runs a command, or a shell, with `SLURM_CONF` set, and ends the daemons afterwards. `--install` gets
them from Debian's or Ubuntu's packages first, as root.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd")
PACKAGES = ("munge", "slurmctld", "slurmd", "slurm-client")
CPUS, MEMORY_MB = 4, 8000  # what the node says it has, whatever it has
SETTINGS = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=10
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=2
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MpiDefault=none
JobRequeue=1
ReturnToService=1
KillWait=10
DefMemPerCPU=500
{settings}
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
PartitionName=urgent Nodes={host} PriorityTier=10 MaxTime=INFINITE State=UP
"""


def missing() -> list[str]:
    """Daemons that are not on this machine."""
    return [name for name in DAEMONS if _path(name) is None]


def install() -> None:
    """Install the daemons by apt; they are not started."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update"], check=True, env=environment)
    subprocess.run(["apt-get", "install", "-y", *PACKAGES], check=True, env=environment)


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Look four times a second; raise `TimeoutError` with `what` when the time is over."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds:.0f} s: {what}")
        time.sleep(0.25)


@contextlib.contextmanager
def one_node_cluster(folder: Path, settings: str = "") -> Iterator[dict[str, str]]:
    """Run the daemons in an empty folder; give the environment in which SLURM's commands find them.

    `settings` are lines for slurm.conf. However it ends, the jobs are cancelled and the daemons killed.
    """
    folder.chmod(0o755)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.touch(0o600)
    key.write_bytes(os.urandom(128))
    controller, node = _free_ports()
    conf = folder / "slurm.conf"
    conf.write_text(SETTINGS.format(
        host=socket.gethostname().split(".")[0], user=Path.home().owner(), folder=folder, cpus=CPUS,
        memory=MEMORY_MB, controller=controller, node=node, settings=settings,
    ))  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SNAKEMAKE"))}
    environment["SLURM_CONF"] = str(conf)
    environment["PATH"] = f"{folder}:{environment['PATH']}"
    # Snakemake's plugin hides SLURM's variables from the srun it calls in a job.
    srun = folder / "srun"
    srun.write_text(f'#!/bin/sh\nSLURM_CONF={conf} exec {_path("srun")} "$@"\n')
    srun.chmod(0o755)
    files = {"key-file": key, "socket": folder / "munge.socket", "pid-file": folder / "munged.pid",
             "log-file": folder / "munged.log", "seed-file": folder / "munge.seed"}  # fmt: skip
    commands = [
        ["munged", "--foreground", "--force", *(f"--{k}={v}" for k, v in files.items())],
        ["slurmctld", "-D", "-i"],
        ["slurmd", "-D", "-N", socket.gethostname().split(".")[0]],
    ]
    daemons: list[subprocess.Popen] = []
    try:
        with_parent = ["setpriv", "--pdeathsig", "TERM"]  # they end with it, however it ends
        for name, *arguments in commands:
            with open(folder / f"{name}.out", "wb") as output:
                daemons.append(subprocess.Popen(
                    [*with_parent, _path(name), *arguments], env=environment, stdout=output, stderr=output,
                    stdin=subprocess.DEVNULL, start_new_session=True,
                ))  # fmt: skip
            if name == "munged":
                wait_until(files["socket"].exists, 20, f"no munged; see {folder}")
        wait_until(lambda: "idle" in ask(environment, "sinfo", "-h", "-o", "%T"), 60,
                   f"the node is not idle; see {folder}")  # fmt: skip
        yield environment
    finally:
        _end(daemons, environment)


def ask(environment: dict[str, str], *command: str) -> str:
    """Output of one of SLURM's commands, empty when it failed."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    return done.stdout if done.returncode == 0 else ""


def _end(daemons: list[subprocess.Popen], environment: dict[str, str]) -> None:
    """Kill the jobs, then the daemons."""
    if len(daemons) == len(DAEMONS):
        with contextlib.suppress(subprocess.TimeoutExpired, TimeoutError):
            ask(environment, "scancel", "--signal=KILL", "--full", "-u", str(os.getuid()))
            ask(environment, "scancel", "-u", str(os.getuid()))
            wait_until(lambda: not ask(environment, "squeue", "-h"), 20, "jobs are left")
    for daemon in reversed(daemons):
        daemon.terminate()
        try:
            daemon.wait(timeout=10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


def _path(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def _free_ports() -> list[int]:
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind(("127.0.0.1", 0))
        return [first.getsockname()[1], second.getsockname()[1]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--install", action="store_true", help="get the daemons by apt, as root")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.install and missing():
        install()
    if missing():
        sys.exit(f"not on this machine: {', '.join(missing())}; --install gets them by apt")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as place, one_node_cluster(Path(place)) as environment:
        command = options.command or [os.environ.get("SHELL", "sh")]
        sys.exit(subprocess.run(command, env=environment).returncode)


if __name__ == "__main__":
    main()
