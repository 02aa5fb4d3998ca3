"""Configure Sphinx, which builds the documentation site: `make docs`."""

import os
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent), str(DOCS)]

# The generated tables read the code, but no database. The settings of a console do not matter, and no key is stored.
_state = tempfile.TemporaryDirectory()
os.environ |= {
    "STATE_DIR": _state.name,
    "SECRET_KEY": "documentation",
    "JOURNAL_KEYS": "documentation" * 3,
    "DATABASE_URL": "sqlite://:memory:",
    "PRODUCTION": "false",
    "PUBLIC_URL": "http://127.0.0.1:8000",
    "DJANGO_SETTINGS_MODULE": "authzconsole.settings",
}

import django  # noqa: E402

django.setup()

from generated import generated_pages, with_generated_tables  # noqa: E402

project = "Authorization console"
html_title = "Authorization console"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["seeds", "_templates", "_static"]
myst_enable_extensions = ["colon_fence"]
# links to headings work as they do in the repository
myst_heading_anchors = 4
nitpicky = True
# the shell of the examples has prompts and output, and JSON examples may leave parts out
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_static_path = ["_static", "../authzconsole/static/fonts"]
html_css_files = ["site.css"]
templates_path = ["_templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/back.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {
        "font-stack": '"Inter Variable", system-ui, sans-serif',
        "font-stack--monospace": '"JetBrains Mono Variable", ui-monospace, monospace',
        "color-brand-primary": "#2b57d0",
        "color-brand-content": "#2b57d0",
    },
    "dark_css_variables": {"color-brand-primary": "#8fb0ff", "color-brand-content": "#8fb0ff"},
}


def setup(app):
    app.connect("source-read", with_generated_tables)
    app.connect("env-get-outdated", generated_pages)
