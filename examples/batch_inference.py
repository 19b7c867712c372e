"""Predict many instances with Ray Data: ``python examples/batch_inference.py [ROWS] [ADDRESS]``.

Without ADDRESS, the cores of this machine are used. ADDRESS is a cluster, such as HEAD:6379; then OUT must name
a folder that all nodes share, such as ``s3://...``. ``pip install 'ray[data]'``
"""

import os
import sys
import tempfile
import time

import numpy as np
import pyarrow.dataset
import ray
import torch

from qubolearn import MLP, QuboNetwork, topology

BITS, INPUTS = 8, 32


def read(batch):
    """Make up the features of instances; with data of your own: ``ray.data.read_parquet(...)``."""
    ids = batch["id"][:, None]
    return {"id": batch["id"], "p": np.sin(ids * (1 + np.arange(INPUTS))).astype(np.float32)}


class Predict:
    """A worker: it receives the network once, and then batch after batch."""

    def __init__(self, network):
        torch.set_num_threads(1)
        self.network = network  # .to("cuda") for workers with a GPU

    def __call__(self, batch):
        began = time.process_time()
        x = np.packbits(self.network.predict(batch["p"]), 1)[:, 0]  # eight bits as a byte
        seconds = np.full(len(x), (time.process_time() - began) / len(x))
        return {"id": batch["id"], "x": x, "seconds": seconds}


if __name__ == "__main__":
    rows, address = int((sys.argv[1:] or [20_000])[0]), (sys.argv[2:] or [None])[0]
    ray.init(
        address=address or "local",
        num_cpus=None if address else 2,
        include_dashboard=False,
        log_to_driver=False,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    torch.manual_seed(0)
    pattern = topology("dense", BITS)
    network = QuboNetwork(MLP(INPUTS, pattern.size, 3, 64), pattern)  # yours: qubolearn.networks.load(path)
    workers = ray.data.ActorPoolStrategy(
        size=max(1, int(ray.cluster_resources()["CPU"]) - 1)
    )  # one core reads
    out, began = os.environ.get("OUT") or tempfile.mkdtemp(), time.perf_counter()
    data = ray.data.range(rows).map_batches(read, batch_size=8192)
    data.map_batches(Predict, fn_constructor_args=(network,), compute=workers, batch_size=8192).write_parquet(
        out
    )
    seconds = time.perf_counter() - began
    ray.shutdown()
    found = pyarrow.dataset.dataset(out)
    first = found.to_table(["id", "x"], pyarrow.dataset.field("id") < 1000).sort_by("id")["x"].to_numpy()
    same = (
        first == np.packbits(network.predict(read({"id": np.arange(min(rows, 1000))})["p"]), 1)[:, 0]
    ).all()
    spent = found.to_table(["seconds"])["seconds"].to_numpy().sum()
    print(
        f"{out}:",
        {"rows": found.count_rows(), "same": bool(same), "seconds": seconds, "cpu_seconds": float(spent)},
    )
