"""
Learn from samples: a Boltzmann machine on a chip
=================================================

A Boltzmann machine learns one QUBO whose distribution p(x) ∝ exp(-xᵀAx) fits samples. A quantum annealer draws from a
similar distribution, but at another temperature. ``DWaveSolver.mock`` shows how to find that temperature, and how
to program the chip so that its reads look like the data; simulated annealing replaces the physics.
"""

# %%
# The data: twelve sensors in a ring, each of which tends to agree with its neighbors; two links are inverted. The
# samples are the only thing that the machine sees.
import matplotlib.pyplot as plt
import torch

from qubolearn import DWaveSolver, energies, plots
from qubolearn.boltzmann import BoltzmannMachine
from qubolearn.qubo import all_states, from_ising, to_ising
from qubolearn.solvers.temperature import effective_beta

n, draw = 12, torch.Generator().manual_seed(0)
links = torch.full((n,), -0.6, dtype=torch.float64)
links[[3, 8]] = 0.6
J = torch.zeros(1, n, n, dtype=torch.float64)
J[0, torch.arange(n - 1), torch.arange(1, n)], J[0, 0, n - 1] = links[:-1], links[-1]
states = all_states(n, dtype=torch.float64)
chances = (
    -energies(from_ising(J, torch.zeros(1, n).double())[0], states[None])[0]
).softmax(0)
X = states[torch.multinomial(chances, 3000, replacement=True, generator=draw)]

# %%
# Twelve bits are few, so the likelihood is exact. The couplings of the ring stand out.
machine = BoltzmannMachine().fit(X)
A = machine.couplings_[None]
learned = to_ising(A).J[0]
wrong, right = learned[J[0] == 0].abs().max(), learned[J[0] != 0].abs().min()
print(f"log-likelihood per sample {machine.score(X):.3f}")
print(f"strongest wrong coupling {wrong:.2f}, weakest right one {right:.2f}")

figure, axis = plt.subplots(figsize=(5.2, 3.8), layout="constrained")
plots.qubo(learned, axis)
axis.set_title("The ring and its two inverted links are found")
plt.show()

# %%
# The chip scales every QUBO to its ranges and draws at its own temperature, so that its reads are too cold. Their
# effective inverse temperature β follows from the reads alone. Anneals that stop early, at few sweeps, are hotter.
chip = DWaveSolver.mock("pegasus", size=4, sweeps=20, reads=1000, seed=0)
reads = chip.sample(A)
beta = effective_beta(A, reads).item()
print(f"effective inverse temperature of the chip: {beta:.2f}; the data have 1")

# %%
# Weights 1/β of the reads would need many of them. Instead, the reads of the chip become draws at β = 1 by a few moves
# at that temperature: they already are in the right valleys.
from qubolearn.solvers.contract import instance_seeds  # noqa: E402
from qubolearn.solvers.tempering import move_chains  # noqa: E402

warmed = reads.to(torch.int8)
move_chains(A, warmed, [1.0] * warmed.shape[1], 3, instance_seeds(0, 1), None)

# %%
# Correlations of spins in the data, in the reads, and after the moves.
figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
parts = {"data": X, "reads of the chip": reads[0], "after moves": warmed[0]}
for axis, (name, some) in zip(axes, parts.items(), strict=True):
    spins = 2 * some.double() - 1
    picture = axis.imshow(spins.T @ spins / len(spins), cmap="RdBu", vmin=-1, vmax=1)
    axis.set_title(f"{name}: β = {effective_beta(A, some.double()[None]).item():.2f}")
figure.colorbar(picture, ax=axes, label="correlation")
plt.show()
