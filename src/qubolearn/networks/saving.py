"""Networks as files: weights as safetensors, and how to build the network as JSON. Loading executes nothing of a file.

A file names classes, and only those of ``torch.nn`` and of :data:`PARTS` are built. A network with other classes is
saved, too; to load it, pass a network of the same structure.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import warnings
from contextlib import suppress
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn

from qubolearn.chips.topologies import Topology, topology
from qubolearn.data.arrays import map_tensors
from qubolearn.errors import QubolearnError, missing_extra, printable
from qubolearn.files import make_folder, read_metadata, read_tensors, write_tensors
from qubolearn.networks.predicting import checked

__all__ = ["PARTS", "Saved", "build", "describe", "export", "load", "save"]

N = TypeVar("N", bound=nn.Module)
MAX_BITS, MAX_NUMBER = 4096, 2**24
#: Our classes that a file can name, of qubolearn.networks.
PARTS = ("QuboNetwork", "DiagonalHead", "DirectHead", "MLP", "GraphBody", "SharedQubo")


class Saved(nn.Module):
    """Base class of networks that files can name: keeps the arguments that it was made with."""

    _arguments: dict[str, Any]

    def __new__(cls, *args: Any, **options: Any) -> Self:
        made = super().__new__(cls)
        with suppress(TypeError):  # wrong arguments, which __init__ reports, or a copy, which has them already
            given = signature(cls.__init__).bind(made, *args, **options).arguments
            vars(made)["_arguments"] = dict(list(given.items())[1:])
        return made

    def save(self, path: Path | str) -> Path:
        """Write the network as one file for :func:`qubolearn.load`; its name ends in .safetensors."""
        return save(self, path)


def describe(module: nn.Module) -> dict[str, Any]:
    """Return how to build a module, for JSON; a class that files cannot name becomes its name and a digest."""
    kind = type(module)
    found: dict[str, Any] = {"kind": kind.__name__}
    if kind.__name__ in PARTS and kind.__module__.startswith("qubolearn.networks."):
        given = vars(module)["_arguments"]
        return found | {name: _plain(getattr(module, name, None), given[name]) for name in given}
    if kind is nn.Sequential:
        return found | {"parts": {name: describe(part) for name, part in module.named_children()}}
    if getattr(nn, kind.__name__, None) is kind:
        values = {name: getattr(module, name) for name in signature(kind).parameters if hasattr(module, name)}
        found |= {name: value is not None if name == "bias" else value for name, value in values.items()}
        with suppress(Exception), torch.device("meta"):  # a layer that its attributes do not describe is not named
            again = build(json.loads(json.dumps(found)))
            if repr(again) == repr(module) and _shapes(again) == _shapes(module):
                return found
    own = {"own": f"{kind.__module__}.{kind.__qualname__}"}
    with suppress(OSError, TypeError):
        own["source"] = hashlib.sha256(inspect.getsource(kind).encode()).hexdigest()[:16]
    return own


def _plain(now: Any, given: Any) -> Any:
    """Return an argument for JSON: a module as it is now, a topology by its name, a tensor by its shape."""
    if isinstance(given, nn.Module):
        return describe(now)
    if isinstance(given, Topology):
        known = given.name in ("dense", "diagonal") or given.qubits is not None
        return {"topology": given.name, "n": given.n, "couplers": None if known else given.couplers}
    if isinstance(given, Tensor):
        return {"tensor": given.tolist()}
    return {"own": getattr(given, "__qualname__", type(given).__name__)} if callable(given) else given


def _shapes(module: nn.Module) -> dict[str, Any]:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in module.state_dict().items()}


def build(found: Any) -> Any:
    """Return the module, or the argument of one, that JSON of :func:`describe` specifies."""
    if isinstance(found, (int, float)) and abs(found) > MAX_NUMBER:
        raise QubolearnError(f"a network with an argument of {found} (limit {MAX_NUMBER}); is it the right file?")
    if not isinstance(found, dict):
        return tuple(map(build, found)) if isinstance(found, list) else found
    if "own" in found:
        name = printable(str(found["own"]))[:100]
        raise QubolearnError(
            f"its network uses {name}, which a file cannot build; pass network= made with it, or --network FILE.py:NAME"
        )
    if "topology" in found and "kind" not in found:
        name, n, couplers = found["topology"], build(found["n"]), found["couplers"]
        if not isinstance(n, int) or not 0 < n <= MAX_BITS:
            raise QubolearnError(f"a network of {n} bits (limit {MAX_BITS}); is it the right file?")
        return topology(name, n) if couplers is None else Topology(name, n, tuple((i, j) for i, j in couplers))
    if "tensor" in found:
        return torch.tensor(found["tensor"])
    kind, arguments = found.get("kind"), {name: value for name, value in found.items() if name != "kind"}
    if kind == "Sequential":
        made = nn.Sequential()
        for name, part in arguments["parts"].items():
            made.add_module(name, build(part))
        return made
    known = getattr(import_module("qubolearn.networks") if kind in PARTS else nn, str(kind), None)
    if not (isinstance(known, type) and issubclass(known, nn.Module)):
        raise QubolearnError(f"a network of kind {printable(str(kind))[:40]!r}; expected a class of torch.nn or ours")
    return known(**{name: build(value) for name, value in arguments.items()})


def save(network: nn.Module, path: Path | str) -> Path:
    """Write any network as one file for :func:`load`, completely or not at all."""
    if (path := Path(path)).suffix != ".safetensors":
        raise QubolearnError(f"a network file {path}; expected a name that ends in .safetensors")
    make_folder(path.parent)
    write_tensors(path, network.state_dict(), network=json.dumps(describe(network)))
    return path


def load(path: Path | str, network: N | None = None) -> N:
    """Return the network that :meth:`QuboNetwork.save` wrote, in evaluation mode.

    Args:
        path: the file.
        network: a network of the same structure, which gets the weights; required if it has classes of your own.

    Raises:
        QubolearnError: If the file is damaged, is of another version, or does not fit the network.

    >>> from tempfile import TemporaryDirectory
    >>> from qubolearn import QuboNetwork, topology
    >>> pattern = topology("dense", 3)
    >>> network = QuboNetwork(nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, pattern.size)), pattern)
    >>> with TemporaryDirectory() as folder:
    ...     again = load(network.save(folder + "/mine.safetensors"))
    >>> torch.equal(again(torch.ones(2, 5)), network(torch.ones(2, 5)))
    True
    """
    path = Path(path)
    text = read_metadata(path).get("network")
    if text is None:
        raise QubolearnError(f"{path} has no network; expected a file of network.save(path), or use Run.open")
    made: N = rebuilt(text, path, path, network)
    made.load_state_dict(read_tensors(path, made.state_dict())[0])
    return made.eval()


def export(network: nn.Module, p: Any, path: Path | str | None = None) -> torch.export.ExportedProgram:
    """Return the network p -> A as a program of ``torch.export`` for batches of any size; p is an instance or more.

    With a path, also write it as ONNX with the output ``A``. Raise a QubolearnError if the network cannot be exported.
    """
    some = map_tensors(lambda tensor: tensor[[0, 0]], checked(p, network))  # torch takes a batch of one as fixed
    shapes = map_tensors(lambda tensor: {0: torch.export.Dim("batch", min=1)}, some)
    if not isinstance(network.eval()(some), Tensor):
        raise QubolearnError("a network with a sparse A cannot be exported; make it with sparse=False")
    try:
        program = torch.export.export(network, (some,), dynamic_shapes=(shapes,))
        if path is not None:
            make_folder(Path(path).parent)
            torch.onnx.export(program, (some,), path, output_names=["A"], verbose=False)
    except ImportError as error:
        raise missing_extra("export to ONNX", "examples") from error
    except Exception as error:
        kind, line = type(getattr(network, "body", network)).__name__, str(error.__cause__ or error).strip()
        remedy = "use other operations, or deploy the file of network.save"
        raise QubolearnError(f"{kind} cannot be exported ({line.partition(chr(10))[0][:200]}); {remedy}") from error
    return program


def rebuilt(text: str, path: Path, weights: Path, network: Any = None) -> Any:
    """Return the network of a description in a file, with new weights; or the given one, compared with it."""
    try:
        found = json.loads(text)
        if network is not None:
            if _sources(found) != _sources(describe(network)):
                warnings.warn(f"{path}: the code of {type(network).__name__} has changed since; check it", stacklevel=3)
            return network
        with torch.device("meta"):
            size = sum(tensor.nbytes for tensor in build(found).state_dict().values())
        if size > weights.stat().st_size:  # before it is allocated
            raise QubolearnError(f"a network of {size} bytes with weights of {weights.stat().st_size}; is it damaged?")
        return build(found)
    except (QubolearnError, ValueError, TypeError, KeyError, AttributeError, RuntimeError, RecursionError) as error:
        known = isinstance(error, QubolearnError)
        raise QubolearnError(f"{path}: {error if known else f'its network cannot be built ({error!r})'}") from error


def _sources(found: Any) -> list[str]:
    """Return the digests of all own classes of a description."""
    if not isinstance(found, dict):
        return []
    own = [found["source"]] if isinstance(found.get("source"), str) else []
    return own + [source for part in found.values() for source in _sources(part)]
