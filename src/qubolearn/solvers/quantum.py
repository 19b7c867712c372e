"""Simulated quantum annealing: the Schrödinger equation of a closed annealer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from qubolearn.chips.programming import (
    EXTENDED_J_RANGE,
    J_RANGE,
    Embedding,
    Programmed,
    scaled,
    with_control_errors,
)
from qubolearn.errors import QubolearnError, check_counts, check_numbers, unknown_name
from qubolearn.kernels import Bar, thread_count
from qubolearn.qubo import Qubo, as_dense, check_qubo, energies, from_ising, to_ising
from qubolearn.solvers.contract import QuboSolver, SearchResult, instance_seeds, no_temperature
from qubolearn.solvers.forms import with_second_best
from qubolearn.solvers.state_vector import SCHEDULES, all_energies, final_probabilities, pulses, steps_for

__all__ = ["QuantumAnnealing"]

#: The state of more qubits exceeds the memory of most machines.
MAX_QUBITS = 26
MAX_STEPS = 10**7
#: Amplitudes of one chunk of the batch, of about 100 bytes each.
CHUNK_AMPLITUDES = 2**23
#: The same on a CPU, which would otherwise reallocate memory.
CPU_AMPLITUDES = 2**20
#: Energies this close, as a share of their range, are equal.
SAME_ENERGY = 1e-10


@dataclass(frozen=True)
class QuantumAnnealing(QuboSolver):
    """Simulate quantum annealing: H(t) goes from H_I = -Σ σx to H_P = A in the time τ.

    The state of up to 26 qubits is integrated and then measured; at 26 one anneal takes minutes on
    a CPU. The annealer is closed, without temperature or decoherence, as real ones nearly are in
    anneals of 5 to 50 ns. Reference: Kadowaki and Nishimori, Physical Review E 58, 5355 (1998).

    Each instance is scaled to fill h in [-4, 4] and J in [-1, 1] (with chains [-2, 1]) and
    programmed with Gaussian errors, by default those that D-Wave documents for the part in which the gap closes.

    ``info["success_probability"]`` is the exact share of |ψ|² on the ground states of A.

    Args:
        anneal_time: τ in ns. Longer anneals find the best state x* more surely, but the second best, x⁺, less often.
        schedule: ``dwave`` or ``linear``.
        reads: how often the final state is measured.
        h_error, J_error: standard deviations of the control errors, in units of the programmed h and J.
        programmings: how often the errors are drawn per call; the reads are divided evenly.
        complete: also consider the neighbors of x* and descents from them: reads rarely contain x⁺.
        seed: the seed of errors and reads.
        tolerance: the largest error of probabilities due to finite time steps.
        steps: the number of time steps, instead of the tolerance.
        embedding: chains of qubits for the bits, if the chip lacks couplers.
        chain_strength: multiple of rms(J) √(mean degree), as D-Wave's default.

    >>> A = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]])
    >>> QuantumAnnealing(anneal_time=20.0, seed=0)(A, count=1).states.tolist()
    [[[1.0, 1.0]]]
    """

    anneal_time: float = 10.0
    schedule: str = "dwave"
    reads: int = 100  # as in the paper
    h_error: float = 0.02
    J_error: float = 0.015
    programmings: int = 1
    complete: bool = True
    seed: int | None = None
    tolerance: float = 0.01
    steps: int | None = None
    embedding: Embedding | None = None
    chain_strength: float = 1.414

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise unknown_name("schedule", self.schedule, SCHEDULES)
        check_numbers(True, anneal_time=self.anneal_time, h_error=self.h_error, J_error=self.J_error)
        check_numbers(tolerance=self.tolerance, chain_strength=self.chain_strength)
        check_counts(reads=self.reads, programmings=self.programmings)
        check_counts(steps=1 if self.steps is None else self.steps)
        if (self.steps or 0) > MAX_STEPS:
            raise QubolearnError(f"steps={self.steps} (limit {MAX_STEPS}); use fewer, or the tolerance")
        if self.reads % self.programmings:
            raise QubolearnError(f"reads={self.reads}; expected a multiple of programmings")

    def search(self, A: Tensor, count: int) -> SearchResult:
        measured = self._measure(A)
        states = measured.states
        if self.complete:
            best = energies(A.to(torch.float64), states).argmin(1)
            lowest = states[torch.arange(len(A), device=A.device), best]
            states = with_second_best(A, torch.cat([lowest[:, None], states], 1), count)
        info: dict[str, Any] = {"source": "simulated", "reads": self.reads, "schedule": self.schedule}
        info |= {"success_probability": measured.success, "steps": measured.steps}
        info["anneal_time_ns"] = self.anneal_time
        if self.embedding is not None:
            info["chain_break_fraction"] = measured.broken
        return SearchResult(states, info)

    def sample(self, A: Qubo, beta: float | None = None) -> Tensor:
        """Return all reads ``[batch, reads, n]`` as measured; a ``beta`` raises."""
        if beta is not None:
            raise no_temperature("a closed quantum annealer", beta)
        check_qubo(A)
        A = as_dense(A)
        return self._measure(A.detach(), scored=False).states

    def probabilities(self, A: Qubo) -> Tensor:
        """Return |ψ|² at the end: ``[batch, 2**n]``, float64, in the order of ``all_states``.

        It is the mean over programmings, with chains after their majority vote.
        """
        check_qubo(A)
        A = as_dense(A)
        out = torch.zeros(len(A), 2 ** A.shape[2], dtype=torch.float64, device=A.device)
        for final in self._anneal(self._program(A.detach())):
            out.index_add_(0, final.rows // self.programmings, self._logical(final.probabilities))
        return out / self.programmings

    def _program(self, A: Tensor) -> Programmed:
        J, h, _ = to_ising(A.to(torch.float64))
        if self.embedding is not None:
            J, h = self.embedding.embed(J, h, self.chain_strength)
        _check_size(h.shape[1])
        J, h = scaled(J, h, J_RANGE if self.embedding is None else EXTENDED_J_RANGE)
        seeds = instance_seeds(self.seed, len(A))
        problem = with_control_errors(J, h, self.J_error, self.h_error, self.programmings, self.reads, seeds)
        if not bool(_squared_fields(problem).isfinite().all()):
            options = f"h_error={self.h_error:g}, J_error={self.J_error:g} or the chain strength"
            raise QubolearnError(f"fields overflow float64; lower |A_ij|, {options}")
        return problem

    def _anneal(self, problem: Programmed) -> Iterator[_Final]:
        """Anneal in chunks of equal time steps, independent of the batch."""
        chunks = self._chunks(problem)
        with Bar("quantum annealing", sum(len(rows) * (steps + 1) for rows, _, steps in chunks)) as bar:
            for rows, field, steps in chunks:
                A, offset = from_ising(problem.J[rows], problem.h[rows])
                ising = all_energies(A).add_(offset[:, None])
                sequence = pulses(SCHEDULES[self.schedule], self.anneal_time, field, steps)
                p = final_probabilities(ising, sequence, bar.advance).to(torch.float64)
                yield _Final(rows, steps, p.div_(p.sum(1, keepdim=True)))

    def _chunks(self, problem: Programmed) -> list[tuple[Tensor, float, int]]:
        """Return rows of similar rms fields, 2**(level/4), that field, and the steps."""
        levels = (4 * _squared_fields(problem).mean(-1).sqrt().clamp(min=1 / 16).log2()).ceil()
        size = max(1, CHUNK_AMPLITUDES >> problem.h.shape[1])
        if problem.h.device.type == "cpu":
            size = min(size, max(thread_count(), CPU_AMPLITUDES >> problem.h.shape[1]))
        chunks = []
        for level in sorted(set(levels.tolist())):
            field = 2 ** (level / 4)
            steps = self.steps or steps_for(SCHEDULES[self.schedule], self.anneal_time, field, self.tolerance)
            if steps > MAX_STEPS:
                how = f"anneal_time={self.anneal_time:g} with tolerance={self.tolerance:g}"
                raise QubolearnError(f"{how} takes {steps:.3g} steps (limit {MAX_STEPS:.0e}); lower one")
            rows = (levels == level).nonzero()[:, 0]
            chunks += [(some, field, steps) for some in rows.split(size)]
        return chunks

    def _measure(self, A: Tensor, scored: bool = True) -> _Measured:
        """Anneal and read; the success is 0 unless ``scored``."""
        batch, n = A.shape[0], A.shape[2]
        problem = self._program(A)
        rows, reads = problem.uniforms.shape
        states = A.new_empty(rows, reads, n)
        success, broken = A.new_zeros(2, rows, dtype=torch.float64)
        steps = A.new_zeros(rows, dtype=torch.long)
        for final in self._anneal(problem):
            at = final.rows
            if scored:
                truth = all_energies(A[at // self.programmings].to(torch.float64))
                success[at] = (self._logical(final.probabilities) * _lowest(truth)).sum(1)
            bits = _bits(_draw(final.probabilities, problem.uniforms[at]), problem.h.shape[1])
            if self.embedding is not None:
                broken[at] = self.embedding.broken(bits).mean(1)
                bits = self.embedding.majority(bits)
            states[at] = bits.to(A.dtype)
            steps[at] = final.steps
        success, broken = (x.view(batch, self.programmings).mean(1) for x in (success, broken))
        steps = steps.view(batch, self.programmings).amax(1)
        return _Measured(states.view(batch, self.reads, n), success, broken, steps)

    def _logical(self, probabilities: Tensor) -> Tensor:
        """Return probabilities ``[rows, 2**n]`` after the majority vote."""
        if self.embedding is None:
            return probabilities
        out = probabilities.new_zeros(len(probabilities), 2 ** len(self.embedding.chains))
        for first in range(0, probabilities.shape[1], 2**20):
            some = probabilities[:, first : first + 2**20]
            codes = torch.arange(first, first + some.shape[1], device=out.device)
            out.index_add_(1, _codes(self.embedding.majority(_bits(codes, self.embedding.qubits))), some)
        return out


class _Final(NamedTuple):
    rows: Tensor
    steps: int
    probabilities: Tensor  # [len(rows), 2**qubits], float64


class _Measured(NamedTuple):
    states: Tensor  # [batch, reads, n], in A's dtype
    success: Tensor  # [batch]
    broken: Tensor  # [batch], the share of chains that broke
    steps: Tensor  # [batch]


def _squared_fields(problem: Programmed) -> Tensor:
    return problem.h.square() + (problem.J + problem.J.mT).square().sum(-1)


def _check_size(qubits: int) -> None:
    if qubits > MAX_QUBITS:
        raise QubolearnError(f"{qubits} qubits (limit {MAX_QUBITS}); use simulated annealing")


def _lowest(energies: Tensor) -> Tensor:
    """Return which states ``[rows, 2**n]`` are ground states."""
    low, high = energies.aminmax(dim=1, keepdim=True)
    return energies <= low + SAME_ENERGY * (high - low)


def _draw(probabilities: Tensor, uniforms: Tensor) -> Tensor:
    total = probabilities.cumsum(1)
    codes = torch.searchsorted(total, uniforms * total[:, -1:], right=True)
    return codes.clamp(max=probabilities.shape[1] - 1)


def _bits(codes: Tensor, qubits: int) -> Tensor:
    """Return the bits ``[..., qubits]`` of codes, the most significant first."""
    return (codes[..., None] >> torch.arange(qubits - 1, -1, -1, device=codes.device)) & 1


def _codes(bits: Tensor) -> Tensor:
    return (bits << torch.arange(bits.shape[-1] - 1, -1, -1, device=bits.device)).sum(-1)
