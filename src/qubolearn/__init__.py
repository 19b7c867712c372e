"""Learn QUBOs from data: problem -> p -> network -> A -> mask -> solver -> x*, x⁺ -> loss -> decode -> metric."""

from qubolearn.chips.topologies import topology
from qubolearn.errors import QubolearnError
from qubolearn.evaluation import Evaluation, evaluate
from qubolearn.networks.layer import QuboLayer
from qubolearn.networks.network import QuboNetwork
from qubolearn.problems import Instances, Problem, make_problem
from qubolearn.qubo import energies, from_bqm, from_ising, to_bqm, to_ising
from qubolearn.solvers import ExhaustiveSearch, QuboSolver, Solution, Solver, log_partition, make_solver, solve
from qubolearn.training.loop import train
from qubolearn.training.recipes import TrainConfig, preset
from qubolearn.training.runs import Run

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
