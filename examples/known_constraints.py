"""Learn only the costs of an assignment: the constraints, one task per worker and one worker per task, are known."""

from itertools import permutations

import numpy as np
import torch
from torch import nn

from qubolearn import Arrays, QuboNetwork, evaluate, fit, topology

K = 3  # workers and tasks; bit K * i + j: worker i does task j
rng = np.random.default_rng(0)
p = rng.normal(size=(600, K * K, 2)).astype(np.float32)  # two numbers per pair, whose cost nobody knows ...
cost = np.abs(p[..., 0]) + np.tanh(p[..., 1])
plans = np.array([np.eye(K)[list(order)].reshape(-1) for order in permutations(range(K))])
x = plans[(cost @ plans.T).argmin(1)]  # ... but past decisions show it

penalties = torch.zeros(K * K, K * K)  # (sum of a row or column - 1)², without its constant
for line in [range(i * K, i * K + K) for i in range(K)] + [range(j, K * K, K) for j in range(K)]:
    for a in line:
        penalties[a, list(line)] += 1
        penalties[a, a] -= 2


class Costs(nn.Module):
    """One small network for all pairs: its output is the cost of the pair, on the diagonal of A."""

    def __init__(self):
        super().__init__()
        self.cost = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, p):
        return self.cost(p)[..., 0]


torch.manual_seed(0)
data = Arrays(p, x, validation=0.15, test=0.3)
for name, known in (("without", {}), ("with", {"fixed": penalties, "hard": True})):
    network = QuboNetwork(Costs(), topology("diagonal", K * K), **known)
    fit(network, data, progress=False)
    bits = network.predict(p).reshape(-1, K, K)
    allowed = ((bits.sum(1) == 1).all(1) & (bits.sum(2) == 1).all(1)).mean()
    print(f"{name} constraints, {100 * allowed:.0f} % allowed:", evaluate(network, data).metrics)
