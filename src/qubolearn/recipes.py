"""Recipes: the choices of a training run as strings and numbers, for JSON.

Options are those in the signatures of losses, the MLP, Adam and ``fit``, which also
check them. Importing this module does not import torch.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, get_args, get_type_hints

from qubolearn.errors import QubolearnError, check_counts, convert, unknown_name
from qubolearn.networks import Head, network_entry
from qubolearn.problems import Problem, problem_type

if TYPE_CHECKING:
    import torch
    from torch import nn

    from qubolearn.chips.topologies import Topology
    from qubolearn.losses import Loss
    from qubolearn.runs import Run
    from qubolearn.training.callbacks import Callback
    from qubolearn.training.optimizers import Adam

__all__ = [
    "Recipe",
    "evaluation_steps",
    "make_loss",
    "make_optimizer",
    "new_network",
    "preset",
    "recipe_for",
    "train",
]

#: Maximum bits for the exact likelihood in presets.
EXACT_BITS = 24
#: Scorings of validation instances, more early on.
SCORINGS = 20
#: Old names of fields and heads.
OLD_NAMES = {"standardise": "standardize", "method": "head"}
OLD_HEADS = {"quant": "coupled", "diag": "uncoupled", "pure": "direct"}
Sampled = Literal["contrastive", "persistent"]
LossName = Literal["gap", "hinge", "hamming", "nll", "soft-nll", Sampled, "pseudo", "group-pseudo", "l1"]
#: Losses of qubolearn.losses, in the order of their names.
NAMES = "Gap Hinge HammingHinge Likelihood SoftLikelihood Contrastive PersistentContrastive PseudoLikelihood"
LOSSES = dict(zip(get_args(LossName), [*NAMES.split(), "GroupPseudoLikelihood", "L1"], strict=True))
#: Arguments of ``fit`` in a recipe, with their defaults.
FIT = {"epochs": 150, "batch_size": 141, "instances": 5640, "validation": 846, "seed": 0}
FIT |= {"fresh": False, "standardize": True}


def _with_options(recipe: Any) -> Any:
    """Add a field per documented number of losses, MLP and Adam, and per name in ``FIT``.

    They are read from the source, because importing the classes imports torch.
    """
    here = Path(__file__).parent
    files = *here.glob("losses/*.py"), *map(here.joinpath, ("networks/heads.py", "training/optimizers.py"))
    found = [node for file in (*files, here / "training/fit.py") for node in ast.parse(file.read_text()).body]
    nodes = {node.name: node for node in found if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    recipe.helps = {}
    for owner in (*LOSSES.values(), "MLP", "Adam", "fit"):
        helps = re.findall(r"^    (\w+): ([^.;(]*)", ast.get_docstring(nodes[owner]) or "", re.M)
        numbers = FIT if owner == "fit" else _numbers(nodes[owner])
        for name, text in helps:
            if name in numbers and name not in recipe.__annotations__:
                recipe.__annotations__[name] = type(numbers[name])
                recipe.helps[name] = " ".join(text.split())
                setattr(recipe, name, numbers[name])
    return recipe


def _numbers(node: ast.AST) -> dict[str, float]:
    """Return the fields and arguments whose defaults are numbers."""
    given: list[tuple[str, Any]] = []
    for each in ast.walk(node):
        if isinstance(each, ast.AnnAssign):
            given.append((ast.unparse(each.target), each.value))
        elif isinstance(each, ast.arguments):
            names = [argument.arg for argument in each.args]
            given += zip(reversed(names), reversed(each.defaults), strict=False)
    found = [(name, getattr(node, "value", None)) for name, node in given]
    return {name: value for name, value in found if isinstance(value, (int, float))}


@dataclass(frozen=True)
@_with_options
class Recipe:
    """All choices of a training run except the problem.

    >>> recipe = Recipe(epochs=10, loss="hinge", margin=0.5)
    >>> recipe.steps, recipe.topology, recipe.hidden
    (400, 'chimera', 78)
    """

    head: Head = "coupled"
    """head of the network: coupled predicts a QUBO, uncoupled one without couplers, direct the bits themselves"""
    network: str = "mlp"
    """mlp, matching or pairwise (permutation-aware), shared (one A for all instances), or a registered network"""
    topology: str = "chimera"
    """entries of A: dense, diagonal, chimera, pegasus, zephyr, or own for those of the problem"""
    loss: LossName = "nll"
    """nll is the exact likelihood, soft-nll that of soft targets; contrastive and persistent estimate its gradient from
    samples; pseudo and group-pseudo need neither all states nor a solver; gap, hinge and hamming are margins; l1
    is for direct"""
    weight_mlp: float = 1e-4
    """weight of the sparsity of hidden features"""
    solver: str = "exhaustive"
    """solver of gap, hinge, hamming and contrastive, with options: annealing:reads=50,sweeps=200"""
    schedule: Literal["constant", "cosine"] = "constant"
    """constant, or a warm-up over 2 % of the steps and then a cosine to zero"""
    helps: ClassVar[dict[str, str]]  # the help of the other fields

    if TYPE_CHECKING:

        def __init__(self, **choices: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for name, value in vars(self).items():
            convert(value, hints[name], name)
        network_entry(self.network)
        counts = ("epochs", "batch_size", "instances", "validation", "layers", "hidden")
        check_counts(**{name: getattr(self, name) for name in counts})
        if self.weight_mlp < 0 or self.seed < 0:
            raise QubolearnError(f"weight_mlp={self.weight_mlp}, seed={self.seed}; expected at least 0")
        if not 0 <= self.dropout < 1:
            raise QubolearnError(f"dropout={self.dropout}; expected a share from 0 to 1")
        if self.head != "coupled" and self.topology != "diagonal":
            raise QubolearnError(f"topology={self.topology!r}, but head={self.head!r} needs 'diagonal'")
        if (self.head == "direct") != (self.loss == "l1"):
            raise QubolearnError(f"head={self.head!r} with loss={self.loss!r}: l1 is the loss of direct")
        make_optimizer(self)
        for kind in map(_loss_class, LOSSES):  # also options of other losses
            if not _required(kind):
                kind(**_options(kind, self))

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches of one epoch; a set smaller than a batch is one step."""
        return int(max(1, self.instances // self.batch_size))

    @property
    def steps(self) -> int:
        """Steps of all epochs."""
        return int(self.epochs * self.steps_per_epoch)


def upgrade(training: Mapping[str, Any], version: object, problem: Problem) -> dict[str, Any]:
    """Return the recipe of an old file with current names."""
    training = renamed(training)
    soft = type(problem).soft_targets is not Problem.soft_targets
    if str(version) == "1" and training.get("loss") == "nll" and soft:
        training["loss"] = "soft-nll"
    return training


def renamed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of an old recipe with current names."""
    found = {OLD_NAMES.get(name, name): value for name, value in options.items()}
    if isinstance(head := found.get("head"), str):
        found["head"] = OLD_HEADS.get(head, head)
    return found


class Preset(NamedTuple):
    """A problem and a recipe that belong together."""

    problem: Problem
    recipe: Recipe


def preset(name: str, problem: str | type[Problem], **options: Any) -> Preset:
    """Return the problem and the recipe of a preset, with your options.

    Args:
        name: ``best``, or another name in the problem's ``presets``.
        problem: the name of a problem type, or its class.
        options: fields of the problem and of :class:`Recipe`, which override the preset.

    >>> problem, recipe = preset("best", "randgraph", k=5, epochs=10)
    >>> problem, recipe.topology, recipe.epochs
    (RandGraph(k=5), 'pegasus', 10)
    """
    options = renamed(options)
    kind = problem_type(problem) if isinstance(problem, str) else problem
    if not (isinstance(kind, type) and issubclass(kind, Problem)):
        raise QubolearnError(f"problem={problem!r}; expected the name or class of a problem, and its options")
    kind = kind.variant(name, options)
    own = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    known = [*own, *(each.name for each in fields(Recipe))]
    for option in options.keys() - set(known):
        raise unknown_name(f"option of {getattr(kind, 'name', kind.__name__)}", option, known)
    chosen = _chosen(name, kind, options)
    made = kind(**{key: value for key, value in {**chosen, **options}.items() if key in own})
    given = {key: value for key, value in options.items() if key not in own}
    return Preset(made, _recipe(made, chosen, given))


def recipe_for(name: str | Mapping[str, Any], problem: Problem, **options: Any) -> Recipe:
    """Return the recipe of a preset, by name or choices, for a problem."""
    mine = {each.name: getattr(problem, each.name) for each in fields(problem)}  # type: ignore[arg-type]
    return _recipe(problem, _chosen(name, type(problem), mine), renamed(options))


def _chosen(name: str | Mapping[str, Any], kind: type[Problem], mine: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return renamed(kind.preset(name, mine) if isinstance(name, str) else name)
    except KeyError as error:
        raise unknown_name(f"preset of {kind.name}", str(name), kind.presets) from error


def _recipe(problem: Problem, chosen: Mapping[str, Any], given: Mapping[str, Any]) -> Recipe:
    names = {each.name for each in fields(Recipe)}
    values = {**{key: value for key, value in chosen.items() if key in names}, **given}
    head = values.get("head", "coupled")
    if head != "coupled" and "topology" not in given:
        values["topology"] = "diagonal"
    if "loss" not in given:
        if head == "direct":
            values["loss"] = "l1"
        elif problem.bits > EXACT_BITS and values.get("loss", "nll") in ("nll", "soft-nll"):
            values["loss"] = "pseudo"
    return Recipe(**values)


def _loss_class(name: str) -> Any:
    return getattr(import_module("qubolearn.losses"), LOSSES[name])


def _options(kind: Callable[..., Any], recipe: Recipe) -> dict[str, Any]:
    known = vars(recipe)
    return {name: known[name] for name in signature(kind).parameters if name in known and name != "schedule"}


def _required(kind: Callable[..., Any]) -> list[str]:
    return [name for name, each in signature(kind).parameters.items() if each.default is Parameter.empty]


def make_loss(recipe: Recipe, problem: Problem | None = None) -> Loss:
    """Return the loss of a recipe, with the problem's groups if needed."""
    from qubolearn.losses import SparseFeatures

    kind = _loss_class(recipe.loss)
    needed = {name: _attribute(problem, name, f"loss {recipe.loss!r}") for name in _required(kind)}
    loss: Loss = kind(**needed, **_options(kind, recipe))
    return loss + recipe.weight_mlp * SparseFeatures() if recipe.weight_mlp else loss


def make_optimizer(recipe: Recipe) -> Adam:
    from qubolearn.training.optimizers import Adam, Cosine

    return Adam(schedule=Cosine() if recipe.schedule == "cosine" else None, **_options(Adam, recipe))


def new_network(problem: Problem, recipe: Recipe) -> nn.Module:
    """Return the untrained network of a recipe; the seed fixes its weights."""
    from qubolearn.networks import HEADS, MLP, MatchingBody, PairwiseBody, SharedQubo
    from qubolearn.random import derive_seed, fork_seeded_rng

    if recipe.network == "shared":  # its weights start at 0
        return SharedQubo(problem.bits, levels=2, **getattr(problem, "shared", {}))
    with fork_seeded_rng(derive_seed(recipe.seed, "weights")):
        if (registered := network_entry(recipe.network)) is not None:
            made: nn.Module = registered(problem, recipe)
            return made
        pattern = pattern_of(problem, recipe)
        if recipe.network == "mlp":
            body: nn.Module = MLP(problem.input_size, pattern.size, **_options(MLP, recipe))
        else:
            kind = MatchingBody if recipe.network == "matching" else PairwiseBody
            body = kind(problem, pattern, recipe.hidden)
    inputs = None if recipe.network == "pairwise" else problem.input_size  # features are scaled
    return HEADS[recipe.head](body, pattern, inputs, bound=True)


def pattern_of(problem: Problem, recipe: Recipe) -> Topology:
    """Return the topology of a recipe or problem."""
    from qubolearn.chips.topologies import topology

    if recipe.topology != "own":
        return topology(recipe.topology, problem.bits)
    made: Topology = _attribute(problem, "topology", "topology 'own'")()
    return made


def _attribute(problem: Problem | None, name: str, what: str) -> Any:
    found = getattr(problem, name, None)
    if found is None:
        raise QubolearnError(f"{what} needs a problem with {name!r}, which {problem} lacks; choose another")
    return found


def evaluation_steps(recipe: Recipe) -> list[int]:
    """Return the steps after which to score, with the last one."""
    if recipe.network == "shared":  # half-learned rules take all sweeps
        return [recipe.steps]
    return sorted({math.ceil(recipe.steps * (i / SCORINGS) ** 2) for i in range(1, SCORINGS + 1)})


def fit_arguments(problem: Problem, recipe: Recipe) -> dict[str, Any]:
    from qubolearn.solvers import make_solver

    return {
        **{name: getattr(recipe, name) for name in FIT},
        "network": new_network(problem, recipe),
        "data": problem,
        "loss": make_loss(recipe, problem),
        "optimizer": make_optimizer(recipe),
        "solver": make_solver(recipe.solver),
        "validation": None if problem.available("validation") == 0 else recipe.validation,
        "score_after": evaluation_steps(recipe),
        "progress": False,
    }


def train(
    problem: Problem,
    recipe: Recipe,
    run: Run | None = None,
    device: torch.device | str = "cpu",
    callbacks: Sequence[Callback] = (),
) -> nn.Module:
    """Train the network of a recipe for a problem; return it in evaluation mode.

    Args:
        problem: draws the instances.
        recipe: all other choices.
        run: stores the run, which can be resumed.
        device: cpu or cuda.
        callbacks: as for :func:`qubolearn.fit`.

    >>> train(*preset("best", "randgraph", k=2, epochs=1, instances=200, hidden=8)).n
    2
    """
    from qubolearn.training.fit import fit

    folder = run.begun() if run else None
    return fit(**fit_arguments(problem, recipe), callbacks=callbacks, folder=folder, device=device).network
