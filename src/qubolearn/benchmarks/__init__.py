"""Ours and the peers side by side: the same QUBOs, one run, one machine; records of plain numbers.

Times are the best of several repeats, per QUBO, after a call that pays for compilation. Ratios compare times of one
run, since machines differ and are noisy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from qubolearn.benchmarks.processes import Planned
from qubolearn.problems import make_problem
from qubolearn.problems.data import data_folder, load_npz
from qubolearn.problems.sudoku import hint_clamp, rule_groups, rule_qubo
from qubolearn.qubo import Groups, all_states, energies, to_bqm
from qubolearn.randomness import stream
from qubolearn.solvers import ExhaustiveSearch, log_partition, make_solver, solve
from qubolearn.solvers.tempering import ParallelTempering
from qubolearn.training.fast.captured import CapturedSteps
from qubolearn.training.fast.compiled import CompiledSteps
from qubolearn.training.recipes import recipe_for
from qubolearn.training.steps import Steps
from qubolearn.training.threads import one_thread
from qubolearn.training.train import task_of, train

__all__ = ["Record"]

Record = dict[str, Any]
BATCH = 141  # the paper's


def random_qubos(batch: int, n: int, seed: int = 0) -> Tensor:
    """Dense QUBOs ``[batch, n, n]`` with standard normal entries, symmetric."""
    A = torch.randn(batch, n, n, generator=stream(seed, "benchmark", n))
    return (A + A.mT) / 2


def seconds_of(work: Callable[[], object], repeats: int = 5) -> float:
    """The best time of several calls, after one that is not counted."""
    work()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run on so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
        solvers = {"ours": "annealing:seed=0", "neal": "neal:seed=0"}
        for name, spec in solvers.items():
            with threads(1):
                yield _annealed(name, n, A, best.energies, make_solver(spec))
        for name, sample in _other_annealers().items():
            part = 8  # they solve one at a time
            began = time.perf_counter()
            found = torch.stack([sample(a) for a in A[:part]])
            seconds = (time.perf_counter() - began) / part
            hit = _hits(A[:part], found, best.energies[:part, 0])
            yield {"n": n, "solver": name, "us": 1e6 * seconds, "ground_state_probability": hit.mean().item()}


def anneal_large(quick: bool) -> Iterator[Record]:
    """Simulated annealing of one dense, 3-regular or Pegasus QUBO of 64 to 5,640 bits against neal, on one thread."""
    from qubolearn.benchmarks.large_annealing import records

    yield from records(quick)


def time_curves(quick: bool) -> Iterator[Record]:
    """Time to a target energy against n: ours and the peers on four families of QUBOs, one thread each."""
    from qubolearn.benchmarks.curves import records

    yield from records(quick)


def instruction_sets(quick: bool) -> Iterator[Record]:
    """Our kernels compiled for this CPU and for one with AVX2 only, in processes of one thread."""
    from qubolearn.benchmarks.avx2 import records

    yield from records(quick)


def anneal_on_gpu(quick: bool) -> Iterator[Record]:
    """Simulated annealing of 100 dense or Pegasus QUBOs on a GPU beside all cores of the CPU, updates per second."""
    from qubolearn.benchmarks.gpu import annealing

    yield from annealing(quick)


def sudoku_on_gpu(quick: bool) -> Iterator[Record]:
    """Tempering of the true rules of 9,000 Sudoku puzzles on a GPU."""
    from qubolearn.benchmarks.gpu import sudoku

    yield from sudoku(quick)


def _annealed(name: str, n: int, A: Tensor, exact_energies: Tensor, solver: Any) -> Record:
    solver = replace(solver, threads=1) if hasattr(solver, "threads") else solver
    if name == "ours":
        solver(A[:2], 2)  # compiles
    began = time.perf_counter()
    solution = solver(A, 2)
    seconds = (time.perf_counter() - began) / len(A)
    near = 1e-4 * exact_energies.abs().clamp_min(1)
    right = (solution.energies - exact_energies).abs() <= near
    found_best = right[:, 0].double()
    success = (solution.info["success_probability"].double() * found_best).mean().item()
    record = {"n": n, "solver": name, "us": 1e6 * seconds, "ground_state_probability": success}
    record |= {"x_star_found": found_best.mean().item(), "x_plus_found": right.all(1).double().mean().item()}
    record["spin_updates_per_second"] = 100 * 1000 * n / seconds
    return record


def _other_annealers() -> Mapping[str, Callable[[Tensor], Tensor]]:
    """Peers that are installed: one QUBO ``[n, n]`` -> reads ``[reads, n]``."""
    found: dict[str, Callable[[Tensor], Tensor]] = {}
    try:
        import openjij

        def jij(a: Tensor) -> Tensor:
            sampler = openjij.SASampler()
            record = sampler.sample(to_bqm(a), num_reads=100, num_sweeps=1000).record
            return torch.from_numpy(record.sample.copy()).double()

        found["openjij"] = jij
    except ImportError:
        pass
    try:
        import simulated_bifurcation

        def bifurcation(a: Tensor) -> Tensor:
            vectors, _ = simulated_bifurcation.minimize(
                a, domain="binary", agents=100, max_steps=1000, best_only=False, verbose=False
            )
            return torch.as_tensor(vectors).double()

        found["simulated-bifurcation"] = bifurcation
    except ImportError:
        pass
    return found


def _hits(A: Tensor, reads: Tensor, lowest: Tensor) -> Tensor:
    """The share of reads ``[batch, reads, n]`` at the lowest energy ``[batch]``."""
    return (energies(A.double(), reads) <= lowest[:, None] + 1e-4 * lowest[:, None].abs().clamp_min(1)).double().mean(1)


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
            began = time.perf_counter()
            solution = solver(A, 2)
            seconds = (time.perf_counter() - began) / len(A)
            right = (solution.energies[:, 0] - best).abs() <= 1e-4 * best.abs().clamp_min(1)
            success = solution.info["success_probability"].double()
            if name == "path-integral":  # it only knows how many reads are at the best that it found
                success = success * right
            record = {"n": n, "solver": name, "us": 1e6 * seconds, "ground_state_probability": success.mean().item()}
            yield {**record, "x_star_found": right.double().mean().item()}


def training(quick: bool) -> Iterator[Record]:
    """One epoch of the paper's protocol (40 steps of 141), against the same loop that calls neal per instance."""
    for k, topology in ((4, "chimera"),) if quick else ((4, "chimera"), (5, "pegasus")):
        problem = make_problem("randgraph", k=k)
        config = recipe_for("paper", problem, topology=topology, solver="exhaustive", epochs=1, validation=1)
        ours = seconds_of(partial(train, problem, config), 7)
        peer = replace(config, solver="neal", instances=141)  # one step of 40
        began = time.perf_counter()
        train(problem, peer)
        theirs = (time.perf_counter() - began) * config.steps
        yield {"k": k, "n": problem.bits, "epoch_seconds": ours, "neal_epoch_seconds": theirs, "ratio": theirs / ours}


