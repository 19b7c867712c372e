"""Callbacks for training; docs/callbacks.md shows how to write one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

from qubolearn.errors import CallbackError, NonFiniteError, QubolearnError, unknown_name
from qubolearn.files import read_tensors, write_tensors

__all__ = [
    "Callback",
    "Checkpoint",
    "ClipGradients",
    "EarlyStopping",
    "ProgressBar",
    "Record",
    "StopIf",
    "Training",
]

#: Metrics with one of these words in their name are better if lower.
LESS_IS_BETTER = ("loss", "wrong", "error", "degrees", "distance")


class Record(dict[str, Any]):
    """One scoring of the history: a dict whose repr leaves out lists.

    >>> Record(step=3, loss=0.5, couplings=[[1.0, 2.0], [2.0, 1.0]])
    {'step': 3, 'loss': 0.5, 'couplings': [2 items]}
    """

    def __repr__(self) -> str:
        shown = {k: f"[{len(v)} items]" if isinstance(v, (list, tuple)) else repr(v) for k, v in self.items()}
        return "{" + ", ".join(f"{name!r}: {text}" for name, text in shown.items()) + "}"


@dataclass
class Training:
    """A training run as callbacks see it, returned by ``fit``."""

    network: nn.Module
    steps: int  #: in all
    step: int = 0  #: steps that are done
    loss: float = float("nan")  #: the mean loss of the last step's batch
    #: metrics of the validation instances, if they were scored after this step
    scores: dict[str, Any] | None = None
    #: step, loss, seconds and scores per scoring
    history: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0  #: the time that the steps took
    stopping: int = 0  #: 1 after :meth:`stop` until resumed, 2 permanently

    def stop(self, for_good: bool = True) -> None:
        """End the run after this step, permanently or until it is resumed."""
        self.stopping = max(self.stopping, 2 if for_good else 1)


class Callback:
    """Base class for callbacks; all hooks are no-ops.

    Each hook receives the :class:`Training`. If it raises, training ends with
    a CallbackError that names the callback.

    >>> class Until(Callback):
    ...     def on_step(self, training):
    ...         if training.loss < 0.1:
    ...             training.stop()
    """

    def on_start(self, training: Training) -> None:
        """Run before the first step, after a resumed run is restored."""

    def on_gradient(self, training: Training) -> None:
        """Run before each optimizer step; it may change ``grad`` in place."""

    def on_step(self, training: Training) -> None:
        """Run after each step, or after several on a GPU; ``training.scores`` may be None."""

    def on_end(self, training: Training) -> None:
        """Run after the last step, and if training is stopped or fails."""


def call(callback: Any, moment: str, training: Training) -> None:
    """Call a hook; an error names the callback, the hook and the step."""
    try:
        if hasattr(callback, moment):
            getattr(callback, moment)(training)
    except NonFiniteError:
        raise
    except Exception as error:
        where = f"callback {type(callback).__name__}.{moment} failed at step {training.step}"
        raise CallbackError(f"{where}: {type(error).__name__}: {error}") from error


class _Watching(Callback):
    """Base class for callbacks that follow one metric."""

    def __init__(self, metric: str = "loss", higher_is_better: bool | None = None) -> None:
        guess = not any(word in metric for word in LESS_IS_BETTER)
        self._sign = 1.0 if (guess if higher_is_better is None else higher_is_better) else -1.0
        self.metric, self.best = metric, -math.inf

    def on_start(self, training: Training) -> None:
        self.best = -math.inf  # the object may have followed another run

    def improved(self, record: Mapping[str, Any]) -> bool:
        """Return True if the metric of this record is a new best."""
        numbers = {name: value for name, value in record.items() if isinstance(value, (int, float))}
        if self.metric not in numbers:
            raise unknown_name("metric", self.metric, numbers)
        value = self._sign * float(numbers[self.metric])
        better = value > self.best
        self.best = max(self.best, value)
        return better


def check_callbacks(callbacks: object, validated: bool) -> None:
    """Raise unless these are callbacks whose metrics are scored."""
    if not isinstance(callbacks, Sequence):
        raise QubolearnError(f"callbacks is a {type(callbacks).__name__}; expected a list of them")
    for each in callbacks:
        hooks = [moment for moment in vars(Callback) if moment.startswith("on_") and hasattr(each, moment)]
        if isinstance(each, type) or not hooks:
            raise QubolearnError(f"callback {each!r}; expected a value with a hook such as on_step")
        if isinstance(each, _Watching) and not validated and each.metric not in ("loss", "seconds", "step"):
            what = f"{type(each).__name__} follows {each.metric!r}, but there are no validation instances"
            raise QubolearnError(f"{what}; pass validation=(p, x), or data=Arrays(p, x, validation=0.1)")


def edits_gradient(callback: Any) -> bool:
    """Return True if a callback has ``on_gradient``, which needs the host."""
    return getattr(type(callback), "on_gradient", Callback.on_gradient) is not Callback.on_gradient


class EarlyStopping(_Watching):
    """Stop training when a validation metric has not improved for a while.

    Args:
        metric: a score, such as ``accuracy`` or ``wrong_bits``.
        patience: the scorings in a row without improvement after which to stop.
        higher_is_better: by default False for losses, errors and distances, else True.
    """

    def __init__(self, metric: str, patience: int = 5, higher_is_better: bool | None = None) -> None:
        super().__init__(metric, higher_is_better)
        if patience < 1:
            raise QubolearnError(f"patience={patience}; expected at least 1")
        self.patience, self._bad = patience, 0

    def on_start(self, training: Training) -> None:
        super().on_start(training)
        self._bad = 0
        for record in training.history:  # of a resumed run
            self._count(record)

    def on_step(self, training: Training) -> None:
        if training.scores is not None and self._count(training.history[-1]) >= self.patience:
            training.stop()

    def _count(self, record: Mapping[str, Any]) -> int:
        """Return the scorings in a row without improvement, with this one."""
        self._bad = 0 if self.improved(record) else self._bad + 1
        return self._bad


class Checkpoint(_Watching):
    """Save the weights at each new best value of a metric.

    To resume training, pass ``folder=`` to ``fit`` instead.

    Args:
        path: a .safetensors file, for ``safetensors.torch.load_file``.
        metric, higher_is_better: as in :class:`EarlyStopping`.
        restore: load these weights when training ends, also into a ``folder``.
    """

    def __init__(
        self,
        path: Path | str,
        metric: str = "loss",
        higher_is_better: bool | None = None,
        restore: bool = False,
    ) -> None:
        super().__init__(metric, higher_is_better)
        self.path, self.restore = Path(path), restore

    def on_start(self, training: Training) -> None:
        super().on_start(training)
        if training.step > 0 and self.path.is_file():  # the file has its best value so far
            _, notes = read_tensors(self.path, training.network.state_dict())
            if notes.get("metric") == self.metric:
                self.best = float(notes["best"])

    def on_step(self, training: Training) -> None:
        if training.scores is not None and self.improved(training.history[-1]):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            weights = training.network.state_dict()
            write_tensors(self.path, weights, step=training.step, metric=self.metric, best=str(self.best))

    def on_end(self, training: Training) -> None:
        if self.restore and self.best > -math.inf:
            weights, _ = read_tensors(self.path, training.network.state_dict())
            training.network.load_state_dict(weights)


class ClipGradients(Callback):
    """Scale all gradients together down to a norm of at most ``norm``."""

    def __init__(self, norm: float = 1.0) -> None:
        if not norm > 0:
            raise QubolearnError(f"norm={norm}; expected a positive number")
        self.norm = norm

    def on_gradient(self, training: Training) -> None:
        torch.nn.utils.clip_grad_norm_(training.network.parameters(), self.norm)


class ProgressBar(Callback):
    """Show a bar with a title, the loss and a metric, by default the first.

    On a rich console, it is shown only on a terminal and removed at the end.
    """

    def __init__(self, title: str = "training", metric: str | None = None, console: Any = None) -> None:
        self.title, self.metric, self.console = title, metric, console

    def on_start(self, training: Training) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        texts = ("{task.description}", "{task.fields[note]}")
        words, note = (TextColumn(text, markup=False) for text in texts)
        own = self.console is not None
        hidden = own and not self.console.is_terminal
        columns = words, BarColumn(), TimeRemainingColumn(), note
        self._bar: Any = Progress(*columns, console=self.console, transient=own, disable=hidden)
        if Console().is_jupyter:  # rich would need ipywidgets, which are rarely installed
            self._bar = _NotebookBar()
        self._bar.start()
        self._task = self._bar.add_task(self.title, total=training.steps, completed=training.step, note="")
        self._shown, self._note = training.step, ""

    def on_step(self, training: Training) -> None:
        if training.scores:
            name = self.metric or next(iter(training.scores))
            self._note = f"  {name} {training.scores.get(name, math.nan):.4g}"
        if training.scores is not None or training.step >= self._shown + 10:
            self._shown = training.step
            note = f"loss {training.loss:.4f}{self._note}"
            self._bar.update(self._task, completed=training.step, note=note)

    def on_end(self, training: Training) -> None:
        self._bar.stop()


class _NotebookBar:
    """The interface of rich's progress bar as HTML in a notebook."""

    def add_task(self, title: str, total: int, completed: int, note: str) -> int:
        self._ipython: Any = import_module("IPython.display")
        self._title, self._total = title, total
        self._shown = self._ipython.display(self._ipython.HTML(""), display_id=True)
        self.update(0, completed, note)
        return 0

    def update(self, task: int, completed: int, note: str) -> None:
        bar = f'<progress value="{completed}" max="{self._total}"></progress>'
        words = escape(f"{completed}/{self._total}  {note}")
        self._shown.update(self._ipython.HTML(f"{escape(self._title)} {bar} {words}"))

    def start(self) -> None:
        """Do nothing."""

    stop = start


class StopIf(Callback):
    """Stop the run, to be resumed later, once a function returns True."""

    def __init__(self, stop: Callable[[], bool]) -> None:
        self._stop = stop

    def on_step(self, training: Training) -> None:
        if self._stop():
            training.stop(for_good=False)
