"""Minor embedding: one logical qubit as a chain of physical ones, and back by majority vote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError

__all__ = ["Embedding"]


@dataclass(frozen=True)
class Embedding:
    """Chains of physical qubits, one per logical qubit, on a physical graph.

    >>> triangle_on_square = Embedding.of({0: [0], 1: [1], 2: [2, 3]}, [(0, 1), (1, 2), (2, 3), (3, 0)])
    >>> triangle_on_square.qubits
    4
    """

    chains: tuple[tuple[int, ...], ...]  # physical qubits 0 ... qubits-1 of each logical qubit
    edges: tuple[tuple[int, int], ...]  # couplers between these qubits

    @classmethod
    def of(cls, chains: Mapping[int, Sequence[int]], edges: Iterable[tuple[int, int]]) -> Embedding:
        """Return an embedding from minorminer's chains, bit 0 ... n-1 -> its qubits, and the edges of the chip."""
        import networkx

        n = len(chains)
        if sorted(chains) != list(range(n)) or n == 0:
            raise QubolearnError(f"chains are keyed {sorted(chains)}; expected the logical qubits 0 ... n-1")
        used = [qubit for i in range(n) for qubit in chains[i]]
        if len(set(used)) != len(used):
            twice = next(qubit for qubit in used if used.count(qubit) > 1)
            raise QubolearnError(f"physical qubit {twice} is in two chains; chains must be disjoint")
        index = {qubit: k for k, qubit in enumerate(used)}
        kept = {(min(index[u], index[v]), max(index[u], index[v])) for u, v in edges if u in index and v in index}
        embedding = cls(tuple(tuple(index[q] for q in chains[i]) for i in range(n)), tuple(sorted(kept)))
        graph = networkx.empty_graph(len(used))
        graph.add_edges_from(kept)
        for i, chain in enumerate(embedding.chains):
            if not chain or not networkx.is_connected(graph.subgraph(chain)):
                raise QubolearnError(f"the chain of logical qubit {i}, {list(chains[i])}, is empty or not connected")
        return embedding

    @property
    def qubits(self) -> int:
        """The number of physical qubits in all chains."""
        return sum(len(chain) for chain in self.chains)

    def embed(self, J: Tensor, h: Tensor, chain_strength: float) -> tuple[Tensor, Tensor]:
        """Return the physical (J, h) of logical J ``[batch, n, n]``, h ``[batch, n]``; J upper triangular.

        h_i is shared by the chain's qubits and J_ij by all couplers between the two chains. Couplers within a
        chain are -strength, strength = chain_strength · √(mean degree) · rms(J): D-Wave's "uniform torque
        compensation", per instance.
        """
        if len(self.chains) != h.shape[1]:
            raise QubolearnError(f"the embedding has {len(self.chains)} chains, but the QUBO has n={h.shape[1]} bits")
        membership = torch.zeros(self.qubits, len(self.chains), dtype=h.dtype, device=h.device)
        for i, chain in enumerate(self.chains):
            membership[list(chain), i] = 1
        owner = membership.argmax(1).tolist()
        links = torch.zeros(self.qubits, self.qubits, dtype=h.dtype, device=h.device)
        within = torch.zeros_like(links)
        for u, v in self.edges:
            (within if owner[u] == owner[v] else links)[u, v] = 1
        S = J + J.mT
        couplers = membership.T @ (links + links.T) @ membership  # [n, n] how many couplers join two chains
        self._check_couplers(S, couplers)
        shared = torch.where(couplers > 0, S / couplers.clamp(min=1), 0)
        physical_J = links * (membership @ shared @ membership.T) - within * self._strength(S, h, chain_strength)
        return physical_J, (h / membership.sum(0)) @ membership.T

    def _check_couplers(self, S: Tensor, couplers: Tensor) -> None:
        missing = ((S != 0) & (couplers == 0)).nonzero()
        if len(missing):
            _, i, j = missing[0].tolist()
            raise QubolearnError(
                f"logical qubits {i} and {j} are coupled, but no physical coupler joins their chains; embed again"
            )

    @staticmethod
    def _strength(S: Tensor, h: Tensor, chain_strength: float) -> Tensor:
        n = S.shape[-1]
        degree = (S != 0).sum((-1, -2)).clamp(min=1)  # twice the number of couplings
        strength = chain_strength * (S.square().sum((-1, -2)) / degree).sqrt() * (degree / n).sqrt()
        # Without any coupling there is no torque; the largest bias then sets the scale.
        return torch.where(strength > 0, strength, h.abs().amax(-1))[:, None, None]

    def majority(self, bits: Tensor) -> Tensor:
        """Return logical bits ``[..., n]`` of physical ones ``[..., qubits]``; ties go to the chain's first qubit."""
        votes = [2 * bits[..., list(chain)].sum(-1) > len(chain) - bits[..., chain[0]] for chain in self.chains]
        return torch.stack(votes, -1).to(bits.dtype)

    def broken(self, bits: Tensor) -> Tensor:
        """Return the share of chains whose qubits disagree: physical bits ``[..., qubits]`` -> ``[...]``."""
        parts = [bits[..., list(chain)] for chain in self.chains]
        return torch.stack([part.amin(-1) != part.amax(-1) for part in parts], -1).double().mean(-1)
