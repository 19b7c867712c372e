"""Records that say the digest of their source but no commit get the commit that has this source.

    python tools/commits.py results

Where a grid runs on a copy without git, QUBOLEARN_COMMIT tells it the commit; this is for copies that were not told. A
commit is written into a record only where its source has the very digest that the record holds.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path, PurePosixPath

from qubolearn.files import read_json, write_json
from qubolearn.provenance import ONLY_SHOW

PACKAGE = PurePosixPath("src/qubolearn")


def git(*words: str) -> bytes:
    return subprocess.run(["git", *words], capture_output=True, check=True).stdout


def digest_at(commit: str, blobs: dict[str, bytes]) -> str:
    """What ``source_digest`` says at a commit."""
    files = {}
    for line in git("ls-tree", "-r", "--full-tree", commit, "--", str(PACKAGE)).decode().splitlines():
        about, _, path = line.partition("\t")
        if path.endswith(".py"):
            files[PurePosixPath(path).relative_to(PACKAGE)] = about.split()[2]
    digest = hashlib.sha256()
    for path in sorted(files):
        if not str(path).startswith(tuple(f"{part}/" for part in ONLY_SHOW)):
            blob = files[path]
            blobs[blob] = blobs.get(blob) or git("cat-file", "blob", blob)
            digest.update(f"{path}\0".encode() + blobs[blob])
    return digest.hexdigest()[:12]


def main(folder: Path) -> None:
    records = {path: read_json(path) for path in sorted(folder.glob("*/*.json"))}
    open_ones = {path: each for path, each in records.items() if "source" in each and "commit" not in each}
    wanted = {str(each["source"]) for each in open_ones.values()}
    found: dict[str, str] = {}
    blobs: dict[str, bytes] = {}
    for commit in git("rev-list", "--max-count=1000", "HEAD").decode().split():
        if wanted <= found.keys():
            break
        found.setdefault(digest_at(commit, blobs), commit)
    done = 0
    for path, record in open_ones.items():
        if record["source"] in found:
            write_json(path, {**record, "commit": found[record["source"]]})
            done += 1
    print(f"{done} of {len(open_ones)} records got their commit; {len(open_ones) - done} have the source of none")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
