"""A fitted model as a folder: JSON, arrays without pickle, maps (docs/model-folder.md)."""

from spcatv.model.files import file_sha256, read_model, write_model
from spcatv.model.folder import ModelError, atomic_folder
from spcatv.model.schema import SCHEMA_VERSION, SavedModel, current_versions
from spcatv.model.structures import structure_from_state, structure_state
from spcatv.model.values import pack, unpack

__all__ = [
    "SCHEMA_VERSION",
    "ModelError",
    "SavedModel",
    "atomic_folder",
    "current_versions",
    "file_sha256",
    "pack",
    "read_model",
    "structure_from_state",
    "structure_state",
    "unpack",
    "write_model",
]
