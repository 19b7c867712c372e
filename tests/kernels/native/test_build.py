"""Code for other processors."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

OBJECTS = sorted((Path(__file__).parents[3] / "build" / "kernels").glob("CMakeFiles/kernels_v*.dir/**/*.o"))


@pytest.mark.skipif(not OBJECTS or shutil.which("nm") is None, reason="no objects of make kernels, or no nm")
@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: f"{path.parents[2].name}-{path.name}")
def test_variants_share_no_functions(path: Path) -> None:
    """The linker keeps one copy of an inline function."""
    variant = re.search(r"kernels_(v\d)\.dir", str(path))[1]
    symbols = subprocess.check_output(["nm", "-C", str(path)], text=True).splitlines()
    shared = [line for line in symbols if re.search(r" [WVu] ", line)]
    assert [s for s in shared if f"qubolearn::{variant}::" not in s and "DW.ref" not in s] == []
