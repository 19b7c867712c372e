"""Learn QUBOs from data: problem -> p -> network -> A -> mask -> solver -> x*, x⁺ -> loss -> decode -> metric."""

from typing import TYPE_CHECKING

from qubolearn.lazy import lazily
from qubolearn.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:  # the public names; importing torch takes seconds, so each imports its module at its first use
    from qubolearn.chips.topologies import Topology as Topology
    from qubolearn.chips.topologies import topology as topology
    from qubolearn.errors import QubolearnError as QubolearnError
    from qubolearn.evaluation import Evaluation as Evaluation
    from qubolearn.evaluation import evaluate as evaluate
    from qubolearn.losses import L1 as L1
    from qubolearn.losses import Batch as Batch
    from qubolearn.losses import BlockLikelihood as BlockLikelihood
    from qubolearn.losses import Contrastive as Contrastive
    from qubolearn.losses import EnergyLoss as EnergyLoss
    from qubolearn.losses import Gap as Gap
    from qubolearn.losses import GroupPseudoLikelihood as GroupPseudoLikelihood
    from qubolearn.losses import HammingHinge as HammingHinge
    from qubolearn.losses import Hinge as Hinge
    from qubolearn.losses import Likelihood as Likelihood
    from qubolearn.losses import Loss as Loss
    from qubolearn.losses import PersistentContrastive as PersistentContrastive
    from qubolearn.losses import PseudoLikelihood as PseudoLikelihood
    from qubolearn.losses import SoftLikelihood as SoftLikelihood
    from qubolearn.losses import SparseFeatures as SparseFeatures
    from qubolearn.losses import Terms as Terms
    from qubolearn.networks import MLP as MLP
    from qubolearn.networks import MatchingBody as MatchingBody
    from qubolearn.networks import PairwiseBody as PairwiseBody
    from qubolearn.networks import QuboLayer as QuboLayer
    from qubolearn.networks import QuboNetwork as QuboNetwork
    from qubolearn.networks import SharedQubo as SharedQubo
    from qubolearn.networks import harden as harden
    from qubolearn.problems import Instances as Instances
    from qubolearn.problems import Problem as Problem
    from qubolearn.problems import RightAnswers as RightAnswers
    from qubolearn.problems import SoftTargets as SoftTargets
    from qubolearn.problems import make_problem as make_problem
    from qubolearn.problems.arrays import Arrays as Arrays
    from qubolearn.qubo import Groups as Groups
    from qubolearn.qubo import SparseQubo as SparseQubo
    from qubolearn.qubo import energies as energies
    from qubolearn.qubo import from_bqm as from_bqm
    from qubolearn.qubo import from_ising as from_ising
    from qubolearn.qubo import to_bqm as to_bqm
    from qubolearn.qubo import to_cqm as to_cqm
    from qubolearn.qubo import to_dqm as to_dqm
    from qubolearn.qubo import to_ising as to_ising
    from qubolearn.solvers import DimodSolver as DimodSolver
    from qubolearn.solvers import DWaveSolver as DWaveSolver
    from qubolearn.solvers import ExhaustiveSearch as ExhaustiveSearch
    from qubolearn.solvers import QuantumAnnealing as QuantumAnnealing
    from qubolearn.solvers import QubolearnSampler as QubolearnSampler
    from qubolearn.solvers import QuboSolver as QuboSolver
    from qubolearn.solvers import SimulatedAnnealing as SimulatedAnnealing
    from qubolearn.solvers import Solution as Solution
    from qubolearn.solvers import Solver as Solver
    from qubolearn.solvers import auto_solver as auto_solver
    from qubolearn.solvers import log_partition as log_partition
    from qubolearn.solvers import make_solver as make_solver
    from qubolearn.solvers import pair_marginals as pair_marginals
    from qubolearn.solvers import solve as solve
    from qubolearn.solvers.auto import AutoSolver as AutoSolver
    from qubolearn.solvers.chains import PersistentChains as PersistentChains
    from qubolearn.solvers.temperature import effective_beta as effective_beta
    from qubolearn.solvers.tempering import ParallelTempering as ParallelTempering
    from qubolearn.training.callbacks import Callback as Callback
    from qubolearn.training.callbacks import Checkpoint as Checkpoint
    from qubolearn.training.callbacks import ClipGradients as ClipGradients
    from qubolearn.training.callbacks import EarlyStopping as EarlyStopping
    from qubolearn.training.callbacks import Log as Log
    from qubolearn.training.callbacks import ProgressBar as ProgressBar
    from qubolearn.training.callbacks import TensorBoard as TensorBoard
    from qubolearn.training.fit import Training as Training
    from qubolearn.training.fit import fit as fit
    from qubolearn.training.many import fit_many as fit_many
    from qubolearn.training.optimizers import Adam as Adam
    from qubolearn.training.optimizers import Cosine as Cosine
    from qubolearn.training.pretrained import pretrained as pretrained
    from qubolearn.training.recipes import Recipe as Recipe
    from qubolearn.training.recipes import preset as preset
    from qubolearn.training.runs import Run as Run
    from qubolearn.training.train import train as train
else:
    _HOMES, __getattr__, __dir__ = lazily(__name__)
    __all__ = sorted(_HOMES)
