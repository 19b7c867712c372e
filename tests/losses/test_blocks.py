"""Block likelihood against the two losses that it lies between, and against sums over all states."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from qubolearn import ExhaustiveSearch, Instances, Likelihood, PseudoLikelihood, SparseQubo
from qubolearn.data.contract import RightAnswers
from qubolearn.errors import QubolearnError
from qubolearn.losses import Batch, BlockLikelihood
from qubolearn.qubo import Groups, energies

N, COUNT = 6, 5


def qubos(n: int = N, seed: int = 0) -> Tensor:
    return torch.randn(COUNT, n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def bits(n: int = N) -> Tensor:
    return torch.randint(0, 2, (COUNT, n), generator=torch.Generator().manual_seed(1)).double()


def batch_of(x: Tensor, right: RightAnswers | None = None, seed: int = 3) -> Batch:
    return Batch(Instances(x, x, x, right), ExhaustiveSearch(), seed=seed)


def several(x: Tensor) -> RightAnswers:
    """x, its complement, and x with bit 2 flipped, which for the first instance is not meant."""
    other = x.clone()
    other[:, 2] = 1 - other[:, 2]
    valid = torch.ones(len(x), 3, dtype=torch.bool)
    valid[0, 2] = False
    return RightAnswers(torch.stack([x, 1 - x, other], 1), valid)


def naive(A: Tensor, x: Tensor, block: list[int], right: list[Tensor], groups: Groups, beta: float) -> float:
    """-log of the share of the right states among all states of the block beside the rest of x."""
    all_states, right_states = 0.0, 0.0
    for values in itertools.product((0.0, 1.0), repeat=len(block)):
        state = x.clone()
        state[block] = torch.tensor(values, dtype=x.dtype)
        if bool(groups.allowed(state)):
            weight = math.exp(-beta * energies(A[None], state[None]).item())
            all_states += weight
            right_states += weight if any(torch.equal(state, one) for one in right) else 0.0
    return -math.log(right_states / all_states)


@pytest.mark.parametrize("several_right", [False, True])
def test_a_block_of_all_bits_is_the_likelihood(several_right: bool) -> None:
    x = bits()
    right = several(x) if several_right else None
    ours, exact = qubos().requires_grad_(), qubos().requires_grad_()
    found, want = BlockLikelihood(24, 0.9)(ours, batch_of(x, right)), Likelihood(0.9)(exact, batch_of(x, right))
    torch.testing.assert_close(found, want)
    found.sum().backward()
    want.sum().backward()
    torch.testing.assert_close(ours.grad, exact.grad)


def test_the_mean_over_blocks_of_one_bit_is_the_pseudo_likelihood() -> None:
    A, x, loss = qubos(), bits(), BlockLikelihood(1, 0.9)
    drawn = {}
    for seed in range(60):  # all six bits of all five instances are met in these
        found, block = loss(A, batch_of(x, seed=seed)), loss.block(A, batch_of(x, seed=seed)).bits
        drawn |= {(row, int(block[row])): found[row].item() for row in range(COUNT)}
    assert len(drawn) == COUNT * N
    means = [sum(drawn[row, bit] for bit in range(N)) / N for row in range(COUNT)]
    assert means == pytest.approx(PseudoLikelihood(0.9)(A, batch_of(x)).tolist())


@pytest.mark.parametrize("kind", ["dense", "shared", "sparse", "several", "groups"])
def test_values_and_gradients_equal_sums_over_all_states(kind: str) -> None:
    A, x = qubos(), bits()
    A = A[:1].expand_as(A).clone() if kind == "shared" else A
    A[:, 0, 1:3] = A[:, 1:3, 0] = 0  # a graph that is not complete
    groups = Groups([[1, 4, 5], [3]]) if kind == "groups" else Groups([])
    if kind == "groups":
        x[:, [1, 3, 4, 5]] = torch.tensor([0.0, 1.0, 1.0, 0.0], dtype=x.dtype)
    right = several(x) if kind == "several" else None
    loss = BlockLikelihood(3, 0.9, groups=groups if kind == "groups" else None)

    def values(A: Tensor) -> Tensor:
        given = A[0].expand_as(A) if kind == "shared" else SparseQubo.from_dense(A) if kind == "sparse" else A
        return loss(given, batch_of(x, right))

    found = values(A)
    block = loss.block(A, batch_of(x, right))
    lowest = batch_of(x, right).solution(A)
    for row in range(COUNT):
        answers = [x[row]] if right is None else list(right.states[row][right.valid[row]])
        want = naive(A[row], lowest[row], block.bits[row].tolist(), answers, groups, 0.9)
        assert found[row].item() == pytest.approx(block.scale * want)
    leaf = A.clone().requires_grad_()
    values(leaf).sum().backward()
    assert leaf.grad is not None
    for i, j in [(0, 0), (1, 4), (4, 1), (3, 5)]:
        step = torch.zeros_like(A)
        step[0 if kind == "shared" else slice(None), i, j] = 1e-5
        slope = (values(A + step) - values(A - step)) / 2e-5
        got = leaf.grad[0, i, j] if kind == "shared" else leaf.grad[:, i, j]
        torch.testing.assert_close(got, slope.sum() if kind == "shared" else slope, atol=1e-6, rtol=1e-5)


def test_blocks_come_from_the_seed_and_follow_couplings() -> None:
    n = 30
    path = SparseQubo(
        torch.zeros(COUNT, n), torch.stack([torch.arange(n - 1), torch.arange(1, n)]), torch.ones(COUNT, n - 1)
    )
    loss, x = BlockLikelihood(7), torch.zeros(COUNT, n)
    first, again, other = (loss.block(path, batch_of(x, seed=seed)).bits for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    for row in first.sort(1).values.tolist():
        assert row == list(range(row[0], row[0] + 7))  # a piece of the path
    loose = BlockLikelihood(7, connected=False).block(path, batch_of(x)).bits
    assert all(len(set(row)) == 7 for row in loose.tolist())
    assert any(max(row) - min(row) > 6 for row in loose.tolist())


def test_groups_of_several_sizes_and_single_bits_share_a_block() -> None:
    groups, n = Groups([[0, 1, 2], [3, 4, 5], [6, 7], [8]]), 12
    loss, x = BlockLikelihood(5, groups=groups), torch.zeros(40, n)
    whole = {(0, 1, 2), (3, 4, 5), (6, 7)}
    for seed in range(5):
        block = loss.block(torch.zeros(40, n, n), batch_of(x, seed=seed))
        assert block.groups is not None
        assert (
            math.prod(len(g) for g in block.groups.members)
            * 2 ** (block.bits.shape[1] - sum(map(len, block.groups.members)))
            <= 2**5
        )
        for row in block.bits.tolist():
            assert {tuple(row[i] for i in group) for group in block.groups.members} <= whole
            assert len(set(row)) == len(row)
            assert 8 not in row


def test_mistakes_are_rejected() -> None:
    for wrong, said in (({"bits": 25}, "bits=25"), ({"bits": 0}, "bits=0"), ({"beta": 0.0}, r"beta=0\.0")):
        with pytest.raises(QubolearnError, match=said):
            BlockLikelihood(**wrong)  # type: ignore[arg-type]
    with pytest.raises(QubolearnError, match="instance 0"):
        BlockLikelihood(groups=Groups([[0, 1]]))(qubos(), batch_of(torch.ones(COUNT, N)))
