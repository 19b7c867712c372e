"""Train with defaults: your arrays, a network, and nothing else. Compare with one logistic regression per bit."""

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from qubolearn import MLP, Arrays, QuboNetwork, evaluate, fit, topology

rng = np.random.default_rng(0)
p = rng.normal(size=(2500, 6))
x = p[:, :4] * p[:, 2:] > 0  # bits depend on products of the inputs
data = Arrays(p[:2000], x[:2000])
graph = topology("dense", data.bits)
torch.manual_seed(0)
network = QuboNetwork(MLP(6, graph.size), graph)
fit(network, data)
alone = [LogisticRegression().fit(p[:2000], x[:2000, bit]).predict(p[2000:]) for bit in range(4)]
print("logistic regressions:", {"accuracy": float((np.stack(alone, 1) == x[2000:]).all(1).mean())})
print("fit with defaults:", evaluate(network, (p[2000:], x[2000:])).metrics)
