"""What a model folder says: its contents, and the tables of their fields.

The tables are the format. They do not follow the classes of the package: a class may gain or lose
attributes, and the folder stays as it is. To change a table, raise `SCHEMA_VERSION`, bring models of the
previous version to the new one in `spcatv.model.upgrades`, keep folders of the new version as fixtures
(tests/model/make_fixtures.py), and describe the change in docs/model-folder.md.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from spcatv._util.types import Array
from spcatv._version import __version__
from spcatv.model.folder import ModelError
from spcatv.model.records import (
    BOOLEAN,
    INTEGER,
    INTEGER_OR_NULL,
    NUMBER,
    NUMBER_OR_NULL,
    NUMBER_OR_NUMBERS,
    NUMBERS,
    TEXT,
    TEXTS,
    Table,
)

SCHEMA_VERSION = 4
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")
IMAGE_PACKAGES = ("nilearn", "nibabel")  # of models of images

# What a fit found: attributes of the estimator, without the underscore at the end.
FITTED: Table = {
    "l1": NUMBER_OR_NUMBERS,
    "l2": NUMBER_OR_NUMBERS,
    "tv": NUMBER_OR_NUMBERS,
    "n_iter": INTEGER,
    "n_features_in": INTEGER,
}
# The same for arrays of floating point numbers, with their shapes for K components and P features.
ARRAYS: Mapping[str, str] = {
    "components": "KP",
    "mean": "P",
    "singular_values": "K",
    "explained_variance": "K",
    "explained_variance_ratio": "K",
}
# The same for arrays that a model has only with some parameters.
OPTIONAL_ARRAYS: Mapping[str, str] = {"global_loading": "P", "patterns": "KP", "mixing": "KK"}
# One record per component.
DIAGNOSTICS: Table = {
    "objective": NUMBER,
    "gap": NUMBER,
    "relative_gap": NUMBER,
    "error_bound": NUMBER,
    "n_alternations": INTEGER,
    "n_inner_iter": INTEGER,
    "seconds": NUMBER,
    "converged": BOOLEAN,
    "sparsity": NUMBER,
    "n_nonzero": INTEGER,
    "n_certain": INTEGER,
    "objectives": NUMBERS,
    "inexactness": NUMBERS,
    "l1": NUMBER,
    "tv": NUMBER,
    "target_sparsity": NUMBER_OR_NULL,
    "smoothness": NUMBER_OR_NULL,
    "jump": NUMBER,
    "same_sign": NUMBER_OR_NULL,
    "global_correlation": NUMBER_OR_NULL,
    "n_passes": INTEGER_OR_NULL,
}
# Models of images: one record per file that was read, and one on the features that were dropped.
IMAGE_FILE: Table = {"name": TEXT, "sha256": TEXT}
DROPPED: Table = {
    "n_features": INTEGER,
    "n_constant": INTEGER,
    "n_not_finite": INTEGER,
    "n_explained": INTEGER,
}
# What happens to images while they are read.
IMAGE_READING: Table = {
    "smoothing_fwhm": NUMBER_OR_NULL,
    "resample": BOOLEAN,
    "standardize_runs": TEXT,
    "detrend": BOOLEAN,
    "high_pass": NUMBER_OR_NULL,
    "low_pass": NUMBER_OR_NULL,
    "t_r": NUMBER_OR_NULL,
    "run_confounds": TEXTS,
}


def current_versions(*others: str) -> dict[str, str]:
    """Versions of Python, of this package, of the packages it computes with, and of others."""
    versions = {"python": platform.python_version(), "spca-tv": __version__}
    return versions | {name: metadata.version(name) for name in (*PACKAGES, *others)}


@dataclass(frozen=True, eq=False)
class SavedModel:
    """The contents of a model folder.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.model import read_model
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> saved = read_model(SPCATV(2).fit(X).save("model"))
    >>> saved.kind, saved.parameters["n_components"], saved.arrays["components"].shape
    ('SPCATV', 2, (2, 30))
    >>> with saved.naming_source():  # an error inside names the folder
    ...     raise KeyError("mean")
    Traceback (most recent call last):
        ...
    spcatv.model.folder.ModelError: model: KeyError: 'mean'
    """

    kind: str  # class of the estimator, such as "SPCATV"
    parameters: dict[str, Any]  # JSON; values as `spcatv.model.pack` describes them
    # JSON: weights used, diagnostics, and whatever else the fit found that is not an array
    fitted: dict[str, Any]
    arrays: dict[str, Array]  # plain finite numbers
    # JSON: names and SHA-256 of what the model was fitted to
    inputs: dict[str, Any] = field(default_factory=dict)
    # JSON: versions of the software that saved the model; those of this process by default
    versions: dict[str, Any] = field(default_factory=current_versions)
    source: str = ""  # the folder, for messages

    @contextmanager
    def naming_source(self) -> Iterator[None]:
        """Turn whatever a damaged model raises into a ModelError that names its folder."""
        try:
            yield
        except Exception as error:  # a model may be damaged anywhere, and is checked where it is used
            if isinstance(error, ModelError) and self.source in str(error):
                raise
            what = str(error) if isinstance(error, ModelError) else f"{type(error).__name__}: {error}"
            raise ModelError(f"{self.source}: {what}" if self.source else what) from error
