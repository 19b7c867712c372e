"""A training in words: a recipe is one frozen value that is written beside every result, and presets fill it.

Strings live here, at the command line and in files. :mod:`qubolearn.training.build` turns them into values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, get_type_hints

from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.networks import Method, NetworkName
from qubolearn.problems import Problem, problem_type
from qubolearn.typed import check_option

__all__ = ["PRESETS", "LossName", "Preset", "Recipe", "preset", "recipe_for"]

# fmt: off
LossName = Literal[
    "gap", "hinge", "hamming", "nll", "soft-nll", "contrastive", "persistent", "pseudo", "group-pseudo", "block", "l1"
]
# fmt: on
PRESETS = ("best", "paper")
#: Bits up to which presets choose the exact likelihood: 2**24 states take about a millisecond each.
EXACT_BITS = 24


@dataclass(frozen=True)
class Recipe:
    """All choices of a training but the problem, in words and numbers; it is written beside every result.

    The string below each field says what it is. Values out of range and choices that contradict each other, such as
    couplers for the method diag, are a QubolearnError.

    >>> recipe = Recipe(epochs=10, loss="hinge", margin=0.5)
    >>> recipe.steps, recipe.topology
    (400, 'chimera')
    """

    method: Method = "quant"
    """quant learns a QUBO, diag one without couplers, pure the bits themselves."""
    network: NetworkName = "mlp"
    """mlp is the paper's network; matching and pairwise are permutation-aware, for graph matching and for nodes; grid
    is for labels of cells, keypoints for the keypoints of two pictures; shared is one A for all instances, whose
    couplings are rounded to two levels after training."""
    layers: int = 5
    """Layers of the network (L in the paper)."""
    hidden: int = 78
    """Width of its hidden layers (H in the paper)."""
    topology: str = "chimera"
    """Which entries of A exist: dense, diagonal, chimera, pegasus or zephyr; own are those that the problem names."""
    loss: LossName = "nll"
    """gap is the paper's (with L_unique); hinge and hamming are margins; nll is the likelihood, soft-nll that of the
    problem's soft targets; contrastive and persistent estimate its gradient from samples; pseudo needs neither sums
    nor a solver, nor does group-pseudo, for one-hot groups; block sums over the states of a block of bits; l1 is
    Pure's."""
    block: int = 16
    """Bits of a block of the loss block, 1 to 24; a step sums over all of its states."""
    solver: str = "exhaustive"
    """The solver of gap, hinge, hamming and contrastive, with options: 'annealing:reads=50,sweeps=200'."""
    epochs: int = 150
    """Passes over the training set."""
    batch_size: int = 141
    """Instances of one step."""
    instances: int = 5640
    """Size of the training set."""
    fresh: bool = False
    """Draw new training instances every epoch, where the problem can."""
    standardise: bool = True
    """Shift and scale each entry of p by its mean and deviation over the training set."""
    learning_rate: float = 1e-3
    """Adam's rate at its highest."""
    schedule: Literal["constant", "cosine"] = "constant"
    """How the rate goes: constant, or warm-up over 2 % of the steps and then a cosine to zero."""
    beta: float = 6.0
    """Inverse temperature of the likelihoods."""
    masking: float = 0.9
    """Largest share of groups that group-pseudo hides."""
    dropout: float = 0.0
    """Share of inputs and hidden features that the network mlp leaves out in training."""
    margin: float = 1.0
    """Margin of the hinge losses."""
    weight_unique: float = 1e-3
    """λ_unique of the paper's loss."""
    weight_mlp: float = 1e-4
    """λ_mlp of the paper's loss: sparse features."""
    validation: int = 846
    """Validation instances, scored about 20 times during training."""
    seed: int = 0
    """Fixes initial weights, training data and stochastic solvers."""

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for name, value in ((f.name, getattr(self, f.name)) for f in fields(self)):
            check_option(value, hints[name], name)
        for name in ("epochs", "batch_size", "instances", "validation", "layers", "hidden"):
            if getattr(self, name) < 1:
                raise QubolearnError(f"{name}={getattr(self, name)}; want at least 1")
        for name in ("learning_rate", "beta", "margin"):
            if not 0 < getattr(self, name) < 3e38:
                raise QubolearnError(f"{name}={getattr(self, name)}; want a positive number below 3e38")
        if not 1 <= self.block <= 24:
            raise QubolearnError(f"block={self.block}; want 1 to 24 bits, whose states are all summed")
        for name in ("weight_unique", "weight_mlp"):
            if getattr(self, name) < 0:
                raise QubolearnError(f"{name}={getattr(self, name)}; want at least 0")
        if not 0 <= self.masking <= 1 or not 0 <= self.dropout < 1:
            raise QubolearnError(f"masking={self.masking}, dropout={self.dropout}; want shares from 0 to 1")
        if self.seed < 0:
            raise QubolearnError(f"seed={self.seed}; want a whole number of at least 0")
        if self.method != "quant" and self.topology != "diagonal":
            raise QubolearnError(
                f"method {self.method!r} has no couplers, so its topology is 'diagonal', not {self.topology!r}"
            )
        if (self.method == "pure") != (self.loss == "l1"):
            raise QubolearnError(f"method {self.method!r} with loss {self.loss!r}: pure takes l1, and only pure does")

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches of one epoch; a set smaller than a batch is one step."""
        return max(1, self.instances // self.batch_size)

    @property
    def steps(self) -> int:
        return self.epochs * self.steps_per_epoch


class Preset(NamedTuple):
    """A problem and a recipe that belong together: a preset chooses the inputs of a problem as well as its training."""

    problem: Problem
    recipe: Recipe


def preset(name: str, problem: str | type[Problem], **options: Any) -> Preset:
    """The problem and the recipe that a preset chooses, with your own options in place of its choices.

    Args:
        name: ``best``, the best that we know, or ``paper``, the protocol of the QuAnt paper.
        problem: the name of a problem type, or its class.
        options: fields of the problem and of :class:`Recipe`, which win over the preset.

    Returns:
        The problem and the recipe, a pair that :func:`qubolearn.train` takes.

    >>> problem, recipe = preset("best", "randgraph", k=5, epochs=10)
    >>> problem, recipe.topology, recipe.epochs
    (RandGraph(k=5), 'pegasus', 10)

    Raises:
        QubolearnError: for unknown names and for choices that contradict each other.
    """
    kind = problem_type(problem) if isinstance(problem, str) else problem
    if not (isinstance(kind, type) and issubclass(kind, Problem)):
        raise QubolearnError(
            f"preset {name!r} chooses the options of a problem too: name its type and options, not {problem!r}"
        )
    if name in PRESETS:
        kind = kind.variant(name, options)
    own = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    known = [*own, *(field.name for field in fields(Recipe))]
    for option in options:
        if option not in known:
            raise unknown_name(f"option of {getattr(kind, 'name', kind.__name__)}", option, known)
    chosen = _chosen(name, kind, options)
    made = kind(**{key: value for key, value in {**chosen, **options}.items() if key in own})
    given = {key: value for key, value in options.items() if key not in own}
    return Preset(made, _recipe(made, chosen, given))


def recipe_for(name: str, problem: Problem, **options: Any) -> Recipe:
    """The recipe alone that a preset gives for a problem whose options are chosen already."""
    mine = {field.name: getattr(problem, field.name) for field in fields(problem)}  # type: ignore[arg-type]
    return _recipe(problem, _chosen(name, type(problem), mine), options)


def _chosen(name: str, kind: type[Problem], options: Mapping[str, Any]) -> Mapping[str, Any]:
    if name not in PRESETS:
        raise unknown_name("preset", name, PRESETS)
    try:
        return kind.preset(name, options)
    except KeyError as error:
        raise QubolearnError(f"{kind.name} has no preset {error}; use another of {', '.join(PRESETS)}") from error


def _recipe(problem: Problem, chosen: Mapping[str, Any], given: Mapping[str, Any]) -> Recipe:
    names = {field.name for field in fields(Recipe)}
    values = {**{key: value for key, value in chosen.items() if key in names}, **given}
    method = values.get("method", "quant")
    if method != "quant" and "topology" not in given:
        values["topology"] = "diagonal"
    if "loss" not in given:
        if method == "pure":
            values["loss"] = "l1"
        elif problem.bits > EXACT_BITS and values.get("loss", "nll") in ("nll", "soft-nll"):
            values["loss"] = "pseudo"
    return Recipe(**values)
