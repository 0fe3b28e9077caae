"""Brain images in, brain maps out: NIfTI, GIFTI, FreeSurfer and CIFTI-2 (docs/images.md)."""

try:
    import nibabel  # noqa: F401
    import nilearn  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"images are read with nibabel and nilearn ({error}); install them with: "
        'pip install "spca-tv[images]"'
    ) from error

from spcatv._util.matching import RowOrderWarning
from spcatv.images.bids import bids_images
from spcatv.images.cohort import Cohort, InputFile, Preparation, read_cohort
from spcatv.images.estimator import ImageSPCATV
from spcatv.images.features import BadFeatureWarning, DropReport
from spcatv.images.loading import ImageError
from spcatv.images.quality import ImageQuality, ImageQualityWarning
from spcatv.images.reading import Reading, make_reading
from spcatv.images.runs import RunWarning
from spcatv.images.search import ImageSPCATVCV
from spcatv.images.space import Space
from spcatv.images.volume_mask import MaskWarning

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
    "make_reading",
    "read_cohort",
]
