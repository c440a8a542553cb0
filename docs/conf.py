"""How the documentation is built: `make docs`, or `make check` with warnings as errors."""

import shutil
from pathlib import Path
from typing import Any

from sphinx.ext import autosummary

from quorate import __version__

project = "quorate"
author = "The quorate developers"
copyright = "The quorate developers; Apache-2.0"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
]
myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 3

exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = f"quorate {version}"

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
autosummary_generate = True
shutil.rmtree(Path(__file__).parent / "api", ignore_errors=True)  # or pages of modules that are gone would stay
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # as list items: the fields of a NamedTuple are attributes already

autosummary.WELL_KNOWN_ABBREVIATIONS += ("Eq.", "Eqs.")  # a summary does not end at one


def _skip_field(app: Any, what: str, name: str, obj: object, *rest: Any) -> bool | None:
    """Fields of a NamedTuple stand in the docstring of the class; "Alias for field number 0" says nothing."""
    return True if type(obj).__name__ == "_tuplegetter" else None


def setup(app: Any) -> None:
    app.connect("autodoc-skip-member", _skip_field)
