"""Helpers beside the tests are modules."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # chip_qubos.py
