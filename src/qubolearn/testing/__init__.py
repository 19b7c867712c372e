"""Check that solvers and problems, also those of third parties, keep their contracts; no test framework is needed.

>>> from qubolearn.problems.randgraph import RandGraph
>>> from qubolearn.solvers.exhaustive import ExhaustiveSearch
>>> check_solver(ExhaustiveSearch(), exact=True)
>>> check_problem(RandGraph(k=3))

A failed check raises ``AssertionError`` with the returned and the expected value.
"""

from qubolearn.testing.contracts import check_problem, check_solution, check_solver

__all__ = ["check_problem", "check_solution", "check_solver"]
