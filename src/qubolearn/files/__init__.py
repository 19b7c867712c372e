"""Files that are whole or not there, and files from strangers: JSON and safetensors, checked, never executed."""

from qubolearn.files.atomic import is_temporary, make_folder, write_atomic, write_output
from qubolearn.files.json_files import (
    MAX_JSON,
    read_bytes,
    read_json,
    read_records,
    read_text,
    write_json,
    write_records,
)
from qubolearn.files.lock import lock_folder
from qubolearn.files.tensors import FORMAT, FORMAT_VERSION, check_version, read_metadata, read_tensors, write_tensors

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "MAX_JSON",
    "check_version",
    "is_temporary",
    "lock_folder",
    "make_folder",
    "read_bytes",
    "read_json",
    "read_metadata",
    "read_records",
    "read_tensors",
    "read_text",
    "write_atomic",
    "write_json",
    "write_output",
    "write_records",
    "write_tensors",
]
