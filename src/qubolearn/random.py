"""Independent random streams from one seed, by name."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING

from qubolearn.errors import QubolearnError

if TYPE_CHECKING:
    import torch

__all__ = ["derive_seed", "fork_seeded_rng", "preserve_rng_state", "stream"]

#: torch has one global generator per process, and several threads may train.
_global = RLock()


#: Legacy names, whose seeds must not change: (name,) and (name, 0) once had the same seed.
#: For these names (name,) keeps it, for all others (name, 0).
_ALONE = {"weights", "validation", "test", "perturbed", "figure"}
_MARK = zlib.crc32(b"path ends here")


def derive_seed(seed: int, *path: int | str) -> int:
    """Return a 63-bit seed for one purpose, such as ``derive_seed(0, "train", epoch)``.

    ``seed`` is below 2**64; ``path`` has names and integers below 2**32.

    >>> derive_seed(0, "data", 1) == derive_seed(0, "data", 1) != derive_seed(0, "data", 2)
    True
    """
    import numpy as np

    if not 0 <= seed < 2**64:
        raise QubolearnError(f"seed={seed} is not an integer from 0 to 2**64 - 1")
    words = [seed & 0xFFFFFFFF, seed >> 32]
    for part in path:
        word = zlib.crc32(part.encode()) if isinstance(part, str) else part
        if not 0 <= word < 2**32:
            raise QubolearnError(f"{part} in a path of seeds is not an integer from 0 to 2**32 - 1")
        words.append(word)
    # SeedSequence pads with zeros: ("train",) would equal ("train", 0).
    known = bool(path) and path[0] in _ALONE
    if (len(path) < 2 and not known) or (known and len(path) == 2 and path[1] == 0):
        words += [0] * (4 - len(words)) + [_MARK, len(path)]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> np.uint64(1))


def stream(seed: int, *path: int | str, device: torch.device | str = "cpu") -> torch.Generator:
    import torch

    return torch.Generator(device=device).manual_seed(derive_seed(seed, *path))


@contextmanager
def fork_seeded_rng(seed: int) -> Iterator[None]:
    """Seed torch's global generator within the block; other threads wait."""
    import torch

    with _global, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextmanager
def preserve_rng_state() -> Iterator[None]:
    import torch

    with _global:
        state = torch.get_rng_state()
    try:
        yield
    finally:
        with _global:
            torch.set_rng_state(state)
