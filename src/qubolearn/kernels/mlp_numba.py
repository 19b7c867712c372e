"""The compiled parts of a training step (numba): through the layers and back, and what losses need of states.

The network is one vector of float32, as :class:`qubolearn.training.fast.adam.Adam` keeps it: weight ``[outputs,
inputs]`` and bias of each layer in turn, ``shapes`` ``[layers, 2]`` says how large. Products of matrices are those of
SciPy's BLAS.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
# numba infers types; annotations would only repeat what the docstrings say of shapes.
from __future__ import annotations

import numpy as np

from qubolearn.kernels.compiling import compiled

ZERO = np.float32(0)


@compiled
def forward(p, mean, scale, values, shapes, skips):
    """p ``[batch, m]`` -> what every layer was given, one behind the other, and outputs ``[batch, entries]``.

    A layer is given the features of the layer below, with the standardised p behind them where it skips.
    """
    batch, m = p.shape
    given = np.empty(batch * shapes[:, 1].sum(), np.float32)
    first = given[: batch * m].reshape(batch, m)
    for b in range(batch):
        for j in range(m):
            first[b, j] = (p[b, j] - mean[j]) * scale[j]
    outputs, start, place = first, 0, 0
    for layer in range(len(shapes)):
        size, width = shapes[layer]
        inputs = given[start : start + batch * width].reshape(batch, width)
        if layer > 0:
            hidden = outputs.shape[1]
            for b in range(batch):
                for j in range(hidden):
                    inputs[b, j] = ZERO if outputs[b, j] < ZERO else outputs[b, j]  # NaN stays NaN
                if skips[layer]:
                    inputs[b, hidden:] = first[b]
        weight = values[place : place + size * width].reshape(size, width)
        bias = values[place + size * width : place + size * width + size]
        outputs = np.empty((batch, size), np.float32)
        np.dot(inputs, weight.T, outputs)
        for b in range(batch):
            for j in range(size):
                outputs[b, j] += bias[j]
        start += batch * width
        place += size * width + size
    return given, outputs


@compiled
def backward(slope, given, values, shapes, sparse, gradient):
    """The chain rule, from slope = ∂L/∂outputs ``[batch, entries]`` back to the gradient of every weight and bias.

    L_mlp = Σ_f ‖f‖₁ / |f| adds ``sparse`` / hidden to the slope of every feature f, none of which is negative. Returns
    what it adds to the loss.
    """
    batch, hidden = len(slope), shapes[0, 0]
    added, start, place = 0.0, len(given), len(values)
    for layer in range(len(shapes) - 1, -1, -1):
        size, width = shapes[layer]
        start -= batch * width
        place -= size * width + size
        inputs = given[start : start + batch * width].reshape(batch, width)
        np.dot(slope.T, inputs, gradient[place : place + size * width].reshape(size, width))
        bias = gradient[place + size * width : place + size * width + size]
        bias[:] = ZERO
        for b in range(batch):
            for j in range(size):
                bias[j] += slope[b, j]
        if layer > 0:
            weight = values[place : place + size * width].reshape(size, width)
            below = np.dot(slope, np.ascontiguousarray(weight[:, :hidden]))
            slope = np.empty((batch, hidden), np.float32)
            share = np.float32(sparse / hidden)
            for b in range(batch):
                for j in range(hidden):
                    slope[b, j] = below[b, j] + share if inputs[b, j] > ZERO else ZERO
            if sparse != 0:
                added += sparse / hidden * inputs[:, :hidden].sum()
    return added


@compiled
def assemble(entries, column, n):
    """Entries ``[batch, entries]`` -> A ``[batch, n, n]``; column ``[n * n]`` says which one stands where, if any."""
    batch, known = entries.shape
    A = np.zeros((batch, n * n), np.float32)
    for b in range(batch):
        for place in range(n * n):
            if column[place] < known:
                A[b, place] = entries[b, column[place]]
    return A.reshape(batch, n, n)


@compiled
def gather(G, place, times):
    """∂L/∂entries ``[batch, entries]`` of a symmetric G = ∂L/∂A ``[batch, n, n]``: off the diagonal A holds two."""
    slope = np.empty((len(G), len(place)), np.float32)
    for b in range(len(G)):
        flat = G[b].reshape(-1)
        for e in range(len(place)):
            slope[b, e] = flat[place[e]] * times[e]
    return slope


@compiled
def energies(A, X):
    """E(x) = xᵀAx of states X ``[batch, t, n]`` -> ``[batch, t]``."""
    batch, t, n = X.shape
    E = np.zeros((batch, t), np.float32)
    for b in range(batch):
        for k in range(t):
            for i in range(n):
                if X[b, k, i] != ZERO:
                    for j in range(n):
                        E[b, k] += A[b, i, j] * X[b, k, j]
    return E


@compiled
def outer(X, c):
    """Σ_t c_t x_t x_tᵀ of states X ``[batch, t, n]`` and weights c ``[batch, t]`` -> ``[batch, n, n]``."""
    batch, t, n = X.shape
    G = np.zeros((batch, n, n), np.float32)
    for b in range(batch):
        for k in range(t):
            for i in range(n):
                if X[b, k, i] != ZERO:
                    for j in range(n):
                        G[b, i, j] += c[b, k] * X[b, k, j]
    return G
