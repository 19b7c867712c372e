"""The manifest of data."""

import json
from importlib.resources import files
from pathlib import Path

import pytest

from quant_reproduction.datasets.files import data_root, file_digest

RESULTS = Path(__file__).parents[2] / "results"
FILES = json.loads(
    files("quant_reproduction.datasets").joinpath("manifest.json").read_text(encoding="utf-8")
)["files"]


@pytest.mark.parametrize("entry", FILES, ids=lambda entry: entry["file"])
def test_a_file_is_the_one_that_the_manifest_names(entry: dict[str, str]) -> None:
    assert entry["source"]
    assert entry["license"]
    path = data_root() / entry["file"]
    if not path.exists():
        pytest.skip(f"no {path}")
    assert file_digest(path) == entry["sha256"]


def test_every_file_that_a_record_was_made_of_is_in_the_manifest() -> None:
    known = {entry["file"]: entry["sha256"] for entry in FILES}
    lines = [line for path in RESULTS.glob("*.jsonl") for line in path.read_text().splitlines()]
    assert lines
    for record in map(json.loads, lines):
        for name, digest in record.get("data", {}).items():
            assert known.get(name) == digest, (record["job"], name)
