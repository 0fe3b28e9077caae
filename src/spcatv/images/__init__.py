"""Brain images in NIfTI, GIFTI, FreeSurfer and CIFTI-2 files (docs/images.md)."""

try:
    import nibabel  # noqa: F401
    import nilearn  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"images are read with nibabel and nilearn ({error}); install them with: "
        'pip install "spca-tv[images]"'
    ) from error

from spcatv._util.matching import RowOrderWarning
from spcatv.data.outliers import ImageQuality, ImageQualityWarning
from spcatv.images.bids import bids_images
from spcatv.images.cv import ImageSPCATVCV
from spcatv.images.dataset import Cohort, InputFile, Preparation, read_cohort
from spcatv.images.estimator import ImageSPCATV
from spcatv.images.files import ImageError
from spcatv.images.masking import MaskWarning
from spcatv.images.preprocessing import Reading, RunWarning
from spcatv.images.quality import BadFeatureWarning, DropReport
from spcatv.images.spaces.base import Space

__all__ = [
    "BadFeatureWarning",
    "Cohort",
    "DropReport",
    "ImageError",
    "ImageQuality",
    "ImageQualityWarning",
    "ImageSPCATV",
    "ImageSPCATVCV",
    "InputFile",
    "MaskWarning",
    "Preparation",
    "Reading",
    "RowOrderWarning",
    "RunWarning",
    "Space",
    "bids_images",
    "read_cohort",
]
