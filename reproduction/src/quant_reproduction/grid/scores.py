"""Scores of single instances in a record, in few bytes, so that methods can be compared instance by instance."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from qubolearn.errors import QubolearnError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["KEPT", "packed", "unpacked"]

#: Instances whose scores a record keeps, the first of its test: enough for the variance of differences.
KEPT = 200
STEPS = 100  # scores are kept in hundredths


def packed(scores: Tensor) -> str:
    """The first scores ``[instances]``, from 0 to 655, in hundredths: 16 bits each, deflated, in base 64.

    >>> import torch
    >>> unpacked(packed(torch.tensor([0.0, 1.0, 12.3456]))).tolist()
    [0.0, 1.0, 12.35]
    """
    kept = (scores[:KEPT].double().cpu().numpy() * STEPS).round().clip(0, 2**16 - 1)
    return base64.b64encode(zlib.compress(kept.astype("<u2").tobytes(), 9)).decode()


def unpacked(text: str) -> np.ndarray[Any, Any]:
    """Return the scores that :func:`packed` stored, ``[instances]``."""
    try:
        raw = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), 2 * KEPT)
        scores: np.ndarray[Any, Any] = np.frombuffer(raw, "<u2") / STEPS
    except (ValueError, zlib.error) as error:
        raise QubolearnError(f"scores of a record are damaged ({error}); delete it and reproduce it") from error
    return scores
