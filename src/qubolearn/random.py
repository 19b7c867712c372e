"""Independent random streams from one seed, so that no state needs saving: any draw can be made again from its name."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING

from qubolearn.errors import QubolearnError

if TYPE_CHECKING:
    import torch

__all__ = ["derive_seed", "drawn_from", "kept_global_state", "stream"]

#: torch's global generator is the whole process's, and trainings may run in several threads.
_global = RLock()


#: Names that results were made with before a name alone and the same name with a 0 behind it were told apart. Alone
#: they keep the values of then, as every other name keeps them with a 0 behind it.
_ALONE = {"weights", "validation", "test", "perturbed", "figure"}
_MARK = zlib.crc32(b"path ends here")


def derive_seed(seed: int, *path: int | str) -> int:
    """Return a 63-bit seed for one purpose of a run, e.g. ``derive_seed(0, "train", epoch)``.

    ``seed`` is a whole number below 2**64; ``path`` holds names and whole numbers below 2**32. Different paths give
    independent seeds.

    >>> derive_seed(0, "train", 1) == derive_seed(0, "train", 1) != derive_seed(0, "train", 2)
    True
    """
    import numpy as np

    if not 0 <= seed < 2**64:
        raise QubolearnError(f"seed={seed} is not a whole number from 0 to 2**64 - 1")
    words = [seed & 0xFFFFFFFF, seed >> 32]
    for part in path:
        word = zlib.crc32(part.encode()) if isinstance(part, str) else part
        if not 0 <= word < 2**32:
            raise QubolearnError(f"{part} in a path of seeds is not a whole number from 0 to 2**32 - 1")
        words.append(word)
    # SeedSequence fills up to 4 words with zeros, to which ("train",) and ("train", 0) are the same.
    known = bool(path) and path[0] in _ALONE
    if (len(path) < 2 and not known) or (known and len(path) == 2 and path[1] == 0):
        words += [0] * (4 - len(words)) + [_MARK, len(path)]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> np.uint64(1))


def stream(seed: int, *path: int | str, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a separate generator for one purpose of a run."""
    import torch

    return torch.Generator(device=device).manual_seed(derive_seed(seed, *path))


@contextmanager
def drawn_from(seed: int) -> Iterator[None]:
    """Let torch's global generator start at a seed, for code that takes no generator, and put its state back.

    Other threads that do the same wait meanwhile.
    """
    import torch

    with _global, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextmanager
def kept_global_state() -> Iterator[None]:
    """Put the state of torch's global generator back at the end, but not while another thread draws from a seed."""
    import torch

    with _global:
        state = torch.get_rng_state()
    try:
        yield
    finally:
        with _global:
            torch.set_rng_state(state)
