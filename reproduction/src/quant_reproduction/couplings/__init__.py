"""Where couplings pay: problems whose bits are right only together, beyond the paper's. One file per problem.

Each file trains and scores the methods of one problem, and its classical baseline, as tasks of the grid. Max-cut and
knapsack need no file: the grid's own tasks suffice.
"""
