"""The compiled ranking of candidates."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qubolearn.errors import QubolearnError
from qubolearn.solvers.contract import _ranked, _ranked_in_torch, best_distinct


def naive(A, candidates, count):
    """Return distinct states by energy, then first appearance."""
    seen, ranked = set(), []
    for place, x in enumerate(candidates[0].tolist()):
        if tuple(x) not in seen:
            seen.add(tuple(x))
            bits = torch.tensor(x, dtype=torch.float64)
            ranked.append((float(bits @ A[0].double() @ bits), place, x))
    return [x for _, _, x in sorted(ranked)][:count]


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 9),
    c=st.integers(1, 30),
    values=st.sampled_from(["normal", "whole", "zero"]),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.float16]),
)
def test_against_a_naive_ranking_and_torch(seed, n, c, values, dtype):
    generator = torch.Generator().manual_seed(seed)
    A = torch.randn(3, n, n, generator=generator)
    A = {"normal": A, "whole": A.round(), "zero": 0 * A}[values].to(dtype)  # integers: many ties
    candidates = torch.randint(0, 2, (3, c, n), generator=generator)
    distinct = min(len(set(map(tuple, rows.tolist()))) for rows in candidates)
    states, energy, found = _ranked(A, candidates, distinct)
    same_states, same_energy, same_found = _ranked_in_torch(A, candidates, distinct, False)
    assert found == same_found == distinct
    torch.testing.assert_close(energy, same_energy)
    if values != "normal" or dtype == torch.float64:  # near ties may differ
        assert torch.equal(states.double(), same_states.double())
        assert states[0].int().tolist() == naive(A, candidates, distinct)


@pytest.mark.parametrize("entry", [-1, 2, 0.5, 256])
def test_states_that_are_not_bits_are_rejected(entry):
    candidates = torch.zeros(1, 2, 3)
    candidates[0, 1, 2] = entry
    with pytest.raises(QubolearnError, match="other than 0 and 1"):
        best_distinct(torch.ones(1, 3, 3), candidates, 1)


def test_repeats_do_not_count():
    with pytest.raises(QubolearnError, match="count=2"):
        best_distinct(torch.ones(1, 3, 3), torch.ones(1, 5, 3), 2)
