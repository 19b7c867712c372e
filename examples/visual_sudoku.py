"""Hints as pictures: a reader's probabilities as biases and learned rules as couplings; the solver corrects the reader.

Needs scikit-learn, whose 8 x 8 pictures of digits are read: pip install 'qubolearn[sklearn]'
"""

import qubolearn as ql

problem, recipe = ql.preset("best", "visual-sudoku", size=4, hints=8)
network = ql.train(problem, recipe)  # the rules, from solved grids
rules = network.hardened()
print(f"kept {rules.counts[-1]} couplings, told apart between {rules.gaps[0][0]:.2f} and {rules.gaps[0][1]:.2f}")

# `read`: all pictures of a puzzle read right one by one; `accuracy`: all cells right, by rules and pictures together
print(ql.evaluate(network, problem, instances=200).metrics)
