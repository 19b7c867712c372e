"""Max-cut: split the nodes of a graph so that most edges are cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from qubolearn.data.contract import Instances, Problem, RightAnswers, Split
from qubolearn.errors import QubolearnError

if TYPE_CHECKING:
    from torch import Generator, Tensor

__all__ = ["MaxCut", "cut_sizes", "optimal_cuts"]

#: Graphs whose cuts are counted at once: 2**15 cuts of each take 32 MiB.
CHUNK = 256


@dataclass(frozen=True)
class MaxCut(Problem):
    """Cut a random graph of edge probability 1/2; bit i is the side of node i.

    p has a 1 for each pair (0, 1), (0, 2) ... (n-2, n-1) that is an edge. All optimal
    cuts are right, and the label x̂ is a random one. Training sees only the label unless ``answers`` is "all".

    A hash of the edges determines the split; a copy with renamed nodes may be in another.
    """

    name: ClassVar[str] = "maxcut"
    show: ClassVar[str] = "graph"  # in the explorer
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {  # `best` was chosen on validation graphs
        "best": {"network": "pairwise", "hidden": 16, "learning_rate": 1e-2, "epochs": 10, "beta": 12.0},
    }

    nodes: int = 8
    """Nodes of the graph."""
    answers: Literal["one", "all"] = "one"
    """Right answers of training instances: one random optimal cut, as in collected data, or all of them."""

    def __post_init__(self) -> None:
        if not 4 <= self.nodes <= 16:
            raise QubolearnError(f"nodes={self.nodes}; expected 4 to 16 (all 2**(nodes-1) cuts are tried)")

    @property
    def input_size(self) -> int:
        return self.nodes * (self.nodes - 1) // 2

    @property
    def bits(self) -> int:
        return self.nodes

    def sample(self, count: int, generator: Generator, split: Split = "train") -> Instances:
        p = self._graphs(count, generator, split)
        right = optimal_cuts(p, self.nodes)
        x_true = right.draw(generator)
        return Instances(p, x_true, x_true, None if split == "train" and self.answers == "one" else right)

    def _graphs(self, count: int, generator: Generator, split: Split) -> Tensor:
        """Draw edges ``[count, pairs]`` of graphs of the split."""
        import torch

        device, found, missing = generator.device, [], count
        while missing > 0:  # 1/8 or more of the draws
            draws = torch.rand(2 * missing + 64, self.input_size, generator=generator, device=device) < 0.5
            some = draws[_split_of(draws) == split][:missing]
            found.append(some.float())
            missing -= len(some)
        return torch.cat(found) if found else torch.zeros(0, self.input_size, device=device)

    def score(self, answer: Tensor, instances: Instances) -> dict[str, Tensor]:
        """Return ``accuracy``, 1 if optimal, and ``ratio`` to the largest cut."""
        cut, best = cut_sizes(answer, instances.p), cut_sizes(instances.x_true, instances.p)
        return {"accuracy": (cut == best).float(), "ratio": cut.div(best).where(best > 0, 1.0)}

    def remarks(self, answer: Tensor, p: Tensor) -> list[str]:
        """Return the number of edges in each cut, as text."""
        counts = zip(cut_sizes(answer, p).tolist(), p.sum(1).tolist(), strict=True)
        return [f"cuts {cut:g} of {edges:g} edges" for cut, edges in counts]

    def features(self, p: Tensor) -> tuple[Tensor, Tensor]:
        """Return degrees ``[batch, n, 1]`` and edges ``[batch, pairs, 1]`` for ``pairwise``."""
        import torch

        i, j = torch.triu_indices(self.nodes, self.nodes, 1, device=p.device)
        zeros = p.new_zeros(len(p), self.nodes)
        degree = zeros.index_add(1, i, p).index_add(1, j, p)
        return (2 * degree / (self.nodes - 1) - 1)[:, :, None], (2 * p - 1)[:, :, None]

    def picture(self, axis: Any, instances: Instances, answer: Tensor) -> None:
        """Draw one graph on a circle, its cut edges in color."""
        import math

        p, x = instances.p[0], answer[0]
        turns = [2 * math.pi * node / self.nodes for node in range(self.nodes)]
        places = [(math.sin(turn), math.cos(turn)) for turn in turns]
        pairs = [(i, j) for i in range(self.nodes) for j in range(i + 1, self.nodes)]
        for (i, j), edge in zip(pairs, p.tolist(), strict=True):
            if edge:
                cut = bool(x[i] != x[j])
                ends = zip(places[i], places[j], strict=True)
                axis.plot(*ends, "C3-" if cut else "0.8", lw=1.2, zorder=1 + cut)
        for place, side in zip(places, x.tolist(), strict=True):
            axis.plot(*place, "o", ms=9, mec="k", mfc="k" if side else "w", zorder=3)
        axis.set_xlabel(f"{int(cut_sizes(x[None], p[None]))} of {int(p.sum())} edges cut", fontsize=9)
        axis.set(aspect="equal", frame_on=False)

    @classmethod
    def preset(cls, name: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**super().preset(name, options), **(_LARGE if options.get("nodes", 8) > 10 else {})}


def _split_of(graphs: Tensor) -> Any:
    """Return the split of each graph: an eighth each for validation and test."""
    import numpy as np

    names = np.array(["validation", "test"] + 6 * ["train"])
    code = np.zeros(len(graphs), np.uint64)
    for edge in graphs.cpu().numpy().T.astype(np.uint64):  # a multiplicative hash, modulo 2**64
        code = (code ^ edge) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1)
        code ^= code >> np.uint64(29)
    return names[(code >> np.uint64(32)) % np.uint64(8)]


def cut_sizes(x: Tensor, p: Tensor) -> Tensor:
    """Return the number ``[batch]`` of edges p between the sides x."""
    import torch

    i, j = torch.triu_indices(x.shape[1], x.shape[1], 1, device=x.device)
    return (p * (x[:, i] != x[:, j])).sum(1)


def optimal_cuts(p: Tensor, nodes: int) -> RightAnswers:
    """Return all largest cuts, by brute force with node 0 on side 0."""
    import torch

    half = torch.arange(2 ** (nodes - 1), device=p.device)
    sides = ((half[:, None] >> torch.arange(nodes - 1, -1, -1, device=p.device)) & 1).float()
    i, j = torch.triu_indices(nodes, nodes, 1, device=p.device)
    between = (sides[:, i] != sides[:, j]).float()  # [cuts, pairs]
    rows, cuts = [], []
    for first in range(0, len(p), CHUNK):
        sizes = p[first : first + CHUNK] @ between.T  # integers: exact in float32
        row, cut = (sizes == sizes.amax(1, keepdim=True)).nonzero().unbind(1)
        rows.append(row + first)
        cuts.append(cut)
    row, x = torch.cat(rows), sides[torch.cat(cuts)]
    number = torch.bincount(row, minlength=len(p))
    place = torch.arange(len(row), device=p.device) - (number.cumsum(0) - number)[row]
    most = int(number.max()) if len(p) else 0
    states = p.new_zeros(len(p), most, 2, nodes)
    valid = states[..., 0].bool()
    states[row, place], valid[row, place] = torch.stack([x, 1 - x], 1), True
    return RightAnswers(states.flatten(1, 2), valid.flatten(1))


#: Large graphs are drawn once, since labeling them is slow. Their bounded entries of A
#: leave smaller gaps, so the likelihood has a larger β.
_LARGE: Mapping[str, Any] = {"fresh": False, "beta": 60.0, "hidden": 32, "epochs": 15}
