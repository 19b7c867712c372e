"""Promise 8: many and odd inputs."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import torch
from child_training import CONFIG, PROBLEM
from quick_solvers import QUICK

from qubolearn.errors import QubolearnError
from qubolearn.qubo import all_states, energies
from qubolearn.recipes import train
from qubolearn.solvers import Solver, log_partition, make_solver

MANY = 10_000
#: Solvers that take more than a second for this many: in the long test.
SLOW = {"tabu", "path-integral", "dwave-mock", "neal", "quantum"}


def qubos(batch: int, n: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(batch, n, n, generator=torch.Generator().manual_seed(seed))


def solver_of(name: str) -> Solver:
    return make_solver(QUICK[name].format(seed=0))


def lowest(A: torch.Tensor, count: int) -> torch.Tensor:
    states = all_states(A.shape[-1], dtype=torch.float64)
    return energies(A.double(), states.expand(len(A), -1, -1)).sort(1).values[:, :count]


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.soak) if n in SLOW else n for n in QUICK])
def test_ten_thousand_qubos_in_one_call(name: str) -> None:
    A = qubos(MANY, 4)
    found = solver_of(name)(A, 2)
    assert found.states.shape == (MANY, 2, 4)
    torch.testing.assert_close(found.energies, energies(A.double(), found.states.double()))
    right = (found.energies[:, 0] - lowest(A, 1)[:, 0]).abs() < 1e-9
    assert right.float().mean() > (0.999 if name == "exhaustive" else 0.8)


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("n", [1, 2])
def test_the_smallest_sizes_are_solved_exactly(name: str, n: int) -> None:
    A = torch.cat([qubos(5, n), torch.zeros(1, n, n)])
    torch.testing.assert_close(solver_of(name)(A, 2).energies, lowest(A, 2))


@pytest.mark.parametrize("name", QUICK)
def test_no_qubos_have_no_states(name: str) -> None:
    found = solver_of(name)(torch.zeros(0, 5, 5), 2)
    assert found.states.shape == (0, 2, 5)
    assert found.energies.shape == (0, 2)
    assert found.energies.dtype == torch.float64


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions(name: str, dtype: torch.dtype) -> None:
    A = qubos(4, 5).to(dtype)
    found = solver_of(name)(A, 2)
    assert found.states.dtype == dtype
    right = energies(A.double(), found.states.double())
    torch.testing.assert_close(found.energies, right, rtol=1e-14, atol=1e-14)
    torch.testing.assert_close(found.energies, solver_of(name)(A.double(), 2).energies)


@pytest.mark.parametrize("name", QUICK)
def test_strided_and_tracked_tensors(name: str) -> None:
    solver, A = solver_of(name), qubos(6, 5)
    want = solver(A, 2)
    wide = torch.zeros(6, 10, 15)
    wide[:, ::2, ::3] = A
    odd = [wide[:, ::2, ::3], A.mT.contiguous().mT, A.clone().requires_grad_()]
    for form in odd:
        found = solver(form, 2)
        assert torch.equal(found.states, want.states)
        assert not found.states.requires_grad
        assert not found.energies.requires_grad
    assert odd[-1].grad is None
    same = solver(A[:1].expand(3, 5, 5), 2)
    assert torch.equal(same.states[0], want.states[0])
    assert torch.equal(A, qubos(6, 5)), "A itself is left as it was"


@pytest.mark.parametrize("name", QUICK)
def test_tensors_without_numbers_are_rejected(name: str) -> None:
    for A in (torch.zeros(2, 3, 3, device="meta"), torch.zeros(2, 3, 3).to_sparse()):
        with pytest.raises(QubolearnError, match=r"meta|sparse"):
            solver_of(name)(A)
    for A in (torch.zeros(2, 3, 3, dtype=torch.complex64), torch.zeros(2, 3, 3, dtype=torch.int8)):
        with pytest.raises(QubolearnError, match=r"complex64|int8"):
            solver_of(name)(A)
    with pytest.raises(QubolearnError, match="meta"):
        log_partition(torch.zeros(1, 3, 3, device="meta"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("name", QUICK)
def test_states_come_back_on_the_device_of_A(name: str) -> None:
    A = qubos(6, 5).cuda()
    found = solver_of(name)(A, 2)
    assert found.states.device == found.energies.device == A.device
    torch.testing.assert_close(found.energies, energies(A.double(), found.states.double()))


@pytest.mark.parametrize("name", QUICK)
def test_two_threads_call_one_solver_at_once(name: str) -> None:
    solver, batches = solver_of(name), [qubos(8, 7, seed) for seed in range(6)]
    want = [solver(A, 2) for A in batches]
    together = Barrier(2)

    def work(which: int) -> list[bool]:
        together.wait()
        found = [solver(A, 2) for A in batches[which::2]]
        return [torch.equal(a.states, b.states) for a, b in zip(found, want[which::2], strict=True)]

    with ThreadPoolExecutor(2) as pool:
        assert all(map(all, pool.map(work, range(2))))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def growth(work: Callable[[], object], seconds: float, least: int) -> tuple[float, int]:
    """Return the bytes per call that ``work`` adds, and the calls."""
    for _ in range(least // 2):
        work()
    gc.collect()
    gc.freeze()  # what other tests left
    points, began = [], time.monotonic()
    while len(points) < least or time.monotonic() - began < seconds:
        work()
        gc.collect()
        points.append(resident_bytes())
    gc.unfreeze()
    late = torch.tensor(points[len(points) // 2 :], dtype=torch.float64)
    at = torch.arange(len(late), dtype=torch.float64)
    slope = ((at - at.mean()) * (late - late.mean())).sum() / ((at - at.mean()) ** 2).sum()
    return slope.item(), len(points)


def a_bit_of_everything() -> None:
    train(PROBLEM, replace(CONFIG, epochs=1, weight_mlp=1e-3))
    train(PROBLEM, replace(CONFIG, epochs=1, loss="nll"))
    for name in ("exhaustive", "annealing", "neal"):
        solver_of(name)(qubos(50, 12), 2)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory from Linux's /proc")
def test_memory_stays_flat() -> None:
    slope, _ = growth(a_bit_of_everything, 0.0, 12)
    assert slope < 50_000  # bytes per call, whose QUBOs have 86,000


@pytest.mark.soak
def test_memory_stays_flat_for_long(figures: dict[str, Any]) -> None:
    began = time.monotonic()
    slope, calls = growth(a_bit_of_everything, 120.0, 50)
    seconds = time.monotonic() - began
    per_hour = slope * calls / seconds * 3600 / 2**20
    figures["memory"] = {"calls": calls, "seconds": round(seconds), "MiB per hour": round(per_hour, 2)}
    assert per_hour < 20
