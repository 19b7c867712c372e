"""Time evolution against matrix products."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from native_kernels import kernels, on_all_builds


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 7, 8, 9, 13])
def test_evolve(n: int) -> None:
    rng = np.random.default_rng(n)
    steps, batch = 5, 3
    theta, turns = rng.uniform(-0.7, 0.7, steps), rng.normal(size=steps).astype(np.float32)
    tangents, norms = np.tan(theta).astype(np.float32), (np.cos(theta) ** n).astype(np.float32)
    start, energies = rng.normal(size=(2, batch, 2**n)), rng.normal(size=(batch, 2**n)).astype(np.float32)
    start /= np.sqrt((start**2).sum((0, 2), keepdims=True))

    def evolve(threads: int) -> tuple[np.ndarray, ...]:
        re, im = start.astype(np.float32)
        kernels.evolve(re, im, energies, tangents, norms, turns, threads=threads)
        return re, im

    re, im = on_all_builds(evolve)
    psi = start[0] + 1j * start[1]
    for k in range(steps):
        rotation = np.array([[np.cos(theta[k]), -np.sin(theta[k])], [np.sin(theta[k]), np.cos(theta[k])]])
        for qubit in range(n):
            psi = np.einsum("ab,iubl->iual", rotation, psi.reshape(batch, 2 ** (n - 1 - qubit), 2, 2**qubit))
        psi = psi.reshape(batch, 2**n) * np.exp(-2j * np.pi * turns[k].astype(float) * energies)
    assert reduce(max, np.abs(re + 1j * im - psi).ravel()) < 1e-5
