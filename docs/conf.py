"""Sphinx configuration. `make docs` builds the documentation without network access; a warning fails the build."""

import dataclasses
import inspect
import re
import sys
from pathlib import Path

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.inspect import stringify_signature

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
autodoc_preserve_defaults = True
napoleon_custom_sections = [("Attributes", "params_style")]  # the fields of a dataclass are its parameters
napoleon_use_rtype = False

coverage_ignore_pyobjects = [r"harness\.policies\.\w+\.check_combination$"]  # a policy defines it for the base class
coverage_ignore_classes = ["SeedGemini", "SeedOpenCode"]  # former names of classes that are documented under their new ones
coverage_show_missing_items = True
coverage_statistics_to_stdout = True


def prepare_pages(app: Sphinx) -> None:
    """Generate the reference pages before Sphinx looks for its source files."""
    reference_pages.write_pages(Path(app.srcdir))
    if app.builder.name == "coverage":
        reference_pages.assign_public_modules()


def complete_help(_app: Sphinx, context: click.Context, _lines: list[str]) -> None:
    """Add defaults to the options of a command before sphinx-click describes the options."""
    reference_pages.complete_option_help(context)


def convert_docstring(_app: Sphinx, _what: str, _name: str, _value: object, _options: object, lines: list[str]) -> None:
    """Convert what napoleon leaves: Markdown tables, the heading of a literal `Example::`, and the path of the sources."""
    reference_pages.convert_markdown_tables(lines)
    for index, line in enumerate(lines):
        if line == "Example::":
            lines[index : index + 1] = [".. rubric:: Example", "", "::"]
        elif line.startswith("Source:"):
            lines[index] = line.replace("docs/sources.md", ":doc:`list of sources </sources>`")


def correct_signature(
    _app: Sphinx, _what: str, _name: str, value: object, _options: object, signature: str | None, _returned: str | None
) -> tuple[str, str] | None:
    """Omit the signature of a dataclass, whose fields are listed below it, and find that of a widget in its `__init__`."""
    if inspect.isclass(value) and dataclasses.is_dataclass(value):
        return "", ""
    if inspect.isclass(value) and signature == "(*args, **kwargs)":
        found = stringify_signature(inspect.signature(value), show_annotation=False)
        return re.sub(r"<(?:\w+\.)*(\w+) object[^>]*>", r"\1()", found), ""
    return None


def refine_text(_app: Sphinx, document: nodes.document) -> None:
    """Replace the two hyphens between a field or parameter and its meaning, and keep a number and its percent sign together."""
    for text in list(document.findall(nodes.Text)):
        refined = re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", re.sub(r"^ -- ", " – ", text))
        if refined != text:
            text.parent.replace(text, nodes.Text(refined))


def setup(app: Sphinx) -> None:
    """Register the functions above."""
    app.connect("builder-inited", prepare_pages)
    app.connect("autodoc-process-docstring", convert_docstring, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", correct_signature)
    app.connect("doctree-read", refine_text)
    app.connect("sphinx-click-process-description", complete_help)
