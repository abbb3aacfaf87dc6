"""How Sphinx builds the documentation: `sphinx-build -W -b html docs site`, without network."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from batchsched import __version__

project = "batchsched"
author = "the authors of batchsched"
copyright = author
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
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "undoc-members": True}

html_theme = "furo"
html_title = f"batchsched {release}"
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["diagrams.css"]
