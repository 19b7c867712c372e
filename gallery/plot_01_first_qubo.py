"""
Graph matching, from p to the answer
====================================

A graph of four nodes and a permuted copy: which node is which? The network sees the differences of their edges (p) and
outputs a QUBO of eight bits that fits one cell of D-Wave's Chimera chip. The minimizer is the permutation.
"""

# %%
# Train for ten epochs by exact likelihood, which takes seconds.
import matplotlib.pyplot as plt
import torch

from qubolearn import ExhaustiveSearch, evaluate, solve
from qubolearn.recipes import preset, train

problem, recipe = preset("best", "randgraph", k=4, epochs=10)
network = train(problem, recipe)
print(evaluate(network, problem, ExhaustiveSearch(), instances=1000).metrics)

# %%
# One unseen instance in the pipeline: p, A, the two best states, the answer.
instance = problem.sample(1, torch.Generator().manual_seed(7), "test")
with torch.no_grad():
    A = network(instance.p)
found = solve(A, ExhaustiveSearch(), count=2)
answer = problem.decode(found.states[:, 0])

figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), width_ratios=[1.2, 1, 1])
axes[0].imshow(instance.p[0].reshape(16, 16), cmap="viridis")
axes[0].set_title("p: differences of edges")
limit = A.abs().max()
axes[1].imshow(A[0], cmap="RdBu_r", vmin=-limit, vmax=limit)
axes[1].set_title("A: the learned QUBO")
energies = found.energies[0].tolist()
axes[2].bar(["x*", "x⁺"], energies, color=["tab:blue", "tab:gray"])
axes[2].set_title("energies of the two best states")
for ax in axes[:2]:
    ax.set_xticks([])
    ax.set_yticks([])
figure.tight_layout()
print("bits", found.states[0, 0].int().tolist(), "-> answer", answer[0].tolist())
