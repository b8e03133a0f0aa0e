"""Where the workflow lies: in the clone around the package, or inside an installed package."""

from __future__ import annotations

from pathlib import Path

from gpmcflow.errors import InputError

PACKAGE = Path(__file__).parents[1]
REPORT_TEMPLATE = PACKAGE / "run_page" / "template.html"


def workflow_home() -> Path:
    """Return the folder that holds `Snakefile`, `workflow/` and `config/`.

    That of the clone the package lies in, else `gpmcflow/bundled`, which the wheel has. Raises
    `InputError` if neither has them.
    """
    for home in (PACKAGE.parent, PACKAGE / "bundled"):
        if (home / "Snakefile").is_file() and (home / "workflow").is_dir():
            return home
    raise InputError(
        f"{PACKAGE}: no workflow found, neither beside the package nor in its folder bundled; allowed: "
        "a clone or a wheel of gpmcflow; install it again"
    )
