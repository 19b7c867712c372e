"""The version, which pyproject.toml reads and every result records."""

VERSION = "0.1.0"
