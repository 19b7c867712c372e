"""Settings that training restores."""

from __future__ import annotations

from threading import Event, Thread

import pytest
import torch
from threadpoolctl import threadpool_info

from qubolearn import Callback, fit
from qubolearn.problems.randgraph import RandGraph
from qubolearn.recipes import Recipe, new_network
from qubolearn.training.callbacks import Training
from qubolearn.training.threads import one_thread


def flushes() -> bool:
    return torch.tensor([1e-40]).mul(1.0).item() == 0


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("first", ["caller", "other"])
def test_training_runs_that_overlap_leave_the_settings_of_their_caller(flush: bool, first: str) -> None:
    """One run in the caller's thread, one in another."""
    import scipy.linalg.cython_blas  # noqa: F401  # the BLAS that a training holds to one thread

    problem = RandGraph(k=3)
    threads, flushed, blas = torch.get_num_threads(), flushes(), blas_threads()
    inside, inside_other, end = Event(), Event(), Event()
    errors: list[BaseException] = []

    def train(callback: Callback) -> None:
        network = new_network(problem, Recipe(layers=3, hidden=4, topology="dense"))
        fit(network, problem, epochs=1, instances=8, batch_size=8, validation=4, callbacks=[callback])

    class InOther(Callback):
        def on_step(self, training: Training) -> None:
            inside_other.set()
            assert torch.get_num_threads() == 1
            assert first == "other" or end.wait(60)

    class InCaller(Callback):
        def on_step(self, training: Training) -> None:
            inside.set()
            assert inside_other.wait(60)
            if first == "other":
                other.join(60)

    def work() -> None:
        try:
            assert inside.wait(60)
            train(InOther())
        except BaseException as error:
            errors.append(error)
            inside_other.set()

    other = Thread(target=work)
    torch.set_num_threads(2)
    torch.set_flush_denormal(flush)
    try:
        other.start()
        train(InCaller())
        end.set()
        other.join(60)
        assert not errors
        assert (torch.get_num_threads(), blas_threads(), flushes()) == (2, blas, flush)
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushed)


def test_an_error_inside_puts_them_back() -> None:
    before = torch.get_num_threads(), blas_threads(), flushes()
    with pytest.raises(KeyError), one_thread("cpu"), one_thread("cpu"):
        raise KeyError
    assert (torch.get_num_threads(), blas_threads(), flushes()) == before
