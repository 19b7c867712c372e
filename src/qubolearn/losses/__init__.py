"""Losses: one equation each, as values to add up and multiply by numbers."""

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
