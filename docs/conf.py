"""How the pages of this folder become a site: `make site` writes it to build/site."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "wiregrad"
author = "The wiregrad authors"
copyright = "The wiregrad authors"
extensions = ["myst_parser", "sphinx_design", "sphinx_copybutton", "site_pages"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["generate.py", "site_pages.py"]
nitpicky = True

myst_enable_extensions = ["colon_fence", "attrs_inline"]
myst_heading_anchors = 4
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = "wiregrad"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_use_index = False
pygments_style = "site_pages.LightCode"
pygments_dark_style = "site_pages.DarkCode"

LIGHT = {
    "paper": "#FAFAF7",
    "card": "#FFFFFF",
    "ink": "#15171C",
    "ink2": "#555A63",
    "hair": "#DFE0DC",
    "now": "#FFE27A",
}
DARK = {"paper": "#14161A", "card": "#1D2026", "ink": "#F1F2F4", "ink2": "#B4B9C2", "hair": "#343840", "now": "#5C5016"}


def name_colours(colours: dict[str, str]) -> dict[str, str]:
    """Return the variables of furo for one set of colours: blue and orange are left to gradients."""
    used_for = {
        "paper": ["color-background-primary", "color-background-secondary", "color-sidebar-background"],
        "card": ["color-code-background", "color-card-background", "color-inline-code-background"],
        "ink": ["color-foreground-primary", "color-brand-primary", "color-brand-content", "color-code-foreground"],
        "ink2": ["color-foreground-secondary", "color-foreground-muted"],
        "hair": ["color-background-border", "color-sidebar-background-border", "color-card-border"],
        "now": ["color-highlighted-background", "color-sidebar-item-background--current"],
    }
    return {variable: colours[role] for role, variables in used_for.items() for variable in variables}


html_theme_options = {"light_css_variables": name_colours(LIGHT), "dark_css_variables": name_colours(DARK)}