def training_on_gpu(quick: bool) -> Iterator[Record]:
    """One step on a GPU, kernel by kernel and as a CUDA graph, and on the CPU, where solvers take all cores."""
    for k, loss in ((4, "gap"),) if quick else ((4, "gap"), (4, "nll"), (5, "gap"), (5, "nll")):
        problem = make_problem("randgraph", k=k)
        topology = "chimera" if k == 4 else "pegasus"
        config = recipe_for("paper", problem, loss=loss, solver="exhaustive", topology=topology)
        taken = {}
        for name, device, kind in (
            ("cpu", "cpu", CompiledSteps),
            ("gpu", "cuda", Steps),
            ("graph", "cuda", CapturedSteps),
        ):
            steps = kind(task_of(problem, config, device=device))
            with one_thread(device):
                taken[name] = seconds_of(partial(steps.advance, 0, 400)) / 400
        record = {f"{name}_us": 1e6 * seconds for name, seconds in taken.items()}
        more = {"graph_over_gpu": taken["gpu"] / taken["graph"], "graph_over_cpu": taken["cpu"] / taken["graph"]}
        yield {"k": k, "n": problem.bits, "loss": loss, **record, **more}


def protocol(quick: bool, device: str = "cpu") -> Iterator[Record]:
    """One whole training under the paper's protocol: point sets, 312,500 steps of 32 instances."""
    problem = make_problem("pointset", **({"rotations": 10} if quick else {}))
    config = recipe_for("paper", problem, **({"epochs": 1, "instances": 3200} if quick else {}))
    began = time.perf_counter()
    train(problem, config, device=device)
    seconds = time.perf_counter() - began
    yield {
        "problem": problem.name,
        "steps": config.steps,
        "minutes": seconds / 60,
        "ms_per_step": 1e3 * seconds / config.steps,
    }


