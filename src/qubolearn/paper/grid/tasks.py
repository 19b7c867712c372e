"""What a job can do: functions of a seed and plain options that return metrics as plain JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from qubolearn.chips.embedding import Chip, embed_report, find_tiles
from qubolearn.chips.topologies import topology
from qubolearn.evaluation import Evaluation, evaluate
from qubolearn.paper.baselines import evaluate_baseline
from qubolearn.paper.baselines.qgm import qgm
from qubolearn.paper.grid.figure_tasks import FIGURE_TASKS
from qubolearn.paper.grid.sampler_figures import second_best
from qubolearn.paper.grid.trained import device, time_of, trained, trained_model
from qubolearn.paper.problems.rotation import STAGES, Rotation
from qubolearn.paper.staged import evaluate_stages
from qubolearn.problems import make_problem
from qubolearn.randomness import stream
from qubolearn.solvers import make_solver

__all__ = ["TASKS"]

Tests = Sequence[Mapping[str, Any]]  # each with a label, and a solver or options of the problem to set
PLAIN: Tests = ({"label": "exhaustive"},)


def train_and_evaluate(
    seed: int,
    problem: Mapping[str, Any],
    protocol: str,
    overrides: Mapping[str, Any] | None = None,
    tests: Tests = PLAIN,
    instances: int = 2000,
) -> dict[str, Any]:
    """Train one network, then score it on unseen instances under each of the tests."""
    made = make_problem(**problem)
    network, seconds = trained(made, protocol, seed, overrides)
    metrics = time_of(seconds)
    for test in tests:
        changed = replace(made, **test.get("set", {}))  # type: ignore[type-var]
        found = evaluate(network, changed, _solver(test), test.get("instances", instances), seed, device=device())
        metrics[test["label"]] = _plain(found)
    return metrics


def train_stages(
    seed: int,
    problem: Mapping[str, Any],
    protocol: str,
    overrides: Mapping[str, Any] | None = None,
    tests: Tests = PLAIN,
    instances: int = 2000,
) -> dict[str, Any]:
    """Train one network per angle of a rotation, then score all three together."""
    whole = make_problem(**problem)
    assert isinstance(whole, Rotation)
    stages = [replace(whole, stage=stage) for stage in STAGES]
    networks, times = zip(*(trained(stage, protocol, seed, overrides) for stage in stages), strict=True)
    metrics = time_of(sum(times))
    for test in tests:
        changed = [replace(stage, **test.get("set", {})) for stage in stages]
        count = test.get("instances", instances)
        metrics[test["label"]] = _plain(evaluate_stages(networks, changed, _solver(test), count, seed, device=device()))
    return metrics


def baseline(
    seed: int, method: str, problem: Mapping[str, Any], tests: Tests = PLAIN, instances: int = 2000
) -> dict[str, Any]:
    """Score a method without learning on the same instances."""
    made = make_problem(**problem)
    metrics: dict[str, Any] = {}
    for test in tests:
        changed = replace(made, **test.get("set", {}))  # type: ignore[type-var]
        found = evaluate_baseline(method, changed, _solver(test), test.get("instances", instances), seed)
        metrics[test["label"]] = _plain(found)
    return metrics


def qgm_success(seed: int, variant: str, k: int, solver: str, instances: int = 141) -> dict[str, Any]:
    """How often one simulated quantum anneal of QGM's QUBO of a RandGraph instance ends in the right permutation."""
    data = make_problem("randgraph", k=k).sample(instances, stream(seed, "test"), "test")
    made = qgm(data.p.reshape(instances, k * k, k * k), variant)  # type: ignore[arg-type]
    solution = make_solver(solver)(made.A.to(device()), 1)
    right = (made.decode(solution.states[:, 0].cpu()) == data.answer).all(-1)
    success = solution.info["success_probability"]
    found = {"accuracy": right.double().mean().item(), "success_probability": success.double().mean().item()}
    return {"quantum": {**found, "source": solution.info["source"], "qubits": made.A.shape[1]}}


def second_best_energies(
    seed: int,
    problem: Mapping[str, Any],
    protocol: str,
    overrides: Mapping[str, Any],
    solvers: Mapping[str, str],
    instances: int = 141,
) -> dict[str, Any]:
    """Second-best energies that samplers (name -> solver) read, as a share of the first one's: mean and deviation."""
    model, seconds = trained_model(seed, problem, protocol, overrides)
    found = second_best(model, list(solvers.values()), instances, seed).numbers["solvers"]
    shares = {}
    for name, spec in solvers.items():
        row = found[spec]
        if row["instances"]:
            count = {"instances": row["instances"]}
            shares[name] = {"relative": row["mean"] / 100, "deviation": row["std"] / 100, **count}
    return {**time_of(seconds), **shares}


def count_qubits(seed: int, bits: int, pattern: str, chip: str, size: int) -> dict[str, Any]:
    """What QUBOs of so many bits cost on a chip: logical and physical qubits, and the longest chain.

    Of the shortest embedding that was found, which is the one to use; ``report`` has means over embeddings, too.
    """
    wanted = topology(pattern, bits)
    chains = [len(chain) for chain in find_tiles(bits, wanted.couplers, Chip.ideal(chip, size)).tiles[0]]
    report = asdict(embed_report(wanted, chip, size))
    return {"embedding": {"logical": bits, "physical": sum(chains), "chain": max(chains), "report": report}}


def _solver(test: Mapping[str, Any]) -> Any:
    return make_solver(test.get("solver", "exhaustive"))


def _plain(found: Evaluation) -> dict[str, Any]:
    flat = found.as_dict()
    return {name: list(value) if isinstance(value, tuple) else value for name, value in flat.items()}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "train": train_and_evaluate,
    "stages": train_stages,
    "baseline": baseline,
    "qgm": qgm_success,
    "second-best": second_best_energies,
    "qubits": count_qubits,
    **FIGURE_TASKS,
}
