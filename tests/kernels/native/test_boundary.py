"""Bad arguments of kernels."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from native_kernels import SANITIZED, kernels, partition, random_graph, search, symmetric

F, D = np.float32, np.float64
N, BITS, SEEDS, HELD = 6, np.int8, np.zeros(2, np.uint32), 2**26


def arguments() -> dict[str, list[Any]]:
    """Return good arguments of each kernel, for two QUBOs."""
    linear, quadratic, *graph = random_graph(N, 3)
    qubos = (np.repeat(linear, 2, 0), np.repeat(quadratic, 2, 0), *graph)
    units = np.array([0, 2, 4, 5, 6]), np.arange(N), np.array([True, True, False, False])
    S, betas = symmetric(2, N), np.ones((2, 2))
    free, reads = np.full((2, N), -1, BITS), np.zeros((2, 3, N), BITS)
    limits = np.arange(N + 1), np.zeros(N, np.int64), np.ones((2, N)), np.full((2, 1), 4.0)
    problem, ladder = (qubos, units, free, SEEDS), np.ones((2, 16))
    return {
        "search": [np.ones((2, 5, 5), F), np.zeros((2, 3, 5), F), np.zeros((2, 3)), HELD],
        "partition": [np.ones((2, 12, 12)), 1.0, np.zeros(2), np.zeros((2, 12, 12)), HELD],
        "rank": [np.ones((2, 4, 4)), np.zeros((2, 6, 4), np.uint8), np.zeros((2, 1, 4)), np.zeros((2, 1))],
        "evolve": [*np.ones((3, 2, 16), F), *np.ones((3, 3), F)],
        "scale_dense": [S, np.zeros_like(S), np.zeros(2), np.zeros((2, 2))],
        "sparse_beta_ranges": [qubos, np.zeros((2, 2))],
        "anneal_dense": [S, betas, 3, 3, SEEDS, True, reads],
        "anneal_sparse": [qubos, betas, 3, 3, SEEDS, True, reads],
        "refine_dense": [S, reads, np.zeros((2, 1, N), BITS), np.zeros(2), True],
        "refine_sparse": [qubos, units, free, reads, np.zeros((2, 1, N), BITS), np.zeros(2), True],
        "temper": [problem, ladder, 3, np.zeros(2), reads, np.zeros((2, 15)), np.zeros(2, np.int64)],
        "temper_sample": [problem, ladder, np.ones(2), 2, 1, reads],
        "move_chains": [problem, np.ones((2, 3)), 2, reads],
        "search_population": [
            *(qubos, np.full(2, 4), 20, np.full(2, -1e3), SEEDS),
            *(np.zeros(2, np.int64), np.zeros((2, 1), np.int64), np.zeros((2, 1, 64, N), BITS)),
        ],
        "anneal_constrained": [
            *(qubos, units, free, limits, betas, 3, np.full(2, -1e3), 1, SEEDS),
            *(reads, np.zeros((2, 3)), np.zeros(2, np.int64)),
        ],
        "search_constrained": [qubos, units, free, limits, reads, np.zeros((2, 3)), np.zeros(2, np.int64)],
        "Elimination": [np.ones(4), np.array([[0, 1], [2, 3]]), np.ones(2)],
    }


#: The arrays that a kernel fills: the others may be read-only.
OUTPUTS = {
    "search": (1, 2),
    "partition": (2, 3),
    "rank": (2, 3),
    "evolve": (0, 1),
    "scale_dense": (1, 2, 3),
    "sparse_beta_ranges": (1,),
    "anneal_dense": (6,),
    "anneal_sparse": (6,),
    "refine_dense": (2, 3),
    "refine_sparse": (4, 5),
    "temper": (1, 4, 5, 6),
    "temper_sample": (1, 5),
    "move_chains": (3,),
    "search_population": (5, 6, 7),
    "anneal_constrained": (9, 10, 11),
    "search_constrained": (4, 5, 6),
    "Elimination": (),
}


def places(given: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Yield where arrays are, those inside tuples too."""
    for k, argument in enumerate(given):
        if isinstance(argument, np.ndarray):
            yield *path, k
        elif isinstance(argument, tuple):
            yield from places(argument, (*path, k))


def replaced(given: Any, path: tuple[int, ...], change: Callable[[np.ndarray], Any]) -> Any:
    """Return arguments with one array changed."""
    k, *rest = path
    new = replaced(given[k], tuple(rest), change) if rest else change(given[k])
    return type(given)((*given[:k], new, *given[k + 1 :]))


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
    "empty": lambda x: x[:0],
    "huge": lambda x: np.broadcast_to(x.ravel()[0], (*x.shape[:-1], 2**40)),
    "one more": lambda x: np.ones((*x.shape[:-1], x.shape[-1] + 1), x.dtype),
    "one axis more": lambda x: x[None],
    "flat": lambda x: x.ravel() if x.ndim > 1 else x[None],
    "scalar": lambda x: np.array(1, x.dtype),
    "strided": lambda x: np.stack([x] * 2, -1)[..., 0],
    "fortran": fortran,
    "negative strides": lambda x: x[..., ::-1],
    "swapped bytes": lambda x: x.astype(x.dtype.newbyteorder(">")) if x.dtype.itemsize > 1 else None,
}


