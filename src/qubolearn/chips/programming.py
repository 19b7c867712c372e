"""Program a simulated annealer: chains, ranges of h and J, control errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError

__all__ = [
    "EXTENDED_J_RANGE",
    "H_RANGE",
    "J_RANGE",
    "Embedding",
    "Programmed",
    "scaled",
    "with_control_errors",
]

Range = tuple[float, float]

#: The ranges of D-Wave's Advantage; J of chains is extended.
H_RANGE = (-4.0, 4.0)
J_RANGE = (-1.0, 1.0)
EXTENDED_J_RANGE = (-2.0, 1.0)


@dataclass(frozen=True)
class Embedding:
    """Chains of physical qubits, one per logical qubit, on a physical graph.

    >>> square = [(0, 1), (1, 2), (2, 3), (3, 0)]
    >>> triangle_on_square = Embedding.of({0: [0], 1: [1], 2: [2, 3]}, square)
    >>> triangle_on_square.qubits
    4
    """

    chains: tuple[tuple[int, ...], ...]  # physical qubits of each bit
    edges: tuple[tuple[int, int], ...]  # couplers between these qubits

    @classmethod
    def of(cls, chains: Mapping[int, Sequence[int]], edges: Iterable[tuple[int, int]]) -> Embedding:
        """Return an embedding from minorminer's chains and the edges of the chip."""
        import networkx

        if sorted(chains) != list(range(len(chains))) or not chains:
            raise QubolearnError(f"chains are keyed {sorted(chains)}; expected the logical qubits 0 ... n-1")
        ordered = [chains[bit] for bit in range(len(chains))]
        index: dict[int, int] = {}
        for qubit in (qubit for chain in ordered for qubit in chain):
            if qubit in index:
                raise QubolearnError(f"physical qubit {qubit} is in two chains; chains must be disjoint")
            index[qubit] = len(index)
        inside = [(index[u], index[v]) for u, v in edges if u in index and v in index]
        kept = {(min(pair), max(pair)) for pair in inside}
        graph = networkx.Graph(sorted(kept))
        graph.add_nodes_from(index.values())
        numbered = tuple(tuple(index[qubit] for qubit in chain) for chain in ordered)
        for bit, chain in enumerate(numbered):
            if not chain or not networkx.is_connected(graph.subgraph(chain)):
                raise QubolearnError(f"the chain {chains[bit]} of logical qubit {bit} is not connected")
        return cls(numbered, tuple(sorted(kept)))

    @property
    def qubits(self) -> int:
        return sum(map(len, self.chains))

    def embed(self, J: Tensor, h: Tensor, chain_strength: float) -> tuple[Tensor, Tensor]:
        """Return the physical (J, h) of J ``[batch, n, n]``, upper triangular, and h.

        h_i is shared by the chain's qubits and J_ij by all couplers between the two chains.
        Couplers within a chain are -:func:`strength_of_chains`.
        """
        if len(self.chains) != h.shape[1]:
            raise QubolearnError(f"the embedding has {len(self.chains)} chains for n={h.shape[1]} bits")
        owner = torch.tensor([bit for bit, chain in enumerate(self.chains) for _ in chain], device=h.device)
        u, v = torch.tensor(self.edges, dtype=torch.int64, device=h.device).reshape(-1, 2).T
        i, j, S = owner[u], owner[v], J + J.mT
        joining = torch.zeros_like(S[0]).index_put((i, j), S.new_ones(len(u)), accumulate=True)
        joining = joining + joining.T  # the number of couplers between two chains
        if missing := ((S != 0) & (joining == 0)).nonzero().tolist():
            raise QubolearnError(f"no physical coupler joins the chains of {missing[0][1:]}; embed again")
        physical_J = S.new_zeros(len(S), self.qubits, self.qubits)
        strength = strength_of_chains(S, h, chain_strength)[:, None]
        physical_J[:, u, v] = torch.where(i == j, -strength, (S / joining.clamp(min=1))[:, i, j])
        return physical_J, (h / torch.bincount(owner))[:, owner]

    def majority(self, bits: Tensor) -> Tensor:
        """Decode bits of qubits ``[..., qubits]`` to ``[..., n]`` by majority; a tie goes to the first qubit."""
        parts = [bits[..., list(chain)] for chain in self.chains]
        votes = [2 * part.sum(-1) > part.shape[-1] - part[..., 0] for part in parts]
        return torch.stack(votes, -1).to(bits.dtype)

    def broken(self, bits: Tensor) -> Tensor:
        """Return the share of chains whose qubits disagree."""
        parts = [bits[..., list(chain)] for chain in self.chains]
        return torch.stack([part.amin(-1) != part.amax(-1) for part in parts], -1).double().mean(-1)


def strength_of_chains(S: Tensor, h: Tensor, chain_strength: float) -> Tensor:
    """Return chain_strength · √(mean degree) · rms(J) ``[batch]`` of J + Jᵀ."""
    degree = (S != 0).sum((-1, -2)).clamp(min=1)  # twice the number of couplings
    strength = chain_strength * (S.square().sum((-1, -2)) / degree).sqrt() * (degree / S.shape[-1]).sqrt()
    # Without any coupling the largest bias sets the scale.
    return torch.where(strength > 0, strength, h.abs().amax(-1))


class Programmed(NamedTuple):
    """Ising problems, a row for each instance and programming."""

    J: Tensor  # [rows, qubits, qubits], upper triangular
    h: Tensor  # [rows, qubits]
    uniforms: Tensor  # [rows, reads], the randomness of the measurements


def scaled(J: Tensor, h: Tensor, J_range: Range) -> tuple[Tensor, Tensor]:
    """Return J and h, each instance scaled to fill the ranges."""
    shares = [(h / limit).amax(1) for limit in H_RANGE] + [(J / limit).amax((1, 2)) for limit in J_range]
    share = torch.stack(shares).amax(0)
    share = torch.where(share > 0, share, 1.0)
    return J / share[:, None, None], h / share[:, None]


def with_control_errors(
    J: Tensor, h: Tensor, J_error: float, h_error: float, programmings: int, reads: int, seeds: Iterable[int]
) -> Programmed:
    """Add Gaussian errors to h and nonzero J for each programming; ``seeds`` has one seed per instance."""
    n = h.shape[1]
    dJ, dh, uniforms = [], [], []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        dJ.append(rng.standard_normal((programmings, n, n)))
        dh.append(rng.standard_normal((programmings, n)))
        uniforms.append(rng.random((programmings, reads // programmings)))
    on_J, on_h, drawn = (torch.as_tensor(np.concatenate(x), device=h.device) for x in (dJ, dh, uniforms))
    J, h = (x.repeat_interleave(programmings, 0) for x in (J, h))
    return Programmed(J + J_error * (J != 0) * on_J, h + h_error * on_h, drawn)
