"""Check and measure the Triton kernels on a GPU: ``python tools/triton_check.py``.

One failing configuration is reported and does not stop the others: time on such a machine is scarce.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from qubolearn.kernels import exhaustive_torch, exhaustive_triton
from qubolearn.kernels.exhaustive_torch import code_bits
from qubolearn.kernels.exhaustive_triton import Scan, SearchPlan, SumPlan
from qubolearn.qubo import energies

SEARCH_PLANS = [
    SearchPlan(lane_bits, outer, inner, warps)
    for lane_bits, outer, inner, warps in [
        (10, 4, 4, 4),
        (10, 4, 4, 8),
        (10, 3, 4, 4),
        (11, 4, 4, 8),
        (11, 4, 4, 4),
        (9, 4, 4, 4),
        (9, 4, 4, 2),
        (10, 4, 5, 4),
    ]
]
SUM_PLANS = [SumPlan(lane_bits, warps) for lane_bits, warps in [(9, 4), (9, 8), (8, 4), (8, 2), (10, 8), (10, 4)]]


def main() -> None:
    if not torch.cuda.is_available():
        raise SystemExit("this check needs a CUDA device")
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    check_search(range(16, 25))
    plan = fastest_search_plan()
    measure_search(plan)
    check_sum([15, 18, 20])
    measure_sum(fastest_sum_plan())


@contextmanager
def reported(what: str) -> Any:
    """Print an error and go on."""
    try:
        yield
    except Exception as error:
        print(f"{what}: FAILED, {type(error).__name__}: {str(error).strip().splitlines()[-1:]}", flush=True)


def seconds(work: Callable[[], Any], budget: float = 0.3) -> float:
    """The shortest of several runs, after two to warm up."""
    work(), work()
    torch.cuda.synchronize()
    best, deadline = float("inf"), time.perf_counter() + budget
    while time.perf_counter() < deadline or best == float("inf"):
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def instances(batch: int, n: int, dtype: torch.dtype = torch.float32, device: str = "cuda") -> Tensor:
    generator = torch.Generator().manual_seed(n)
    return torch.randn(batch, n, n, generator=generator, dtype=torch.float64).to(device, dtype)


def search_error(A: Tensor, count: int, plan: SearchPlan) -> float:
    """By how much the energies of the best states differ from those that plain torch finds."""
    found = exhaustive_triton.lowest_codes(A, count, plan)
    oracle = exhaustive_torch.lowest_codes(A.double(), count)
    wide, n = A.double(), A.shape[2]
    mine, right = (energies(wide, code_bits(codes, n)).sort(1).values for codes in (found, oracle))
    return float((mine - right).abs().max())


def check_search(sizes: Iterable[int]) -> None:
    for n in sizes:
        for dtype in (torch.float32, torch.float64):
            with reported(f"search n={n} {dtype}"):
                error = search_error(instances(3, n, dtype), 3, SearchPlan())
                print(f"search n={n} {dtype}: error {error:.1e} {'ok' if error < 1e-9 else 'WRONG'}", flush=True)


def fastest_search_plan() -> SearchPlan:
    rates = {}
    for plan in SEARCH_PLANS:
        with reported(str(plan)):
            wrong = search_error(instances(2, 22), 2, plan) > 1e-9
            scan = Scan(instances(1, 30), plan)
            rates[plan] = 0.0 if wrong else 2**30 / seconds(scan)
            print(f"{plan}: {'WRONG' if wrong else f'{rates[plan]:.2e} states/s'} (kernel, n=30)", flush=True)
    best = max(rates, key=lambda plan: rates[plan], default=SearchPlan())
    print("best:", best)
    return best


def measure_search(plan: SearchPlan) -> None:
    for n, batch in [(15, 141), (18, 141), (20, 1), (20, 64), (24, 1), (24, 16), (28, 1), (32, 1), (32, 4), (36, 1)]:
        with reported(f"search n={n} batch={batch}"):
            A = instances(batch, n)
            states = batch * 2.0**n
            kernel = seconds(Scan(A, plan))
            whole = seconds(lambda A=A: exhaustive_triton.lowest_codes(A, 2, plan))  # type: ignore[misc]
            line = f"search n={n} batch={batch}: kernel {states / kernel:.2e}, whole {states / whole:.2e} states/s"
            line += f" ({whole * 1e3:.3f} ms)"
            if n <= 20:
                line += f", torch {seconds(lambda A=A: exhaustive_torch.lowest_codes(A.double(), 2)) * 1e3:.3f} ms"  # type: ignore[misc]
            print(line, flush=True)


def sum_error(A: Tensor, plan: SumPlan) -> float:
    """The largest error of log Z and the marginals against plain torch in float64."""
    value, marginals = exhaustive_triton.log_partition_and_marginals(A, 1.0, plan)
    right, right_marginals = exhaustive_torch.log_partition_and_marginals(A.double(), 1.0)
    return max(float((value - right).abs().max()), float((marginals - right_marginals).abs().max()))


def check_sum(sizes: Iterable[int]) -> None:
    for n in sizes:
        with reported(f"sum n={n}"):
            error = sum_error(instances(8, n), SumPlan())
            print(f"sum n={n}: error {error:.1e} {'ok' if error < 1e-4 else 'WRONG'}", flush=True)


def fastest_sum_plan() -> SumPlan:
    times = {}
    A = instances(128, 21)
    for plan in SUM_PLANS:
        with reported(str(plan)):
            error = sum_error(instances(4, 18), plan)
            taken = seconds(lambda plan=plan: exhaustive_triton.log_partition_and_marginals(A, 1.0, plan))  # type: ignore[misc]
            times[plan] = taken if error < 1e-4 else float("inf")
            print(f"{plan}: {taken * 1e3:.3f} ms (n=21, batch 128), error {error:.1e}", flush=True)
    best = min(times, key=lambda plan: times[plan], default=SumPlan())
    print("best:", best)
    return best


def measure_sum(plan: SumPlan) -> None:
    for n, batch in [(15, 141), (18, 128), (21, 128), (24, 128)]:
        A = instances(batch, n)
        with reported(f"sum n={n}"):
            mine = seconds(lambda A=A: exhaustive_triton.log_partition_and_marginals(A, 1.0, plan))  # type: ignore[misc]
            print(f"sum n={n} batch={batch}: triton {mine * 1e3:.3f} ms", flush=True)
        with reported(f"sum in torch, float64, n={n}"):
            torch_time = seconds(lambda A=A: exhaustive_torch.log_partition_and_marginals(A.double(), 1.0))  # type: ignore[misc]
            print(f"sum n={n} batch={batch}: torch in float64 {torch_time * 1e3:.3f} ms", flush=True)
        with reported(f"fwd and bwd n={n}"):
            from qubolearn.solvers.partition import log_partition

            B = A.clone().requires_grad_()
            both = seconds(lambda B=B: log_partition(B).sum().backward())  # type: ignore[misc, no-untyped-call]
            print(f"log_partition n={n} batch={batch}: forward and backward {both * 1e3:.3f} ms", flush=True)


if __name__ == "__main__":
    main()
