"""
Train your own graph network
============================

``fit`` trains any module. The input p may be a mapping of tensors, which the network receives unchanged. Here a small
network compares the edges at each node of two graphs and learns to match the nodes.
"""

# %%
# Edge (i, j) of one graph and edge (a, b) of the other differ by ``W[i, a, j, b]``. The network receives the outgoing
# and incoming edges of each node, and the nodes' own entries, by name.
import matplotlib.pyplot as plt
import torch
from torch import nn

from qubolearn import Adam, Arrays, Likelihood, QuboNetwork, evaluate, fit, topology
from qubolearn.problems import make_problem
from qubolearn.training.optimizers import Cosine

torch.manual_seed(0)
problem = make_problem("randgraph", k=4)
drawn = problem.sample(8_000, torch.Generator().manual_seed(0))
W = drawn.p.reshape(-1, 4, 4, 4, 4)
p = {
    "edges": torch.stack([W, W.permute(0, 3, 4, 1, 2)], -1),  # [graphs, i, a, j, b, 2]
    "nodes": W.diagonal(dim1=1, dim2=3).diagonal(dim1=1, dim2=2),  # [graphs, i, a]
}
data = Arrays(p, drawn.x_true, validation=1000, test=1000)


# %%
# The network outputs as many numbers as the QUBO has entries. ``QuboNetwork`` puts them where the chip has couplers.
class Matcher(nn.Module):
    """Compare nodes i and a: they are similar if each edge of i has a partner at a."""

    def __init__(self, entries):
        super().__init__()
        self.edge, self.pair = nn.Linear(2, 16), nn.Linear(17, 32)
        self.out = nn.Sequential(
            nn.Linear(16 * 32, 128), nn.ReLU(), nn.Linear(128, entries)
        )

    def forward(self, p):
        partners = (
            torch.relu(self.edge(p["edges"])).amin(4).mean(3)
        )  # best b, mean over j: [batch, i, a, 16]
        pairs = torch.relu(self.pair(torch.cat([partners, p["nodes"][..., None]], -1)))
        return self.out(pairs.flatten(1))


pattern = topology("chimera", problem.bits)
network = QuboNetwork(Matcher(pattern.size), pattern)
training = fit(
    network, data, Likelihood(beta=6.0), optimizer=Adam(3e-3, Cosine()), epochs=6
)
accuracy = evaluate(network, data).metrics["accuracy"]
print(f"correct permutations: {100 * accuracy:.1f} % of 1000 unseen pairs of graphs")
assert accuracy > 0.85  # fail the build of this page if the network does not learn

# %%
# ``fit`` records each scoring of the validation graphs.
steps = [record["step"] for record in training.history]
figure, axis = plt.subplots(figsize=(5, 3.8), layout="constrained")
axis.plot(steps, [100 * record["accuracy"] for record in training.history], "o-")
axis.set(
    title=f"{100 * accuracy:.0f} % of unseen graphs are matched",
    xlabel="training step",
    ylim=(0, 102),
)
axis.set_ylabel("validation graphs matched, %")
axis.grid(alpha=0.3)
plt.show()
