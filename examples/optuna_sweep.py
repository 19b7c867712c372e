"""Tune width and rate of a network with Optuna, and stop bad trials early through a callback. ``pip install optuna``"""

import numpy as np
import optuna
import torch
from torch import nn

from qubolearn import Adam, Arrays, Callback, QuboNetwork, evaluate, fit, topology
from qubolearn.training.optimizers import Cosine

rng = np.random.default_rng(0)
p = rng.normal(size=(800, 6)).astype(np.float32)
data = Arrays(p, p[:, :4] * p[:, 2:] > 0, validation=0.2, test=0.2)
pattern = topology("dense", data.bits)


class Prune(Callback):
    """Reports every scoring to a trial, and ends trials that are worse than the others were."""

    def __init__(self, trial):
        self.trial = trial

    def on_step(self, training):
        if training.scores is not None:
            self.trial.report(training.scores["accuracy"], training.step)
            if self.trial.should_prune():
                self.trial.set_user_attr("pruned", True)
                training.stop()


def network_of(trial):
    width = trial.suggest_int("width", 8, 128, log=True)
    torch.manual_seed(0)
    return QuboNetwork(nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, pattern.size)), pattern)


def objective(trial):
    network = network_of(trial)
    rate = trial.suggest_float("rate", 1e-3, 1e-1, log=True)
    training = fit(
        network, data, optimizer=Adam(rate, Cosine()), epochs=15, callbacks=[Prune(trial)], progress=False
    )
    if trial.user_attrs.get("pruned"):
        raise optuna.TrialPruned
    return training.history[-1]["accuracy"]


optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
study.optimize(objective, n_trials=8)
best = network_of(optuna.trial.FixedTrial(study.best_params))
fit(best, data, optimizer=Adam(study.best_params["rate"], Cosine()), epochs=60, progress=False)
pruned = sum(trial.state.name == "PRUNED" for trial in study.trials)
print(
    f"{len(study.trials)} trials, {pruned} pruned, width {study.best_params['width']}:",
    evaluate(best, data).metrics,
)
