"""Knapsack: choose the items of most value whose weights do not exceed a capacity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from qubolearn.data.contract import Instances, Problem, RightAnswers, Split
from qubolearn.errors import QubolearnError

if TYPE_CHECKING:
    from torch import Generator, Tensor

__all__ = ["Knapsack", "greedy_by_density"]

#: Values and weights are integers from 1 to this one.
LARGEST = 100


@dataclass(frozen=True)
class Knapsack(Problem):
    """Pack items of random values and weights; bit i is 1 if item i is packed.

    p is values and weights, integers from 1 to 100, and the capacity, 30 to 70 % of the
    total weight. All best packings are right, and x̂ is a random one. Instances never
    repeat, so splits are disjoint.

    :meth:`project` drops items of least value per weight until the rest fits, then adds those that fit.
    """

    name: ClassVar[str] = "knapsack"
    metric: ClassVar[str] = "value"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {  # `best` was chosen on validation instances
        "best": {"network": "pairwise", "hidden": 48, "learning_rate": 5e-3, "epochs": 80, "beta": 600.0},
    }

    items: int = 10
    """Items to choose from."""

    def __post_init__(self) -> None:
        if not 3 <= self.items <= 16:
            raise QubolearnError(f"items={self.items}; expected 3 to 16 (all 2**items packings are tried)")

    @property
    def input_size(self) -> int:
        return 2 * self.items + 1

    @property
    def bits(self) -> int:
        return self.items

    def sample(self, count: int, generator: Generator, split: Split = "train") -> Instances:
        import torch

        device = generator.device
        how: Any = {"generator": generator, "device": device}
        numbers = torch.randint(1, LARGEST + 1, (count, 2 * self.items), **how).float()
        share = 0.3 + 0.4 * torch.rand(count, 1, **how)
        capacity = (share * numbers[:, self.items :].sum(1, keepdim=True)).floor()
        p = torch.cat([numbers, capacity], 1)
        right = self._best_packings(p)
        x_true = right.draw(generator)
        return Instances(p, x_true, x_true, right)

    def _best_packings(self, p: Tensor) -> RightAnswers:
        """Return all best packings that fit, by brute force."""
        import torch

        number = torch.arange(2**self.items, device=p.device)
        packings = ((number[:, None] >> torch.arange(self.items, device=p.device)) & 1).float()
        found, chunk = [], max(1, 2**24 >> self.items)
        for some in torch.split(p, chunk):
            values, weights, capacity = self._parts(some)
            worth = (values @ packings.T).masked_fill(weights @ packings.T > capacity, -1.0)
            found.append(worth == worth.amax(1, keepdim=True))
        best = torch.cat(found) if found else torch.zeros(0, 2**self.items, dtype=torch.bool, device=p.device)
        most = int(best.sum(1).max()) if len(best) else 1
        valid, index = best.to(torch.uint8).topk(most, 1)
        return RightAnswers(packings[index], valid.bool())

    def _parts(self, p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return values, weights ``[batch, items]`` and capacity ``[batch, 1]``."""
        return p[:, : self.items], p[:, self.items : -1], p[:, -1:]

    def score(self, answer: Tensor, instances: Instances) -> dict[str, Tensor]:
        """Return ``value`` relative to the optimum, ``feasible`` and ``exact``."""
        values, weights, capacity = self._parts(instances.p)
        feasible = (weights * answer).sum(1) <= capacity[:, 0]
        value = (values * answer).sum(1) / (values * instances.x_true).sum(1)
        value = value.where(feasible, 0.0)
        return {"value": value, "feasible": feasible.float(), "exact": (value == 1).float()}

    def remarks(self, answer: Tensor, p: Tensor) -> list[str]:
        """Return the weight and value of each packing, and whether it fits."""
        values, weights, capacity = self._parts(p)
        loads, worths = (weights * answer).sum(1), (values * answer).sum(1)
        return [
            f"weighs {load:g} of {most:g}, worth {worth:g}"
            if load <= most
            else f"too heavy: {load:g} of {most:g}; --project"
            for load, most, worth in zip(loads.tolist(), capacity[:, 0].tolist(), worths, strict=True)
        ]

    def show(self, p: Any) -> dict[str, Any]:
        """Return one instance as a table, for the explorer."""
        values, weights, capacity = (part[0].tolist() for part in self._parts(p[None]))
        rows = [[f"item {i}", *pair] for i, pair in enumerate(zip(values, weights, strict=True))]
        return {"table": [["", "value", "weight"], *rows, ["capacity", "", *capacity]]}

    def project(self, x: Tensor, p: Tensor) -> Tensor:
        import torch

        values, weights, capacity = self._parts(p)
        order = (values / weights).argsort(dim=1, descending=True, stable=True)
        w, packed = weights.gather(1, order), x.gather(1, order).bool()
        load = (w * packed).sum(1)
        for item in range(self.items - 1, -1, -1):  # from the least value per weight
            out = packed[:, item] & (load > capacity[:, 0])
            load = load - w[:, item] * out
            packed[:, item] &= ~out
        for item in range(self.items):
            put = ~packed[:, item] & (load + w[:, item] <= capacity[:, 0])
            load = load + w[:, item] * put
            packed[:, item] |= put
        return torch.zeros_like(x).scatter(1, order, packed.to(x.dtype))

    def reference(self, p: Tensor) -> Tensor:
        """Return the greedy packing, to which ``pairwise`` predicts changes."""
        return greedy_by_density(self, p)

    def features(self, p: Tensor) -> tuple[Tensor, Tensor]:
        """Return features ``[batch, items, 9]`` and ``[batch, pairs, 3]`` for ``pairwise``.

        They describe changes of the greedy packing: sign is 1 for items that it leaves out,
        else -1, and change is sign times weight. Gain is value minus weight times the density
        at which greedy runs out of room.
        """
        import torch

        values, weights, capacity = (part / LARGEST for part in self._parts(p))
        density = values / weights.clamp_min(1 / LARGEST)
        before = ((density[:, None, :] > density[:, :, None]).to(p.dtype) @ weights[:, :, None])[..., 0]
        critical = (density * ((before <= capacity) & (before + weights > capacity))).amax(1, keepdim=True)
        packed = self.reference(p)
        sign, room = 1 - 2 * packed, capacity - (weights * packed).sum(1, keepdim=True)
        change, gain = sign * weights, values - critical * weights
        nodes = [
            change,
            weights**2,
            change * room,
            sign,
            sign * gain,
            gain.abs(),
            room,
            room - change,
            values,
        ]
        i, j = torch.triu_indices(self.items, self.items, 1, device=p.device)
        both = change[:, i] + change[:, j]
        pairs = [change[:, i] * change[:, j], sign[:, i] * sign[:, j], (both - room).abs()]
        return torch.stack([part.expand_as(values) for part in nodes], -1), torch.stack(pairs, -1)

    def picture(self, axis: Any, instances: Instances, answer: Tensor) -> None:
        """Draw value against weight, packed items filled; red if they do not fit."""
        (values, weights, capacity), x = self._parts(instances.p), answer[0]
        load = float((weights[0] * x).sum())
        color = "C0" if load <= float(capacity) else "C3"
        for value, weight, packed in zip(values[0].tolist(), weights[0].tolist(), x.tolist(), strict=True):
            axis.plot(weight, value, "o", ms=7, mec=color, mfc=color if packed else "w")
        axis.set_xlabel(f"weight, {load:.0f} packed of {float(capacity):.0f}", fontsize=9)
        axis.set_ylabel(f"value, {float((values[0] * x).sum()):.0f} packed", fontsize=9)


def greedy_by_density(problem: Knapsack, p: Tensor) -> Tensor:
    """Pack by value per weight, the classical baseline."""
    return problem.project(p.new_zeros(len(p), problem.items), p)
