"""
Your first learned QUBO: graph matching
=======================================

A graph of four nodes and a permuted copy: which node is which? The network sees the differences of their edges (p) and
outputs a QUBO of eight bits that fits one cell of D-Wave's Chimera chip. The minimizer is the permutation.
"""

# %%
# Train for ten epochs by exact likelihood, which takes seconds.
import matplotlib.pyplot as plt
import torch

from qubolearn import ExhaustiveSearch, evaluate, plots, solve
from qubolearn.recipes import preset, train

problem, recipe = preset("best", "randgraph", k=4, epochs=10)
network = train(problem, recipe)
print(evaluate(network, problem, ExhaustiveSearch(), instances=1000).metrics)

# %%
# The network maps the input p of an unseen instance to a QUBO A. Red entries cost energy, blue ones lower it. White
# entries are zero, because the chip has no coupler there.
instance = problem.sample(1, torch.Generator().manual_seed(7), "test")
with torch.no_grad():
    A = network(instance.p)
found = solve(A, ExhaustiveSearch(), count=2)
answer = problem.decode(found.states[:, 0])

figure, axis = plt.subplots(figsize=(4.8, 3.6), layout="constrained")
plots.qubo(A[0], axis)
axis.set_title("Eight bits encode how two graphs match")
plt.show()
print("bits", found.states[0, 0].int().tolist(), "-> answer", answer[0].tolist())

# %%
# The input of this instance, and the gap between the best state and the next one.
figure, axes = plt.subplots(1, 2, figsize=(7, 3.2), layout="constrained")
axes[0].imshow(instance.p[0].reshape(16, 16), cmap="Greys")
axes[0].set(title="p compares all pairs of edges", xticks=[], yticks=[])
energies = found.energies[0].tolist()
axes[1].bar(["best", "second best"], energies, color=["tab:blue", "tab:gray"])
axes[1].set(
    title=f"The best state is {energies[1] - energies[0]:.1f} lower", ylabel="energy"
)
plt.show()
