"""Sphinx configuration. `make docs` builds the documentation without network access; a warning fails the build."""

import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))

import reference_pages

project = "harness"
author = "The harness developers"
project_copyright = "2026, The harness developers"
release = version = reference_pages.read_version()

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.coverage", "sphinx_click"]
exclude_patterns = ["_build"]
suppress_warnings = ["mystnb.unknown_mime_type"]  # widget views need a kernel; the notebooks carry pictures beside them

default_role = "code"
smartquotes = False  # they would turn -- of an option into a dash

html_theme = "furo"
html_title = "harness"
html_static_path = ["_static"]
html_css_files = ["harness.css"]
html_copy_source = False
html_show_sphinx = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "off"
nb_ipywidgets_js = {}

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "none"
autodoc_class_signature = "separated"
napoleon_custom_sections = [("Attributes", "params_style")]  # the fields of a dataclass are its parameters
napoleon_use_rtype = False

coverage_show_missing_items = True
coverage_statistics_to_stdout = True


def prepare_pages(app: Sphinx) -> None:
    """Generate the reference pages before Sphinx looks for its source files."""
    reference_pages.write_pages(Path(app.srcdir))
    if app.builder.name == "coverage":
        reference_pages.assign_public_modules()


def setup(app: Sphinx) -> None:
    """Register the generator of the reference pages."""
    app.connect("builder-inited", prepare_pages)
