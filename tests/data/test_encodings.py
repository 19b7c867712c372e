"""Permutation bits against plain Python."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qubolearn.data.encodings import (
    all_permutations,
    bits_per_entry,
    decode_permutation,
    encode_permutation,
    nearest_permutation,
)
from qubolearn.errors import QubolearnError


def code(permutation: tuple[int, ...], b: int) -> list[int]:
    return [int(bit) for entry in permutation for bit in format(entry, f"0{b}b")]


@pytest.mark.parametrize(("k", "b"), [(2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (16, 4), (17, 5)])
def test_bits_per_entry(k: int, b: int) -> None:
    assert bits_per_entry(k) == b


@given(st.integers(2, 12).flatmap(lambda k: st.permutations(range(k))))
@settings(max_examples=50, deadline=None)
def test_encode_is_binary_and_decode_inverts_it(entries: list[int]) -> None:
    k = len(entries)
    x = encode_permutation(torch.tensor([entries]))
    assert x.dtype == torch.float32
    assert x[0].int().tolist() == code(tuple(entries), (k - 1).bit_length())
    assert decode_permutation(x, k).tolist() == [entries]


def test_decode_keeps_repeats_and_values_beyond_k() -> None:
    x = torch.tensor([[1.0, 1, 1, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]])
    assert decode_permutation(x, 5).tolist() == [[7, 2, 2, 0, 0]]


@pytest.mark.parametrize("k", [2, 3, 4, 5, 7])
def test_nearest_is_as_near_as_any_permutation(k: int) -> None:
    b = bits_per_entry(k)
    x = torch.randint(0, 2, (40 if k < 7 else 5, k * b), generator=torch.Generator().manual_seed(k)).float()
    near = nearest_permutation(x, k)
    for bits, found in zip(x.int().tolist(), near.int().tolist(), strict=True):
        distances = {
            P: sum(i != j for i, j in zip(bits, code(P, b), strict=True)) for P in permutations(range(k))
        }
        P_found = tuple(decode_permutation(torch.tensor([found]), k)[0].tolist())
        assert distances[P_found] == min(distances.values())
        if k <= 6:
            assert P_found == min(P for P, d in distances.items() if d == min(distances.values()))


def test_all_permutations_are_all_of_them_in_order() -> None:
    assert [tuple(P) for P in all_permutations(4).tolist()] == list(permutations(range(4)))


def test_bad_input() -> None:
    with pytest.raises(QubolearnError, match="k=1"):
        bits_per_entry(1)
    with pytest.raises(QubolearnError, match=r"\[1, 9\]"):
        decode_permutation(torch.zeros(1, 9), 4)
    with pytest.raises(QubolearnError, match="4"):
        encode_permutation(torch.tensor([[0, 1, 2, 4]]))
    with pytest.raises(QubolearnError, match="integers"):
        encode_permutation(torch.zeros(1, 4))
