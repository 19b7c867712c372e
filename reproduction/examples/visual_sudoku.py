"""Solve Sudokus whose hints are images: a reader's probabilities are biases, learned rules are couplings.

Needs scikit-learn for its 8 x 8 images of digits: pip install 'qubolearn[sklearn]'
"""

from qubolearn import evaluate
from qubolearn.recipes import preset, train

problem, recipe = preset("best", "visual-sudoku", size=4, hints=8)
network = train(problem, recipe)  # the rules, from solved grids
rules = network.hardened()
low, high = rules.gaps[0]
print(f"kept {rules.counts[-1]} couplings, with a gap between {low:.2f} and {high:.2f}")

# `read`: all images of a puzzle are read correctly; `accuracy`: all cells are correct, by rules and images together
print(evaluate(network, problem, instances=200).metrics)
