"""Adam of many networks as one kernel, here interpreted, against the plain one."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

CODE = """
import torch
from qubolearn.kernels import adam_triton
from qubolearn.training.fast.adam import BETAS, move

generator = torch.Generator().manual_seed(0)
plain = [torch.rand(3, 1500, generator=generator) for _ in range(4)]  # values, gradient, both moments
fused = [tensor.clone() for tensor in plain]
sizes, epsilons = torch.tensor([[1e-3], [0.0], [1e-1]]), torch.tensor([[1e-8], [1.0], [1e-3]])
for _ in range(3):
    move(*plain, sizes, epsilons)
    adam_triton.move(*fused, sizes, epsilons, BETAS)
for one, other in zip(plain, fused, strict=True):
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
assert (plain[0][0] != plain[0][1]).any()
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_one_kernel_takes_the_steps_of_the_plain_adam() -> None:
    # in a process of its own: Triton decides on import whether to interpret
    subprocess.run([sys.executable, "-c", CODE], env={**os.environ, "TRITON_INTERPRET": "1"}, check=True, timeout=120)
