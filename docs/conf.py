"""The documentation site of both distributions: ``make docs`` writes it to build/site and runs the examples.

Pages of the reproduction are copied from reproduction/docs to docs/reproduction, which git ignores.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import qubolearn

HERE = Path(__file__).parent
ROOT = HERE.parent
os.environ.setdefault("MPLBACKEND", "Agg")

project, author = "qubolearn", "The qubolearn developers"
project_copyright = author
version = release = qubolearn.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["**sg_execution_times.rst"]  # it loads scripts from elsewhere
html_theme, html_title = "furo", "qubolearn"
html_theme_options = {"source_repository": "", "navigation_with_keys": True}
html_static_path, html_css_files = ["site"], ["site.css"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["config.cache"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autosummary_generate = False
maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
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

#: Pages of the reference: title, guide, and the modules whose public names they list.
TOPICS = {
    "data": ("Data and problems", "train", "data", "problems", "problems.maxcut", "problems.knapsack"),
    "qubos": ("QUBOs", "qubo", "qubo"),
    "networks": ("Networks", "train", "networks"),
    "losses": ("Losses", "losses", "losses", "costs", "boltzmann"),
    "solvers": ("Solvers", "solvers", "solvers", "solvers.contract", "solvers.temperature", "tuning"),
    "training": (
        "Training",
        "train",
        "training.fit",
        "training.callbacks",
        "training.optimizers",
        "evaluation",
    ),
    "chips": ("Chips", "chips", "chips.topologies", "chips.embedding", "chips.programming"),
    "plots": ("Plots", "gallery/index", "plots"),
    "testing": ("Testing", "add-a-solver", "testing"),
    "explore": ("Explorer", "explore", "explore"),
    "errors": ("Errors, randomness and files", "guarantees", "errors", "random", "files", "provenance"),
    "commands": ("Commands", "howto", "cli", "cli.options"),
}
TOPICS["data"] += ("problems.randgraph", "problems.sudoku", "problems.sudoku_grids")
TOPICS["solvers"] += ("solvers.state_vector",)
TOPICS["training"] += ("estimator", "runs", "recipes")


def reference() -> dict[str, str]:
    """Return the reference: one page per topic, and each public name once, under its shortest address."""
    short, seen, pages = {id(getattr(qubolearn, name)): name for name in qubolearn.__all__}, set(), {}
    for topic, (title, guide, *modules) in TOPICS.items():
        names = []
        for module in modules:
            home = import_module(f"qubolearn.{module}")
            for name in home.__all__:
                found = getattr(home, name)
                if id(found) not in seen and (
                    inspect.isclass(found) or inspect.isfunction(inspect.unwrap(found))
                ):
                    seen.add(id(found))
                    names.append((f"qubolearn.{short.get(id(found)) or f'{module}.{name}'}", found))
        names.sort(key=lambda pair: (pair[0].count("."), pair[0].lower()))  # those of qubolearn itself first
        lines = [title, "=" * len(title), "", f"Guide: :doc:`/{guide}`.", ""]
        lines += [".. autosummary::", "   :nosignatures:", ""]
        lines += [f"   {name}" for name, _ in names]
        for name, found in names:
            if inspect.isclass(found):
                hidden = "   :exclude-members: __init__, __new__, set_score_request"  # the last is scikit-learn's own
                lines += ["", f".. autoclass:: {name}", "   :members:", hidden]
            else:
                lines += ["", f".. autofunction:: {name}"]
        pages[topic] = "\n".join([*lines, ""])
    return pages


def plain_bars(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Escape bars in docstrings: they are absolute values, not substitutions."""
    for number, line in enumerate(lines):
        parts = line.split("``")  # every second part is code, where a bar is a bar
        lines[number] = "``".join(part if k % 2 else part.replace("|", "\\|") for k, part in enumerate(parts))


def plain_defaults(
    app: Any, what: str, name: str, found: Any, options: Any, signature: str, returns: str
) -> Any:
    """Write ... for defaults that are made for each value, which Python shows as <factory>."""
    return (signature or "").replace("<factory>", "...") or signature, returns


def skip_fields(app: Any, what: str, name: str, found: Any, skip: bool, options: Any) -> bool | None:
    """Skip fields of named tuples, whose only text is "Alias for field number 0"; the signature lists them."""
    return True if type(found).__name__ == "_tuplegetter" else None


def links(app: Any, name: str, source: list[str]) -> None:
    """Rewrite links between folders of the repository as links between pages of the site."""
    text = source[0]
    if name == "security":
        text = (ROOT / "SECURITY.md").read_text().replace("](docs/", "](")
    if name.startswith("reproduction/"):
        text = text.replace("](../../docs/", "](../").replace(
            "](../results/", "](../../reproduction/results/"
        )
    text = text.replace("](../reproduction/docs/", "](reproduction/").replace(
        "](../SECURITY.md", "](security.md"
    )
    if "gallery/plot_" in name:
        text = picture_first(text)
    source[0] = "\n".join(unbroken(line) if line.startswith("|") else line for line in text.split("\n"))


def unbroken(row: str) -> str:
    """Keep numbers such as 99.98 ± 0.03, 25 % and 1e-4, and dates, on one line of a table's cell."""
    parts = row.split("`")  # every second part is code
    for k in range(0, len(parts), 2):
        joined = re.sub(r"(?<=\d) (?=[±%])|(?<=±) (?=\d)", "\u00a0", parts[k])
        joined = re.sub(r"\| (\d{4})-(\d\d)-(\d\d) (?=\|)", "| \\1\u2011\\2\u2011\\3 ", joined)
        parts[k] = re.sub(r"(?<=\de)-(?=\d)", "\u2011", joined)
    return "`".join(parts)


def picture_first(page: str) -> str:
    """Repeat the first picture of an example below its introduction; a build without examples has no pictures."""
    first, marker = page.find(".. image-sg::"), page.index(".. GENERATED FROM PYTHON SOURCE LINES")
    picture = page[first : page.index("\n\n", first)] if first >= 0 else ""
    return f"{page[:marker]}{picture}\n\n{page[marker:]}"


def setup(app: Any) -> None:
    """Write the generated pages before Sphinx looks for its sources."""
    app.connect("autodoc-process-docstring", plain_bars)
    app.connect("autodoc-process-signature", plain_defaults)
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("source-read", links)
    shutil.copytree(ROOT / "reproduction/docs", HERE / "reproduction", dirs_exist_ok=True)
    (HERE / "reference").mkdir(exist_ok=True)
    for topic, text in reference().items():
        page = HERE / f"reference/{topic}.rst"
        if not page.exists() or page.read_text() != text:
            page.write_text(text)
