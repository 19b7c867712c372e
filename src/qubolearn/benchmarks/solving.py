"""Our solvers and the peers on the same QUBOs: exact search and sums, annealing, simulated quantum annealing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from qubolearn.benchmarks import Record, random_qubos, seconds_of, threads, timed
from qubolearn.problems.data import data_folder, load_npz
from qubolearn.problems.sudoku import hint_clamp, rule_groups, rule_qubo
from qubolearn.qubo import Groups, all_states, energies, to_bqm
from qubolearn.solvers import ExhaustiveSearch, log_partition, make_solver, solve
from qubolearn.solvers.tempering import ParallelTempering

__all__ = ["anneal", "exact", "exact_on_gpu", "exact_with_groups", "quantum", "sudoku_rules"]

BATCH = 141  # the paper's


def exact(quick: bool) -> Iterator[Record]:
    """Exhaustive search for the best two states, against dimod.ExactSolver, and the partition function."""
    import dimod

    peer = dimod.ExactSolver()  # type: ignore[no-untyped-call]
    for n in (8, 15) if quick else (8, 12, 15, 18, 20, 22, 24):
        batch = max(8, min(BATCH, 2**26 >> n))
        A = random_qubos(batch, n)
        search = ExhaustiveSearch()
        with threads(1):
            ours = seconds_of(partial(search, A, 2), 15) / batch
            partition = seconds_of(partial(log_partition, A, 1.0)) / batch
        record = {"n": n, "batch": batch, "us": 1e6 * ours, "ns_per_state": 1e9 * ours / 2**n}
        record |= {"partition_over_search": partition / ours, "two_threads": _two_threads(n, ours)}
        if n <= 18:
            models = [to_bqm(a) for a in A[:3]]
            theirs = min(seconds_of(partial(peer.sample, m), 1 if n > 12 else 3) for m in models)
            record |= {"dimod_us": 1e6 * theirs, "ratio": theirs / ours}
        yield record


def _two_threads(n: int, seconds: float) -> float:
    """The speed-up by a second thread, on a batch of about 50 ms, beside which waking a thread is short."""
    A = random_qubos(max(8, int(0.05 / seconds)), n)
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(10):  # in turns, so that a busy moment of the machine strikes both
        for count, taken in times.items():
            with threads(count):
                taken.append(seconds_of(partial(ExhaustiveSearch(), A, 2), 1))
    return min(times[1]) / min(times[2])


def exact_on_gpu(quick: bool) -> Iterator[Record]:
    """Exhaustive search on a GPU, up to n = 32."""
    for n in (20, 24) if quick else (20, 24, 28, 32):
        A = random_qubos(1, n).cuda()
        search = ExhaustiveSearch()

        def work(A: Tensor = A, search: ExhaustiveSearch = search) -> None:
            search(A, 2)
            torch.cuda.synchronize()

        seconds = seconds_of(work, 3)
        yield {"n": n, "seconds": seconds, "states_per_second": 2**n / seconds}


def anneal(quick: bool) -> Iterator[Record]:
    """Simulated annealing of the same effort, 100 reads of 1000 sweeps, ours and the peers', on one thread."""
    for n in (8,) if quick else (8, 15, 32):
        A = random_qubos(BATCH, n)
        best = ExhaustiveSearch()(A, 2) if n <= 24 else make_solver("annealing:reads=400,sweeps=5000,seed=9")(A, 2)
        for name, spec in {"ours": "annealing:seed=0", "neal": "neal:seed=0"}.items():
            with threads(1):
                yield _annealed(name, n, A, best.energies, make_solver(spec))
        for name, sample in _other_annealers().items():
            some = A[:8]  # they solve one at a time
            seconds, reads = timed(partial(_all_reads, sample, some))
            hit = energies(some.double(), reads) <= best.energies[:8, :1] + _near(best.energies[:8, :1])
            record = {"n": n, "solver": name, "us": 1e6 * seconds / len(some)}
            yield {**record, "ground_state_probability": hit.double().mean().item()}


def _annealed(name: str, n: int, A: Tensor, exact_energies: Tensor, solver: Any) -> Record:
    solver = replace(solver, threads=1) if hasattr(solver, "threads") else solver
    if name == "ours":
        solver(A[:2], 2)  # compiles
    seconds, solution = timed(partial(solver, A, 2))
    seconds /= len(A)
    right = (solution.energies - exact_energies).abs() <= _near(exact_energies)
    found_best = right[:, 0].double()
    success = (solution.info["success_probability"].double() * found_best).mean().item()
    record = {"n": n, "solver": name, "us": 1e6 * seconds, "ground_state_probability": success}
    record |= {"x_star_found": found_best.mean().item(), "x_plus_found": right.all(1).double().mean().item()}
    record["spin_updates_per_second"] = 100 * 1000 * n / seconds
    return record


def _near(lowest: Tensor) -> Tensor:
    """How far above the lowest energies rounding may leave a state of the same energy."""
    return 1e-4 * lowest.abs().clamp_min(1)


