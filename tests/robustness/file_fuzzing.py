"""Untrusted files: good ones, mutated and given to our readers.

Of a bad input a reader may only raise QubolearnError.
``python file_fuzzing.py COUNTS.json SEED`` runs the long loop in its
own process, so that even a crash in C is seen.
"""

from __future__ import annotations

import io
import json
import random
import resource
import signal
import sys
import time
import zipfile
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import dimod
import numpy as np
import torch

from qubolearn.data.files import read_inputs
from qubolearn.errors import QubolearnError
from qubolearn.problems import problem_names, problem_type
from qubolearn.problems.randgraph import RandGraph
from qubolearn.qubo import parse_qubo, to_bqm, to_coo
from qubolearn.qubo.files import read_bqm
from qubolearn.recipes import recipe_for, train
from qubolearn.runs import Run

PROBLEM = RandGraph(k=2)
CONFIG = recipe_for(
    "best", PROBLEM, topology="dense", layers=2, hidden=4, epochs=1, instances=4, batch_size=4, validation=2
)
SECONDS_PER_INPUT = 30.0

#: What text formats stumble over.
TOKENS = b'nan inf -1 1e999 99999999999999999999 # n= { null true " \\ud800 0x10 1_0 .. / OFF e'.split()
TOKENS += [b"[" * 60, b"\x00", b"\r", b" ", b"\xc2\xb2", b"\xe2\x80\xa8"]
#: What JSON readers stumble over.
NUMBERS = [-1, 0, 1, 0.5, 4096, 10**9, 2**70, -(2**63), 1e308, float("nan"), float("inf")]
TEXTS = ["", "a" * 50, "../x", "/etc", "randgraph", "dense"]
NESTED = [[], {}, [[]], ["x"], {"name": "randgraph"}, {"x": 1, "y": 2}]
VALUES: list[Any] = [None, True, *NUMBERS, *TEXTS, *NESTED]


class Kind(NamedTuple):
    """Inputs of one kind, and who reads them."""

    make: Callable[[random.Random], bytes]
    read: Callable[[bytes], object]


