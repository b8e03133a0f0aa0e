"""Pages made of other files of the repository when the site is built: docs/generated/.

Files that are read on their own, too, link to others of the repository; where these are pages of the site the
link is made one to the page.
"""

from pathlib import Path

import committed_tables
from config_reference import config_reference
from default_priors import default_priors
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
LINKS = {
    "](../benchmarks/README.md": "](benchmarks.md",
    "](../CHANGELOG.md": "](changes.md",
}


def parts() -> dict[str, str]:
    """Markdown by the name of its file."""
    tables = {
        name: committed_tables.markdown(getattr(committed_tables, name)(ROOT))
        for name in (
            "agreement",
            "calibration",
            "certificates",
            "certificates_mutants",
            "coverage",
            "evidences",
            "exactness",
            "families_evidence",
            "faults",
            "first_answer",
            "fixed_coverage",
            "machine",
            "mgcv_effects",
            "mutants",
            "mutants_by_room",
            "peers",
            "peers_again",
            "peers_settings",
            "summary",
            "verdicts",
        )
    }
    differing = {
        f"differs_{study}": committed_tables.markdown(committed_tables.disagreements(ROOT, study))
        for study in committed_tables.STUDIES
    }
    return (
        tables | differing | {"config_keys": config_reference(), "default_priors": default_priors()}
    )


def write(app: Sphinx) -> None:
    """Write what has changed, so that a second build reads only that again."""
    folder = Path(app.srcdir, "generated")
    folder.mkdir(exist_ok=True)
    for name, text in parts().items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def link_pages(app: Sphinx, page: str, source: list[str]) -> None:
    """Point links to files at the pages made of them."""
    for file, own in LINKS.items():
        source[0] = source[0].replace(file, own)


def setup(app: Sphinx) -> dict:
    """Write before pages are read."""
    app.connect("builder-inited", write)
    app.connect("source-read", link_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
