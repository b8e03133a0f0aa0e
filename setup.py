"""The workflow travels in the wheel, as gpmcflow/bundled; all else is in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent


class BuildWithWorkflow(build_py):
    """Copy Snakefile, workflow/ and the default config into the package that is built."""

    def run(self) -> None:
        """Build the package, then add the workflow to it; an editable install has that of the clone."""
        super().run()
        if self.editable_mode:
            return
        bundled = Path(self.build_lib, "gpmcflow", "bundled")
        shutil.rmtree(bundled, ignore_errors=True)  # left by an earlier build
        shutil.copytree(
            ROOT / "workflow",
            bundled / "workflow",
            ignore=shutil.ignore_patterns("__pycache__", ".snakemake"),
        )
        (bundled / "config").mkdir()
        shutil.copy(ROOT / "Snakefile", bundled)
        shutil.copy(ROOT / "config" / "config.yaml", bundled / "config")


setup(cmdclass={"build_py": BuildWithWorkflow})