def mutated(data: bytes, rng: random.Random, tokens: list[bytes] | None = None) -> bytes:
    """Return content with a few small damages."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        size = len(changed)
        at, length = rng.randrange(size + 1), rng.choice((1, 1, 2, 4, 8, 32))
        action = rng.randrange(7)
        if action == 0 and size:
            changed[at % size] ^= 1 << rng.randrange(8)
        elif action == 1:
            changed[at : at + length] = rng.randbytes(length)
        elif action == 2:
            del changed[at : at + length]
        elif action == 3:
            changed[at:at] = changed[at : at + length]
        elif action == 4:
            changed[at : at + length] = rng.choice((b"\x00", b"\xff", b"\x7f")) * length
        elif action == 5:
            changed[at : at + rng.choice((0, 1, 3))] = rng.choice(tokens or [b"\x80\x00\x00\x00"])
        elif rng.random() < 0.3:
            del changed[at:]
    return bytes(changed)


def mutated_json(value: Any, rng: random.Random) -> bytes:
    """Return JSON with nodes replaced, dropped or renamed."""
    copy = json.loads(json.dumps(value))
    for _ in range(rng.choice((1, 1, 2, 4))):
        node = copy
        while True:
            keys = list(node if isinstance(node, dict) else range(len(node)))
            if not keys:
                break
            key = rng.choice(keys)
            if not isinstance(node[key], (dict, list)) or not node[key] or rng.random() < 0.2:
                if rng.random() < 0.15:
                    del node[key]
                elif isinstance(node, dict) and rng.random() < 0.1:
                    node[str(rng.choice(VALUES))] = node.pop(key)
                else:
                    node[key] = deepcopy(rng.choice(VALUES))
                break
            node = node[key]
    text = json.dumps(rng.choice(VALUES) if rng.random() < 0.01 else copy).encode()
    return mutated(text, rng, TOKENS) if rng.random() < 0.3 else text


def zipped(members: dict[str, bytes], rng: random.Random) -> bytes:
    """Return a zip archive with odd names and methods."""
    buffer = io.BytesIO()
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
    with zipfile.ZipFile(buffer, "w", rng.choice(methods)) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
            if rng.random() < 0.05:
                archive.writestr(rng.choice(("../", "/", "a//", "./", "..\\", "x/../")) + name, data)
    return buffer.getvalue()


def archive_of(members: dict[str, bytes], rng: random.Random) -> bytes:
    """Return an archive that is damaged in one place."""
    if rng.random() < 0.3:
        return mutated(
            zipped(members, rng), rng, [b"PK\x01\x02", b"PK\x05\x06", b"\x08\x00", b"\x0c\x00", b"\xff" * 4]
        )
    name = rng.choice(list(members))
    return zipped({**members, name: mutated(members[name], rng, TOKENS)}, rng)


def npy_members(**arrays: np.ndarray) -> dict[str, bytes]:
    """Return the members of an .npz."""
    members = {}
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, array)
        members[f"{name}.npy"] = buffer.getvalue()
    return members


def without_checksum(data: bytes) -> bytes:
    """Return a safetensors file as older versions wrote it."""
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    del header["__metadata__"]["sha256"]
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[start:]


def kinds(folder: Path) -> dict[str, Kind]:
    """Return all kinds of files; some are put into ``folder``."""

    def on_disk(name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)

        def write_and_read(data: bytes) -> object:
            path.write_bytes(data)
            return read(path)

        return write_and_read

    run = Run.create(folder / "run", PROBLEM, CONFIG)
    train(PROBLEM, CONFIG, run)
    header = json.loads((run.folder / "config.json").read_text())
    del header["sha256"]  # which would end most readings before they begin
    headers = [
        {**header, "problem": {"name": name, **asdict(problem_type(name)())}}  # type: ignore[call-overload]
        for name in problem_names()
    ]
    model, checkpoint = (
        (run.folder / f"{name}.safetensors").read_bytes() for name in ("model", "checkpoint")
    )
    models, checkpoints = ([data, without_checksum(data)] for data in (model, checkpoint))
    metrics = (run.folder / "metrics.jsonl").read_bytes()
    logs = [metrics, metrics[: metrics.rindex(b'{"sha256"')]]
    A = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    coo = to_coo(A).encode()
    with to_bqm(A).to_file() as file:
        bqm = [file.read()]
    with dimod.BinaryQuadraticModel({"a": 1.0, "b": -2.0}, {("a", "b"): 0.5}, 3.0, "SPIN").to_file() as file:
        bqm.append(file.read())
    inputs = npy_members(p=np.ones((2, PROBLEM.input_size), np.float32))

    return {
        "coo": Kind(
            lambda rng: mutated(coo, rng, TOKENS), lambda data: parse_qubo(data.decode("utf-8", "replace"))
        ),
        "bqm": Kind(lambda rng: mutated(rng.choice(bqm), rng, TOKENS), read_bqm),
        "run json": Kind(
            lambda rng: mutated_json(rng.choice(headers), rng),
            on_disk("other/config.json", lambda path: Run.open(path.parent)),
        ),
        "metrics": Kind(
            lambda rng: mutated(rng.choice(logs), rng, TOKENS),
            on_disk("run/metrics.jsonl", lambda path: run.metrics()),
        ),
        "model": Kind(
            lambda rng: mutated(rng.choice(models), rng, TOKENS),
            on_disk("run/model.safetensors", lambda path: run.network()),
        ),
        "checkpoint": Kind(
            lambda rng: mutated(rng.choice(checkpoints), rng, TOKENS),
            on_disk(
                "unfinished/checkpoint.safetensors", lambda path: Run(path.parent, PROBLEM, CONFIG).network()
            ),
        ),
        "npz instances": Kind(
            lambda rng: archive_of(inputs, rng), on_disk("p.npz", lambda path: read_inputs(path, PROBLEM))
        ),
    }


def rejects(kind: Kind, data: bytes) -> bool:
    """Return True if the reader rejects the input, in one line."""
    try:
        kind.read(data)
    except QubolearnError as error:
        if "\n" in str(error) or not str(error):
            raise AssertionError(f"not one line: {error}") from error
        return True
    return False


def fuzz(kind: Kind, count: int, seed: int | str) -> int:
    """Return how many of ``count`` inputs a reader rejected."""
    rng = random.Random(f"{seed}")
    refused = 0
    for index in range(count):
        data = kind.make(rng)
        try:
            refused += rejects(kind, data)
        except BaseException as error:
            raise AssertionError(
                f"input {index} of seed {seed!r}: {type(error).__name__}: {error}; {data!r}"
            ) from error
    return refused


def main(counts: dict[str, int], seed: int, folder: Path) -> dict[str, dict[str, float]]:
    """Run the long loop, with bounded memory and time."""

    def too_slow(*_: object) -> None:
        raise TimeoutError(f"more than {SECONDS_PER_INPUT} s for one input")

    signal.signal(signal.SIGALRM, too_slow)
    made = kinds(folder)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**30,) * 2)
    results = {}
    for name, count in counts.items():
        kind, began = made[name], time.perf_counter()

        def timed(data: bytes, kind: Kind = kind) -> object:
            signal.setitimer(signal.ITIMER_REAL, SECONDS_PER_INPUT)
            try:
                return kind.read(data)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)

        refused = fuzz(Kind(kind.make, timed), count, f"{name} {seed}")
        seconds = round(time.perf_counter() - began, 1)
        results[name] = {"inputs": count, "refused": refused, "seconds": seconds}
    return results


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(main(json.loads(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))))
