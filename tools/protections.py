"""Take protections out of a copy of the source, one at a time, and see that their tests fail: ``make protections``.

Before that every test must pass on the copy as it is.

A test that passes without what it guards guards nothing. The table of docs/guarantees.md is made of
results/protections.json, which this writes.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from qubolearn.files import write_json
from qubolearn.provenance import provenance

ROOT = Path(__file__).parents[1]
SECONDS = 300  # for one test
PR_SET_CHILD_SUBREAPER = 36  # of Linux's prctl


@dataclass(frozen=True)
class Protection:
    """What is taken out, and the test that should miss it."""

    promise: str
    removed: str
    file: str  # below src/qubolearn
    before: str
    after: str
    test: str  # below tests


PROTECTIONS = (
    Protection(
        "exact resume",
        "the optimiser's moments in the checkpoint",
        "training/fast/adam.py",
        '        self.first.copy_(tensors["first"])\n',
        "",
        "robustness/test_resume.py::test_stopped_at_any_step_the_bits_are_the_same",
    ),
    Protection(
        "exact resume",
        "batches that depend on the step alone",
        "training/batches.py",
        'stream(seed, "order", epoch, device=device)',
        'torch.Generator().manual_seed(int(__import__("time").time_ns() % 2**31))',
        "robustness/test_resume.py::test_stopped_at_any_step_the_bits_are_the_same",
    ),
    Protection(
        "files survive crashes",
        "writing beside the place and renaming",
        "files/atomic.py",
        'temporary = path.parent / f".{path.name[:100]}.{secrets.token_hex(8)}.tmp"',
        "temporary = path",
        "robustness/test_crashes.py::test_any_step_of_a_write_may_fail",
    ),
    Protection(
        "files survive crashes",
        "the flush to the disk",
        "files/atomic.py",
        "            os.fsync(file.fileno())\n",
        "",
        "robustness/test_crashes.py::test_a_write_is_on_the_disk_before_it_takes_its_place",
    ),
    Protection(
        "files survive crashes",
        "names of temporary files that no other writer has",
        "files/atomic.py",
        "secrets.token_hex(8)",
        "os.getpid()",
        "test_files.py::test_writers_of_one_process_number_do_not_share_a_temporary",
    ),
    Protection(
        "files survive crashes",
        "the mode of a file that is replaced",
        "files/atomic.py",
        "            os.fchmod(descriptor, before.st_mode & 0o777)\n",
        "",
        "test_files.py::test_a_file_that_is_replaced_hands_its_mode_on",
    ),
    Protection(
        "files survive crashes",
        "the lock of a run folder",
        "files/lock.py",
        "        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))\n",
        "        pass\n",
        "test_files.py::test_a_second_writer_is_refused_and_the_next_one_is_not",
    ),
    Protection(
        "files survive crashes",
        "the checksum of tensors",
        "files/tensors.py",
        "    if metadata.pop(CHECKSUM, None) not in (None, _tensors_digest(tensors, metadata)):\n",
        "    if False:\n",
        "test_files.py::test_a_flipped_bit_of_tensors_is_found",
    ),
    Protection(
        "files survive crashes",
        "the checksum of JSON",
        "files/json_files.py",
        "    if value.pop(CHECKSUM, None) not in (None, _json_digest(value)):\n",
        "    if value.pop(CHECKSUM, None) and False:\n",
        "test_files.py::test_a_flipped_bit_of_json_is_found",
    ),
    Protection(
        "signals",
        "the handler of SIGTERM",
        "cli/train.py",
        "for name in (signal.SIGINT, signal.SIGTERM)}",
        "for name in (signal.SIGINT,)}",
        "robustness/test_signals.py::test_sigterm_ends_the_step_and_saves_it",
    ),
    Protection(
        "numbers",
        "the way back to before, on a GPU",
        "training/fast/captured.py",
        "        self._restore(before)\n        return super()",
        "        return super()",
        "training/test_captured.py::test_a_step_along_nan_is_found_and_named",
    ),
    Protection(
        "numbers",
        "the look at loss and gradient",
        "training/steps.py",
        "    if not math.isfinite(gradient):\n",
        "    if False:\n",
        "robustness/test_numbers.py::test_a_finite_loss_with_a_gradient_that_is_not_stops_training",
    ),
    Protection(
        "numbers",
        "the look at A before solving",
        "qubo/checks.py",
        "if not_capturing(tensor) and not math.isfinite(_sum(tensor.detach())) and",
        "if False and",
        "robustness/test_numbers.py::test_solvers_take_no_nan_and_return_true_energies",
    ),
    Protection(
        "numbers",
        "the refusal to write weights that are not finite",
        "files/tensors.py",
        "        if finite and not bool(torch.isfinite(tensor).all()):\n            raise NonFiniteError",
        "        if False:\n            raise NonFiniteError",
        "robustness/test_numbers.py::test_weights_that_are_not_finite_never_replace_a_good_checkpoint",
    ),
    Protection(
        "numbers",
        "labels that must be bits",
        "problems/arrays.py",
        "    check_bits(x)\n",
        "",
        "training/test_refusals.py::test_bad_parts_are_named_in_one_line",
    ),
    Protection(
        "numbers",
        "the refusal of several right answers by a loss that knows one",
        "losses/contract.py",
        '    if right is not None:\n        raise QubolearnError(f"{name} knows one',
        '    if False:\n        raise QubolearnError(f"{name} knows one',
        "losses/test_losses.py::test_a_loss_that_knows_one_answer_refuses_several",
    ),
    Protection(
        "numbers",
        "a log Z that overflows as a fault that is kept",
        "solvers/partition.py",
        'raise NonFiniteError(f"log Z',
        'raise QubolearnError(f"log Z',
        "solvers/test_partition.py::test_bad_input",
    ),
    Protection(
        "strangers' files",
        "reading no more than a zip member's header says",
        "problems/data.py",
        "return member.read(entry.file_size)",
        "return member.read()",
        "robustness/test_strangers.py::test_zip_bombs_are_refused",
    ),
    Protection(
        "strangers' files",
        "the refusal of bzip2 and LZMA members",
        "problems/data.py",
        "if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):",
        "if False:",
        "robustness/test_strangers.py::test_methods_that_unpack_without_bound_are_refused",
    ),
    Protection(
        "strangers' files",
        "the look at paths that climb",
        "paper/datasets/willow_archive.py",
        'if path.is_absolute() or ".." in path.parts or ":" in member.filename:',
        "if False:",
        "robustness/test_strangers.py::test_paths_cannot_climb_out_of_archives",
    ),
    Protection(
        "strangers' files",
        "the escape of names in errors",
        "errors.py",
        "c if c.isprintable() else",
        "c if True else",
        "robustness/test_strangers.py::test_names_in_errors_stay_on_one_line_and_reach_no_terminal",
    ),
    Protection(
        "strangers' files",
        "the shapes that a checkpoint must have",
        "files/tensors.py",
        "if known != {name: list(tensor.shape) for name, tensor in like.items()}:",
        "if False:",
        "robustness/test_strangers.py::test_mutated_files_are_read_or_refused",
    ),
    Protection(
        "strangers' files",
        "temporary files that must not be there before",
        "files/atomic.py",
        'flags | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)',
        "flags",
        "test_files.py::test_a_temporary_that_is_there_already_is_not_opened",
    ),
    Protection(
        "strangers' files",
        "the limit of layers",
        "training/runs.py",
        " or layers > MAX_LAYERS:",
        ":",
        "robustness/test_strangers.py::test_a_config_cannot_ask_for_a_network_larger_than_memory",
    ),
    Protection(
        "the QPU costs money",
        "the budget",
        "solvers/dwave/access.py",
        "            if wanted > left:\n",
        "            if False:\n",
        "robustness/qpu/test_budget.py::test_a_call_beyond_the_budget_is_not_sent",
    ),
    Protection(
        "the QPU costs money",
        "cancelling at the deadline",
        "solvers/dwave/call.py",
        "        job.cancel()\n",
        "        pass\n",
        "robustness/qpu/test_deadlines.py::test_a_slow_chip_meets_the_deadline_and_is_told_to_cancel",
    ),
    Protection(
        "the QPU costs money",
        "counting a call of unknown outcome as paid",
        "solvers/dwave/call.py",
        "    spent.append(qpu.MARGIN * estimate)",
        "    spent.append(0.0)",
        "robustness/qpu/test_submissions.py::test_a_submission_of_unknown_outcome_is_not_repeated_and_counts_as_paid",
    ),
    Protection(
        "determinism",
        "a seed for each instance",
        "solvers/seeds.py",
        "return np.random.SeedSequence(None if seed is None else int(seed)).generate_state(batch).astype(np.uint32)",
        "return np.random.SeedSequence((int(seed or 0), batch)).generate_state(batch).astype(np.uint32)",
        "robustness/test_determinism.py::test_an_instance_has_its_own_randomness",
    ),
    Protection(
        "determinism",
        "the seed in the solvers' random numbers",
        "solvers/seeds.py",
        "return np.random.SeedSequence(None if seed is None else int(seed))",
        "return np.random.SeedSequence(None)",
        "robustness/test_determinism.py::test_the_seed_of_a_solver_decides_on_one_thread_and_on_two",
    ),
    Protection(
        "determinism",
        "the randomness of each step in the solver",
        "training/steps.py",
        "self._draws = None if same else self.solver.with_seed",
        "self._draws = None",
        "robustness/test_numbers.py::test_the_reproducer_draws_what_the_step_drew",
    ),
    Protection(
        "load",
        "the conversion of precisions that kernels do not know",
        "solvers/contract.py",
        "(A if A.dtype in (torch.float32, torch.float64) else A.float()).numpy()",
        "A.numpy()",
        "robustness/test_load.py::test_other_precisions",
    ),
    Protection(
        "load",
        "states that must be bits",
        "solvers/contract.py",
        "if bits.max(initial=0) > 1 or not (bits is given or np.array_equal(bits, given)):",
        "if False:",
        "kernels/test_ranking.py::test_states_that_are_not_bits_are_refused",
    ),
    Protection(
        "load",
        "the settings of torch that a training puts back",
        "training/threads.py",
        "        torch.set_flush_denormal(flushed)\n",
        "",
        "training/test_threads.py::test_trainings_that_overlap_leave_the_settings_of_their_caller",
    ),
    Protection(
        "load",
        "the look for the device of a problem",
        "testing/problems.py",
        "    _require(watched.asked, ",
        "    _require(True, ",
        "test_testing.py::test_each_breach_of_a_problem_is_found",
    ),
    Protection(
        "the grid of reproduce",
        "workers that end with their parent",
        "paper/grid/engines/local.py",
        "    os._exit(1)\n",
        "    pass\n",
        "paper/grid/test_engines.py::test_a_worker_ends_with_its_parent_even_within_a_job",
    ),
    Protection(
        "the grid of reproduce",
        "the second try of a job whose worker died",
        "paper/grid/engines/local.py",
        "TRIES = 2\n",
        "TRIES = 1\n",
        "paper/grid/test_engines.py::test_workers_that_die_lose_no_job_and_take_no_other_with_them",
    ),
    Protection(
        "numbers",
        "the word of a process that fails to those that wait for it",
        "training/distributed.py",
        "            _failures[-1].tell(error, self.size)\n",
        "",
        "robustness/test_numbers.py::test_where_one_process_fails_all_end_with_its_error",
    ),
    Protection(
        "numbers",
        "the new beginning of a metric's best value",
        "training/callbacks.py",
        "        self.best = -math.inf  # of this training: the same object may have followed another\n",
        "        pass\n",
        "training/test_callbacks.py::test_the_best_value_is_that_of_one_training_stopped_or_not",
    ),
    Protection(
        "strangers' files",
        "the name of the damaged file of a table",
        "paper/report/tables.py",
        'f"{_source(name, results)} is damaged',
        'f"a file is damaged',
        "robustness/test_commands.py::test_a_damaged_file_of_a_table_is_named",
    ),
    Protection(
        "signals",
        "the note that kernels are compiled, at a terminal",
        "kernels/compiling.py",
        "            _say_that_it_compiles()\n",
        "            pass\n",
        "kernels/test_compiling.py::test_a_user_at_a_terminal_is_told_that_it_compiles_and_only_then",
    ),
    Protection(
        "numbers",
        "the seconds of compiling in those of solving",
        "evaluation.py",
        "    taken[0] = max(0.0, taken[0] - compiling)\n",
        "",
        "kernels/test_compiling.py::test_the_seconds_of_solving_do_not_count_those_of_compiling",
    ),
    Protection(
        "numbers",
        "colours by meaning",
        "paper/report/drawings.py",
        "MEANINGS.get(name, SERIES_COLOURS[several * index % len(SERIES_COLOURS)])",
        "SERIES_COLOURS[several * index % len(SERIES_COLOURS)]",
        "paper/report/test_drawings.py::test_wrong_matches_never_have_the_colour_of_right_ones",
    ),
    Protection(
        "exact resume",
        "the beginning of a run that was made by its constructor",
        "training/train.py",
        "run.begun() if run and peers.rank == 0 else run",
        "run",
        "training/test_runs.py::test_a_run_made_by_its_constructor_trains_and_is_opened_again",
    ),
    Protection(
        "numbers",
        "the loss without sums for many bits",
        "training/recipes.py",
        "        elif problem.bits > EXACT_BITS and",
        "        elif False and",
        "training/test_training.py::test_many_bits_take_a_loss_without_sums",
    ),
    Protection(
        "numbers",
        "exchanges of two and three bits",
        "kernels/annealing_cpu.py",
        "            if exchanges and n <= exchanges_numba.MOST_BITS:\n",
        "            if False:\n",
        "robustness/test_classic.py::test_exchanges_find_the_best_knapsack",
    ),
    Protection(
        "numbers",
        "the refusal of complex data",
        "problems/structures.py",
        "        if structure.is_complex():\n",
        "        if False:\n",
        "training/test_refusals.py::test_bad_parts_are_named_in_one_line",
    ),
    Protection(
        "load",
        "the other runs of fit_many where a callback fails",
        "training/many.py",
        "ITS_OWN = (NonFiniteError, CallbackError)",
        "ITS_OWN = (NonFiniteError,)",
        "training/test_many.py::test_a_callback_that_fails_ends_its_own_run_only",
    ),
)


def passes(test: str, copy: Path) -> bool:
    """Whether a test passes on the copy; a test that hangs does not. All that it started is ended with it."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"tests/{test}"]
    environment = {**os.environ, "PYTHONPATH": str(copy / "src")}
    try:
        code = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=SECONDS).returncode
    except subprocess.TimeoutExpired:
        return False
    finally:
        end_children()
    if code > 1:
        raise SystemExit(f"{test} could not be run (exit code {code})")
    return code == 0  # below 0 the process died: kernels trust what was checked


