"""
A learned QUBO and a hand-made one on the same chip
===================================================

Graph matching can be written as a QUBO by hand: a bit for each pair of nodes, the differences of edges as energy, and
penalties for everything that is not a permutation. The penalties must be large, so they fill the chip's range of
values, and they couple all bits, so bits become chains. A learned QUBO is made for the chip.
"""

# %%
# Graphs of four nodes. By hand there are 16 bits, or 9 if the last row and column are inserted (Seelbach Benkner et
# al., 2020). The learned QUBO encodes each node's partner in two bits, 8 in all, and uses the couplers of one cell. Its
# network comes with qubolearn (``pretrained``).
import matplotlib.pyplot as plt
import torch

from quant_reproduction.baselines.graphs import qgm
from qubolearn import QuantumAnnealing, pretrained, topology
from qubolearn.chips.embedding import Chip, find_tiles
from qubolearn.chips.programming import Embedding

run = pretrained("matching")
problem, network = run.problem, run.network()
test = problem.sample(8, torch.Generator().manual_seed(0), "test")
W = test.p.reshape(-1, 16, 16)
with torch.no_grad():
    learned = network(test.p)
inserted, baseline = qgm(W, "inserted"), qgm(W, "baseline")

# %%
# The number of qubits on a small Pegasus chip, and of instances per anneal.
chip = Chip.ideal("pegasus", 4)
tiles = {
    "learned": find_tiles(8, topology("chimera", 8).couplers, chip).tiles,
    "by hand, 9 bits": find_tiles(9, topology("dense", 9).couplers, chip).tiles,
    "by hand, 16 bits": find_tiles(16, topology("dense", 16).couplers, chip).tiles,
}
qubits = {name: sum(map(len, found[0])) for name, found in tiles.items()}
for name, found in tiles.items():
    print(f"{name}: {qubits[name]} qubits, {len(found)} instances per anneal on {chip}")

# %%
# The same closed annealer with the same control errors anneals all of them; a read counts if it encodes the correct
# permutation. The learned QUBO needs no chains; the one of 9 bits has chains. Chains for 16 bits are too many qubits to
# simulate, so that QUBO gets all couplers that it needs, which a chip would not have.
chains = Embedding.of(dict(enumerate(tiles["by hand, 9 bits"][0])), chip.graph.edges)
encodings = {
    "learned": ("C0", learned, problem.decode, None, (1, 3, 10, 30)),
    "by hand, 9 bits": ("C1", inserted.A, inserted.decode, chains, (1, 3, 10, 30)),
    "by hand, 16 bits": ("0.5", baseline.A, baseline.decode, None, (1, 3, 10)),
}
size = {"figsize": (9.5, 3.6), "width_ratios": [1, 1.5]}
figure, (left, right) = plt.subplots(1, 2, layout="constrained", **size)
for name, (color, A, decode, embedding, times) in encodings.items():
    success = []
    for time in times:
        reading = {"reads": 100, "programmings": 2, "seed": 0}
        annealer = QuantumAnnealing(time, embedding=embedding, **reading)
        reads = annealer.sample(A)
        found = decode(reads.flatten(0, 1)).reshape(*reads.shape[:2], -1)
        success.append((found == test.answer[:, None]).all(-1).double().mean().item())
    label = f"{name}, without chains" if name == "by hand, 16 bits" else name
    right.plot(times, success, "o-", color=color, label=label)
    left.bar_label(left.bar(name.replace(", ", ",\n"), qubits[name], color=color))
    print(f"{name}: {success[-1]:.2f} of the reads are correct after {times[-1]} ns")
left.set(
    title="The learned QUBO needs the fewest qubits",
    ylabel="qubits on Pegasus",
    ylim=(0, 1.15 * max(qubits.values())),
)
right.set(
    title="... and is read correctly most often",
    xlabel="anneal time, ns",
    ylabel="mean probability",
    ylim=(-0.03, 1.03),
)
right.set_xscale("log")
right.set_xticks([1, 3, 10, 30], ["1", "3", "10", "30"])
right.minorticks_off()
right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=3, fontsize=8)
plt.show()
