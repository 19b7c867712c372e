"""Predicting with networks, and saving them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from qubolearn import MLP, Arrays, QuboNetwork, Run, SharedQubo, SimulatedAnnealing, fit, topology
from qubolearn.chips.topologies import Topology
from qubolearn.cli import main
from qubolearn.data.arrays import map_tensors
from qubolearn.errors import QubolearnError
from qubolearn.networks import DiagonalHead, GraphBody, export, load, save

M, N = 3, 4
PATTERN = topology("dense", N)
STATES = (np.arange(2**N)[:, None] >> np.arange(N)) & 1
RING = Topology("ring", N, ((0, 1), (0, 3), (1, 2), (2, 3)))


class Own(nn.Linear):
    """A class that a file cannot build."""


def inputs(count: int = 6) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(size=(count, M)).astype(np.float32)


def network(body: nn.Module | None = None) -> QuboNetwork:
    torch.manual_seed(0)
    return QuboNetwork(body or nn.Linear(M, PATTERN.size), PATTERN)


def test_answers_equal_brute_force() -> None:
    made, p = network(), inputs()
    A = made(torch.tensor(p)).detach().double().numpy()
    E = np.einsum("ti,bij,tj->bt", STATES, A, STATES)
    order = E.argsort(1)
    assert (made.predict(p) == STATES[order[:, 0]]).all()
    assert (made.predict(p, SimulatedAnnealing(seed=0)) == STATES[order[:, 0]]).all()
    best = made.best(p, count=3)
    assert (best.states == STATES[order[:, :3]]).all()
    np.testing.assert_allclose(best.energies, np.sort(E, 1)[:, :3], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(made.energy(p, np.broadcast_to(STATES, (6, 16, N))), E, rtol=1e-5, atol=1e-5)
    weights = np.exp(-2.0 * E)
    expected = (weights @ STATES) / weights.sum(1, keepdims=True)
    np.testing.assert_allclose(made.predict_proba(p, beta=2.0), expected, rtol=1e-4, atol=1e-5)
    held = STATES[:, 0] == 1
    assert (made.predict(p, clamp={0: 1}) == STATES[held][E[:, held].argmin(1)]).all()
    assert made.best(p, count=100).states.shape == (6, 16, N)  # there are no more


def test_an_empty_batch_integers_and_dropout() -> None:
    made = network(nn.Sequential(nn.Dropout(0.5), nn.Linear(M, PATTERN.size))).train()
    assert made.predict(inputs(0)).shape == (0, N)
    whole = np.array([[1, 2, 3]])
    assert (made.predict(whole) == made.predict(whole.astype(float))).all()
    assert (made.predict(inputs()) == made.predict(inputs())).all()
    assert made.training
    rows = inputs(2500)  # several chunks
    assert (made.predict(rows)[2000:] == made.predict(rows[2000:])).all()
    clamp = np.full((2500, N), -1)
    clamp[:, 0] = np.arange(2500) % 2
    assert (made.predict(rows, clamp=clamp)[:, 0] == clamp[:, 0]).all()
    assert (made.predict_proba(rows, clamp=clamp)[:, 0] == clamp[:, 0]).all()


@pytest.mark.parametrize(
    ("p", "named"),
    [
        (np.zeros((2, 5)), "5"),
        (np.zeros(M), "[3]"),
        (np.array([[0.0, np.nan, 1.0]]), "[0, 1]"),
        (np.array([["a", "b", "c"]]), "p: expected a tensor or array of numbers, got array of <U1"),
        (np.zeros((2, M), complex), "complex128"),
        (None, "NoneType"),
        ([[1.0, 2.0, 3.0], [1.0]], "different lengths"),
        (np.zeros((2, 2, 5)), "[2, 2, 5]"),
    ],
)
def test_wrong_inputs_are_named(p: Any, named: str) -> None:
    with pytest.raises(QubolearnError) as caught:
        network().predict(p)
    assert named in str(caught.value)


NETWORKS = {
    "layers": lambda: network(
        nn.Sequential(nn.Linear(M, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.1), nn.Linear(8, 10))
    ),
    "convolution": lambda: network(
        nn.Sequential(
            nn.Unflatten(1, (1, M)), nn.Conv1d(1, 2, 2), nn.BatchNorm1d(2), nn.Flatten(), nn.Linear(4, 10)
        )
    ),
    "mlp": lambda: QuboNetwork(MLP(M, PATTERN.size, 3, 8, dropout=0.2), PATTERN, M, centered=True),
    "ring": lambda: QuboNetwork(nn.Linear(M, RING.size), RING, bound=True),
    "chimera": lambda: QuboNetwork(
        nn.Linear(M, topology("chimera", 8).size), topology("chimera", 8), sparse=False
    ),
    "diagonal": lambda: DiagonalHead(nn.Linear(M, N, bias=False), topology("diagonal", N)),
    "shared": lambda: SharedQubo(N),
    "fixed": lambda: QuboNetwork(nn.Linear(M, PATTERN.size), PATTERN, fixed=torch.rand(N, N), hard=True),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_saved_networks_open_without_code(name: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    made = NETWORKS[name]().eval()
    again = load(made.save(tmp_path / "mine.safetensors"))
    p = torch.tensor(inputs())
    assert type(again) is type(made)
    assert torch.equal(again(p), made(p))
    assert json.dumps(dict.fromkeys(again.state_dict())) == json.dumps(dict.fromkeys(made.state_dict()))


def test_a_graph_network_opens_and_ignores_absent_pairs(tmp_path: Path) -> None:
    body = GraphBody(PATTERN, nodes=2, rounds=1)
    made = QuboNetwork(body, PATTERN).eval()
    nodes, edges = torch.rand(3, N, 2), torch.rand(3, N, N)
    edges = (edges + edges.mT) * (edges < 0.5) * (edges.mT < 0.5)
    p = nodes, body.pairs_of(edges)
    A = load(made.save(tmp_path / "graph.safetensors"))(p)
    assert torch.equal(A, made(p))
    off = ~torch.eye(N, dtype=torch.bool)
    assert ((A == 0) | (edges != 0))[:, off].all()
    order = torch.tensor([2, 0, 3, 1])  # renames the entries of A
    renamed = made((nodes[:, order], body.pairs_of(edges[:, order][:, :, order])))
    torch.testing.assert_close(renamed, A[:, order][:, :, order])


class Branch(nn.Linear):
    """A body that torch.export cannot trace."""

    def forward(self, p: torch.Tensor) -> torch.Tensor:
        return super().forward(p) if p.sum() > 0 else super().forward(-p)


def graph_network() -> tuple[QuboNetwork, Any]:
    body = GraphBody(PATTERN, nodes=2, rounds=1)
    pairs = body.pairs_of(torch.rand(3, N, N))
    return QuboNetwork(body, PATTERN), (torch.rand(3, N, 2), pairs)


@pytest.mark.filterwarnings("ignore")  # of the exporter
def test_exported_networks_take_batches_of_any_size() -> None:
    graph, p = graph_network()
    cases = [(network(), torch.tensor(inputs())), (NETWORKS["mlp"](), torch.tensor(inputs(1))), (graph, p)]
    for made, given in cases:
        program = export(made, given).module()
        for count in (1, 3, 40):
            rows = map_tensors(lambda tensor: tensor[torch.arange(count) % len(tensor)], given)  # noqa: B023
            torch.testing.assert_close(program(rows), made(rows))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("made", "p", "named"),
    [
        (lambda: network(Branch(M, PATTERN.size)), inputs(), "Branch"),
        (lambda: QuboNetwork(nn.Linear(M, PATTERN.size), PATTERN, sparse=True), inputs(), "sparse=False"),
        (network, np.zeros((2, 5)), "5"),
        (network, np.full((2, M), np.inf), "inf"),
        (network, inputs(0), "0 rows"),
    ],
)
def test_networks_that_cannot_be_exported_are_named_in_one_line(
    made: Any, p: Any, named: str, tmp_path: Path
) -> None:
    with pytest.raises(QubolearnError) as caught:
        export(made(), p, tmp_path / "network.onnx")
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_wrong_parts_of_a_graph_are_named() -> None:
    made, (nodes, pairs) = graph_network()
    assert made.predict((nodes[:0], pairs[:0])).shape == (0, N)
    for wrong, named in [
        ((nodes, pairs[:2]), "[2, 3]"),
        ((nodes, pairs[:, 1:]), "[3, 5, 1]"),
        (nodes, "[3, 4, 2]"),
    ]:
        with pytest.raises(QubolearnError) as caught:
            made.predict(wrong)
        assert named in str(caught.value)


def test_own_classes_are_named_and_passed(tmp_path: Path) -> None:
    made = network(Own(M, PATTERN.size))
    path = save(made, tmp_path / "own.safetensors")
    with pytest.raises(QubolearnError, match="Own"):
        load(path)
    again = load(path, network(Own(M, PATTERN.size)))
    assert (again.predict(inputs()) == made.predict(inputs())).all()
    with pytest.raises(QubolearnError, match=r"body\.weight"):  # the class has changed
        load(path, QuboNetwork(Own(M + 1, PATTERN.size), PATTERN))
    with pytest.warns(UserWarning, match=r"\.Own is not"):
        load(path, network(nn.Linear(M, PATTERN.size)))


def test_damaged_and_foreign_files_are_rejected(tmp_path: Path) -> None:
    path = network().save(tmp_path / "mine.safetensors")
    data = path.read_bytes()
    bad = {
        "truncated": data[:-3],
        "tampered": data[:-3] + b"xyz",
        "version": data.replace(b'"format_version": "2"', b'"format_version": "9"'),
        "kind": data.replace(b"Linear", b"Module"),
        "size": data.replace(b'"in_features\\": 3', b'"in_features\\": 9'),
        "empty": b"",
    }
    for content in bad.values():
        assert content != data
        path.write_bytes(content)
        with pytest.raises(QubolearnError, match=r"mine\.safetensors"):
            load(path)
    with pytest.raises(QubolearnError, match=r"\.txt"):
        network().save(tmp_path / "mine.txt")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two runs, and instances."""
    folder, p = tmp_path_factory.mktemp("runs"), inputs(120)
    x = np.column_stack([p > 0, p[:, 0] > 1])
    fit(network(), (p, x), folder=folder / "plain", progress=False)
    fit(network(Own(M, PATTERN.size)), Arrays(p, x, validation=0.3), folder=folder / "own", epochs=2)
    np.savez(folder / "new.npz", p=p, x_true=x.astype(np.uint8))
    return folder


