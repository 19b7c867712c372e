"""
Inside a quantum annealer
=========================

A quantum annealer starts in a superposition of all states and slowly turns the QUBO on. If it is slow enough, it ends
in the lowest state. How slow depends on the *gap*, the smallest distance between the two lowest energies during the
anneal. For six bits all of this can be computed.
"""

# %%
# A random QUBO of six bits, chosen for its small gap, and the energies of the annealer from s=0 to s=1:
# H(s) = A(s) · (quantum part) + B(s) · (QUBO), with curves A and B close to those of D-Wave's Advantage. The QUBO is
# scaled as it would be on the chip.
import matplotlib.pyplot as plt
import numpy as np
import torch

from qubolearn import QuantumAnnealing, energies
from qubolearn.qubo import all_states, to_ising
from qubolearn.solvers.state_vector import dwave

n = 6
Q = torch.randn(
    1, n, n, generator=torch.Generator().manual_seed(55), dtype=torch.float64
).triu()
J, h, offset = to_ising(Q)
scale = min(
    1 / J.abs().max(), 4 / h.abs().max()
)  # h in [-4, 4] and J in [-1, 1] is what the chip takes
problem = (
    (energies(Q, all_states(n, dtype=torch.float64)[None]) - offset[:, None]) * scale
)[0].numpy()
flips = np.zeros((2**n, 2**n))
for state in range(2**n):
    for bit in range(n):
        flips[state, state ^ (1 << bit)] = 1

s = np.linspace(0, 1, 81)
A, B = dwave(s)
levels = np.array(
    [
        np.linalg.eigvalsh(b / 2 * np.diag(problem) - a / 2 * flips)
        for a, b in zip(A, B, strict=True)
    ]
)
gap = levels[:, 1] - levels[:, 0]
print(f"the smallest gap is {gap.min():.2f} GHz at s={s[gap.argmin()]:.2f}")

# %%
# The anneal itself is the Schrödinger equation with that H. ``QuantumAnnealing`` integrates it; its probabilities are
# exact. First without errors, then with the control errors of a chip in h and J (mean of 20 programmings).
times = np.geomspace(0.3, 100, 11)
exact = [
    QuantumAnnealing(t, h_error=0.0, J_error=0.0, seed=0)(Q, 1)
    .info["success_probability"]
    .item()
    for t in times
]
noisy = [
    QuantumAnnealing(t, programmings=20, seed=0)(Q, 1)
    .info["success_probability"]
    .item()
    for t in times
]

# %%
# The lowest ten energies relative to the lowest one. At the gap, a fast anneal leaves the ground state.
figure, axis = plt.subplots(figsize=(5, 3.8), layout="constrained")
axis.plot(s, levels[:, 2:10] - levels[:, :1], color="0.75", lw=0.9)
axis.plot(s, gap, color="tab:red", lw=2)
axis.annotate(
    f"gap {gap.min():.2f} GHz",
    (s[gap.argmin()], gap.min()),
    (0.3, 11),
    arrowprops={"arrowstyle": "->"},
)
axis.set(
    title="The two lowest energies nearly meet",
    xlabel="s, share of the anneal",
    ylim=(0, 14),
)
axis.set_ylabel("GHz above the lowest")
plt.show()

# %%
# Left: the probabilities of all 64 states after a short and a long anneal. Right: success against time.
figure, axes = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
order = problem.argsort()
for time, color, size in ((1, "tab:orange", 22), (100, "tab:blue", 10)):
    p = QuantumAnnealing(time, h_error=0.0, J_error=0.0).probabilities(Q)[0].numpy()
    axes[0].scatter(problem[order], p[order], s=size, color=color, label=f"{time:g} ns")
axes[0].set(
    title="Long anneals end in the lowest state",
    xlabel="energy of the state",
    ylabel="probability",
    ylim=(-0.03, 1.03),
)
axes[0].legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)

axes[1].semilogx(times, exact, "o-", label="closed annealer")
axes[1].semilogx(times, noisy, "s--", color="tab:gray", label="with control errors")
axes[1].set(
    title="Longer anneals succeed more often",
    xlabel="anneal time, ns",
    ylabel="probability of the lowest state",
)
axes[1].set_ylim(0, 1.03)
axes[1].legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)
plt.show()
