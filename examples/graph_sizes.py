"""Graphs of 6 to 10 nodes in one network: pad them to 10 nodes, and clamp the bits of padded nodes to 0."""

import numpy as np
import torch

from qubolearn import QuboNetwork, fit, topology
from qubolearn.networks import GraphBody

NODES, COUNT = 10, 700
rng = np.random.default_rng(0)
sizes = rng.integers(6, NODES + 1, COUNT)
there = np.arange(NODES) < sizes[:, None]
weights = rng.uniform(0.5, 1.5, (COUNT, NODES)) * there
adjacency = np.triu(rng.random((COUNT, NODES, NODES)) < 0.3, 1) & there[:, :, None] & there[:, None]
states = (np.arange(2**NODES)[:, None] >> np.arange(NODES)) & 1
clashes = np.einsum("si,bij,sj->bs", states, adjacency, states, optimize=True)
x = states[(weights @ states.T - NODES * clashes).argmax(1)]  # the heaviest set of nodes without an edge

pattern = topology("dense", NODES)
torch.manual_seed(0)
body = GraphBody(pattern, nodes=2)  # the weight of a node, and whether it exists
nodes = np.stack([weights, there], 2).astype(np.float32)
pairs = body.pairs_of(torch.tensor(adjacency)).float()
network = QuboNetwork(body, pattern)
fit(network, ((nodes[:500], pairs[:500]), x[:500]), progress=False)
clamp = torch.tensor(np.where(there, -1, 0))  # -1: free
found = network.predict((nodes[500:], pairs[500:]), clamp=clamp[500:])
for size in (6, 8, 10):
    rows = sizes[500:] == size
    print(f"{size} nodes:", {"accuracy": float((found == x[500:]).all(1)[rows].mean())})
