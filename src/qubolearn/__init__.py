"""Learn QUBOs from data: problem -> p -> network -> A -> solver -> x -> loss -> decode -> metric.

``__init__.pyi`` lists the public names. Each imports its module at first use, since importing torch takes seconds.
"""

import lazy_loader

from qubolearn.version import VERSION as __version__  # noqa: F401

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

#: Modules and the names that moved there; they work here, with a warning, until the next release.
_MOVED = {
    "qubolearn.chips.topologies": "Topology",
    "qubolearn.data": "SoftTargets",
    "qubolearn.evaluation": "Evaluation",
    "qubolearn.losses": "Contrastive GroupPseudoLikelihood HammingHinge L1 PersistentContrastive "
    "SoftLikelihood SparseFeatures",
    "qubolearn.networks": "MatchingBody PairwiseBody harden",
    "qubolearn.problems": "make_problem",
    "qubolearn.qubo": "from_ising to_cqm to_ising",
    "qubolearn.solvers": "QuboSolver auto_solver make_solver pair_marginals",
    "qubolearn.solvers.temperature": "effective_beta",
    "qubolearn.training.callbacks": "ClipGradients ProgressBar Training",
    "qubolearn.training.optimizers": "Cosine",
    "qubolearn.recipes": "Recipe preset train",
}
#: Names that were removed, and what to do instead.
_REMOVED = {
    "BlockLikelihood": "train with qubolearn.Hinge",
    "Log": "fit(folder=...) writes metrics.jsonl",
    "PersistentChains": "train with qubolearn.losses.PersistentContrastive",
    "TensorBoard": "docs/callbacks.md has a callback that sends scores elsewhere",
    "fit_many": "call qubolearn.fit for each network",
    "to_dqm": "use qubolearn.qubo.to_cqm",
}


def __getattr__(name: str) -> object:
    if name in _REMOVED:
        raise AttributeError(f"qubolearn.{name} is removed; {_REMOVED[name]}")
    home = next((module for module, names in _MOVED.items() if name in names.split()), None)
    if home is None:
        return _load(name)
    import importlib
    import warnings

    warnings.warn(f"qubolearn.{name} is now {home}.{name}", DeprecationWarning, stacklevel=2)
    return getattr(importlib.import_module(home), name)
