"""The floor plan: imports go one way, lazy imports and those for type checkers included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import qubolearn

SOURCE = Path(qubolearn.__file__).parent

#: Each room and the rooms that it may import besides itself. What is not listed here has no place in the house.
FOUNDATION = {"errors", "typed", "version", "lazy", "randomness", "provenance", "files", "notebook"}
QUBOS = FOUNDATION | {"qubo", "chips"}
SOLVING = QUBOS | {"kernels", "solvers"}
LEARNING = SOLVING | {"problems", "networks", "losses"}
CORE = LEARNING | {"training", "evaluation"}
MAY_IMPORT = {
    "errors": set(),
    "version": set(),
    "typed": {"errors"},
    "lazy": set(),
    "randomness": {"errors"},
    "provenance": {"errors", "version"},
    "files": {"errors"},
    "notebook": set(),
    "qubo": FOUNDATION,
    "chips": FOUNDATION | {"qubo"},
    "kernels": FOUNDATION | {"qubo"},
    "solvers": QUBOS | {"kernels"},
    "problems": QUBOS | {"solvers"},
    "networks": QUBOS | {"solvers", "problems"},
    "losses": QUBOS | {"solvers", "problems"},
    "evaluation": LEARNING - {"kernels"},
    "training": LEARNING | {"evaluation"},
    "plots": CORE - {"kernels"},
    "testing": CORE - {"kernels"},
    "estimator": CORE - {"kernels"},
    "explore": CORE - {"kernels"},
    "benchmarks": CORE | {"paper"},
    "paper": CORE - {"kernels"} | {"plots"},
    "cli": CORE - {"kernels"} | {"plots", "explore", "testing", "benchmarks", "paper"},
    "__main__": {"cli"},
    "__init__": CORE - {"kernels"},
}


def imports(path: Path) -> Iterator[str]:
    """Every module of qubolearn that a file names in an import statement, at its top or anywhere below."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] == "qubolearn")
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "qubolearn":
            if node.module == "qubolearn":
                yield from (f"qubolearn.{name.name}" for name in node.names)
            else:
                yield node.module
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports by dots; write the whole name"


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def test_imports_follow_the_arrows() -> None:
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        inside = path.relative_to(SOURCE).with_suffix("")
        here = inside.parts[0]
        for module in imports(path):
            target = room(module)
            if target not in (here, *MAY_IMPORT[here]):
                wrong.append(f"{inside} -> {module}")
    assert not wrong, "\n".join(wrong)


def test_every_room_is_in_the_plan_and_the_plan_has_no_circle() -> None:
    rooms = {path.relative_to(SOURCE).with_suffix("").parts[0] for path in SOURCE.rglob("*.py")}
    assert rooms == set(MAY_IMPORT)
    done: set[str] = set()
    while left := {name for name, below in MAY_IMPORT.items() if name not in done}:
        free = {name for name in left if MAY_IMPORT[name] <= done}
        assert free, f"a circle among {sorted(left)}"
        done |= free


def test_kernels_are_private() -> None:
    users = {
        path.relative_to(SOURCE).parts[:-1]
        for path in SOURCE.rglob("*.py")
        if any(room(module) == "kernels" for module in imports(path))
    }
    assert users <= {("kernels",), ("solvers",), ("solvers", "dwave"), ("training",), ("training", "fast")}
