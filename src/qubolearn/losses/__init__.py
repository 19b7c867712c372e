"""A, x̂ -> one value per instance. One equation each, as a value that can be added up and multiplied by numbers."""

from qubolearn.losses.contract import (
    Batch,
    Contrastive,
    EnergyLoss,
    Likelihood,
    Loss,
    SoftLikelihood,
    Sum,
    Terms,
    as_loss,
)
from qubolearn.losses.local import L1, GroupPseudoLikelihood, PseudoLikelihood, SparseFeatures
from qubolearn.losses.margins import Gap, HammingHinge, Hinge
from qubolearn.losses.persistent import PersistentContrastive

__all__ = [
    "L1",
    "Batch",
    "Contrastive",
    "EnergyLoss",
    "Gap",
    "GroupPseudoLikelihood",
    "HammingHinge",
    "Hinge",
    "Likelihood",
    "Loss",
    "PersistentContrastive",
    "PseudoLikelihood",
    "SoftLikelihood",
    "SparseFeatures",
    "Sum",
    "Terms",
    "as_loss",
]
