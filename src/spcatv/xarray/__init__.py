"""XarraySPCATV: structured sparse PCA of DataArrays of xarray (docs/xarray.md)."""

try:
    import xarray  # noqa: F401 (not this package, whose name is spcatv.xarray)
except ImportError as error:
    raise ImportError(
        f'DataArrays need xarray ({error}); install it with: pip install "spca-tv[xarray]"'
    ) from error

from spcatv.xarray.cf_coordinates import RepeatedMeridianWarning
from spcatv.xarray.conversion import read_field
from spcatv.xarray.estimator import XarraySPCATV

__all__ = ["RepeatedMeridianWarning", "XarraySPCATV", "read_field"]
