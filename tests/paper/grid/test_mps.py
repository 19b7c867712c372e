"""A server of MPS is started for the processes of a block, and ended with it; nobody else's is touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qubolearn.paper.grid.engines.mps import CONTROL, PIPES, shared_gpu


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for NVIDIA's command that writes down how it was called; no machine here has the real one."""
    said, command = tmp_path / "said", tmp_path / CONTROL
    command.write_text(f'#!/bin/sh\necho "$@ $(cat) in ${PIPES}" >> {said}\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv(PIPES, raising=False)
    return said


def test_a_server_lives_as_long_as_the_block(control: Path) -> None:
    with shared_gpu() as shared:
        assert shared
        folder = os.environ[PIPES]
        assert Path(folder).is_dir()
    assert PIPES not in os.environ
    assert not Path(folder).exists()
    assert [line.split() for line in control.read_text().splitlines()] == [["-d", "in", folder], ["quit", "in", folder]]


def test_without_the_command_processes_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv(PIPES, raising=False)
    with shared_gpu() as shared:
        assert not shared
        assert PIPES not in os.environ


def test_a_server_of_somebody_else_is_used_and_lives_on(control: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PIPES, "/theirs")
    with shared_gpu() as shared:
        assert shared
    assert os.environ[PIPES] == "/theirs"
    assert not control.exists()
