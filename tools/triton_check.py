"""Compare Triton's exhaustive search and log Z with torch on a GPU.

A failing size does not stop the others. ``make benchmark NAME=exact-gpu`` measures speed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from qubolearn.gpu import exhaustive_triton
from qubolearn.gpu.exhaustive_triton import SearchPlan
from qubolearn.qubo import energies
from qubolearn.qubo.algebra import code_bits
from qubolearn.solvers import exhaustive_torch


def main() -> None:
    """Check all sizes and print the largest errors."""
    if not torch.cuda.is_available():
        raise SystemExit("triton_check: no CUDA device")
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    checks = [("search", n, dtype) for n in range(16, 25) for dtype in (torch.float32, torch.float64)]
    for what, n, dtype in [*checks, *(("sum", n, torch.float32) for n in (15, 18, 20))]:
        try:
            A = instances(3, n, dtype)
            error = search_error(A, 3) if what == "search" else sum_error(A)
            outcome = f"error {error:.1e} {'ok' if error < (1e-9 if what == 'search' else 1e-4) else 'WRONG'}"
        except Exception as error:
            outcome = f"FAILED, {type(error).__name__}: {error}"
        print(f"{what} n={n} {dtype}: {outcome}", flush=True)


def instances(batch: int, n: int, dtype: torch.dtype = torch.float32, device: str = "cuda") -> Tensor:
    generator = torch.Generator().manual_seed(n)
    return torch.randn(batch, n, n, generator=generator, dtype=torch.float64).to(device, dtype)


def search_error(A: Tensor, count: int, plan: SearchPlan | None = None) -> float:
    """Return the largest difference of energies from plain torch."""
    found = exhaustive_triton.lowest_codes(A, count, plan)
    oracle = exhaustive_torch.lowest_codes(A.double(), count)
    wide, n = A.double(), A.shape[2]
    mine, right = (energies(wide, code_bits(codes, n)).sort(1).values for codes in (found, oracle))
    return float((mine - right).abs().max())


def sum_error(A: Tensor, lane_bits: int = 8) -> float:
    """Return the largest error of log Z and marginals against float64."""
    value, marginals = exhaustive_triton.log_partition_and_marginals(A, 1.0, lane_bits)
    right, right_marginals = exhaustive_torch.log_partition_and_marginals(A.double(), 1.0)
    return max(float((value - right).abs().max()), float((marginals - right_marginals).abs().max()))


if __name__ == "__main__":
    main()
