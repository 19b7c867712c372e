"""The examples run as scripts, and they learn."""

import ast
import re
import runpy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from qubolearn import QuboNetwork, topology
from qubolearn.testing import check_problem

ROOT = Path(__file__).parents[1]


def run(name: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, float]]:
    """Return the metrics that an example prints at the ends of lines."""
    runpy.run_path(str(ROOT / name), run_name="__main__")
    found = re.findall(r"\{.*\}$", capsys.readouterr().out, re.MULTILINE)
    return [ast.literal_eval(each) for each in found]


@pytest.mark.parametrize(
    ("name", "least"),
    [("examples/sorting.py", 0.95), ("examples/own_parts.py", 0.85), ("examples/loader.py", 0.75)],
)
def test_examples_learn(name: str, least: float, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(name, capsys)
    assert all(scores["accuracy"] > least for scores in found)
    assert max(scores["accuracy"] for scores in found) - found[0]["accuracy"] < 0.02  # solvers agree


def test_rules_correct_a_reader(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    (scores,) = run("reproduction/examples/visual_sudoku.py", capsys)
    assert scores["accuracy"] > scores["read"] > 0.8


def test_the_problem_of_the_example_keeps_the_contract() -> None:
    check_problem(runpy.run_path(str(ROOT / "examples/sorting.py"))["Sorting"]())


@pytest.mark.parametrize(
    ("name", "needs", "least"),
    [
        ("defaults", ("sklearn",), 0.8),
        ("after_training", (), 0.85),
        ("estimator", ("sklearn",), 0.5),
        ("known_constraints", (), 0.9),
        ("graph_sizes", (), 0.85),
        ("optuna_sweep", ("optuna",), 0.5),
        ("ray_tune", ("ray.tune",), 0.5),
    ],
)
def test_examples_of_own_problems_learn(
    name: str,
    needs: tuple[str, ...],
    least: float,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", [name])
    for module in needs:
        pytest.importorskip(module, reason=f"needs pip install {module}")
    assert run(f"examples/{name}.py", capsys)[-1]["accuracy"] > least


@pytest.mark.filterwarnings("ignore")  # of Ray
def test_a_cluster_is_used_by_its_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("ray.data", "ray.tune"):
        pytest.importorskip(module, reason=f"needs pip install {module}")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("OUT", str(tmp_path))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        monkeypatch.setattr("sys.argv", ["batch_inference", "3000", cluster.address])
        (found,) = run("examples/batch_inference.py", capsys)
        monkeypatch.setattr("sys.argv", ["ray_tune", cluster.address])
        assert run("examples/ray_tune.py", capsys)[-1]["accuracy"] > 0.5
    finally:
        cluster.shutdown()
    assert found["rows"] == 3000
    assert found["same"]


@pytest.mark.filterwarnings("ignore")  # of the exporter
def test_an_exported_network_returns_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(module, reason=f"needs pip install {module}")
    monkeypatch.setattr("sys.argv", ["exporting.py", str(tmp_path / "network.onnx")])
    assert [each["same"] for each in run("examples/exporting.py", capsys)] == [True] * 3


@pytest.mark.filterwarnings("ignore")  # of its test client
def test_a_service_answers_as_the_network_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("fastapi", "httpx"):
        pytest.importorskip(module, reason=f"needs pip install {module}")
    from fastapi.testclient import TestClient

    pattern = topology("dense", 5)
    network = QuboNetwork(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, pattern.size)), pattern)
    monkeypatch.setenv("MODEL", str(network.save(tmp_path / "mine.safetensors")))
    service, sizes = runpy.run_path(str(ROOT / "examples/serving.py")), list[int]()
    predict = service["network"].predict
    service["network"].predict = lambda rows: sizes.append(len(rows)) or predict(rows)
    p = np.random.default_rng(0).normal(size=(40, 3)).round(3)
    with TestClient(service["app"]) as client, ThreadPoolExecutor(8) as pool:
        wrong = pool.submit(client.post, "/solve", json=[1.0, 2.0])  # in a batch with the others
        answers = list(pool.map(lambda row: client.post("/solve", json=row).json(), p.tolist()))
        assert wrong.result().status_code == 422
        assert "2 columns" in wrong.result().json()["detail"]
        assert client.post("/solve", json="nothing").status_code == 422
    assert answers == network.predict(p).tolist()
    assert max(sizes) > 1  # requests were solved together
