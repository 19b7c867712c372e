"""Train from a torch DataLoader, which fit shuffles by (seed, epoch), with a sum of two losses."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from qubolearn import Adam, Gap, Likelihood, QuboNetwork, evaluate, fit, topology

torch.manual_seed(0)
rng = np.random.default_rng(0)
p = rng.normal(size=(3000, 6))
x = p @ rng.normal(size=(6, 4)) > 0
held_out = (p[2500:], x[2500:])
loader = DataLoader(
    TensorDataset(torch.tensor(p[:2500]), torch.tensor(x[:2500])), batch_size=100, shuffle=True
)

pattern = topology("dense", 4)
network = QuboNetwork(nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, pattern.size)), pattern)
training = fit(
    network, loader, Likelihood() + 0.1 * Gap(), optimizer=Adam(1e-2), epochs=10, validation=held_out
)
print(f"{training.steps} steps, loss {training.loss:.3f}", evaluate(network, held_out).metrics)
