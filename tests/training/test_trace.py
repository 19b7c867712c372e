"""A step of ``fit`` passes few of our files."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import torch
from torch import nn

import qubolearn
from qubolearn import Adam, Arrays, ExhaustiveSearch, Likelihood, QuboNetwork, topology
from qubolearn.training.batches import Drawn
from qubolearn.training.optimizers import FlatAdam
from qubolearn.training.steps import Steps, Task


def test_a_step_passes_at_most_ten_files() -> None:
    p = torch.randn(200, 6, generator=torch.Generator().manual_seed(0))
    graph = topology("dense", 4)
    network = QuboNetwork(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, graph.size)), graph)
    data = Arrays(p, p[:, :4] > 0, validation=0)
    batches = Drawn(data, 200, 50, False, 0, "cpu")
    steps = Steps(Task(network, FlatAdam(network, Adam(1e-2)), batches, Likelihood(), ExhaustiveSearch(), 0, data))
    steps.advance(0, 1)
    root, files = str(Path(qubolearn.__file__).parent), set[str]()

    def called(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            files.add(frame.f_code.co_filename)

    sys.setprofile(called)
    try:
        steps.advance(1, 2)
    finally:
        sys.setprofile(None)
    assert len(files) <= 10, sorted(files)
