"""Adam of many networks as one kernel against the plain one: interpreted, and on a GPU where there is one."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch

CODE = """
import sys
import torch
from qubolearn.kernels import adam_triton
from qubolearn.training.fast.adam import BETAS, move

generator = torch.Generator().manual_seed(0)
plain = [torch.rand(3, 1500, generator=generator).to(sys.argv[1]) for _ in range(4)]  # values, gradient, both moments
fused = [tensor.clone() for tensor in plain]
sizes, epsilons = torch.tensor([[[1e-3], [0.0], [1e-1]], [[1e-8], [1.0], [1e-3]]], device=sys.argv[1])
for _ in range(3):
    move(*plain, sizes, epsilons)
    adam_triton.move(*fused, sizes, epsilons, BETAS)
for one, other in zip(plain, fused, strict=True):
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
assert (plain[0][0] != plain[0][1]).any()
"""


GPU = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"))


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize("device", ["cpu", GPU])
def test_one_kernel_takes_the_steps_of_the_plain_adam(device: str) -> None:
    # in a process of its own: Triton decides on import whether to interpret
    environment = {**os.environ, "TRITON_INTERPRET": str(int(device == "cpu"))}
    subprocess.run([sys.executable, "-c", CODE, device], env=environment, check=True, timeout=120)
