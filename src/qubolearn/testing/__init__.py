"""The contracts of solvers and problems as checks, for third parties too; they need no test framework.

>>> from qubolearn.problems.randgraph import RandGraph
>>> from qubolearn.solvers.exhaustive import ExhaustiveSearch
>>> check_solver(ExhaustiveSearch(), exact=True)
>>> check_problem(RandGraph(k=3))

A check that fails raises ``AssertionError`` and says what was returned and what the contract wants.
"""

from qubolearn.testing.contracts import check_problem, check_solution, check_solver

__all__ = ["check_problem", "check_solution", "check_solver"]
