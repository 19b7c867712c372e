"""Independent random streams from one seed, so that no state needs saving: any draw can be made again from its name."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["derive_seed", "stream"]


def derive_seed(seed: int, *path: int | str) -> int:
    """A 63-bit seed for one purpose of a run, e.g. ``derive_seed(0, "train", epoch)``.

    >>> derive_seed(0, "train", 1) == derive_seed(0, "train", 1) != derive_seed(0, "train", 2)
    True
    """
    import numpy as np

    words = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    words += [zlib.crc32(part.encode()) if isinstance(part, str) else part for part in path]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> np.uint64(1))


def stream(seed: int, *path: int | str, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator of its own for one purpose of a run."""
    import torch

    return torch.Generator(device=device).manual_seed(derive_seed(seed, *path))
