"""``python -m qubolearn`` is the command ``qubolearn``."""

import sys

from qubolearn.cli import main

sys.exit(main())