def _other_annealers() -> Mapping[str, Callable[[Tensor], Tensor]]:
    """Peers that are installed: one QUBO ``[n, n]`` -> reads ``[reads, n]``."""
    packages = {"openjij": _openjij, "simulated-bifurcation": _bifurcation}
    return {name: sample for name, sample in packages.items() if find_spec(name.replace("-", "_"))}


def _openjij(a: Tensor) -> Tensor:
    import openjij

    return torch.from_numpy(openjij.SASampler().sample(to_bqm(a), num_reads=100, num_sweeps=1000).record.sample.copy())


def _bifurcation(a: Tensor) -> Tensor:
    import simulated_bifurcation

    options = {"domain": "binary", "agents": 100, "max_steps": 1000, "best_only": False, "verbose": False}
    return torch.as_tensor(simulated_bifurcation.minimize(a, **options)[0])


def _all_reads(sample: Callable[[Tensor], Tensor], A: Tensor) -> Tensor:
    """The reads ``[batch, reads, n]`` of one QUBO after the other."""
    return torch.stack([sample(a) for a in A])


def quantum(quick: bool) -> Iterator[Record]:
    """Simulated quantum annealing from first principles, with and without control errors, and path-integral MC."""
    for n in (8,) if quick else (8, 10, 12, 15):
        A = random_qubos(8 if quick else 32, n)
        best = ExhaustiveSearch()(A, 1).energies[:, 0]
        for name, spec in {
            "quantum": "quantum:seed=0",
            "quantum, no control errors": "quantum:seed=0,h_error=0,J_error=0",
            "path-integral": "path-integral:seed=0",
        }.items():
            solver = make_solver(spec)
            solver(A[:1], 2)  # compiles
            seconds, solution = timed(partial(solver, A, 2))
            right = (solution.energies[:, 0] - best).abs() <= _near(best)
            success = solution.info["success_probability"].double()
            if name == "path-integral":  # it only knows how many reads are at the best that it found
                success = success * right
            record = {"n": n, "solver": name, "us": 1e6 * seconds / len(A)}
            record["ground_state_probability"] = success.mean().item()
            yield {**record, "x_star_found": right.double().mean().item()}


def rrn_puzzles() -> Tensor:
    """Puzzles ``[hints - 17, 500, 81]`` of 17 to 34 hints: the test set of Recurrent Relational Networks."""
    path = data_folder("sudoku") / "sudoku9.npz"
    return torch.tensor(load_npz(path, {"rrn_test_puzzle": ("u", 3)})["rrn_test_puzzle"])


def sudoku_rules(quick: bool) -> Iterator[Record]:
    """Tempering of the true rules of Sudoku (729 bits, hints clamped, cells as groups), one puzzle a call, one thread.

    Puzzles are the test set of Recurrent Relational Networks in ``$QUBOLEARN_DATA/sudoku/sudoku9.npz``.
    """
    puzzles = rrn_puzzles()
    rules, groups = rule_qubo(9), rule_groups(9)
    solve(rules, ParallelTempering(sweeps=1, target=0.0, seed=0), 1, clamp=hint_clamp(puzzles[0, :1]), groups=groups)
    for hints, count in ((17, 3), (24, 3)) if quick else ((17, 100), (24, 100)):
        seconds, sweeps, solved = [], [], 0
        for number, puzzle in enumerate(puzzles[hints - 17, :count]):
            solver = ParallelTempering(sweeps=1_000_000, target=0.0, seed=number)
            clamp = hint_clamp(puzzle[None])
            with threads(1):
                taken, found = timed(partial(solve, rules, solver, 1, clamp=clamp, groups=groups))
            seconds.append(taken)
            sweeps.append(int(found.info["sweeps"]))
            solved += int(found.energies.item() == 0)
        middle = sorted(seconds)[count // 2]
        record = {"hints": hints, "puzzles": count, "solved": solved, "seconds": sum(seconds) / count}
        yield {**record, "median": middle, "longest": max(seconds), "sweeps": sum(sweeps) / count}


def exact_with_groups(quick: bool) -> Iterator[Record]:
    """Exhaustive search and log Z over the states that groups of five bits allow, one thread, and brute force."""
    for count in (2, 4) if quick else (2, 4, 6, 8, 10):
        n, batch = 5 * count, 16 if count < 8 else 2
        A, groups = random_qubos(batch, n).double(), Groups.consecutive(count, 5)
        with threads(1):
            search = seconds_of(partial(solve, A, ExhaustiveSearch(), 2, groups=groups), 3) / batch
            partition = seconds_of(partial(log_partition, A, 1.0, groups=groups), 3) / batch
            record = {"groups": count, "n": n, "states": 5**count, "us": 1e6 * search, "log_z_us": 1e6 * partition}
            if n <= 20:
                x = all_states(n, dtype=torch.float64)
                allowed = x[groups.allowed(x)].expand(batch, -1, -1)
                lowest = energies(A, allowed).amin(1)
                found = solve(A, ExhaustiveSearch(), 1, groups=groups).energies[:, 0]
                record["equal"] = int(torch.isclose(found, lowest).sum())
                record["plain_us"] = 1e6 * seconds_of(partial(ExhaustiveSearch(), A, 2), 3) / batch
        yield {**record, "ns_per_state": 1e3 * record["us"] / 5**count}
