"""The documentation site: ``make docs`` writes it to build/site. Warnings are errors, and examples are run."""

from __future__ import annotations

import inspect
import os
import sys
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
exclude_patterns = ["**sg_execution_times.rst"]  # of older builds; it loads scripts from elsewhere
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
    "examples_dirs": str(ROOT / "gallery"),
    "gallery_dirs": "gallery",
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
    "Learning": ("training", "evaluation", "estimator"),
    "Losses": ("losses",),
    "Networks": ("networks",),
    "Problems and data": ("problems",),
    "Solvers": ("solvers",),
    "QUBOs": ("qubo",),
    "Chips": ("chips",),
    "Everything else": ("errors",),
}


def reference() -> str:
    """A page that lists every public name of the package under its part, with its docstring."""
    parts: dict[str, list[str]] = defaultdict(list)
    for name in sorted(qubolearn.__all__, key=str.lower):
        home = qubolearn._HOMES[name].split(".")[1]
        part = next(part for part, rooms in PARTS.items() if home in rooms)
        parts[part].append(f"qubolearn.{name}")
    parts["Learning"].append("qubolearn.estimator.QuboClassifier")
    lines = [
        "Reference",
        "=========",
        "",
        "Every public name. All but the estimator are imported from ``qubolearn``.",
        "",
    ]
    for part in PARTS:
        lines += [part, "-" * len(part), ""]
        for name in parts[part]:
            module, _, attribute = name.rpartition(".")
            found = getattr(sys.modules.get(module) or __import__(module, fromlist=["_"]), attribute)
            if inspect.isclass(found):
                hidden = "   :exclude-members: __init__, __new__, set_score_request"  # the last is scikit-learn's own
                lines += [f".. autoclass:: {name}", "   :members:", hidden, ""]
            elif callable(found):
                lines += [f".. autofunction:: {name}", ""]
            else:
                lines += [f".. autodata:: {name}", ""]
    return "\n".join(lines)


def plain_bars(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Bars in docstrings are absolute values, not substitutions."""
    for number, line in enumerate(lines):
        parts = line.split("``")  # every second part is code, where a bar is a bar
        lines[number] = "``".join(part if k % 2 else part.replace("|", "\\|") for k, part in enumerate(parts))


def inside(app: Any, name: str, source: list[str]) -> None:
    """Links to files beside the folder of the pages lead to the pages that include them."""
    source[0] = source[0].replace("](../SECURITY.md", "](security.md")
    source[0] = source[0].replace("[changelog](../CHANGELOG.md)", "changelog")  # which is no page of the site
    if name == "security":
        source[0] = (ROOT / "SECURITY.md").read_text().replace("](docs/", "](")
    if name.startswith("gallery/plot_"):
        source[0] = picture_first(source[0])


def picture_first(page: str) -> str:
    """The page of an example with its first picture below the introduction as well, so that readers see what comes."""
    first, marker = page.index(".. image-sg::"), page.index(".. GENERATED FROM PYTHON SOURCE LINES")
    picture = page[first : page.index("\n\n", first)]
    return f"{page[:marker]}{picture}\n\n{page[marker:]}"


def setup(app: Any) -> None:
    """Write the generated page before Sphinx looks for its sources."""
    app.connect("autodoc-process-docstring", plain_bars)
    app.connect("source-read", inside)
    page = HERE / "reference.rst"
    text = reference()
    if not page.exists() or page.read_text() != text:
        page.write_text(text)