def test_a_run_of_fit_opens_without_code(runs: Path) -> None:
    run, p = Run.open(runs / "plain"), inputs(9)
    assert run.finished
    assert run.scored()["validation_accuracy"] > 0.5
    assert (run.predict(p) == run.network().predict(p)).all()
    assert run.predict_proba(p).shape == run.best(p, 1).states[:, 0].shape == (9, N)
    assert torch.equal(
        load(run.save(runs / "one.safetensors"))(torch.tensor(p)), run.network()(torch.tensor(p))
    )
    with pytest.raises(QubolearnError, match="Own"):
        Run.open(runs / "own").network()
    assert Run.open(runs / "own", network=network(Own(M, PATTERN.size))).predict(p).shape == (9, N)


@pytest.mark.parametrize(
    "words", ["info plain", "evaluate plain", "evaluate plain --data new.npz", "compare plain plain",
              "explore plain", "plot plain --out pictures", "export plain new.npz --out qubos"]
)  # fmt: skip
def test_commands_accept_it(runs: Path, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs)
    assert main(words.split()) == 0


def test_commands_take_the_file_of_an_own_class(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(runs)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    source = f"import sys\nmade = lambda: sys.modules[{__name__!r}].network(sys.modules[{__name__!r}].Own(3, 10))\n"
    assert __name__ in sys.modules
    (runs / "mine.py").write_text(source)
    assert main(["evaluate", "own", "--network", "mine.py:made"]) == 0
    capsys.readouterr()
    assert main(["compare", "plain", "own", "--network", "mine.py:made", "--data", "new.npz", "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert compared["instances"] == 120  # all rows of the file
    with np.load("new.npz") as new:
        right = (Run.open("plain").predict(new["p"]) == new["x_true"]).all(1).mean()
    assert compared["runs"][0]["accuracy"] == pytest.approx(right)
    assert main(["runs", ".", "--json"]) == 0
    listed = {each["run"]: each for each in json.loads(capsys.readouterr().out)["runs"]}
    assert listed["plain"]["accuracy"] == Run.open("plain").scored()["validation_accuracy"]
    assert main(["evaluate", "own"]) == 2
    assert "Own" in capsys.readouterr().err


def test_known_parts_are_added_and_hard_ones_are_never_outweighed() -> None:
    one_hot = torch.ones(N, N) - 2 * torch.eye(N)  # (sum - 1)² without its constant
    torch.manual_seed(0)
    body = nn.Linear(M, PATTERN.size)
    plain, p = QuboNetwork(body, PATTERN), 50 * inputs(40)
    added = QuboNetwork(body, PATTERN, fixed=one_hot)
    tensor = torch.tensor(p)
    torch.testing.assert_close(added(tensor), plain(tensor) + one_hot)
    by_input = QuboNetwork(body, PATTERN, fixed=lambda p: torch.diag_embed(p[:, :1].expand(-1, N)))
    torch.testing.assert_close(
        by_input(tensor).diagonal(0, 1, 2), plain(tensor).diagonal(0, 1, 2) + tensor[:, :1]
    )
    hard = QuboNetwork(body, PATTERN, fixed=one_hot, hard=True)
    assert (added.predict(p).sum(1) != 1).any()
    found = hard.predict(p)
    assert (found.sum(1) == 1).all()
    single = np.eye(N)[plain.energy(p, np.broadcast_to(np.eye(N), (40, N, N))).argmin(1)]
    assert (found == single).all()  # the learned part decides
    with pytest.raises(QubolearnError, match=r"\[3, 3\]"):
        QuboNetwork(body, PATTERN, fixed=torch.zeros(3, 3))


def test_a_run_without_validation_instances_is_shown_but_not_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = Arrays(inputs(20), np.repeat(inputs(20)[:, :1] > 0, N, 1), validation=0)
    fit(network(), data, epochs=1, folder=tmp_path)
    assert main(["info", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path)]) == 2
    assert "--data" in capsys.readouterr().err
