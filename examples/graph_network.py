"""A graph network of your own on RandGraph: p is a mapping of tensors, and fit hands it to the network as it is."""

import torch
from torch import nn

from qubolearn import Adam, Arrays, Cosine, Likelihood, QuboNetwork, evaluate, fit, make_problem, topology

torch.manual_seed(0)
problem = make_problem("randgraph", k=4)
drawn = problem.sample(8_000, torch.Generator().manual_seed(0))
W = drawn.p.reshape(-1, 4, 4, 4, 4)  # |D_ij - D'_ab| at [i, a, j, b]
data = Arrays({"edges": W, "nodes": W.diagonal(dim1=1, dim2=3)}, drawn.x_true, validation=1000, test=1000)


class Matcher(nn.Module):
    """Node i of one graph and node a of the other exchange messages with every pair (j, b), then say their bits."""

    def __init__(self, entries):
        super().__init__()
        self.edge, self.pair = nn.Linear(1, 16), nn.Linear(17, 32)
        self.out = nn.Sequential(nn.Linear(16 * 32, 128), nn.ReLU(), nn.Linear(128, entries))

    def forward(self, p):
        messages = torch.relu(self.edge(p["edges"][..., None])).amin(4).mean(3)  # [batch, i, a, 16]
        own = p["nodes"].diagonal(dim1=1, dim2=2).permute(0, 2, 1)[:, :, :, None].expand(-1, 4, 4, 1)
        return self.out(torch.relu(self.pair(torch.cat([messages, own], -1))).flatten(1))


pattern = topology("chimera", problem.bits)
network = QuboNetwork(Matcher(pattern.size), pattern)
fit(network, data, Likelihood(beta=6.0), optimizer=Adam(3e-3, Cosine()), epochs=6)
print(evaluate(network, data).metrics)
