"""``runs`` and ``compare``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from qubolearn.cli import main
from qubolearn.cli.runs import paired
from qubolearn.recipes import preset
from qubolearn.runs import Run

Call = Callable[[str], Any]

TRAIN = "train randgraph --k 3 --hidden 16 --epochs 2 --instances 300 --validation 20 --test 50"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train two runs."""
    made = tmp_path_factory.mktemp("runs")
    for head in ("coupled", "uncoupled"):
        assert main(f"{TRAIN} --head {head} --out {made}/{head} --json".split()) == 0
    return made


def test_compare_agrees_with_evaluate_and_pairs_the_instances(folder: Path, call: Call) -> None:
    both = [f"{folder}/uncoupled", f"{folder}/coupled"]
    found = call(f"compare {' '.join(both)} --instances 200 --seed 3")
    for row, run in zip(found["runs"], both, strict=True):
        alone = call(f"evaluate {run} --instances 200 --seed 3")
        for score in ("accuracy", "accuracy_projected"):
            assert row[score] == alone[score]
    change = found["difference"]["accuracy"]
    assert change["mean"] == pytest.approx(found["runs"][1]["accuracy"] - found["runs"][0]["accuracy"])
    assert change["higher"] - change["lower"] == pytest.approx(200 * change["mean"])
    assert call(f"compare {' '.join(both)} {both[0]} --instances 20")["difference"] == {}


def test_runs_of_different_problems_are_not_compared(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = folder / "other"
    other.mkdir()
    config = json.loads((folder / "coupled" / "config.json").read_text())
    config.pop("sha256")
    config["problem"]["k"] = 4
    (other / "config.json").write_text(json.dumps(config))
    assert main(["compare", str(folder / "coupled"), str(other)]) == 2
    assert "k=4" in capsys.readouterr().err


def test_the_interval_is_that_of_a_mean_of_differences() -> None:
    first, second = torch.randn(2, 1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    change = paired({"x": first}, {"x": second})["x"]
    values = [b - a for a, b in zip(first.tolist(), second.tolist(), strict=True)]
    mean = sum(values) / 1000
    variance = sum((value - mean) ** 2 for value in values) / 999
    assert change["mean"] == pytest.approx(mean)
    assert change["interval"] == pytest.approx(1.96 * math.sqrt(variance / 1000))


def test_embed_takes_a_runs_own_pattern(tmp_path: Path, call: Call) -> None:
    problem, recipe = preset("best", "snakes", rows=1, columns=2)
    Run.create(tmp_path / "run", problem, recipe)
    (report,) = call(f"embed {tmp_path}/run --chip pegasus --chip-size 4")["reports"]
    assert (report["logical_qubits"], report["couplers"]) == (22, 121)
    (report,) = call("embed 64 --topology diagonal --chip pegasus --chip-size 4")["reports"]
    assert (report["logical_qubits"], report["size"]) == (64, 4)


def test_runs_lists_trained_begun_and_broken_folders(
    folder: Path, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    begun, bad = folder / "deep" / "begun", folder / "deep" / "bad"
    for made in (begun, bad):
        made.mkdir(parents=True, exist_ok=True)
    (begun / "config.json").write_bytes((folder / "coupled" / "config.json").read_bytes())
    config = {"problem": {"name": "\x1b[2Jx" * 50}, "training": {"network": ["\x1b"], "epochs": 10**400}}
    (bad / "config.json").write_text(json.dumps(config))
    (bad / "result.json").write_text('{"accuracy": NaN}')
    found = {Path(row["run"]).name: row for row in call(f"runs {folder}")["runs"]}
    stored = json.loads((folder / "coupled" / "result.json").read_text())
    assert (found["coupled"]["state"], found["coupled"]["accuracy"]) == ("finished", stored["accuracy"])
    assert found["begun"]["state"] == "not finished"
    assert "accuracy" not in found["bad"]
    assert "epochs" not in found["bad"]
    assert main(["runs", str(bad)]) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert main(["runs", str(folder / "nowhere")]) == 2
