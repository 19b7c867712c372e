"""Train with your own arrays, network and loss, AdamW and early stopping, and compare two solvers."""

import numpy as np
import torch
from torch import nn

import qubolearn as ql

torch.manual_seed(0)  # the initial weights are yours to choose
rng = np.random.default_rng(0)
p = rng.normal(size=(3000, 6))
x = p @ rng.normal(size=(6, 4)) > 0  # four labels that depend on six numbers
data = ql.Arrays(p, x, validation=0.1, test=0.1)


class Body(nn.Module):
    def __init__(self, entries):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 32), nn.Linear(32, 32), nn.Linear(32, entries)

    def forward(self, p):  # [batch, 6] -> [batch, entries]: a number for each bit, then one for each coupler
        return self.last(torch.tanh(self.second(torch.tanh(self.first(p)))))


pattern = ql.topology("dense", data.bits)
network = ql.QuboNetwork(Body(pattern.size), pattern)


def loss(A, batch):  # one value per instance: the solution should be 0.1 below the best other state
    x_star, x_plus = batch.solver(A.detach(), 2).states.unbind(1)
    other = torch.where((x_star == batch.x_true).all(1, keepdim=True), x_plus, x_star)
    return torch.relu(0.1 + ql.energies(A, batch.x_true) - ql.energies(A, other))


optimizer = torch.optim.AdamW(network.parameters(), 3e-3, weight_decay=1e-2)
ql.fit(
    network, data, loss, optimizer=optimizer, epochs=30, callbacks=[ql.EarlyStopping("accuracy", patience=8)]
)
for solver in (ql.ExhaustiveSearch(), ql.SimulatedAnnealing(reads=20, seed=0)):
    print(solver, ql.evaluate(network, data, solver).metrics)
