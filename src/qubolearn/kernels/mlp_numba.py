"""The compiled parts of a training step (numba): forward and backward through the layers, energies of states.

The network is one vector of float32: weight ``[outputs, inputs]`` and bias of each layer in turn; ``layers`` holds
their sizes and activations. Matrices are multiplied by SciPy's BLAS.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
# numba infers types; annotations would only repeat what the docstrings say of shapes.
from __future__ import annotations

import math

import numpy as np

from qubolearn.kernels.compiling import compiled

ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)


# Columns of ``layers`` [layers, 5]: outputs, inputs, whether there is a bias, whether p is appended, activation.
OUTPUTS, INPUTS, BIAS, SKIPS, ACTIVATION = range(5)
IDENTITY, RELU, TANH, SIGMOID, LEAKY, SILU, GELU = range(7)
ROOT_HALF, DENSITY = np.float32(0.7071067811865476), np.float32(0.3989422804014327)


@compiled
def forward(p, mean, scale, values, layers, slopes):
    """Forward pass of p ``[batch, m]``: every layer's inputs, its values before the activation, and the last outputs.

    A layer's inputs are the features of the layer below, followed by the standardised p where p is appended. The first
    two results are flat, layer after layer; values before an activation are kept only where its slope needs them.
    """
    batch, m = p.shape
    given = np.empty(batch * layers[:, INPUTS].sum(), np.float32)
    before = np.empty(batch * layers[:, OUTPUTS].sum() if layers[:, ACTIVATION].max() >= SILU else 0, np.float32)
    first = given[: batch * m].reshape(batch, m)
    for b in range(batch):
        for j in range(m):
            first[b, j] = (p[b, j] - mean[j]) * scale[j]
    outputs, start, place, said = first, 0, 0, 0
    for layer in range(len(layers)):
        size, width = layers[layer, OUTPUTS], layers[layer, INPUTS]
        inputs = given[start : start + batch * width].reshape(batch, width)
        if layer > 0:
            hidden = outputs.shape[1]
            for b in range(batch):
                for j in range(hidden):
                    inputs[b, j] = outputs[b, j]
                if layers[layer, SKIPS]:
                    inputs[b, hidden:] = first[b]
        weight = values[place : place + size * width].reshape(size, width)
        outputs = np.empty((batch, size), np.float32)
        np.dot(inputs, weight.T, outputs)
        place += size * width
        if layers[layer, BIAS]:
            bias = values[place : place + size]
            for b in range(batch):
                for j in range(size):
                    outputs[b, j] += bias[j]
            place += size
        if before.size:
            before[said : said + batch * size] = outputs.reshape(-1)
            said += batch * size
        activate(outputs, layers[layer, ACTIVATION], slopes[layer])
        start += batch * width
    return given, before, outputs


@compiled
def activate(z, kind, slope):
    """Apply an activation to z ``[batch, size]`` in place; NaN stays NaN."""
    flat = z.reshape(-1)
    if kind == RELU:
        for i in range(flat.size):
            flat[i] = ZERO if flat[i] < ZERO else flat[i]
    elif kind == TANH:
        for i in range(flat.size):
            flat[i] = np.tanh(flat[i])
    elif kind == SIGMOID:
        for i in range(flat.size):
            flat[i] = ONE / (ONE + np.exp(-flat[i]))
    elif kind == LEAKY:
        for i in range(flat.size):
            flat[i] = slope * flat[i] if flat[i] < ZERO else flat[i]
    elif kind == SILU:
        for i in range(flat.size):
            flat[i] = flat[i] / (ONE + np.exp(-flat[i]))
    elif kind == GELU:
        for i in range(flat.size):
            flat[i] = HALF * flat[i] * (ONE + np.float32(math.erf(flat[i] * ROOT_HALF)))


@compiled
def through_activation(slope, y, z, kind, leak):
    """Turn ∂L/∂y ``[batch, size]`` into ∂L/∂z in place; only some activations need z, which is flat."""
    batch, size = slope.shape
    for b in range(batch):
        for j in range(size):
            if kind == RELU:
                slope[b, j] = slope[b, j] if y[b, j] > ZERO else ZERO
            elif kind == TANH:
                slope[b, j] *= ONE - y[b, j] * y[b, j]
            elif kind == SIGMOID:
                slope[b, j] *= y[b, j] * (ONE - y[b, j])
            elif kind == LEAKY:
                slope[b, j] *= leak if y[b, j] < ZERO else ONE
            elif kind == SILU:
                share = ONE / (ONE + np.exp(-z[b * size + j]))
                slope[b, j] *= share * (ONE + z[b * size + j] * (ONE - share))
            elif kind == GELU:
                t = z[b * size + j]
                inside = HALF * (ONE + np.float32(math.erf(t * ROOT_HALF)))
                slope[b, j] *= inside + t * DENSITY * np.exp(-HALF * t * t)


@compiled
def backward(slope, outputs, given, before, values, layers, leaks, sparse, gradient):
    """The chain rule, from slope = ∂L/∂outputs ``[batch, entries]`` back to the gradient of every weight and bias.

    L_mlp = Σ_f ‖f‖₁ / |f| adds ``sparse`` / hidden to the slope of every feature f, none of which is negative. Returns
    what it adds to the loss.
    """
    batch = len(slope)
    added, start, place, said = 0.0, len(given), len(values), len(before)
    y = outputs
    for layer in range(len(layers) - 1, -1, -1):
        size, width = layers[layer, OUTPUTS], layers[layer, INPUTS]
        if before.size:
            said -= batch * size
        if layers[layer, ACTIVATION] != IDENTITY:
            through_activation(slope, y, before[said:], layers[layer, ACTIVATION], leaks[layer])
        start -= batch * width
        inputs = given[start : start + batch * width].reshape(batch, width)
        if layers[layer, BIAS]:
            place -= size
            bias = gradient[place : place + size]
            bias[:] = ZERO
            for b in range(batch):
                for j in range(size):
                    bias[j] += slope[b, j]
        place -= size * width
        np.dot(slope.T, inputs, gradient[place : place + size * width].reshape(size, width))
        if layer > 0:
            hidden = layers[layer - 1, OUTPUTS]
            weight = values[place : place + size * width].reshape(size, width)
            slope = np.dot(slope, np.ascontiguousarray(weight[:, :hidden]))
            y = inputs
            if sparse != 0:
                share = np.float32(sparse / hidden)
                slope += share
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