def protocol_on_gpu(quick: bool) -> Iterator[Record]:
    """:func:`protocol` on an NVIDIA GPU."""
    return protocol(quick, device="cuda")


def sudoku_rules(quick: bool) -> Iterator[Record]:
    """Tempering of the true rules of Sudoku (729 bits, hints clamped, cells as groups), one puzzle a call, one thread.

    Puzzles are the test set of Recurrent Relational Networks in ``$QUBOLEARN_DATA/sudoku/sudoku9.npz``.
    """
    path = data_folder("sudoku") / "sudoku9.npz"
    puzzles = torch.tensor(load_npz(path, {"rrn_test_puzzle": ("u", 3)})["rrn_test_puzzle"])
    rules, groups = rule_qubo(9), rule_groups(9)
    solve(rules, ParallelTempering(sweeps=1, target=0.0, seed=0), 1, clamp=hint_clamp(puzzles[0, :1]), groups=groups)
    for hints, count in ((17, 3), (24, 3)) if quick else ((17, 100), (24, 100)):
        seconds, sweeps, solved = [], [], 0
        for number, puzzle in enumerate(puzzles[hints - 17, :count]):
            solver = ParallelTempering(sweeps=1_000_000, target=0.0, seed=number)
            clamp = hint_clamp(puzzle[None])
            with threads(1):
                began = time.perf_counter()
                found = solve(rules, solver, 1, clamp=clamp, groups=groups)
            seconds.append(time.perf_counter() - began)
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


def couplings(quick: bool) -> Planned:
    """See :mod:`qubolearn.benchmarks.coupling_gains`."""
    from qubolearn.benchmarks.coupling_gains import coupling_gains

    return coupling_gains(quick)


def fit_by_hand(quick: bool) -> Iterator[Record]:
    """See :mod:`qubolearn.benchmarks.own_loop`."""
    from qubolearn.benchmarks.own_loop import own_loop

    return own_loop(quick)


def many(quick: bool) -> Iterator[Record]:
    """See :mod:`qubolearn.benchmarks.many_runs`."""
    from qubolearn.benchmarks.many_runs import many_runs

    return many_runs(quick)


def sudoku_sets(quick: bool) -> Planned:
    """See :mod:`qubolearn.benchmarks.sudoku`."""
    from qubolearn.benchmarks.sudoku import SEEDS, records

    return Planned(1 if quick else 3 * SEEDS, records(quick))


def visual_sudoku_sets(quick: bool) -> Planned:
    """See :mod:`qubolearn.benchmarks.visual_sudoku`."""
    from qubolearn.benchmarks.sudoku import SEEDS
    from qubolearn.benchmarks.visual_sudoku import records

    return Planned(1 if quick else SEEDS, records(quick))


def willow_matching(quick: bool, jobs: int = 1) -> Iterator[Record]:
    """All ten keypoints of Willow images, with couplings and without, over ten splits of the images."""
    from qubolearn.benchmarks.willow import records

    yield from records(quick, jobs)


def scene_labels(quick: bool, jobs: int = 1) -> Iterator[Record]:
    """See :mod:`qubolearn.benchmarks.scene`."""
    from qubolearn.benchmarks.scene import records

    yield from records(quick, jobs)


def snake_grids(quick: bool, jobs: int = 1) -> Iterator[Record]:
    """See :mod:`qubolearn.benchmarks.snakes`."""
    from qubolearn.benchmarks.snakes import records

    yield from records(quick, jobs)


def losses_for_many_bits(quick: bool) -> Planned:
    """See :mod:`qubolearn.benchmarks.many_bits`."""
    from qubolearn.benchmarks.many_bits import many_bits

    return many_bits(quick)


def columns(records: Sequence[Record]) -> list[str]:
    """All keys whose values fit into a table's cell, in the order in which they first appear."""
    return list(
        dict.fromkeys(key for record in records for key, value in record.items() if not isinstance(value, dict))
    )
