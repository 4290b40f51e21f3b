"""One address in _config.yml switches on what needs a public repository: buttons here, an install cell in students.py.

With ``repository.url`` the theme shows buttons for the repository, for a question about a page, and for opening a
notebook on Binder, a JupyterHub or Colab. Without it there is none of them, whatever else is configured.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config


def switch(app: Sphinx, config: Config) -> None:
    """Turn the theme's buttons on or off. It reads its options for each page, at the usual priority of 500."""
    options = config.html_theme_options
    there = bool(options.get("repository_url"))
    options |= {"use_repository_button": there, "use_issues_button": there}
    launchers = options.pop("launch_buttons", {}) if there else {}
    app.connect("html-page-context", partial(launch_notebooks, launchers), priority=400)


def launch_notebooks(
    launchers: dict[str, str], app: Sphinx, page: str, _template: str, _context: dict[str, Any], doctree: Any
) -> None:
    """Offer to open notebooks elsewhere, and no other page: the front page has cells too, but lies in a text file."""
    notebook = doctree is not None and str(app.env.doc2path(page)).endswith(".ipynb")
    app.config.html_theme_options["launch_buttons"] = launchers if notebook else {}


def setup(app: Sphinx) -> dict[str, object]:
    """Once the configuration is read."""
    app.connect("config-inited", switch)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": False}
