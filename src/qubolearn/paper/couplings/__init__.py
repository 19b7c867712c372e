"""Where couplings pay: problems whose bits are right only together, beyond the paper's. One file per problem.

Each file trains and scores the ways to learn of one problem, and its classical rival, as tasks of the grid: functions
of a seed and plain options that return metrics. Max-cut and knapsack need no file: the grid's own tasks suffice.
"""
