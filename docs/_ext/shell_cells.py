"""Cells that begin with %%bash are shown without that line, as what a reader types in a terminal."""

import functools

import jupyter_cache.executors.utils as execution
from docutils import nodes
from sphinx.application import Sphinx

MAGIC = "%%bash\n"


def show_as_shell(app: Sphinx, document: nodes.document) -> None:
    """Take the line off, and colour the rest as shell."""
    for cell in document.findall(nodes.literal_block):
        if cell.rawsource.startswith(MAGIC):
            commands = cell.rawsource.removeprefix(MAGIC)
            shown = nodes.literal_block(commands, commands, language="bash", classes=["shell"])
            cell.replace_self(shown)


def setup(app: Sphinx) -> dict:
    """Work on each page after it is read.

    A command's output comes in pieces that end anywhere: the notebook client joins them if asked, which
    myst-nb has no setting for.
    """
    execution.executenb = functools.partial(execution.executenb, coalesce_streams=True)
    app.connect("doctree-read", show_as_shell)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
