"""Imports from qubolearn are public."""

import ast
from importlib import import_module
from pathlib import Path

import quant_reproduction


def test_only_public_names_are_imported() -> None:
    private = []
    for path in sorted(Path(quant_reproduction.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "qubolearn":
                public = {*getattr(import_module(node.module), "__all__", ()), "data", "plots", "recipes"}
                names = [name.name for name in node.names if name.name not in public]
                private += [f"{path.name}: {node.module}.{name}" for name in names]
    assert not private
