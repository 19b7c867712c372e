"""One seed per call -> one seed per instance of the batch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qubolearn.errors import QubolearnError

__all__ = ["instance_seeds"]


def instance_seeds(seed: int | None, batch: int) -> npt.NDArray[np.uint32]:
    """``[batch]`` independent seeds below 2**32; instance i's depends on (seed, i) alone. None draws fresh ones.

    >>> instance_seeds(7, 2).tolist() == instance_seeds(7, 5)[:2].tolist()
    True
    """
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0):
        raise QubolearnError(f"seed={seed!r} is not a whole number >= 0; pass one, or None for fresh randomness")
    return np.random.SeedSequence(None if seed is None else int(seed)).generate_state(batch).astype(np.uint32)