def adopt_orphans() -> None:
    """Be the parent of every process below whose own parent has ended, so that :func:`end_children` finds it."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children() -> None:
    """Kill all children, and those that become ours thereby, until there are none."""
    while children := Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        for child in map(int, children):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(child, 0)


def passes_without(protection: Protection, copy: Path) -> bool:
    """Whether the test passes on a copy of the repository without the protection."""
    file = copy / "src" / "qubolearn" / protection.file
    whole = file.read_text()
    if whole.count(protection.before) != 1:
        raise SystemExit(
            f"{protection.file} holds {protection.before!r} {whole.count(protection.before)} times, want 1"
        )
    file.write_text(whole.replace(protection.before, protection.after))
    try:
        return passes(protection.test, copy)
    finally:
        file.write_text(whole)


def main() -> int:
    began, found = time.perf_counter(), []
    adopt_orphans()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("src", "tests", "pyproject.toml", "conftest.py", "README.md", "docs", "constraints.txt"):
            source = ROOT / name
            shutil.copytree(source, copy / name) if source.is_dir() else shutil.copy(source, copy / name)
        for test in dict.fromkeys(protection.test for protection in PROTECTIONS):
            if not passes(test, copy):
                raise SystemExit(f"{test} fails on the code as it is, so that its failing without it would say nothing")
        for protection in PROTECTIONS:
            failed = not passes_without(protection, copy)
            print(f"{'fails ' if failed else 'PASSES'}  without {protection.removed}: {protection.test}", flush=True)
            found.append(
                {
                    "promise": protection.promise,
                    "removed": protection.removed,
                    "test": protection.test.partition("::")[2],
                    "fails": failed,
                }
            )
    seconds = round(time.perf_counter() - began)
    write_json(ROOT / "results" / "protections.json", {"protections": found, "seconds": seconds, **provenance()})
    return 0 if all(each["fails"] for each in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
