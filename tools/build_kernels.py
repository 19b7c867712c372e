"""Build the compiled kernels of this checkout in place: src/kernels -> src/qubolearn/_kernels*.so.

    python tools/build_kernels.py [--sanitize]

Only changes are compiled. Needs a C++20 compiler, nanobind, cmake and ninja.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sanitize", action="store_true", help="into build/sanitize, with sanitizers")
    sanitize = parser.parse_args().sanitize
    compilers = (os.environ.get("CXX") or "c++ g++ clang++").split()
    if not any(map(shutil.which, compilers)):
        print(f"build_kernels: no C++ compiler ({' '.join(compilers)}); install g++ >= 11 or clang++ >= 14")
        return 1
    build = ROOT / "build" / ("sanitize" if sanitize else "kernels")
    out = build / "qubolearn" if sanitize else ROOT / "src" / "qubolearn"
    options = [f"-DPython_EXECUTABLE={sys.executable}", f"-DQUBOLEARN_SANITIZE={'ON' if sanitize else 'OFF'}"]
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    ninja = shutil.which("ninja", path=beside)
    if ninja:
        options += ["-GNinja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    try:
        import cmake

        program = str(Path(cmake.CMAKE_BIN_DIR) / "cmake")
    except ImportError:
        program = "cmake"
    steps = [
        [program, "-S", str(ROOT), "-B", str(build), f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={out}", *options],
        [program, "--build", str(build), "--parallel", str(os.cpu_count() or 2)],
    ]
    for step in steps:
        done = subprocess.run(step, check=False, capture_output=True, text=True)
        if done.returncode:
            print(done.stdout, done.stderr, "build_kernels: failed, see above", sep="\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
