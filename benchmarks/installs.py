"""Installs the wheel with each Python that is here, then makes a quick answer where that may be hard.

    python benchmarks/installs.py [PYTHON ...]      # as root, for mounts and another user; needs an index

Environments lie in a folder with a blank and letters beyond ASCII. Each is made with the versions of
`constraints.txt` and without; `new` and `run --quick` follow, with the former in each place. A row of
`installs.csv` is written as soon as it is known.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROWS = Path(__file__).with_name("installs.csv")
COLUMNS = ("python", "versions", "place", "outcome", "seconds")
TABLE = "a,y\n" + "".join(f"{0.1 * k:.1f},{0.3 * k + 0.1 * (k * k % 7):.2f}\n" for k in range(40))
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
PLACES = ("plain", "small /tmp", "noexec /tmp", "other user", "read-only HOME", "path with blanks")


def mounted(folder: Path, options: str) -> Path:
    """Mount a file system in memory on a new folder."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    return folder


def answer(environment: Path, place: str, base: Path) -> str:
    """Make a quick answer; return "answered", or the last line that was printed."""
    folder = base / ("ein Ordner, Größe 2" if "blanks" in place else place.replace("/", ""))
    folder.mkdir()
    (folder / "t.csv").write_text(TABLE)
    temporary = os.environ | {"TMPDIR": "/tmp"}
    before, mounts = [], []
    if "/tmp" in place:
        options = "size=1m" if "small" in place else "noexec"
        mounts.append(mounted(base / f"tmp {place[:5]}", options))
        temporary["TMPDIR"] = str(mounts[-1])
    if place == "read-only HOME":
        mounts.append(mounted(base / "home", "ro"))
        temporary["HOME"] = str(mounts[-1])
    if place == "other user":
        before, temporary["HOME"] = NOBODY, "/nonexistent"
        python = [*before, environment / "bin" / "python", "-V"]
        if subprocess.run(python, capture_output=True).returncode:
            return "not tried: the other user cannot start this Python"
        shutil.chown(folder, 65534, 65534)
    try:
        for words in (["new", "t.csv", "--target", "y"], ["run", "t.yaml", "--quick"]):
            done = subprocess.run(
                [*before, environment / "bin" / "gpmcflow", *words],
                cwd=folder, env=temporary, capture_output=True, text=True,
            )  # fmt: skip
            if done.returncode or "Traceback" in done.stderr:
                lines = (done.stdout + done.stderr).strip().splitlines() or [str(done.returncode)]
                return lines[-1][:200]
        report = folder / "results" / "t" / "report.html"
        return "answered" if report.is_file() else "no report"
    finally:
        for mount in mounts:
            subprocess.run(["umount", "--lazy", mount], check=False)


def main() -> None:
    """Install and measure, a row a place."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [f"python3.{minor}" for minor in range(11, 16)]
    here = [path for name in names if (path := shutil.which(name))]
    parser.add_argument("pythons", nargs="*", default=here, help="default: all on the path")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="installs-") as name:
        base = Path(name)
        base.chmod(0o755)
        wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", base, ROOT]
        subprocess.run(wheel, check=True)
        (wheel_file,) = base.glob("*.whl")
        for python in options.pythons:
            version = subprocess.check_output([python, "-V"], text=True).split()[1]
            for versions in ("pinned", "unpinned"):
                began = time.monotonic()
                place = base / f"Umgebung für {version} {versions}"
                place.mkdir()
                subprocess.run([python, "-m", "venv", place / "env"], check=True)
                pip = [place / "env" / "bin" / "python", "-m", "pip", "install", "-q", wheel_file]
                pinned = ["-c", ROOT / "constraints.txt"] if versions == "pinned" else []
                done = subprocess.run([*pip, *pinned], capture_output=True, text=True)
                outcome = "installed" if done.returncode == 0 else done.stderr.strip()[-200:]
                write(version, versions, "install", outcome, began)
                places = PLACES if versions == "pinned" else PLACES[:1]
                for where in places if done.returncode == 0 else ():
                    began = time.monotonic()
                    write(version, versions, where, answer(place / "env", where, place), began)
                shutil.rmtree(place / "env")


def write(version: str, versions: str, where: str, outcome: str, began: float) -> None:
    """Replace or add the row of a place."""
    rows = list(csv.DictReader(ROWS.open(encoding="utf-8"))) if ROWS.exists() else []
    row = (version, versions, where, outcome, f"{time.monotonic() - began:.0f}")
    print(row, flush=True)
    rows = [each for each in rows if tuple(each.values())[:3] != row[:3]]
    rows = sorted([*rows, dict(zip(COLUMNS, row, strict=True))], key=lambda r: list(r.values())[:2])
    with ROWS.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
