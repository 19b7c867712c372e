"""Pin the development environment, query known vulnerabilities, list licenses.

    python tools/supply_chain.py constraints [--upgrade]     writes constraints.txt and constraints-torch.txt
    python tools/supply_chain.py audit                       queries OSV; 1 if a pinned version is vulnerable
    python tools/supply_chain.py licenses                    prints a table; 1 if a license is unknown

Needs only the standard library and pip. If a service is unreachable: one line and exit code 2.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import urllib.request
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).parents[1]
PINS, TORCH_PINS = ROOT / "constraints.txt", ROOT / "constraints-torch.txt"
INDEX = "https://pypi.org/simple"
OSV = "https://api.osv.dev/v1/querybatch"
TIMEOUT = 30.0  # seconds for one answer

HEADER = """\
# Versions and hashes that `make` installs; `make constraints` writes this file. Hashes cover all files of a version on
# PyPI, for all platforms. torch is in constraints-torch.txt.
"""
TORCH_HEADER = """\
# torch is pinned by version only: its builds for CPUs and for versions of CUDA have different hashes.
"""
#: torch, and what only some of its builds need.
WITH_TORCH = re.compile(r"torch$|triton$|nvidia-|cuda-")


class Unreachable(Exception):
    """A service did not answer."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    made = commands.add_parser("constraints")
    made.add_argument("--upgrade", action="store_true", help="take the newest versions")
    made.add_argument("--index", default=INDEX)
    commands.add_parser("audit").add_argument("--service", default=OSV)
    commands.add_parser("licenses")
    given = parser.parse_args(arguments)
    try:
        if given.command == "constraints":
            return write_constraints(given.upgrade, given.index)
        return audit(given.service) if given.command == "audit" else print_licenses()
    except Unreachable as error:
        print(f"supply_chain: {error}", file=sys.stderr)
        return 2


def pinned(path: Path = PINS) -> dict[str, str]:
    lines = path.read_text().splitlines() if path.exists() else []
    found = (re.match(r"([\w.-]+)==([^\s;\\]+)", line) for line in lines)
    return {match[1]: match[2] for match in found if match}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def write_constraints(upgrade: bool, index: str) -> int:
    """Let pip choose versions of both distributions, and list all hashes."""
    kept = {} if upgrade else {**pinned(), **pinned(TORCH_PINS)}
    with tempfile.TemporaryDirectory() as folder:
        wish, report = Path(folder) / "pins.txt", Path(folder) / "report.json"
        wish.write_text("".join(f"{name}=={version}\n" for name, version in kept.items()))
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        words = ["--report", str(report), "-c", str(wish), f"{ROOT}[dev]"]
        done = subprocess.run([*pip, *words], check=False)
        if done.returncode:
            raise Unreachable("pip could not choose versions; is the package index reachable?")
        chosen = [item["metadata"] for item in json.loads(report.read_text())["install"]]
    versions = {normal(each["name"]): each["version"] for each in chosen}
    versions.pop("qubolearn", None)
    lines, torch_lines = [], []
    for name, version in sorted(versions.items()):
        if WITH_TORCH.match(name):
            torch_lines += [f"{name}=={version.partition('+')[0]}\n"] if name == "torch" else []
            continue
        hashes = [f"    --hash=sha256:{each}" for each in hashes_of(name, version, index)]
        lines.append(" \\\n".join([f"{name}=={version}", *hashes]) + "\n")
    PINS.write_text(HEADER + "".join(lines))
    TORCH_PINS.write_text(TORCH_HEADER + "".join(torch_lines))
    print(f"{len(lines)} packages with hashes, and torch")
    return 0


def hashes_of(name: str, version: str, index: str) -> list[str]:
    """Return the SHA-256 of every file of a version."""
    page = fetch(f"{index}/{name}/").decode()
    links = re.findall(r'href="[^"]*?/([^"/#]+)#sha256=([0-9a-f]{64})', page)
    found = sorted({digest for file, digest in links if version_of(unquote(file)) == version})
    if not found:
        raise Unreachable(f"{index} has no hash of {name} {version}")
    return found


def version_of(file: str) -> str:
    if file.endswith(".whl"):
        return file.split("-")[1]
    return file.removesuffix(".tar.gz").removesuffix(".zip").rpartition("-")[2]


def audit(service: str) -> int:
    pins = {**pinned(), **pinned(TORCH_PINS)}
    asked = [{"package": {"name": n, "ecosystem": "PyPI"}, "version": v} for n, v in pins.items()]
    answer = json.loads(fetch(service, json.dumps({"queries": asked}).encode()))
    results = answer.get("results", [])
    if len(results) != len(asked):
        raise Unreachable(f"{service} answered {len(results)} of {len(asked)} questions")
    bad = 0
    for (name, version), result in zip(pins.items(), results, strict=True):
        known = [each["id"] for each in result.get("vulns", [])]
        bad += bool(known)
        if known:
            print(f"{name} {version}: {', '.join(known)}")
    print(f"{len(pins)} packages, {bad} with known vulnerabilities")
    return int(bad > 0)


def fetch(url: str, body: bytes | None = None) -> bytes:
    headers = {"Content-Type": "application/json", "Accept": "text/html, */*"}
    request = urllib.request.Request(url, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            return bytes(answer.read())
    except OSError as error:  # URLError, HTTPError, timeouts
        raise Unreachable(f"cannot reach {url}: {error}; this needs the network") from error


def print_licenses() -> int:
    unknown = 0
    for name in sorted({**pinned(), **pinned(TORCH_PINS)}):
        try:
            found = license(name)
        except PackageNotFoundError:
            found = "(not installed)"
        unknown += found == ""
        print(f"{name:<28}{found or 'UNKNOWN'}")
    return int(unknown > 0)


def license(name: str) -> str:
    """Return the license: expression, classifier, short text, or file title."""
    found = distribution(name)
    about = found.metadata
    classifiers = about.get_all("Classifier") or []
    titled = [text.rpartition(" :: ")[2] for text in classifiers if "License ::" in text]
    short = about.get("License", "").strip()
    short = short if len(short) < 60 and "\n" not in short and short != "UNKNOWN" else ""
    titles = [
        next((line.strip() for line in file.read_text().splitlines() if line.strip()), "")
        for file in found.files or []
        if re.search(r"LICEN[CS]E", file.name, re.IGNORECASE) and ".dist-info" in str(file)
    ]
    return about.get("License-Expression") or short or ", ".join(titled) or next(iter(titles), "")


if __name__ == "__main__":
    sys.exit(main())
