import io

import rich.console
from rich.console import Console

from qubolearn import kernels as progress


def run(total=3):
    with progress.Bar("annealing", total=total) as bar:
        for _ in range(total):
            bar.advance(1)


def test_short_work_is_silent(capfd):
    run()
    assert capfd.readouterr() == ("", "")


def test_long_work_shows_a_bar(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(progress, "LONG", 0.0)
    monkeypatch.setattr(
        rich.console, "Console", lambda stderr: Console(file=screen, force_terminal=True, width=80)
    )
    run()
    assert "annealing" in screen.getvalue()


def test_no_bar_if_stderr_is_not_a_terminal(monkeypatch, capfd):
    monkeypatch.setattr(progress, "LONG", 0.0)
    run()
    assert capfd.readouterr() == ("", "")
