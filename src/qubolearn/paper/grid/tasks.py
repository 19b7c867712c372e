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
from qubolearn.problems import Problem, make_problem
from qubolearn.randomness import stream
from qubolearn.solvers import Solver, make_solver

__all__ = ["TASKS"]

Options = Mapping[str, Any]
Score = Callable[[Any, Solver, int], Evaluation]  # (problem, solver, instances)


def _tested(
    problem: Problem, score: Score, tests: Sequence[Options] = ({"label": "exhaustive"},), instances: int = 2000
) -> dict[str, Any]:
    """Label -> metrics; each test may have a solver, a number of instances, and options of the problem to set."""
    found = {}
    for test in tests:
        changed = replace(problem, **test.get("set", {}))  # type: ignore[type-var]
        solver = make_solver(test.get("solver", "exhaustive"))
        flat = score(changed, solver, test.get("instances", instances)).as_dict()
        found[test["label"]] = {
            name: list(value) if isinstance(value, tuple) else value for name, value in flat.items()
        }
    return found


def train_and_evaluate(
    seed: int, problem: Options, protocol: str, overrides: Options | None = None, **testing: Any
) -> dict[str, Any]:
    """Train one network, then score it on unseen instances under each of the tests."""
    made = make_problem(**problem)
    network, seconds = trained(made, protocol, seed, overrides)
    score = lambda changed, solver, count: evaluate(network, changed, solver, count, seed, device=device())  # noqa: E731
    return {**time_of(seconds), **_tested(made, score, **testing)}


def train_stages(
    seed: int, problem: Options, protocol: str, overrides: Options | None = None, **testing: Any
) -> dict[str, Any]:
    """Train one network per angle of a rotation, then score all three together."""
    whole = make_problem(**problem)
    assert isinstance(whole, Rotation)
    made = [trained(replace(whole, stage=stage), protocol, seed, overrides) for stage in STAGES]
    networks, times = zip(*made, strict=True)

    def score(changed: Rotation, solver: Solver, count: int) -> Evaluation:
        stages = [replace(changed, stage=stage) for stage in STAGES]
        return evaluate_stages(networks, stages, solver, count, seed, device=device())

    return {**time_of(sum(times)), **_tested(whole, score, **testing)}


def baseline(seed: int, method: str, problem: Options, **testing: Any) -> dict[str, Any]:
    """Score a method without learning on the same instances."""
    score = lambda changed, solver, count: evaluate_baseline(method, changed, solver, count, seed)  # noqa: E731
    return _tested(make_problem(**problem), score, **testing)


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
    """What QUBOs of this number of bits cost on a chip: logical and physical qubits, and the longest chain.

    Of the shortest embedding that was found, which is the one to use; ``report`` has means over embeddings, too.
    """
    wanted = topology(pattern, bits)
    chains = [len(chain) for chain in find_tiles(bits, wanted.couplers, Chip.ideal(chip, size)).tiles[0]]
    report = asdict(embed_report(wanted, chip, size))
    return {"embedding": {"logical": bits, "physical": sum(chains), "chain": max(chains), "report": report}}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "train": train_and_evaluate,
    "stages": train_stages,
    "baseline": baseline,
    "qgm": qgm_success,
    "second-best": second_best_energies,
    "qubits": count_qubits,
    **FIGURE_TASKS,
}
