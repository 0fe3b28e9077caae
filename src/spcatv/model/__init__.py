"""Fitted models as folders of JSON, arrays and maps (docs/model-folder.md), and checkpoints of long work."""

from spcatv.model.codec import ModelError, checked, pack, recordable, unpack
from spcatv.model.folder import (
    SCHEMA_VERSION,
    SavedModel,
    current_versions,
    file_sha256,
    read_model,
    write_model,
)

__all__ = [
    "SCHEMA_VERSION",
    "ModelError",
    "SavedModel",
    "checked",
    "current_versions",
    "file_sha256",
    "pack",
    "read_model",
    "recordable",
    "unpack",
    "write_model",
]
