"""The options --clamp and --groups: bits whose values are known, and sets of bits of which exactly one is 1."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from qubolearn.errors import QubolearnError
from qubolearn.files import read_text

if TYPE_CHECKING:
    from qubolearn.qubo import Clamp, Groups

__all__ = ["add_constraints", "clamp_from", "groups_from"]


def add_constraints(parser: argparse.ArgumentParser) -> None:
    """The options --clamp and --groups."""
    text = "hold bits at values: 3=1,7=0, a text file of such words, or an .npz with clamp [count, n] of 0, 1 and -1"
    parser.add_argument("--clamp", metavar="BITS", help=text)
    text = "one bit of each group is 1: the size of equal groups, or a text file with the bits of one group a line"
    parser.add_argument("--groups", metavar="SIZE|FILE", help=text)


def clamp_from(text: str | None) -> Clamp | None:
    """What --clamp says."""
    if text is None:
        return None
    if "=" not in text and text.endswith(".npz"):
        import torch

        from qubolearn.problems.data import load_npz

        return torch.tensor(load_npz(text, {"clamp": ("biu", 2)})["clamp"])
    words = text if "=" in text else read_text(Path(text))
    clamp: dict[int, int] = {}
    for word in words.replace(",", " ").split():
        bit, _, value = word.partition("=")
        if not _is_number(bit) or value not in ("0", "1"):
            raise QubolearnError(f"--clamp: {word[:40]!r} is not BIT=0 or BIT=1, as in 3=1,7=0")
        if clamp.setdefault(int(bit), int(value)) != int(value):
            raise QubolearnError(f"--clamp: bit {bit} is clamped to 0 and to 1; want one of them")
    return clamp


def groups_from(text: str | None, n: int) -> Groups | None:
    """What --groups says of n bits."""
    if text is None:
        return None
    from qubolearn.qubo import Groups

    if _is_number(text):
        size = int(text)
        if size < 1 or n % size:
            raise QubolearnError(f"--groups {text}: n={n} bits are no whole number of groups of {text}; name a file")
        return Groups.consecutive(n // size, size)
    members = []
    for number, line in enumerate(read_text(Path(text)).splitlines(), 1):
        bits = line.partition("#")[0].replace(",", " ").split()
        if not all(map(_is_number, bits)):
            raise QubolearnError(f"{text}, line {number}: {line[:40]!r} is not a list of bits, as in 0 1 2")
        if bits:
            members.append([int(bit) for bit in bits])
    if not members:
        raise QubolearnError(f"{text} holds no group; want the bits of one group a line, as in 0 1 2")
    return Groups(members)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 9
