"""
Many QUBOs in one anneal of a D-Wave chip
=========================================

A chip has thousands of qubits, and a learned QUBO needs eight, so one anneal can solve many QUBOs. Those whose
couplings are couplers of the chip take one qubit per bit; all others need chains of several qubits per bit.
``DWaveSolver.mock`` runs the same code without a token: simulated annealing replaces the physics.
"""

# %%
# A small Chimera chip with three broken qubits, and fifty learned QUBOs of eight bits, twice: those that match graphs
# of four nodes use the couplers of one Chimera cell, those of max-cut with eight nodes couple all pairs of bits. Both
# networks come with qubolearn (``pretrained``).
import dwave.graphs
import matplotlib.pyplot as plt
import torch

from qubolearn import DWaveSolver, ExhaustiveSearch, pretrained, solve, topology
from qubolearn.chips.embedding import Chip, find_tiles

BROKEN = [13, 70, 71]
solver = DWaveSolver.mock("chimera", size=6, broken_qubits=BROKEN, reads=50, seed=0)
draw = torch.Generator().manual_seed(0)
patterns = {}
for model, name in (("matching", "one Chimera cell"), ("maxcut", "all pairs")):
    run = pretrained(model)
    patterns[name] = topology(run.recipe.topology, run.problem.bits)
    with torch.no_grad():
        A = run.network()(run.problem.sample(50, draw, "test").p)
    found = solve(A, solver, count=1)
    exact = solve(A, ExhaustiveSearch(), count=1)
    right = torch.isclose(found.energies, exact.energies, atol=1e-4).double().mean()
    info = found.info
    milliseconds = 1000 * info["qpu_access_seconds"]
    print(
        f"{name}, {info['embedding']} embedding: {info['tiles']} QUBOs per anneal, "
        f"{100 * right:.0f} % solved\n"
        f"  with {info['calls']} calls and {milliseconds:.0f} ms of a QPU"
    )

# %%
# The positions of the bits. Each tile has a color; couplers inside chains are drawn thick. A tile that would need a
# broken qubit (cross) is left out.
ideal = Chip.ideal("chimera", 6)
working = [qubit for qubit in ideal.graph if qubit not in BROKEN]
chip = Chip.of("chimera", ideal.shape, working, ideal.graph.subgraph(working).edges)
places = dwave.graphs.chimera_layout(dwave.graphs.chimera_graph(6))
colors = plt.get_cmap("tab20").colors

for name, pattern in patterns.items():
    figure, axis = plt.subplots(figsize=(5, 5), layout="constrained")
    tiles = find_tiles(8, pattern.couplers, chip).tiles
    for u, v in chip.graph.edges:
        axis.plot(
            *zip(places[u], places[v], strict=True), color="0.88", lw=0.5, zorder=1
        )
    for number, tile in enumerate(tiles):
        for chain in tile:
            for u, v in chip.graph.subgraph(chain).edges:
                axis.plot(
                    *zip(places[u], places[v], strict=True),
                    color=colors[number % 20],
                    lw=2.5,
                    zorder=2,
                )
            at = [places[qubit] for qubit in chain]
            axis.scatter(
                *zip(*at, strict=True), s=22, color=[colors[number % 20]], zorder=3
            )
    used = {qubit for tile in tiles for chain in tile for qubit in chain}
    unused = [places[qubit] for qubit in working if qubit not in used]
    if unused:
        axis.scatter(*zip(*unused, strict=True), s=14, color="0.75", zorder=2)
    axis.scatter(
        *zip(*(places[qubit] for qubit in BROKEN), strict=True),
        marker="x",
        color="k",
        s=30,
        zorder=4,
    )
    qubits, plural = sum(map(len, tiles[0])), "s fit" if len(tiles) > 1 else " fits"
    axis.set_title(f"{name}: {len(tiles)} QUBO{plural}, {qubits} qubits each")
    axis.set_axis_off()
    axis.set_aspect("equal")
plt.show()
