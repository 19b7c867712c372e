"""Export a network by torch.export and as ONNX with a batch of any size; the solver stays around it.

``pip install onnx onnxscript onnxruntime``
"""

import sys

import numpy as np
import onnxruntime
import torch
from torch import nn

from qubolearn import AutoSolver, QuboNetwork, solve, topology
from qubolearn.networks import export

torch.manual_seed(0)
pattern = topology("dense", 8)
network = QuboNetwork(nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, pattern.size)), pattern)
path = sys.argv[1] if len(sys.argv) > 1 else "network.onnx"
program = export(
    network, np.zeros((1, 6)), path
)  # torch.export.save(program, "network.pt2") stores it for PyTorch

session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
for count in (1, 5, 300):
    p = np.random.default_rng(count).normal(size=(count, 6)).astype(np.float32)
    (A,) = session.run(None, {"p": p})
    x = solve(torch.tensor(A), AutoSolver(), 1).states[:, 0].numpy()
    same = (
        np.allclose(A, program.module()(torch.tensor(p)).detach(), atol=1e-5)
        and (x == network.predict(p)).all()
    )
    print(f"{count} instances:", {"same": bool(same)})
