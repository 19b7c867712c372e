"""Every requirement is pinned, and imports open no socket."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import supply_chain
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def test_the_pins_cover_all_requirements_of_both_distributions() -> None:
    texts, seen = list[str](), set[tuple[str, frozenset[str]]]()
    for path in (ROOT / "pyproject.toml", ROOT / "reproduction/pyproject.toml"):
        project = tomllib.loads(path.read_text())["project"]
        texts += [*project["dependencies"], *project.get("optional-dependencies", {}).get("dev", [])]
    todo, pins = [(text, frozenset[str]()) for text in texts], {*supply_chain.pinned(), "torch", "qubolearn"}
    while todo:
        text, extras = todo.pop()
        each = Requirement(text)
        name = supply_chain.normal(each.name)
        applies = (
            any(each.marker.evaluate({"extra": extra}) for extra in extras | {""}) if each.marker else True
        )
        if not applies or supply_chain.WITH_TORCH.match(name) or (name, frozenset(each.extras)) in seen:
            continue
        seen.add((name, frozenset(each.extras)))
        assert name in pins, f"{text} is not pinned; run: make constraints"
        with suppress(PackageNotFoundError):
            todo += [(inner, frozenset(each.extras)) for inner in requires(name) or []]
    assert len(seen) > 30


def test_importing_everything_opens_no_socket() -> None:
    code = """
import importlib, pkgutil, sys
seen = []
sys.addaudithook(lambda event, _: seen.append(event) if event.startswith("socket.") else None)
import qubolearn
for module in pkgutil.walk_packages(qubolearn.__path__, "qubolearn."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:  # triton, without a GPU
            assert not error.name.startswith("qubolearn"), error
assert not seen, seen
import socket
socket.socket().close()
assert seen, "the hook sees sockets"
"""
    subprocess.run([sys.executable, "-c", code], check=True)
