"""The documentation site of both distributions: ``make docs`` writes it to build/site and runs the examples.

Pages of the reproduction are copied from reproduction/docs to docs/reproduction, which git ignores.
"""

from __future__ import annotations

import inspect
import os
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import qubolearn

HERE = Path(__file__).parent
ROOT = HERE.parent
os.environ.setdefault("MPLBACKEND", "Agg")

project, author = "qubolearn", "The qubolearn developers"
project_copyright = author
version = release = qubolearn.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_gallery.gen_gallery"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["**sg_execution_times.rst"]  # it loads scripts from elsewhere
html_theme, html_title = "furo", "qubolearn"
html_theme_options = {"source_repository": "", "navigation_with_keys": True}
html_static_path: list[str] = []
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["config.cache"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring, napoleon_numpy_docstring = True, False
sphinx_gallery_conf = {
    "examples_dirs": [str(ROOT / "gallery"), str(ROOT / "reproduction/gallery")],
    "gallery_dirs": ["gallery", "reproduction/gallery"],
    "filename_pattern": r"/[a-z0-9_]+\.py$",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,  # that page loads scripts from elsewhere
    "remove_config_comments": True,
    "within_subsection_order": "FileNameSortKey",
    "plot_gallery": True,
}

#: The parts of the reference, and the modules whose public names they hold.
PARTS = {
    "Learning": ("training", "runs", "evaluation", "estimator"),
    "Losses": ("losses",),
    "Networks": ("networks",),
    "Problems and data": ("data", "problems"),
    "Solvers": ("solvers",),
    "QUBOs": ("qubo",),
    "Chips": ("chips",),
    "Errors": ("errors",),
}


def reference() -> str:
    """Return a page that lists every public name under its part, with its docstring."""
    parts: dict[str, list[str]] = defaultdict(list)
    for name in sorted(qubolearn.__all__, key=str.lower):
        home = getattr(qubolearn, name).__module__.split(".")[1]
        parts[next(part for part, modules in PARTS.items() if home in modules)].append(name)
    lines = ["Reference", "=========", "", "Every public name; all are imported from ``qubolearn``.", ""]
    for part in PARTS:
        lines += [part, "-" * len(part), ""]
        for name in parts[part]:
            if inspect.isclass(getattr(qubolearn, name)):
                hidden = "   :exclude-members: __init__, __new__, set_score_request"  # the last is scikit-learn's own
                lines += [f".. autoclass:: qubolearn.{name}", "   :members:", hidden, ""]
            else:
                lines += [f".. autofunction:: qubolearn.{name}", ""]
    return "\n".join(lines)


def plain_bars(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Escape bars in docstrings: they are absolute values, not substitutions."""
    for number, line in enumerate(lines):
        parts = line.split("``")  # every second part is code, where a bar is a bar
        lines[number] = "``".join(part if k % 2 else part.replace("|", "\\|") for k, part in enumerate(parts))


def links(app: Any, name: str, source: list[str]) -> None:
    """Rewrite links between folders of the repository as links between pages of the site."""
    text = source[0]
    if name == "security":
        text = (ROOT / "SECURITY.md").read_text().replace("](docs/", "](")
    if name.startswith("reproduction/"):
        text = text.replace("](../../docs/", "](../").replace("](../results/", "](../../reproduction/results/")
    text = text.replace("](../reproduction/docs/", "](reproduction/").replace("](../SECURITY.md", "](security.md")
    if "gallery/plot_" in name:
        text = picture_first(text)
    source[0] = text


def picture_first(page: str) -> str:
    """Repeat the first picture of an example below its introduction; a build without examples has no pictures."""
    first, marker = page.find(".. image-sg::"), page.index(".. GENERATED FROM PYTHON SOURCE LINES")
    picture = page[first : page.index("\n\n", first)] if first >= 0 else ""
    return f"{page[:marker]}{picture}\n\n{page[marker:]}"


def setup(app: Any) -> None:
    """Write the generated pages before Sphinx looks for its sources."""
    app.connect("autodoc-process-docstring", plain_bars)
    app.connect("source-read", links)
    shutil.copytree(ROOT / "reproduction/docs", HERE / "reproduction", dirs_exist_ok=True)
    page, text = HERE / "reference.rst", reference()
    if not page.exists() or page.read_text() != text:
        page.write_text(text)
