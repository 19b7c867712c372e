"""Helpers beside the tests are modules, which worker processes import too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # grids.py
