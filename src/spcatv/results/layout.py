"""Files of a results folder: their names and what they hold; and the folder, written as a whole."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from spcatv._util.atomic_files import PARTIAL, atomic_folder, read_text, standing_folder
from spcatv.model import ModelError

GENERATOR = "spca-tv"
# Names in the style of BIDS derivatives. A table has a .json of the same name beside it.
TAG = "desc-SPCATV_"
DESCRIPTION = "dataset_description.json"
README = "README.md"
IGNORED = ".bidsignore"  # patterns of the files for which BIDS has no rules yet: maps and tables of a group
MODEL = "model"
CONFIG = f"{TAG}config.toml"
MIXING = f"{TAG}mixing.tsv"
METRICS = f"{TAG}metrics.tsv"
REPORT = f"{TAG}report.html"
EXPLORER = f"{TAG}explorer.html"
SELECTION = f"{TAG}selection.tsv"
REGIONS = f"{TAG}regions.tsv"
HALVES = f"{TAG}halves.tsv"
QUALITY = f"{TAG}quality.tsv"
COUNT = f"{TAG}count.tsv"
MEAN = f"{TAG}mean.nii.gz"
STABILITY = "stability.npz"
# Stems of the names of maps, between a prefix and an ending: `hemi-L_<stem>.func.gii`, `<stem>.nii.gz`, ...
COMPONENT_MAPS = f"{TAG}components"
FREQUENCY_MAPS = "desc-frequency_components"
SIGN_MAPS = "desc-signconsistency_components"
REGION_MAPS = "desc-regions_components"
# What the files hold, by a part of their names, in the order of README.md.
CONTENTS = {
    COMPONENT_MAPS: "loading maps, one per component",
    MIXING: "scores, one row per sample",
    METRICS: "explained variance, zeros and precision of every component",
    HALVES: "verdicts on the components from random halves of the samples",
    COUNT: "shares of variance by which the number of components was chosen",
    QUALITY: "comparison of every image with the others",
    MEAN: "mean of the images",
    SELECTION: "the settings that were compared, and the chosen one",
    FREQUENCY_MAPS: "share of resampled fits that select a voxel or vertex, one map per component",
    SIGN_MAPS: "agreement of the resampled fits about its sign, one map per component",
    REGION_MAPS: "numbers of the regions, one map per component",
    REGIONS: "the regions, and the share of resampled fits that select each",
    STABILITY: "arrays of the resampled fits",
    EXPLORER: "a page with sliders that shows every setting",
    CONFIG: "the options of the run; `spca-tv {command} --config` repeats it",
    MODEL: "the model, for `spca-tv transform`",
    DESCRIPTION: "origin of this folder, for tools that read BIDS",
    IGNORED: "the files here for which BIDS has no rules",
}
# Columns of the tables with their descriptions, which BIDS asks for; # is a number, and {} its value.
CEILING_COLUMN = "pca_cumulative_explained_variance_ratio"
COLUMNS = {
    MIXING: {
        "participant_id": "Participant, from the name of the file or its folder.",
        "session_id": "Session, from the name of the file or its folder.",
        "run": "Run, from the name of the file.",
        "input": "File of the sample, and its place in the file where there are several.",
        "component_#": "Score of the sample on component {}.",
    },
    METRICS: {
        "component": "Number of the component, from 1, in the order of the maps and of the mixing table.",
        "explained_variance": "Variance that the component explains: sum of its squared scores / (N - 1).",
        "explained_variance_ratio": "The same as a share of the total variance.",
        CEILING_COLUMN: "Share of the variance that as many components of PCA explain, the upper bound.",
        "objective": "Penalised objective at the end; lower is better.",
        "gap": "Exact duality gap of the loadings (with sparsity: of the smoothed map) for their scores.",
        "relative_gap": "The gap over the scale of the problem; below tol where converged, n/a if empty.",
        "error_bound": "Largest distance of the loadings to the exact ones for these scores and weights.",
        "converged": "Whether the relative gap is within tol; n/a for an empty component.",
        "n_alternations": "Alternations of scores and loadings.",
        "n_nonzero": "Loadings that are not zero.",
        "n_certain": "Loadings that are surely not zero in the exact ones for these scores, l1, tv.",
        "sparsity": "Share of the loadings that are exactly zero; n/a for an empty component.",
        "target_sparsity": "The share of zeros that was asked for; n/a in the penalised model.",
        "smoothness": "Weight of the structured penalty in standard deviations of the component's own map, "
        "as used in the end; n/a in the penalised model.",
        "jump": "Share of the features that enter or leave at once at the weights found; 0 if none do.",
        "l1": "Absolute weight of the l1 norm.",
        "tv": "Absolute weight of the structured penalty.",
        "n_clusters": "Connected regions of loadings of one sign; n/a without neighbours.",
        "same_sign": "Share of the features whose covariance with the scores has the more frequent sign.",
        "global_correlation": "Absolute correlation of the scores with the mean over features of samples.",
        "seconds": "Wall-clock time of the fit of this component.",
    },
    HALVES: {
        "component": "Number of the component, from 1.",
        "rank": "Place of the component by its Dice index, 1 for the highest.",
        "dice": "Dice index of the supports in two random halves, corrected for chance; mean over splits.",
        "cosine": "Absolute cosine of the loadings in both halves, mean over splits.",
        "n_confirmed": "Splits whose halves both show the pattern (Dice at least 0.6 or cosine 0.75).",
        "n_splits": "Splits into random halves.",
        "n_half": "Samples in a half.",
        "beyond_noise": "Whether halves of noise as smooth as these data would agree less.",
        "verdict": "Whether the pattern is confirmed or not confirmed by random halves.",
        "outline": "Whether the support is certain (Dice at least 0.6) or uncertain.",
    },
    COUNT: {
        "component": "Number of the component, from 1.",
        "share": "Variance of this principal component of the lightly smoothed samples, as a share of the "
        "variance that the components before it leave.",
        "limit": "Share that noise as smooth as these data reaches by chance; n/a if one sample makes most "
        "of the component, which does not count then.",
        "n_independent": "Effective number of independent features of what the components before leave.",
    },
    QUALITY: {
        "input": "File of the image, and its place in the file where there are several.",
        "share_missing": "Share of the features in the mask that are NaN or infinite in this image.",
        "share_zero": "Share of the features in the mask that are exactly 0 in this image.",
        "distance": "Root mean square difference from the median image, without three leading directions, "
        "over its median: 1 is usual.",
        "correlation": "Correlation with the mean of the other images; n/a where one of them is flat.",
        "outlier": "Whether the image is unlike the others.",
        "why": "What is unusual about an outlier, or which image holds the same values.",
    },
    SELECTION: {
        "param_sparsity": "Share of the loadings of every component that should be exactly zero.",
        "param_smoothness": "Weight of the structured penalty in standard deviations of a component's map.",
        "param_alpha": "Strength of all penalties together.",
        "param_l1_ratio": "Share of alpha for the l1 norm.",
        "param_tv_ratio": "Share of alpha for the structured penalty.",
        "split#_test_error": "Held-out error on fold {}, counted from 0.",
        "mean_test_error": "Mean over folds of the held-out error, the Frobenius norm of the residual.",
        "std_test_error": "Standard deviation of the held-out error over folds.",
        "mean_test_score": "Minus the mean held-out error.",
        "rank_test_score": "Place of the setting by its mean held-out error, 1 for the lowest.",
        "mean_test_explained": "Mean over folds of the explained share of the held-out sum of squares.",
        "se_test_explained": "Standard error of the explained share over folds.",
        "mean_test_explained_#": "The explained share with the first {} components alone.",
        "mean_sparsity": "Mean share of exact zeros, over components that are not zero everywhere.",
        "mean_sparsity_#": "Mean share of zeros of component {}, over folds where it is not zero everywhere.",
        "mean_n_nonempty": "Mean number of components that are not zero.",
        "mean_dice": "Dice index of matched supports, mean over pairs of folds and components.",
        "mean_dice_#": "Dice index of component {}, mean over pairs of folds; numbered as on the first fold.",
        "mean_corrected_dice": "The same without what is due to chance: 0 for chance, 1 for equal supports.",
        "n_unconverged": "Fits that did not reach their tolerance.",
        "mean_fit_time": "Mean wall-clock time of a fit, in seconds.",
    },
    REGIONS: {
        "component": "Number of the component, from 1.",
        "region": "Number of the region in its component, from 1, the heaviest first; the value in its map.",
        "n_features": "Voxels, vertices or cells of the region.",
        "sign": "Sign of the loadings in the region.",
        "share": "Share of the component's sum of squares.",
        "selection_frequency": "How often its features are selected in resampled fits, mean over the region.",
        "bootstrap_frequency": "Share of resampled fits that select at least half of it, with its sign.",
    },
}
# Arrays of the stability of resamples: of shape (K, n_features), and of shape (n_resamples, K).
STABILITY_MAPS = ("selection_frequency", "sign_consistency")
STABILITY_INDICES = ("dice", "signed_dice", "cosine")


class ResultsError(ValueError):
    """Error of a results folder that cannot be written or read.

    Examples
    --------
    >>> from spcatv.results import ResultsError
    >>> issubclass(ResultsError, ValueError)
    True
    """

    exit_code = 2  # of the command line


def column_description(table: str, column: str) -> str:
    """Return the description of a column of a table, by the name of its file.

    The table of scores may have other columns: entities of file names, and coordinates of samples.
    """
    known = COLUMNS[table]
    text = known.get(column) or known.get(re.sub(r"\d+", "#", column))
    if text is None and table == MIXING:
        return f"Entity {column} of the file's name, or coordinate of the sample."
    assert text is not None, f"{table} has no description of {column}"
    return text.format(*re.findall(r"\d+", column))


def model_folder(folder: Path) -> Path:
    """Return the model folder inside a results folder; any other folder is returned as it is."""
    folder = standing_folder(folder)
    inner = folder / MODEL
    return inner if inner.is_dir() else folder


def report_file(folder: Path) -> Path:
    """Return the path of the report: in the results folder, or beside a model folder that stands alone.

    A model folder holds a model and nothing else, so the report never goes into it.
    """
    inner = model_folder(folder)
    if inner.name == MODEL and (inner.parent / DESCRIPTION).is_file():
        return inner.parent / REPORT
    return inner.with_name(f"{inner.resolve().name}_report.html")


@contextmanager
def claimed_folder(
    folder: Path,
    *,
    overwrite: bool,
    note: Callable[[str], None] | None = None,
) -> Iterator[Path]:
    """Yield an empty folder, which becomes the results folder if the body succeeds.

    Missing parent folders are created, and removed again on failure. A ResultsError is raised before the body
    runs if the folder is in use or cannot be written. It is new or empty, or with `overwrite` holds nothing
    but the results of an earlier run; `note` is then called with a line about what will be replaced.
    """
    place = Path(os.path.realpath(folder.expanduser()))
    if os.path.ismount(place):
        raise ResultsError(
            f"the output folder {folder} is a mount point, which cannot be replaced as a whole; name a "
            f"folder below it, such as {folder / 'spca-tv'}"
        )
    objection = partial(_objection, overwrite=overwrite)
    with _created_parents(place), atomic_folder(place, ResultsError, objection=objection) as temporary:
        if note is not None and place.is_dir() and os.listdir(place):
            n_files = sum(path.is_file() for path in place.rglob("*"))
            note(f"the {n_files} files of an earlier run in {folder} will be replaced")
        yield temporary


@contextmanager
def writing_results(folder: Path) -> Iterator[None]:
    """Name the results folder in errors of the system while results are written beside it."""
    try:
        yield
    except (OSError, ModelError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError) or PARTIAL not in str(cause.filename or PARTIAL):
            raise
        reason = cause.strerror or cause
        raise OSError(f"cannot write the results to {folder}: {reason}; nothing was written") from error


def _objection(folder: Path, *, overwrite: bool) -> str | None:
    """Return why a folder that is not empty must not be replaced; None if it may be."""
    entries = sorted(os.listdir(folder))
    others = (DESCRIPTION, README, IGNORED, MODEL, STABILITY)
    maps = tuple(f"{stem}." for stem in (FREQUENCY_MAPS, SIGN_MAPS, REGION_MAPS))
    foreign = [
        name for name in entries if not (TAG in name or name in others or any(part in name for part in maps))
    ]
    try:
        description = json.loads(read_text(folder / DESCRIPTION, "description", ResultsError))
        is_ours = description["GeneratedBy"][0]["Name"] == GENERATOR
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        is_ours = False
    if foreign or not is_ours:
        return f"is in use: it holds {[*foreign, *entries][0]}, which is not a result of spca-tv"
    return None if overwrite else "holds the results of an earlier run, and --overwrite is not given"


@contextmanager
def _created_parents(folder: Path) -> Iterator[None]:
    """Create the parent folders, check that they can be written, and remove new ones that stay empty."""
    missing = [parent for parent in folder.parents if not parent.exists()]
    try:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder.parent):
                pass
        except OSError as error:
            what = f"cannot write to the output folder {folder} ({error.strerror or error})"
            raise ResultsError(f"{what}; choose another with --output") from error
        yield
    finally:
        with suppress(OSError):  # one that is not empty ends the loop
            for parent in missing:  # innermost first
                parent.rmdir()
