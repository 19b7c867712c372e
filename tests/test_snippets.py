"""Code blocks and links of pages."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINKED = sorted({*PAGES, *ROOT.glob("*.md"), *ROOT.glob("reproduction/docs/*.md")})


def blocks(language: str) -> list[object]:
    found = []
    for page in PAGES:
        for number, text in enumerate(re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)):
            found.append(pytest.param(text, id=f"{page.stem}-{number}"))
    return found


@pytest.mark.parametrize("text", blocks("python"))
def test_python_blocks_run_and_print_the_accuracy_that_they_state(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "snippet.py").write_text(text)
    runpy.run_path(str(tmp_path / "snippet.py"), run_name="__main__")
    printed = re.findall(r"'accuracy': ([\d.]+)", capsys.readouterr().out)
    for stated in re.findall(r"# accuracy: ([\d.]+)", text):
        assert abs(float(printed.pop(0)) - float(stated)) < 0.03  # other processors round differently


@pytest.mark.parametrize("text", blocks("bash"))
def test_bash_blocks_run(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from qubolearn.cli import main

    monkeypatch.chdir(tmp_path)
    lines = [line.split(" #")[0].split() for line in text.splitlines() if line.startswith("qubolearn ")]
    assert lines
    for words in lines:
        assert main(words[1:]) == 0, words


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    assert not [link for link in links if "://" not in link and not (page.parent / link).exists()]
