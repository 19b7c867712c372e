"""
The rules of Sudoku, learned from solved grids
==============================================

The QUBO is not given rows, columns or boxes. It sees solved grids of size four, and its couplings become the rules.
Puzzles are then solved by clamping the bits of their hints.
"""

# %%
# One bit for each of 16 cells and 4 digits makes 64 bits. It is given that a cell has exactly one digit. Everything
# else is learned as one A for all puzzles, by the pseudo-likelihood of cells that see a random part of the others.
import matplotlib.pyplot as plt
import torch

from qubolearn import plots
from qubolearn.problems.sudoku import rule_qubo, solve_puzzles
from qubolearn.recipes import preset, train

problem, recipe = preset("best", "sudoku", size=4)
network = train(problem, recipe)

# %%
# The learned values are split at their widest gap: those above become rules, all others 0. A comparison with the true
# rules, which training never saw, shows whether they agree.
soft, hard = network.soft().detach(), network.hardened()
found = {tuple(edge) for edge in hard.A.edges.T.tolist()}
true = {tuple(edge) for edge in rule_qubo(4).edges.T.tolist()}
low, high = hard.gaps[0]
print(
    f"{len(found & true)} of {len(true)} rules found, {len(found - true)} others; "
    f"gap {low:.2f} to {high:.2f}"
)

# %%
# The picture shows how strongly the marked cell repels its own digit in other cells: those of its row, its column
# and its box.
figure, axis = plt.subplots(figsize=(4.4, 3.8), layout="constrained")
plots.grid_couplings(soft, 4, [5], axis)
axis.set_title("A cell (cross) repels its digit\nin its row, column and box")
plt.show()

# %%
# A test puzzle with six hints, whose grid was not in the training set. The solver stops when no rule is broken.
puzzle = problem.sample(1, torch.Generator().manual_seed(1), "test").p.long()
answers = solve_puzzles(hard.A, puzzle)
print(answers.remarks[0])

# %%
# Left: the puzzle, with the found digits in blue. Right: all 2016 couplings, rules in red. The hump on the left is the
# counterpart: different digits in one row attract each other.
figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.4), layout="constrained")
i, j = torch.triu_indices(64, 64, 1)
values = (soft + soft.T)[i, j]
axes[1].hist(
    [values[values <= low], values[values >= high]],
    bins=40,
    stacked=True,
    color=["tab:gray", "tab:red"],
)
axes[1].axvspan(low, high, color="0.93")
axes[1].set(
    title="A wide gap separates rules from the rest",
    xlabel="learned coupling",
    ylabel="pairs of bits",
    yscale="log",
)

for line in range(5):
    axes[0].axhline(line, color="k", lw=2 if line % 2 == 0 else 0.5)
    axes[0].axvline(line, color="k", lw=2 if line % 2 == 0 else 0.5)
for place, (hint, digit) in enumerate(
    zip(puzzle[0].tolist(), answers.grids[0].tolist(), strict=True)
):
    at = (place % 4 + 0.5, place // 4 + 0.5)
    axes[0].text(
        *at,
        digit,
        ha="center",
        va="center",
        fontsize=16,
        color="k" if hint else "tab:blue",
    )
axes[0].set(
    title="A puzzle, solved",
    xlim=(0, 4),
    ylim=(4, 0),
    aspect="equal",
    xticks=[],
    yticks=[],
)
plt.show()
