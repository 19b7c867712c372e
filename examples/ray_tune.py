"""The same sweep on the cores of this machine or on a cluster: ``python examples/ray_tune.py [ADDRESS]``.

``pip install 'ray[tune]'``. A trial is a Ray task that calls ``fit``; ``address=`` names the head node of a cluster.
"""

import sys

import numpy as np
import ray
import torch
from torch import nn

from qubolearn import Adam, Arrays, QuboNetwork, evaluate, fit, topology
from qubolearn.training.optimizers import Cosine


@ray.remote(num_cpus=1)
def trial(width, rate, arrays):
    p, x = arrays
    data = Arrays(np.array(p), np.array(x), validation=0.2, test=0.2)
    pattern = topology("dense", data.bits)
    torch.manual_seed(0)
    network = QuboNetwork(nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, pattern.size)), pattern)
    training = fit(network, data, optimizer=Adam(rate, Cosine()), epochs=20, progress=False)
    return training.history[-1]["accuracy"], evaluate(network, data).metrics


if __name__ == "__main__":
    ray.init(address=sys.argv[1] if len(sys.argv) > 1 else None, num_cpus=None if len(sys.argv) > 1 else 2)
    rng = np.random.default_rng(0)
    p = rng.normal(size=(800, 6)).astype(np.float32)
    shared = ray.put((p, p[:, :4] * p[:, 2:] > 0))
    grid = [(width, rate) for width in (16, 64) for rate in (3e-3, 3e-2)]
    found = ray.get([trial.remote(width, rate, shared) for width, rate in grid])
    best = max(range(len(grid)), key=lambda number: found[number][0])  # by validation; the test set only reports
    print("width {}, rate {}:".format(*grid[best]), found[best][1])
    ray.shutdown()
