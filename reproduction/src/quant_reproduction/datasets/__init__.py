"""Readers of the published datasets below ``$QUBOLEARN_DATA``; see ``manifest.json`` for sources and digests."""

from __future__ import annotations

import zipfile
from pathlib import Path

from quant_reproduction.datasets.files import data_root
from qubolearn.errors import QubolearnError

__all__ = ["fetch"]


def fetch(url: str, dataset: str, sha256: str | None = None) -> Path:
    """Download an archive, unpack it to ``$QUBOLEARN_DATA/DATASET/original``, and return that folder."""
    import pooch

    folder, name = data_root() / dataset, url.rpartition("/")[2]
    try:
        pooch.retrieve(url, sha256, name, folder, processor=pooch.Unzip(extract_dir="original"))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise QubolearnError(f"cannot download {url}: {error}") from error
    return folder / "original"