#: Damages that leave valid arguments.
VALID = {
    ("scale_dense", (0,), "other float"),
    ("anneal_constrained", (3, 3), "one more"),
    ("search_constrained", (3, 3), "one more"),
    ("Elimination", (0,), "one more"),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", arguments())
def test_arrays_that_do_not_fit(name: str, damage: str) -> None:
    given = arguments()[name]
    for path in places(given):
        kept: list[np.ndarray] = []

        def change(argument: np.ndarray, kept: list[np.ndarray] = kept) -> Any:
            damaged = DAMAGE[damage](argument)
            if isinstance(damaged, np.ndarray) and (damaged.dtype, damaged.shape) == (
                argument.dtype,
                argument.shape,
            ):
                kept += [damaged] if damaged.flags.c_contiguous else []  # it has one axis or one entry
            return damaged

        wrong = replaced(given, path, change)
        if not kept and (name, path, damage) not in VALID:
            with pytest.raises((TypeError, ValueError)):
                getattr(kernels, name)(*wrong)


@pytest.mark.parametrize("name", arguments())
def test_results_are_not_written_into_read_only_arrays(name: str) -> None:
    for path in places(arguments()[name]):
        given = replaced(arguments()[name], path, read_only)
        if path[0] in OUTPUTS[name] and len(path) == 1:
            with pytest.raises(TypeError):
                getattr(kernels, name)(*given)
        else:
            getattr(kernels, name)(*given)


@pytest.mark.parametrize("name", arguments())
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308, 1e-320])
def test_values_that_python_refuses_do_no_harm(name: str, value: float) -> None:
    for path in places(arguments()[name]):
        with np.errstate(over="ignore"), contextlib.suppress(ValueError):
            given = replaced(
                arguments()[name], path, lambda x: np.full_like(x, value) if x.dtype in (F, D) else x
            )
            getattr(kernels, name)(*given)


@pytest.mark.parametrize("n", [0, 51, 200])
def test_sizes_out_of_range(n: int) -> None:
    with pytest.raises(ValueError, match="50 bits"):
        kernels.search(np.ones((1, n, n)), np.empty((1, 1, n)), np.empty((1, 1)), HELD)
    with pytest.raises(ValueError, match="50 bits"):
        kernels.partition(np.ones((1, n, n)), 1.0, np.empty(1), np.empty((1, n, n)), HELD)


@pytest.mark.parametrize("count", [0, 9])
def test_counts_out_of_range(count: int) -> None:
    with pytest.raises(ValueError, match="count"):
        kernels.search(np.ones((1, 3, 3)), np.empty((1, count, 3)), np.empty((1, count)), HELD)


def test_bits_other_than_0_and_1() -> None:
    with pytest.raises(ValueError, match="0 and 1"):
        kernels.rank(
            np.ones((1, 2, 2)), np.full((1, 1, 2), 2, np.uint8), np.empty((1, 1, 2)), np.empty((1, 1))
        )


@pytest.mark.parametrize("name", [name for name in arguments() if name != "Elimination"])
def test_empty_batches(name: str) -> None:
    given = arguments()[name]
    for path in places(given):
        given = replaced(given, path, lambda x: x[:0] if len(x) == 2 else x)
    getattr(kernels, name)(*given)


def test_odd_options() -> None:
    for threads in (-1, 0, 10_000):
        kernels.search(np.ones((2, 9, 9)), np.empty((2, 1, 9)), np.empty((2, 1)), HELD, threads=threads)
    with pytest.raises(TypeError):
        kernels.search(np.ones((2, 9, 9)), np.empty((2, 1, 9)), np.empty((2, 1)), HELD, threads=2**40)
    with pytest.raises(ValueError, match="v9"):
        kernels.use("v9")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308, 1e-320])
def test_single_values_that_python_refuses_do_no_harm(value: float) -> None:
    for n in (4, 9, 12):
        A = np.random.default_rng(0).normal(size=(2, n, n))
        A[0, n // 2, n // 3] = value
        with np.errstate(over="ignore"):
            single = A.astype(F)
        for some in (A, single):
            search(some, 5)
            partition(some, 1.0)
        partition(A, value)


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
    kernels.partition(A, 1.0, values, marginals, 2**26)
except MemoryError:
    print("MemoryError")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=__file__.rpartition("/")[0]
    )
    assert done.stdout.strip() == "MemoryError", done.stderr
