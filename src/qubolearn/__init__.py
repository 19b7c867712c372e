"""Learn QUBOs from data: problem -> p -> network -> A -> mask -> solver -> x*, x⁺ -> loss -> decode -> metric."""

from typing import TYPE_CHECKING

from qubolearn.lazy import lazily

# Importing torch takes seconds, so each name imports its module at its first use. A new name goes into both lists.
_HOMES = {
    "Evaluation": "qubolearn.evaluation",
    "ExhaustiveSearch": "qubolearn.solvers",
    "Instances": "qubolearn.problems",
    "Problem": "qubolearn.problems",
    "QuboLayer": "qubolearn.networks.layer",
    "QuboNetwork": "qubolearn.networks.network",
    "QuboSolver": "qubolearn.solvers",
    "QubolearnError": "qubolearn.errors",
    "Run": "qubolearn.training.runs",
    "Solution": "qubolearn.solvers",
    "Solver": "qubolearn.solvers",
    "TrainConfig": "qubolearn.training.recipes",
    "energies": "qubolearn.qubo",
    "evaluate": "qubolearn.evaluation",
    "from_bqm": "qubolearn.qubo",
    "from_ising": "qubolearn.qubo",
    "log_partition": "qubolearn.solvers",
    "make_problem": "qubolearn.problems",
    "make_solver": "qubolearn.solvers",
    "preset": "qubolearn.training.recipes",
    "solve": "qubolearn.solvers",
    "to_bqm": "qubolearn.qubo",
    "to_ising": "qubolearn.qubo",
    "topology": "qubolearn.chips.topologies",
    "train": "qubolearn.training.loop",
}
__all__ = list(_HOMES)

if TYPE_CHECKING:
    from qubolearn.chips.topologies import topology as topology
    from qubolearn.errors import QubolearnError as QubolearnError
    from qubolearn.evaluation import Evaluation as Evaluation
    from qubolearn.evaluation import evaluate as evaluate
    from qubolearn.networks.layer import QuboLayer as QuboLayer
    from qubolearn.networks.network import QuboNetwork as QuboNetwork
    from qubolearn.problems import Instances as Instances
    from qubolearn.problems import Problem as Problem
    from qubolearn.problems import make_problem as make_problem
    from qubolearn.qubo import energies as energies
    from qubolearn.qubo import from_bqm as from_bqm
    from qubolearn.qubo import from_ising as from_ising
    from qubolearn.qubo import to_bqm as to_bqm
    from qubolearn.qubo import to_ising as to_ising
    from qubolearn.solvers import ExhaustiveSearch as ExhaustiveSearch
    from qubolearn.solvers import QuboSolver as QuboSolver
    from qubolearn.solvers import Solution as Solution
    from qubolearn.solvers import Solver as Solver
    from qubolearn.solvers import log_partition as log_partition
    from qubolearn.solvers import make_solver as make_solver
    from qubolearn.solvers import solve as solve
    from qubolearn.training.loop import train as train
    from qubolearn.training.recipes import TrainConfig as TrainConfig
    from qubolearn.training.recipes import preset as preset
    from qubolearn.training.runs import Run as Run
else:
    __getattr__, __dir__ = lazily(__name__, _HOMES)
