"""The version, said once: pyproject.toml reads it here, and it stands beside every result."""

VERSION = "0.1.0"
