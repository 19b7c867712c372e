"""Your own everything: arrays in, an own network, an own loss, AdamW, early stopping, and two solvers to compare."""

import numpy as np
import torch
from torch import nn

from qubolearn import Arrays, EarlyStopping, ExhaustiveSearch, QuboNetwork, SimulatedAnnealing, evaluate, fit, topology
from qubolearn import energies as energy

torch.manual_seed(0)  # the initial weights are yours to choose
rng = np.random.default_rng(0)
p = rng.normal(size=(3000, 6))
x = p @ rng.normal(size=(6, 4)) > 0  # four labels that depend on six numbers
data = Arrays(p, x, validation=0.1, test=0.1)

pattern = topology("dense", data.bits)
body = nn.Sequential(nn.Linear(6, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, pattern.size))
network = QuboNetwork(body, pattern, inputs=6)


def loss(A, batch):  # one value per instance: the solution should lie below the solver's best state by 0.1
    x_star, x_plus = batch.solver(A.detach(), 2).states.unbind(1)
    other = torch.where((x_star == batch.x_true).all(1, keepdim=True), x_plus, x_star)
    return torch.relu(0.1 + energy(A, batch.x_true) - energy(A, other))


optimizer = torch.optim.AdamW(network.parameters(), 3e-3, weight_decay=1e-2)
fit(network, data, loss, optimizer=optimizer, epochs=30, callbacks=[EarlyStopping("accuracy", patience=8)])
for solver in (ExhaustiveSearch(), SimulatedAnnealing(reads=20, seed=0)):
    print(solver, evaluate(network, data, solver).metrics)
