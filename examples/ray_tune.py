"""Tune a network with Ray Tune on this machine or a cluster: ``python examples/ray_tune.py [ADDRESS]``.

A trial calls ``fit`` and reports each scoring through a callback; the scheduler ASHA stops trials that fall behind.
ADDRESS is a cluster, such as HEAD:6379; then OUT must name a folder that all nodes share.
``pip install 'ray[tune]'``
"""

import os
import sys
import tempfile

import numpy as np
import ray
import torch
from ray import tune
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search import BasicVariantGenerator
from torch import nn

from qubolearn import Adam, Arrays, Callback, QuboNetwork, evaluate, fit, topology
from qubolearn.training.optimizers import Cosine


class Report(Callback):
    def on_step(self, training):
        if training.scores is not None:
            tune.report({"accuracy": training.scores["accuracy"]})


def trained(config, p, x, callbacks=()):
    data, pattern, width = (
        Arrays(p, x, validation=0.2, test=0.2),
        topology("dense", x.shape[1]),
        config["width"],
    )
    torch.manual_seed(0)
    network = QuboNetwork(
        nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, pattern.size)), pattern
    )
    fit(
        network,
        data,
        optimizer=Adam(config["rate"], Cosine()),
        epochs=15,
        callbacks=list(callbacks),
        progress=False,
    )
    return evaluate(network, data).metrics  # of the test set, which chooses nothing


def trial(config, p, x):
    trained(config, np.array(p), np.array(x), [Report()])


if __name__ == "__main__":
    address = sys.argv[1] if len(sys.argv) > 1 else None
    ray.init(
        address=address or "local",
        num_cpus=None if address else 2,
        include_dashboard=False,
        log_to_driver=False,
    )
    p = np.random.default_rng(0).normal(size=(800, 6)).astype(np.float32)
    x = p[:, :4] * p[:, 2:] > 0
    space = {"width": tune.lograndint(8, 128), "rate": tune.loguniform(1e-3, 1e-1)}
    options = {
        "search_alg": BasicVariantGenerator(random_state=0),
        "scheduler": ASHAScheduler(max_t=15, grace_period=3),
    }
    settings = tune.TuneConfig(metric="accuracy", mode="max", num_samples=6, reuse_actors=True, **options)
    files = tune.RunConfig(storage_path=os.environ.get("OUT") or tempfile.mkdtemp(), verbose=0)
    study = tune.Tuner(
        tune.with_parameters(trial, p=p, x=x), param_space=space, tune_config=settings, run_config=files
    )
    results = study.fit()
    best = results.get_best_result(scope="all").config
    stopped = sum(len(result.metrics_dataframe) < 15 for result in results)
    print(f"{len(results)} trials, {stopped} stopped early, width {best['width']}:", trained(best, p, x))
    ray.shutdown()
