"""Networks as files: weights as safetensors, structure as JSON.

Loading executes nothing and builds only classes of ``torch.nn`` and :data:`PARTS`.
To load a network with other classes, pass one of the same structure.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import warnings
from collections import OrderedDict
from contextlib import redirect_stderr, suppress
from importlib import import_module
from inspect import signature
from io import StringIO
from pathlib import Path
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn

from qubolearn.chips.topologies import Topology, topology
from qubolearn.data.arrays import count_rows, map_tensors
from qubolearn.errors import QubolearnError, missing_extra, printable
from qubolearn.files import make_folder, read_metadata, read_tensors, write_tensors
from qubolearn.networks.predicting import checked

__all__ = ["PARTS", "Saved", "build", "describe", "export", "load", "save"]

N = TypeVar("N", bound=nn.Module)
MAX_BITS, MAX_NUMBER = 4096, 2**24
#: Classes of qubolearn.networks that a file can name.
PARTS = ("QuboNetwork", "DiagonalHead", "DirectHead", "MLP", "GraphBody", "SharedQubo")


class Saved(nn.Module):
    """Base class of networks that files can name: stores its arguments."""

    _arguments: dict[str, Any]

    def __new__(cls, *args: Any, **options: Any) -> Self:
        made = super().__new__(cls)
        with suppress(TypeError):  # wrong arguments, or a copy
            given = signature(cls.__init__).bind(made, *args, **options).arguments
            vars(made)["_arguments"] = dict(list(given.items())[1:])
        return made

    def save(self, path: Path | str) -> Path:
        """Write the network as a .safetensors file for :func:`qubolearn.load`."""
        return save(self, path)


def describe(module: nn.Module) -> dict[str, Any]:
    """Return how to build a module, for JSON; other classes become a digest."""
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
        with suppress(Exception), torch.device("meta"):  # a layer that its attributes describe
            again = build(json.loads(json.dumps(found)))
            if repr(again) == repr(module) and _shapes(again) == _shapes(module):
                return found
    own = {"own": f"{kind.__module__}.{kind.__qualname__}"}
    with suppress(OSError, TypeError):
        own["source"] = hashlib.sha256(inspect.getsource(kind).encode()).hexdigest()[:16]
    return own


def _plain(now: Any, given: Any) -> Any:
    """Return an argument for JSON."""
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
    """Return the module or argument of a :func:`describe` result."""
    if isinstance(found, (int, float)) and abs(found) > MAX_NUMBER:
        raise QubolearnError(f"a network argument is {found} (limit {MAX_NUMBER}); is it the right file?")
    if not isinstance(found, dict):
        return tuple(map(build, found)) if isinstance(found, list) else found
    if "own" in found:
        name, remedy = (
            printable(str(found["own"]))[:100],
            "pass network= made with it, or --network FILE.py:NAME",
        )
        raise QubolearnError(f"its network uses {name}, which a file cannot build; {remedy}")
    if "topology" in found and "kind" not in found:
        name, n, couplers = found["topology"], build(found["n"]), found["couplers"]
        if not isinstance(n, int) or not 0 < n <= MAX_BITS:
            raise QubolearnError(f"a network of {n} bits (limit {MAX_BITS}); is it the right file?")
        return topology(name, n) if couplers is None else Topology(name, n, tuple(map(tuple, couplers)))
    if "tensor" in found:
        return torch.tensor(found["tensor"])
    kind, arguments = found.get("kind"), {name: value for name, value in found.items() if name != "kind"}
    if kind == "Sequential":
        return nn.Sequential(OrderedDict((name, build(part)) for name, part in arguments["parts"].items()))
    known = getattr(import_module("qubolearn.networks") if kind in PARTS else nn, str(kind), None)
    if not (isinstance(known, type) and issubclass(known, nn.Module)):
        name = printable(str(kind))[:40]
        raise QubolearnError(f"a network of kind {name!r}; expected a class of torch.nn or qubolearn")
    return known(**{name: build(value) for name, value in arguments.items()})


def save(network: nn.Module, path: Path | str) -> Path:
    """Write any network as one file for :func:`load`, atomically."""
    if (path := Path(path)).suffix != ".safetensors":
        raise QubolearnError(f"a network file {path}; expected a name that ends in .safetensors")
    make_folder(path.parent)
    write_tensors(path, network.state_dict(), network=json.dumps(describe(network)))
    return path


def load(path: Path | str, network: N | None = None) -> N:
    """Return the network that :meth:`QuboNetwork.save` wrote, in evaluation mode.

    Args:
        path: the file.
        network: a network that receives the weights; required if it has classes that you wrote.

    Raises:
        QubolearnError: If the file is damaged or does not fit the network.

    >>> from tempfile import TemporaryDirectory
    >>> from qubolearn import QuboNetwork, topology
    >>> pattern = topology("dense", 3)
    >>> body = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, pattern.size))
    >>> network = QuboNetwork(body, pattern)
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
    """Return the network as a ``torch.export`` program for any batch size.

    p has one instance or more. With a path, also write ONNX with the output ``A``.
    Raise a QubolearnError if the network cannot be exported.
    """
    if not count_rows(p := checked(p, network)):
        raise QubolearnError("p has 0 rows; pass at least one instance to export")
    some = map_tensors(lambda tensor: tensor[[0, 0]], p)  # torch takes a batch of one as fixed
    shapes = map_tensors(lambda tensor: {0: torch.export.Dim("batch", min=1)}, some)
    if not isinstance(network.eval()(some), Tensor):
        raise QubolearnError("a network with a sparse A cannot be exported; make it with sparse=False")
    if path is not None:
        make_folder(Path(path).parent)
    try:
        with redirect_stderr(StringIO()):  # to which torch prints graphs
            program = torch.export.export(network, (some,), dynamic_shapes=(shapes,))
        if path is not None:
            torch.onnx.export(program, (some,), path, output_names=["A"], verbose=False)
    except ImportError as error:
        raise missing_extra("export to ONNX", "examples") from error
    except Exception as error:
        kind, line = type(getattr(network, "body", network)).__name__, str(error.__cause__ or error).strip()
        reason, remedy = line.split("\n")[0][:200], "use other operations, or deploy the file of network.save"
        raise QubolearnError(f"{kind} cannot be exported ({reason}); {remedy}") from error
    return program


def rebuilt(text: str, path: Path, weights: Path, network: Any = None) -> Any:
    """Return the network of a description, or the given one if it fits."""
    try:
        found = json.loads(text)
        if network is not None:
            now = _sources(describe(network)).values()  # a class may have moved
            if changed := [name for name, source in _sources(found).items() if source not in now]:
                words = f"the code of {printable(', '.join(changed))[:100]} is not the code that was saved"
                warnings.warn(f"{path}: {words}; check its predictions, or train again", stacklevel=3)
            return network
        with torch.device("meta"):
            size = sum(tensor.nbytes for tensor in build(found).state_dict().values())
        if size > (stored := weights.stat().st_size):  # before it is allocated
            raise QubolearnError(f"a network of {size} bytes with weights of {stored}; is it damaged?")
        return build(found)
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
        known = isinstance(error, QubolearnError)
        line = error if known else f"its network cannot be built ({error!r}); restore the file"
        raise QubolearnError(f"{path}: {line}") from error


def _sources(found: Any) -> dict[str, str]:
    if not isinstance(found, dict):
        return {}
    own = {str(found["own"]): str(found["source"])} if "source" in found else {}
    return own | {name: source for part in found.values() for name, source in _sources(part).items()}
