"""
Compare solvers on one QUBO
===========================

All solvers are values with one contract, ``solve(A, solver)``, so a comparison is a loop. Each gets increasing effort
on the same QUBO of 400 bits, and the plot shows the energy that it reaches against its time.
"""

# %%
# Our solvers, and two Ocean samplers through the adapter. Times are those of the whole call on this machine, including
# the choice of temperatures and the conversion to dimod models, which dominate for few sweeps. The page *Solvers*
# measures sweeps alone, and batches.
import time

import matplotlib.pyplot as plt
import torch

from qubolearn import solve
from qubolearn.solvers import make_solver

n = 400
A = torch.randn(1, n, n, generator=torch.Generator().manual_seed(3))
solvers = {
    "annealing (ours)": "annealing:reads=4,sweeps={},seed=0",
    "tempering (ours)": "tempering:sweeps={},seed=0",
    "neal": "neal:reads=4,sweeps={},seed=0",
    "tabu": "tabu:reads=4,restarts=1,updates={}00,seed=0",
}
results = {}
for name, spec in solvers.items():
    solve(A, make_solver(spec.format(2)), 1)
    results[name] = []
    for work in (3, 10, 30, 100, 300, 1000):
        began = time.perf_counter()
        found = solve(A, make_solver(spec.format(work)), 1)
        results[name].append((time.perf_counter() - began, found.energies.item()))

# %%
# The zero of the plot is the lowest energy that any solver found; the true minimum is not known.
best = min(energy for points in results.values() for _, energy in points)
figure, axis = plt.subplots(figsize=(5.4, 4.2), layout="constrained")
for (name, points), marker in zip(results.items(), "os^D", strict=True):
    milliseconds, above = zip(
        *((1000 * t, 100 * (1 - energy / best)) for t, energy in points), strict=True
    )
    axis.plot(milliseconds, above, marker, ms=7, alpha=0.8, label=name)
_, first = min(
    (t, name)
    for name, points in results.items()
    for t, energy in points
    if energy <= best + 1e-9 * abs(best)
)
axis.set_title(f"{first} finds the lowest energy first")
axis.set(xlabel="time, ms", xscale="log")
axis.set_ylabel("energy above the best, %")
axis.minorticks_off()
axis.grid(alpha=0.3)
axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2)
plt.show()
for name, points in results.items():
    reached = [
        f"{1000 * t:.1f} ms"
        for t, energy in points
        if energy <= best + 5e-4 * abs(best)
    ]
    when = "after " + reached[0] if reached else "never"
    print(f"{name}: within 0.05 % of the best {when}")
