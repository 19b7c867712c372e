"""The compiled step of Adam (numba)."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
# numba infers types; annotations would only repeat what the docstrings say of shapes.
from __future__ import annotations

import numpy as np

from qubolearn.kernels.compiling import compiled


@compiled(error_model="numpy")
def move(values, slope, first, second, beta1, beta2, step_size, epsilon):
    """One step on values ``[size]``, float32: the moments take up the slope, and the values move by their ratio."""
    keep1, keep2 = np.float32(beta1), np.float32(beta2)
    take1, take2 = np.float32(1 - beta1), np.float32(1 - beta2)
    step_size, epsilon = np.float32(step_size), np.float32(epsilon)
    for i in range(len(values)):
        g = slope[i]
        m = keep1 * first[i] + take1 * g
        v = keep2 * second[i] + take2 * g * g
        first[i] = m
        second[i] = v
        values[i] -= step_size * m / (np.sqrt(v) + epsilon)
