"""How the site is built: python -m sphinx -W -b html docs docs/_build/html."""

import os
import sys
from pathlib import Path

import gpmcflow

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
# cells run the command `gpmcflow` of this Python, and draw and count as the tests do: one BLAS thread
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TQDM_DISABLE"] = "1"  # how far a cell is differs from build to build

# compiled loops are loaded, or made once, here and not in the output of some page
gpmcflow.SquaredExponential(1.0, 1.0)([0.0, 1.0])

project = "gpmcflow"
author = copyright = "The gpmcflow developers"
version = release = gpmcflow.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "docstrings",
    "generated_pages",
    "mathml",
    "notebooks",
    "shell_cells",
]
exclude_patterns = ["_build", "generated/*.md"]
templates_path = ["_templates"]
default_role = "py:obj"
add_module_names = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
autodoc_typehints = "none"
autodoc_class_signature = "mixed"
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_attr_annotations = False
napoleon_custom_sections = ["Returns"]  # ours are sentences, not a list of names

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 240
nb_merge_streams = True
nb_ipywidgets_js = {}  # nothing is loaded from the net

html_theme = "furo"
html_title = "gpmcflow"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": []}
