"""
Several correct answers: why max-cut needs couplings
====================================================

Split the nodes of a graph in two so that as many edges as possible run between the parts. The complement of an optimal
cut is optimal too, so each node is on either side equally often, and separately predicted bits are all 1/2. Couplings
do not encode where a node is, but which nodes are apart, and this is all that matters.
"""

# %%
# The same network is trained coupled and uncoupled, for max-cut of eight nodes and for a knapsack of six items.
# Training sees one of the best answers of each instance; in the test, any of them counts as correct. Few knapsacks have
# two best packings, so couplings add less there.
import matplotlib.pyplot as plt
import torch

from qubolearn import ExhaustiveSearch, evaluate, solve
from qubolearn.recipes import preset, train

networks, right = {}, {}
for name, metric, options in (
    ("maxcut", "accuracy", {"nodes": 8, "epochs": 3, "validation": 100}),
    ("knapsack", "exact", {"items": 6, "epochs": 6, "validation": 100}),
):
    for head in ("coupled", "uncoupled"):
        problem, recipe = preset("best", name, head=head, **options)
        networks[name, head] = train(problem, recipe)
        right[name, head] = evaluate(
            networks[name, head], problem, instances=1000
        ).metrics[metric]
for key, value in right.items():
    print(*key, round(value, 3))

# %%
# One unseen graph and the eight lowest states of its learned QUBO: all best cuts should be at the bottom.
problem, _ = preset("best", "maxcut", nodes=8)
instance = problem.sample(1, torch.Generator().manual_seed(4), "test")
with torch.no_grad():
    lowest = solve(
        networks["maxcut", "coupled"](instance.p), ExhaustiveSearch(), count=8
    )
best = instance.right.include(lowest.states)[0].tolist()
print(
    f"{int(instance.right.valid.sum())} best cuts; "
    f"among the eight lowest states: {sum(best)}"
)

figure, axis = plt.subplots(figsize=(4, 3.8), layout="constrained")
problem.picture(axis, instance, lowest.states[:, 0])
axis.set(
    title="The lowest state is a best cut" if best[0] else "The lowest state as a cut",
    xticks=[],
    yticks=[],
)
plt.show()

# %%
# Left: the energies of the eight lowest states. Right: how often the lowest state is a best answer.
figure, axes = plt.subplots(1, 2, figsize=(8, 3.5), layout="constrained")
colors = ["tab:red" if cut else "0.7" for cut in best]
axes[0].bar(
    range(1, 9), lowest.energies[0] - lowest.energies[0, 0], color=colors, width=0.7
)
axes[0].plot(range(1, 9), lowest.energies[0] - lowest.energies[0, 0], "k_", ms=14)
axes[0].set(
    title="Best cuts (red) have the lowest energies",
    xlabel="state",
    ylabel="energy above the lowest",
)
for place, name in enumerate(("maxcut", "knapsack")):
    for shift, head, color in (
        (-0.2, "coupled", "tab:blue"),
        (0.2, "uncoupled", "tab:gray"),
    ):
        label = head if place == 0 else None
        bar = axes[1].bar(
            place + shift, 100 * right[name, head], 0.38, color=color, label=label
        )
        axes[1].bar_label(bar, fmt="%.0f")
axes[1].set(
    title="Max-cut needs couplings",
    ylabel="best answer found, %",
    ylim=(0, 112),
)
axes[1].set_xticks([0, 1], ["max-cut", "knapsack"])
axes[1].legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2, fontsize=8)
plt.show()
