"""A small convolutional reader of digits, trained in seconds on the pictures that come with scikit-learn."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from qubolearn.errors import missing_extra
from qubolearn.randomness import stream

__all__ = ["DigitReader", "scores_of_digits", "train_reader"]

#: Of the pictures so many are the reader's to learn from; the others are for puzzles.
LEARNED, EPOCHS, BATCH = 700, 20, 50


class DigitReader(nn.Module):
    """Pictures ``[batch, 1, 8, 8]`` -> logits of the digits ``[batch, 10]``: two convolutions and a layer, as LeNet."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.last = nn.Linear(32 * 2 * 2, 10)

    def forward(self, pictures: Tensor) -> Tensor:
        small = torch.max_pool2d(torch.relu(self.first(pictures)), 2)
        smaller = torch.max_pool2d(torch.relu(self.second(small)), 2)
        logits: Tensor = self.last(smaller.flatten(1))
        return logits


def train_reader(pictures: Tensor, labels: Tensor, seed: int = 0) -> DigitReader:
    """A reader trained on pictures ``[count, 1, 8, 8]`` with their labels ``[count]``."""
    generator = stream(seed, "reader")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        reader = DigitReader()
    optimizer, threads = torch.optim.Adam(reader.parameters(), 3e-3), torch.get_num_threads()
    torch.set_num_threads(1)  # these layers are too small to share: threads would wait for each other
    try:
        for _ in range(EPOCHS):
            order = torch.randperm(len(pictures), generator=generator)
            for first in range(0, len(order), BATCH):
                rows = order[first : first + BATCH]
                optimizer.zero_grad()
                nn.functional.cross_entropy(reader(pictures[rows]), labels[rows]).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
    finally:
        torch.set_num_threads(threads)
    return reader.eval()


@cache
def scores_of_digits() -> tuple[Tensor, Tensor]:
    """Probabilities ``[count, 10]`` of pictures that the reader never saw, and their labels ``[count]``."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise missing_extra("pictures of digits", "sklearn") from error
    data = load_digits()
    pictures = torch.tensor(data.images / 16.0, dtype=torch.float32)[:, None]
    labels = torch.tensor(data.target, dtype=torch.int64)
    order = torch.randperm(len(labels), generator=stream(0, "pictures"))
    known, unknown = order[:LEARNED], order[LEARNED:]
    reader = train_reader(pictures[known], labels[known])
    with torch.no_grad():
        return reader(pictures[unknown]).softmax(1), labels[unknown]
