"""Promise 7: the seed decides."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from benchmarks import threads
from child_training import CONFIG, PROBLEM
from quick_solvers import WEAK

from qubolearn.chips.topologies import topology
from qubolearn.evaluation import evaluate
from qubolearn.recipes import new_network, train
from qubolearn.solvers import make_solver


def qubos(batch: int, name: str) -> torch.Tensor:
    """Return QUBOs that a weak solver misses."""
    n = {"quantum": 11, "dwave-mock": 24}.get(name, 40)
    A = torch.randn(batch, n, n, generator=torch.Generator().manual_seed(1))
    return A * topology("pegasus", n).mask if name == "dwave-mock" else A  # no embedding to search for


def read_once(name: str, seed: int, A: torch.Tensor) -> torch.Tensor:
    """Return raw reads, since answers may be right anyway."""
    solver = make_solver(WEAK[name].format(seed=seed))
    return solver.sample(A) if name in ("annealing", "quantum") else solver(A, 1).states


@pytest.mark.parametrize("name", WEAK)
def test_the_seed_of_a_solver_decides_on_one_thread_and_on_two(name: str) -> None:
    A = qubos(24, name)
    found = []
    for count in (1, 2):
        with threads(count):
            found.append(make_solver(WEAK[name].format(seed=5))(A, 2))
    assert torch.equal(found[0].states, found[1].states)
    assert torch.equal(found[0].energies, found[1].energies)
    for key, value in found[0].info.items():
        other = found[1].info[key]
        assert (
            torch.equal(value, other)
            if isinstance(value, torch.Tensor)
            else key.startswith("qpu") or value == other
        )
    reads = [read_once(name, seed, A) for seed in (5, 5, 6)]
    assert torch.equal(reads[0], reads[1])
    assert not torch.equal(reads[0], reads[2])


@pytest.mark.parametrize("name", sorted(set(WEAK) - {"dwave-mock"}))  # a chip anneals a whole batch
def test_an_instance_has_its_own_randomness(name: str) -> None:
    A = qubos(6, name)
    solver = make_solver(WEAK[name].format(seed=5))
    assert torch.equal(solver(A, 2).states[:3], solver(A[:3], 2).states)
    repeated = read_once(name, 5, A.repeat_interleave(8, 0)).reshape(6, 8, -1)
    assert not torch.equal(repeated, repeated[:, :1].expand_as(repeated)), (
        "equal QUBOs of a batch draw other reads"
    )


@pytest.mark.parametrize("loss", ["hinge", "nll"])
def test_training_is_the_same_on_one_thread_and_on_two(loss: str) -> None:
    config = replace(CONFIG, epochs=3, loss=loss, hidden=78, solver="annealing:reads=20,sweeps=20")
    found = []
    for count in (1, 2):
        with threads(count):
            found.append(train(PROBLEM, config).state_dict())
            assert torch.get_num_threads() == count, "the caller's number is put back"
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


@pytest.mark.parametrize("solver", ["exhaustive", "annealing:reads=5,sweeps=5,seed=3"])
def test_scores_are_the_same_on_one_thread_and_on_two(solver: str) -> None:
    network = new_network(PROBLEM, CONFIG)
    scores = []
    for count in (1, 2):
        with threads(count):
            found = evaluate(network, PROBLEM, make_solver(solver), 300)
            scores.append((found.metrics, found.hamming))
    assert scores[0] == scores[1]
