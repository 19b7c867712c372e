"""Boltzmann machines from samples: spin glasses, bars and stripes, RNA.

``ten lines`` is Adam on the same objective by hand. GRBM is that of
dwave-pytorch-plugin with its persistent chains.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks import Record, threads, timed
from qubolearn import Groups, energies
from qubolearn.boltzmann import BoltzmannMachine
from qubolearn.qubo import all_states, from_ising, to_ising
from qubolearn.solvers.contract import instance_seeds
from qubolearn.solvers.tempering import move_chains

#: Secondary structure of the reference of RF00167 (PDB 1Y26).
STRUCTURE = "(((((((((...((((((.........))))))........((((((.......))))))..)))))))))"
SYMBOLS = "ACGU-"


def draw(A: Tensor, count: int, seed: int) -> Tensor:
    """Return exact draws ``[count, n]`` of one small QUBO."""
    states = all_states(A.shape[2], dtype=torch.float64)
    chances = (-energies(A, states[None])[0]).softmax(0)
    generator = torch.Generator().manual_seed(seed)
    return states[torch.multinomial(chances, count, replacement=True, generator=generator)]


def spin_glass(side: int, beta: float, seed: int) -> tuple[Tensor, Tensor]:
    """Return couplings ±β of spins on a torus, and the QUBO."""
    sites, J = torch.arange(side * side).reshape(side, side), torch.zeros(side * side, side * side).double()
    signs = torch.randint(0, 2, (2, side * side), generator=torch.Generator().manual_seed(seed)) * 2.0 - 1
    for axis in (0, 1):
        ends = torch.stack([sites.flatten(), sites.roll(-1, axis).flatten()]).sort(0).values
        J[ends[0], ends[1]] = beta * signs[axis].double()
    return J, from_ising(J[None], torch.zeros(1, side * side).double())[0]


def chains(A: Tensor, count: int) -> Tensor:
    """Return states of Markov chains after 2,000 sweeps."""
    generator = torch.Generator().manual_seed(0)
    states = torch.randint(0, 2, (len(A), count, A.shape[2]), generator=generator).to(torch.int8)
    move_chains(A, states, [1.0] * count, 2000, instance_seeds(0, len(A)), None)
    return states.double()


def wrong_couplings(machine: BoltzmannMachine, J: Tensor) -> int:
    """Count the spin pairs whose rounded coupling is wrong."""
    found, beta = to_ising(machine.couplings_[None]).J[0], J.abs().max()
    return int(((found / beta).round().sign() != J.sign()).triu(1).sum())


def low_temperature(seed: int, method: Any) -> int:
    """Return the wrong pairs of 16 ±J spins at β = 1.5, from 100,000 samples."""
    J, A = spin_glass(4, 1.5, seed)
    return wrong_couplings(BoltzmannMachine(method=method, steps=1000).fit(draw(A, 100_000, seed)), J)


def bars_and_stripes(side: int) -> Tensor:
    """Return all images of bars or stripes as bits."""
    lines = all_states(side, dtype=torch.float64)
    return torch.cat([lines.repeat_interleave(side, 1), lines.repeat(1, side)]).unique(dim=0)


def rna_family(folder: Path) -> tuple[Tensor, Tensor, set[tuple[int, int]]]:
    """Return one-hot sequences of RF00167, weights, and base pairs."""
    records = [part.split("\n", 1) for part in (folder / "MSA_RF00167.fa").read_text().split(">")[1:]]
    rows = {name: "".join(text.split()).replace("N", "-") for name, text in records}
    (reference,) = (row for name, row in rows.items() if "REFERENCE" in name)
    kept = [k for k, symbol in enumerate(reference) if symbol != "-"]
    codes = torch.tensor([[SYMBOLS.index(row[k]) for k in kept] for row in rows.values()])
    X = torch.nn.functional.one_hot(codes, len(SYMBOLS)).flatten(1).float()
    alike = (X @ X.T / len(kept) >= 0.8).sum(1)  # similar sequences share one vote
    opened, pairs = list[int](), set[tuple[int, int]]()
    for k, mark in enumerate(STRUCTURE):
        if mark == "(":
            opened.append(k)
        elif mark == ")":
            pairs.add((opened.pop(), k))
    return X, 1 / alike, pairs


def contact_scores(A: Tensor, size: int) -> Tensor:
    """Return Frobenius norms in the zero-sum gauge, average product corrected.

    Gaps do not count, as in plmDCA (Ekeberg et al., Physical Review E 2013).
    """
    blocks = (A.triu(1) + A.triu(1).T).reshape(len(A) // size, size, -1, size).transpose(1, 2)
    for axis in (2, 3):
        blocks = blocks - blocks.mean(axis, keepdim=True)
    norms = blocks[:, :, :-1, :-1].norm(dim=(2, 3)).fill_diagonal_(0)
    mean = norms.sum(1) / (len(norms) - 1)
    return norms - torch.outer(mean, mean) / mean.mean()


def by_hand(X: Tensor, weights: Tensor, l2: float, steps: int = 100) -> Tensor:
    """Return A of a Potts model by Adam on the pseudo-likelihood."""
    size, n = len(SYMBOLS), X.shape[1]
    W, h = torch.zeros(n, n, requires_grad=True), torch.zeros(n, requires_grad=True)
    apart = 1 - torch.block_diag(*[torch.ones(size, size)] * (n // size))
    optimizer, codes = torch.optim.Adam([W, h], 0.05), X.reshape(len(X), -1, size).argmax(2)
    for _ in range(steps):
        J = (W + W.T) / 2 * apart
        logits = -(X @ J + h).reshape(len(X), -1, size)
        losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), codes, reduction="none").sum(1)
        optimizer.zero_grad()
        (weights @ losses + l2 * (J.triu(1).square().sum() + h.square().sum())).backward()
        optimizer.step()
    return (J.triu(1) + h.diag()).detach().double()


def objective(A: Tensor, X: Tensor, weights: Tensor, l2: float) -> float:
    """Return the penalized pseudo-likelihood that both minimize."""
    size, J = len(SYMBOLS), A.triu(1)
    logits = -(X.double() @ (J + J.T) + A.diagonal()).reshape(len(X), -1, size)
    losses = logits.logsumexp(2) - (logits * X.reshape(logits.shape)).sum(2)
    return float(weights.double() @ losses.sum(1) + l2 * A.square().sum())


def rna(quick: bool) -> Iterator[Record]:
    """Yield base pairs among the 21 strongest couplings, objective and seconds."""
    X, weights, pairs = rna_family(Path(os.environ.get("QUBOLEARN_DATA", "data")) / "rna")
    weights, l2, groups = weights / weights.sum(), 0.01, Groups.consecutive(X.shape[1] // 5, 5)
    machine = BoltzmannMachine(groups=groups, method="pseudo", l2=l2, steps=60)
    ways = {"ours": lambda: machine.fit(X, weights).couplings_, "ten lines": lambda: by_hand(X, weights, l2)}
    with threads(1):
        for name, work in list(ways.items())[: 1 if quick else None]:
            seconds, A = timed(work, time.process_time)
            scores = contact_scores(A, 5)
            i, j = torch.triu_indices(len(scores), len(scores), 4)
            top = scores[i, j].topk(len(pairs)).indices
            hits = len(pairs & set(zip(i[top].tolist(), j[top].tolist(), strict=True)))
            record = {"data": "RNA RF00167", "method": name, "base_pairs": hits, "of": len(pairs)}
            yield {**record, "objective": objective(A, X, weights, l2), "seconds": seconds}


def from_samples(quick: bool) -> Iterator[Record]:
    """Yield log-likelihood and seconds on a ±J torus, ours and GRBM's."""
    side, count = (4, 1000) if quick else (12, 4000)
    J, A = spin_glass(side, 0.5, 0)
    X, test = chains(torch.cat([A, A]), count)
    with threads(1):
        for name in ("pseudo", "screening", "persistent", "GRBM"):
            machine = BoltzmannMachine(J.nonzero().T, method="pseudo" if name == "GRBM" else name)
            work = partial(grbm, J, X, 300 if quick else 500) if name == "GRBM" else partial(machine.fit, X)
            seconds, found = timed(work, time.process_time)
            if name == "GRBM":
                machine.couplings_, machine.visible_, machine._log_z = found, side * side, None
            likelihood, error = machine.score(test), machine.log_partition().error
            record = {"data": f"±J torus, {side * side} spins", "method": name, "log_likelihood": likelihood}
            yield {**record, "error": error, "wrong_pairs": wrong_couplings(machine, J), "seconds": seconds}
        for name in () if quick else ("exact", "pseudo", "screening"):
            wrong = [low_temperature(seed, name) for seed in range(5)]
            record = {"data": "±J torus, 16 spins, β = 1.5", "method": name}
            yield {**record, "recovered": f"{wrong.count(0)} of 5"}
        for hidden in (4,) if quick else (4, 6):
            images = bars_and_stripes(4)
            machine = BoltzmannMachine(hidden=hidden, l2=1e-9, steps=300).fit(images)
            kl = -math.log(len(images)) - machine.score(images)
            yield {"data": "bars and stripes 4x4", "method": f"exact, {hidden} hidden bits", "kl": kl}


def grbm(J: Tensor, X: Tensor, steps: int) -> Tensor:
    """Return A of a GRBM, trained by Adam with block Gibbs sampling."""
    from dwave.plugins.torch.models import GraphRestrictedBoltzmannMachine
    from dwave.plugins.torch.samplers import BlockSampler

    n, side = len(J), int(len(J) ** 0.5)
    torch.manual_seed(0)
    model = GraphRestrictedBoltzmannMachine(list(range(n)), [tuple(edge) for edge in J.nonzero().tolist()])
    sampler = BlockSampler(model, lambda k: (k // side + k % side) % 2, 256, [1.0] * 5, seed=0)
    optimizer, spins = torch.optim.Adam(model.parameters(), 0.05), (2 * X - 1).float()
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, 0.05 / 20)  # as ours
    for _ in range(steps):
        optimizer.zero_grad()
        model.quasi_objective(spins, sampler.sample()).backward()
        optimizer.step()
        schedule.step()
    couplings = torch.zeros(1, n, n).double()
    couplings[0, model.edge_idx_i, model.edge_idx_j] = model.quadratic.detach().double()
    return from_ising(couplings, model.linear.detach().double()[None])[0][0]
