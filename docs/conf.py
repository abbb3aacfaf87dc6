"""How Sphinx builds the documentation: `sphinx-build -W -b html docs site`, without network."""

import json
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from batchsched import CycleResult, SchedulerConfig, Snapshot, __version__
from batchsched.tools import EventLog, Record

project = "batchsched"
author = "the authors of batchsched"
project_copyright = author
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
# Pages that start with an underscore are parts of other pages.
exclude_patterns = ["_*.md"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3

# `Snapshot` in a docstring means batchsched.Snapshot, where there is such a thing.
default_role = "py:obj"
add_module_names = False
maximum_signature_line_length = 88
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "undoc-members": True}

html_theme = "furo"
html_title = f"batchsched {release}"
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_search_scorer = str(Path(__file__).parent / "search-scorer.js")

SHORT = 24
"""On a phone, a table scrolls if its cells have at most so many letters; others become cards."""


def begin_with_a_comment(
    _app: Sphinx, what: str, _name: str, _obj: object, _options: object, lines: list[str]
) -> None:
    """Keep napoleon from reading "text: more" under an attribute as "type: description"."""
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]


def without_fields(
    _app: Sphinx, what: str, _name: str, _obj: object, _options: object, lines: list[str]
) -> None:
    """Leave out of docstrings of classes the fields that `help` shows: each has its own entry."""
    if what == "class" and "Fields:" in lines:
        del lines[lines.index("Fields:") :]


def without_arguments(
    _app: Sphinx, what: str, _name: str, obj: object, _options: object, *_given: str | None
) -> tuple[str, None] | None:
    """Show no arguments for protocols, of which nobody makes instances."""
    return ("", None) if what == "class" and getattr(obj, "_is_protocol", False) else None


def label_cells(_app: Sphinx, doctree: nodes.document, _page: str) -> None:
    """Say in each cell of a wide table which column it is in: phones show its rows as cards."""
    for table in doctree.findall(nodes.table):
        head, body = next(table.findall(nodes.thead), None), next(table.findall(nodes.tbody), None)
        if head is None or body is None:
            continue
        titles = [entry.astext() for entry in head.findall(nodes.entry)]
        rows = [row.children for row in body.findall(nodes.row)]
        # Two columns fit a phone beside one another, if those are short that the left one names.
        long = [
            max(len(row[column].astext()) for row in rows) > SHORT for column in range(len(titles))
        ]
        if not (any(long[1:]) if len(titles) > 2 else all(long)):  # noqa: PLR2004
            continue
        table["classes"].append("cards")
        for row in rows:
            for title, entry in zip(titles[1:], row[1:], strict=True):
                entry.insert(0, nodes.paragraph("", title, classes=["column"]))


def write_schemas(app: Sphinx, error: Exception | None) -> None:
    """Write the JSON Schema of each format, as it is now, beside the pages that link to it."""
    if error is None and app.builder.format == "html":
        folder = Path(app.outdir) / "schema"
        folder.mkdir(exist_ok=True)
        for kind in (Snapshot, SchedulerConfig, CycleResult, EventLog, Record):
            text = json.dumps(kind.json_schema(), indent=2)
            (folder / f"{kind.__name__}.json").write_text(f"{text}\n", encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Put right what autodoc and napoleon make of our docstrings; write the schemas."""
    app.connect("build-finished", write_schemas)
    app.connect("doctree-resolved", label_cells)
    app.connect("autodoc-process-docstring", begin_with_a_comment, priority=400)
    app.connect("autodoc-process-docstring", without_fields, priority=400)
    app.connect("autodoc-process-signature", without_arguments)
