"""Learn QUBOs from data: problem -> p -> network -> A -> mask -> solver -> x*, x⁺ -> loss -> decode -> metric."""

from qubolearn.config import TrainConfig, preset
from qubolearn.errors import QubolearnError
from qubolearn.evaluation import Evaluation, evaluate
from qubolearn.layer import QuboLayer
from qubolearn.networks import QuboNetwork
from qubolearn.problems import Instances, Problem, make_problem
from qubolearn.qubo import energies, from_bqm, from_ising, to_bqm, to_ising
from qubolearn.runs import Run
from qubolearn.solvers import ExhaustiveSearch, QuboSolver, Solution, Solver, log_partition, make_solver, solve
from qubolearn.topologies import topology
from qubolearn.training import train

__all__ = [
    "Evaluation",
    "ExhaustiveSearch",
    "Instances",
    "Problem",
    "QuboLayer",
    "QuboNetwork",
    "QuboSolver",
    "QubolearnError",
    "Run",
    "Solution",
    "Solver",
    "TrainConfig",
    "energies",
    "evaluate",
    "from_bqm",
    "from_ising",
    "log_partition",
    "make_problem",
    "make_solver",
    "preset",
    "solve",
    "to_bqm",
    "to_ising",
    "topology",
    "train",
]
