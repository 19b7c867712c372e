"""Commands on run folders with one mutated file.

``python command_fuzzing.py COUNT SEED FOLDER`` runs the long loop.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import sys
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import torch
from file_fuzzing import TOKENS, VALUES, mutated, mutated_json, without_checksum

from qubolearn.cli import main

TRAIN = (
    "train randgraph --k 2 --topology dense --layers 2 --hidden 4 --epochs 1"
    " --instances 4 --batch-size 4 --validation 2 --test 4 --device cpu --out"
)
#: Commands that read a run. Only train and plot may write into it.
ON_RUNS = {
    "plot": "plot {run}",
    "train": f"{TRAIN} {{run}}",
    "evaluate": "evaluate {run} --instances 4 --device cpu",
    "solve": "solve {run} {p} --out {out}.npz",
    "export": "export {run} {p} --out {out}",
    "embed": "embed {run} --chip chimera",
    "info": "info {run} --save {out}.safetensors",
    "compare": "compare {run} {run} --instances 4 --device cpu",
    "explore": "explore {run} --instances 3 --out {out}.html",
}


class Case(NamedTuple):
    """The input of a command: a file and its content."""

    command: str
    file: str
    data: bytes


class Commands:
    """Good files of every kind, damaged and passed to commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.good, self.p = folder / "good", folder / "p.npz"
        quietly(f"{TRAIN} {self.good}")
        quietly(f"instances randgraph --k 2 --count 3 --out {self.p}")

    def damaged(self, name: str, data: bytes, rng: random.Random) -> bytes:
        """Return a damaged or hostile version of a file."""
        if rng.random() < 0.1:
            return rng.choice(
                (b"", b"\x00" * 50, b"\xff\xfe" * 9, b"[]", b"null", b"{}", data[: len(data) // 2])
            )
        if name.endswith(".jsonl"):
            records = [record for record in map(json.loads, data.splitlines()) if "step" in record]
            for record in records:
                if rng.random() < 0.4:  # its many numbers would hide its entries
                    record[rng.choice(list(record))] = rng.choice(VALUES)
            lines = [
                mutated_json(each, rng) if rng.random() < 0.3 else json.dumps(each).encode()
                for each in records
            ]
            return b"\n".join([*lines, b""])
        if name.endswith(".json"):
            value = json.loads(data)
            value.pop("sha256", None)
            if rng.random() < 0.3:
                value[rng.choice(list(value))] = rng.choice(VALUES)
            return mutated_json(value, rng)
        if name.endswith(".safetensors"):
            return mutated(without_checksum(data), rng, TOKENS)
        return mutated(data, rng, TOKENS)

    def case(self, rng: random.Random) -> Case:
        """Damage one file and run one command on it."""
        command = rng.choice(list(ON_RUNS))
        run, out = self.folder / "run", self.folder / "out"
        shutil.rmtree(run, ignore_errors=True)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(self.good, run)
        name = rng.choice(("config.json", "metrics.jsonl", "model.safetensors", "result.json", "p.npz"))
        if command == "train" and rng.random() < 0.5:
            (run / "model.safetensors").unlink()  # one to resume
            name = rng.choice(("config.json", "metrics.jsonl", "checkpoint.safetensors"))
        whole = self.p.read_bytes() if name == "p.npz" else (self.good / name).read_bytes()
        case = Case(command, name, self.damaged(name, whole, rng))
        p = self.folder / "q.npz"
        p.write_bytes(case.data if name == "p.npz" else self.p.read_bytes())
        if name != "p.npz":
            (run / name).write_bytes(case.data)
        try:
            code, output = quietly(ON_RUNS[command].format(run=run, p=p, out=out))
        except BaseException as error:
            raise AssertionError(f"{type(error).__name__}: {error}; {case}") from error
        if code not in (0, 2) or (
            code == 2 and (output.count("\n") != 1 or not output.startswith("qubolearn: error: "))
        ):
            raise AssertionError(f"exit code {code}, {output!r}; {case}")
        return case


def quietly(command: str) -> tuple[int, str]:
    """Run a command; return its exit code and stderr."""
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as output:
        return main(command.split()), output.getvalue()


def fuzz(folder: Path, count: int, seed: object) -> dict[str, int]:
    """Run ``count`` commands on damaged files; return the counts."""
    rng, commands, done = random.Random(str(seed)), Commands(folder), Counter[str]()
    for index in range(count):
        try:
            done[commands.case(rng).command] += 1
        except AssertionError as error:
            raise AssertionError(f"case {index} of seed {seed!r}: {error}") from error
    return done


if __name__ == "__main__":
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30,) * 2)
    print(json.dumps(fuzz(Path(sys.argv[3]), int(sys.argv[1]), sys.argv[2])))
