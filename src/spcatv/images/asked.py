"""What the parameters of an estimator ask for: how to read images, a cohort, a masker that does the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spcatv.images.cohort import Cohort, read_cohort
from spcatv.images.reading import Reading, make_reading
from spcatv.images.run_confounds import check_words
from spcatv.images.saving import READING
from spcatv.progress import SILENT, Printer, listening


def reading_for(model: Any) -> Reading:
    """How the parameters of an estimator ask for images to be read."""
    reading = make_reading(**{name: getattr(model, name) for name in READING})
    check_words(reading.run_confounds)
    return reading


def cohort_for(model: Any, imgs: Any, confounds: Any = None, exclude: str | Sequence[str] = ()) -> Cohort:
    """Images as the parameters of an estimator ask for; a Cohort is checked against them and returned."""
    if not isinstance(imgs, Cohort):
        printer = Printer("[ImageSPCATV] ", 2 * (model.verbose > 1)) if model.verbose else SILENT
        with listening(printer):
            return read_cohort(
                imgs,
                mask=model.mask,
                surface=model.surface,
                confounds=confounds,
                bad_features=model.bad_features,
                standardize=bool(model.standardize),
                dtype=model.dtype,
                reading=reading_for(model),
                target_affine=model.target_affine,
                memory=model.memory,
                cache=model.cache,
                memory_limit=model.memory_limit,
                n_components=model.n_components,
                exclude=exclude,
            )
    if exclude:
        raise ValueError("a Cohort is read already; give exclude to read_cohort")
    if confounds is not None:
        raise ValueError("the confounds of a Cohort are removed already; give them to read_cohort")
    if (imgs.preparation.scale is not None) != bool(model.standardize):
        raise ValueError(f"standardize={model.standardize} does not match the Cohort; give it to read_cohort")
    _check_same_reading(model, imgs.preparation.reading)
    return imgs


def _check_same_reading(model: Any, done: Reading) -> None:
    """Refuse parameters that ask for something else than was done when the Cohort was read."""
    asked = reading_for(model)
    plain = Reading()
    for name in READING:
        wanted = getattr(asked, name)
        if wanted not in (getattr(plain, name), getattr(done, name)):
            raise ValueError(
                f"{name}={getattr(model, name)!r} does not match the Cohort; give it to read_cohort"
            )


def masker_parameters(reading: Reading) -> dict[str, Any]:
    """The parameters of a nilearn masker that reads images in this way, apart from its mask."""
    return {
        "smoothing_fwhm": reading.smoothing_fwhm,
        "standardize": None if reading.standardize_runs == "none" else reading.standardize_runs,
        "detrend": reading.detrend,
        "high_pass": reading.high_pass,
        "low_pass": reading.low_pass,
        "t_r": reading.t_r,
    }
