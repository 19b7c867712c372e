"""The pages are true: Python blocks run as scripts, bash blocks by the real command, links lead somewhere."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str) -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for number, text in enumerate(re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)):
            found.append((f"{page.name}-{number}", text))
    return found


@pytest.mark.parametrize(("name", "text"), blocks("python"), ids=lambda value: value if "-" in value[:40] else "")
def test_python_blocks_run(name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "snippet.py"
    script.write_text(text)
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.parametrize(("name", "text"), blocks("bash"), ids=lambda value: value if "-" in value[:40] else "")
def test_bash_blocks_run(name: str, text: str, tmp_path: Path) -> None:
    from qubolearn.cli import main

    lines = [line.split(" #")[0].split() for line in text.splitlines() if line.startswith("qubolearn ")]
    assert lines
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        for words in lines:
            assert main(words[1:]) == 0, words


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    assert not [link for link in links if "://" not in link and not (page.parent / link).exists()]


def test_readme_leads_to_every_page() -> None:
    links = set(re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / "README.md").read_text()))
    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} <= links
