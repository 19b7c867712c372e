"""Define a problem in forty lines: learn QUBOs whose minimizer encodes how to sort three numbers."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from qubolearn import ExhaustiveSearch, Instances, Problem, evaluate
from qubolearn.data.encodings import decode_permutation, encode_permutation, nearest_permutation
from qubolearn.recipes import preset, train


@dataclass(frozen=True)
class Sorting(Problem):
    """p are k numbers; the answer is the rank of each, in ceil(log2 k) bits."""

    name: ClassVar[str] = "sorting"
    k: int = 3

    input_size = property(lambda self: self.k)
    bits = property(lambda self: 2 * self.k)

    def sample(self, count, generator, split="train"):
        p = torch.rand(count, self.k, generator=generator, device=generator.device)
        ranks = p.argsort(1).argsort(1)
        return Instances(p, encode_permutation(ranks), ranks)

    def decode(self, x):
        return decode_permutation(x, self.k)

    def project(self, x, p):
        return nearest_permutation(x, self.k)

    def score(self, answer, instances):
        return {"accuracy": (answer == instances.answer).all(-1).float()}


if __name__ == "__main__":
    problem, recipe = preset("best", Sorting, hidden=32, epochs=30)
    network = train(problem, recipe)
    print(evaluate(network, problem, ExhaustiveSearch(), instances=2000, seed=1).metrics)
