"""Markov chains that live on between calls, for likelihood gradients whose QUBOs change a little from step to step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError, check_counts, check_numbers
from qubolearn.kernels import kernel_call, native
from qubolearn.qubo import Clamp, Groups, Qubo, as_clamp, as_groups, check_qubo, propagate_clamps
from qubolearn.qubo.sparse import check_memory
from qubolearn.random import derive_seed, stream
from qubolearn.solvers.contract import check_exponents, instance_seeds
from qubolearn.solvers.forms import SparseForm

__all__ = ["PersistentChains", "move_chains"]


class PersistentChains:
    """Samples of instances that persist: every call moves their chains by a few sweeps.

    When A changes slowly, as in training, states of the last step are nearly in equilibrium for the next one, so that a
    few sweeps suffice (persistent contrastive divergence). ``state_dict()`` holds all that a checkpoint needs.

    Args:
        instances: how many instances have chains.
        n: their number of bits.
        chains: states per instance.
        sweeps: sweeps per call.
        seed: fixes first states and moves.

    >>> chains = PersistentChains(instances=1, n=2, chains=1000, sweeps=10, seed=0)
    >>> x = chains.sample(torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]), beta=1.0)
    >>> list(x.shape), bool((x.mean((0, 1)) - 0.69).abs().max() < 0.1)
    ([1, 1000, 2], True)
    """

    def __init__(self, instances: int, n: int, chains: int = 64, sweeps: int = 5, seed: int = 0) -> None:
        check_counts(instances=instances, n=n, chains=chains, sweeps=sweeps)
        what = f"{chains} chains of {instances} instances of n={n} bits"
        check_memory(9 * instances * chains * n, what, "take fewer chains, or instances in parts")
        instance_seeds(seed, 0)
        self.sweeps, self.seed = sweeps, seed
        self.states = torch.randint(0, 2, (instances, chains, n), generator=stream(seed, "chains"), dtype=torch.int8)
        self.calls = 0

    def sample(
        self,
        A: Qubo,
        beta: float,
        rows: Tensor | None = None,
        *,
        clamp: Clamp | None = None,
        groups: Groups | None = None,
    ) -> Tensor:
        """Move the chains by ``sweeps`` sweeps at β, and return their states ``[batch, chains, n]`` in A's dtype.

        A ``[batch, n, n]`` or sparse belongs to the instances ``rows [batch]``, all by default. Chains take the
        values of clamped bits, and one bit of each group.
        """
        check_qubo(A)
        instances, chains, n = self.states.shape
        rows = torch.arange(instances) if rows is None else torch.as_tensor(rows).cpu()
        if rows.ndim != 1 or rows.dtype.is_floating_point or rows.dtype == torch.bool:
            raise QubolearnError(f"rows are {rows.dtype} of shape {list(rows.shape)}; expected integers [batch]")
        if A.shape[2] != n or A.shape[0] != len(rows):
            raise QubolearnError(f"A is {list(A.shape)}; expected [{len(rows)}, {n}, {n}]")
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < instances:
            raise QubolearnError(f"rows go from {int(rows.min())} to {int(rows.max())}; expected 0 to {instances - 1}")
        if len(set(rows.tolist())) < len(rows):
            raise QubolearnError("rows name an instance twice; pass each once, since its chains move once")
        check_numbers(beta=beta)
        if len(rows) == 0:
            return torch.zeros(0, chains, n, dtype=A.dtype, device=A.device)
        seeds = instance_seeds(derive_seed(self.seed, "chains", self.calls), instances)[rows.numpy()]
        states = self.states[rows]
        move_chains(A, states, [beta] * chains, self.sweeps, seeds, clamp=clamp, groups=groups)
        self.states[rows] = states
        self.calls += 1
        return states.to(A.device, A.dtype)

    def state_dict(self) -> dict[str, Tensor]:
        """The states and the number of calls so far, as tensors."""
        return {"states": self.states.clone(), "calls": torch.tensor(self.calls)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a ``state_dict()``."""
        if not state.keys() >= {"states", "calls"}:
            raise QubolearnError(f"a state of chains has the keys states and calls, got {sorted(state)}")
        if state["states"].shape != self.states.shape:
            given, want = list(state["states"].shape), list(self.states.shape)
            raise QubolearnError(f"chains of shape {given} were saved; these have {want}")
        self.states, self.calls = state["states"].to("cpu", torch.int8).clone(), int(state["calls"])


def move_chains(
    A: Qubo,
    states: Tensor,
    betas: Sequence[float],
    sweeps: int,
    seeds: npt.NDArray[np.uint32],
    *,
    clamp: Clamp | None = None,
    groups: Groups | None = None,
) -> None:
    """Move chains in place by so many sweeps: states ``[batch, chains, n]``, int8 on the CPU, chain c at ``betas[c]``.

    ``seeds [batch]`` fix the moves. Chains take the values of clamped bits, and one bit of each group.
    """
    groups, (batch, chains, n) = as_groups(groups), states.shape
    held = np.ascontiguousarray(propagate_clamps(as_clamp(clamp, batch, n), groups).numpy(), np.int8)
    form = SparseForm.make(A.detach(), groups)
    check_exponents(max(betas), form.scale)
    colds, moved = np.multiply.outer(form.scale, np.asarray(betas, np.float64)), states.contiguous()
    with kernel_call("chains", batch * chains * n * sweeps * 1e-8) as options:
        native().move_chains((form.qubos, form.units, held, seeds), colds, sweeps, moved.numpy(), **options)
    states.copy_(moved)
