"""Bad arguments raise before any pointer is used: run under sanitizers by make sanitize."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from native_kernels import SANITIZED, kernels

F, D = np.float32, np.float64


def arguments() -> dict[str, list[Any]]:
    """Return arguments that each kernel accepts."""
    return {
        "search": [np.ones((2, 5, 5), F), np.zeros((2, 3, 5), F), np.zeros((2, 3))],
        "partition": [np.ones((2, 12, 12)), 1.0, np.zeros(2), np.zeros((2, 12, 12))],
        "rank": [np.ones((2, 4, 4)), np.zeros((2, 6, 4), np.uint8), np.zeros((2, 1, 4)), np.zeros((2, 1))],
        "evolve": [np.ones((2, 16), F), np.ones((2, 16), F), np.ones((2, 16), F), *(np.ones(3, F) for _ in range(3))],
    }


def fortran(x: np.ndarray) -> np.ndarray:
    return np.asfortranarray(np.stack([x] * 2, -1))[..., 0]


def read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


DAMAGE: dict[str, Callable[[np.ndarray], Any]] = {
    "integers": lambda x: x.astype(np.int64),
    "half": lambda x: x.astype(np.float16),
    "complex": lambda x: x.astype(np.complex128),
    "other float": lambda x: x.astype(D if x.dtype == F else F),
    "list": lambda x: x.tolist(),
    "none": lambda x: None,
    "one more": lambda x: np.ones((*x.shape[:-1], x.shape[-1] + 1), x.dtype),
    "one axis more": lambda x: x[None],
    "flat": lambda x: x.ravel() if x.ndim > 1 else x[None],
    "scalar": lambda x: np.array(1, x.dtype),
    "strided": lambda x: np.stack([x] * 2, -1)[..., 0],
    "fortran": fortran,
    "negative strides": lambda x: x[..., ::-1],
    "swapped bytes": lambda x: x.astype(x.dtype.newbyteorder(">")) if x.dtype.itemsize > 1 else None,
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", arguments())
def test_arrays_that_do_not_fit(name: str, damage: str) -> None:
    for place, argument in enumerate(arguments()[name]):
        if isinstance(argument, np.ndarray):
            given = arguments()[name]
            given[place] = damaged = DAMAGE[damage](argument)
            same = isinstance(damaged, np.ndarray) and (damaged.dtype, damaged.shape) == (
                argument.dtype,
                argument.shape,
            )
            if same and damaged.flags.c_contiguous:
                continue  # it has one axis or one entry
            if (name, place, damage) == ("partition", 0, "other float"):
                continue  # the only array that may have both dtypes
            with pytest.raises((TypeError, ValueError)):
                getattr(kernels, name)(*given)


@pytest.mark.parametrize("name", arguments())
def test_results_are_not_written_into_read_only_arrays(name: str) -> None:
    outputs = {"search": (1, 2), "partition": (2, 3), "rank": (2, 3), "evolve": (0, 1)}[name]
    for place, argument in enumerate(arguments()[name]):
        if isinstance(argument, np.ndarray):
            given = arguments()[name]
            given[place] = read_only(argument)
            if place in outputs:
                with pytest.raises(TypeError):
                    getattr(kernels, name)(*given)
            else:
                getattr(kernels, name)(*given)


@pytest.mark.parametrize("n", [0, 51, 200])
def test_sizes_out_of_range(n: int) -> None:
    with pytest.raises(ValueError, match="50 bits"):
        kernels.search(np.ones((1, n, n)), np.empty((1, 1, n)), np.empty((1, 1)))
    with pytest.raises(ValueError, match="50 bits"):
        kernels.partition(np.ones((1, n, n)), 1.0, np.empty(1), np.empty((1, n, n)))


@pytest.mark.parametrize("count", [0, 9])
def test_counts_out_of_range(count: int) -> None:
    with pytest.raises(ValueError, match="count"):
        kernels.search(np.ones((1, 3, 3)), np.empty((1, count, 3)), np.empty((1, count)))


def test_bits_other_than_0_and_1() -> None:
    with pytest.raises(ValueError, match="0 and 1"):
        kernels.rank(np.ones((1, 2, 2)), np.full((1, 1, 2), 2, np.uint8), np.empty((1, 1, 2)), np.empty((1, 1)))


def test_empty_batches_and_odd_options() -> None:
    empty = np.empty((0, 5, 5))
    kernels.partition(empty, 1.0, np.empty(0), empty)
    kernels.search(empty, np.empty((0, 1, 5)), np.empty((0, 1)))
    kernels.rank(empty, np.empty((0, 3, 5), np.uint8), np.empty((0, 1, 5)), np.empty((0, 1)))
    for threads in (-1, 0, 10_000):
        kernels.search(np.ones((2, 9, 9)), np.empty((2, 1, 9)), np.empty((2, 1)), threads=threads)
    with pytest.raises(TypeError):
        kernels.search(np.ones((2, 9, 9)), np.empty((2, 1, 9)), np.empty((2, 1)), threads=2**40)
    with pytest.raises(ValueError, match="v9"):
        kernels.use("v9")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308, 1e-320])
def test_values_that_python_refuses_do_no_harm(value: float) -> None:
    for n in (4, 9, 12):
        A = np.random.default_rng(0).normal(size=(2, n, n))
        A[0, n // 2, n // 3] = value
        kernels.search(A, np.empty((2, 5, n)), np.empty((2, 5)))
        with np.errstate(over="ignore"):
            single = A.astype(F)
        kernels.search(single, np.empty((2, 5, n), F), np.empty((2, 5)))
        kernels.partition(A, 1.0, np.empty(2), np.empty((2, n, n)))
        kernels.partition(single, value, np.empty(2), np.empty((2, n, n)))


@pytest.mark.skipif(SANITIZED, reason="sanitizers end the process when memory runs out")
def test_no_memory() -> None:
    program = """
import resource
import numpy as np
from native_kernels import kernels
A, values, marginals = np.ones((1, 29, 29)), np.empty(1), np.empty((1, 29, 29))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**22, resource.RLIM_INFINITY))
try:
    kernels.partition(A, 1.0, values, marginals)
except MemoryError:
    print("MemoryError")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=__file__.rpartition("/")[0]
    )
    assert done.stdout.strip() == "MemoryError", done.stderr
