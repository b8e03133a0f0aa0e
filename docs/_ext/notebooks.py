"""Pages that are executed: each as a notebook to download, and spread over the processes that read pages."""

import json
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

FOLDER = "_notebooks"


def is_executed(env: BuildEnvironment, page: str) -> bool:
    """Whether the page is a notebook by its first lines."""
    return "file_format: mystnb" in Path(env.doc2path(page)).read_text(encoding="utf-8")[:100]


def spread(app: Sphinx, env: BuildEnvironment, pages: list[str]) -> None:
    """Put executed pages evenly among the others: the processes take stretches of this list."""
    executed = [page for page in pages if is_executed(env, page)]
    others = [page for page in pages if page not in executed]
    every = len(pages) / max(len(executed), 1)
    for k, page in enumerate(executed):
        others.insert(round(k * every), page)
    pages[:] = others


def link(app: Sphinx, document: nodes.document) -> None:
    """Offer the notebook below the title of its page."""
    page = app.env.current_document.docname
    title = next(document.findall(nodes.title), None)
    if title is None or not is_executed(app.env, page):
        return
    up = "../" * page.count("/")
    html = f'<a href="{up}{FOLDER}/{page}.ipynb" download>Download as a notebook</a>'
    text = f'<p class="notebook-link">{html}</p>'
    title.parent.insert(title.parent.index(title) + 1, nodes.raw("", text, format="html"))


def write(app: Sphinx, failure: Exception | None) -> None:
    """Write each executed page without its output, as a reader would begin."""
    made = Path(app.outdir).parent / "jupyter_execute"
    for source in made.rglob("*.ipynb") if failure is None else ():
        notebook = json.loads(source.read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                cell |= {"outputs": [], "execution_count": None}
        target = Path(app.outdir, FOLDER, source.relative_to(made))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(notebook, indent=1, ensure_ascii=False), encoding="utf-8")


def setup(app: Sphinx) -> dict:
    """Order pages before they are read, write notebooks after all."""
    app.connect("env-before-read-docs", spread)
    app.connect("doctree-read", link)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
