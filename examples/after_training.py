"""Use a trained network: predict, probabilities, lowest states, a run to open, one file, and a page to explore."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import nn

from qubolearn import QuboNetwork, Run, fit, topology
from qubolearn.explore import page
from qubolearn.networks import load

rng = np.random.default_rng(0)
p = rng.normal(size=(600, 4))
x = p > 0
graph = topology("dense", 4)
torch.manual_seed(0)
network = QuboNetwork(nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, graph.size)), graph)

with TemporaryDirectory() as folder:
    fit(network, (p[:500], x[:500]), folder=f"{folder}/run")  # the same call resumes after Ctrl-C
    run = Run.open(f"{folder}/run")  # in another process, without the code above
    again = load(run.save(f"{folder}/mine.safetensors"))  # one file to deploy
    Path(folder, "page.html").write_text(page(run, show="table")[0])  # or: qubolearn explore run --show table

new = p[500:]
best = again.best(new, count=2)
print("bits:", again.predict(new[:1])[0], "probabilities:", again.predict_proba(new[:1])[0].round(3))
print(
    "two lowest energies:",
    best.energies[0].round(2),
    "of its bits:",
    again.energy(new[:1], x[500:501]).round(2),
)
print("unseen:", {"accuracy": float((again.predict(new) == x[500:]).all(1).mean())})
