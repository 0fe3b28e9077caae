"""What every option of `fit` and `select` takes, and how the help describes it: one table for both commands.

Nothing here imports the estimators, so that help is quick.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spcatv._util import parameters as allowed
from spcatv._util.tables import TABLE_SUFFIXES
from spcatv.cli import kinds
from spcatv.cli.kinds import Kind

BAD_FEATURES = ("drop", "raise")
# the strategies of spcatv.images.masking, which cannot be imported without its extra
MASK_RULES = ("nonzero", "background", "epi", "whole-brain-template", "gm-template", "wm-template")
NO_HEMISPHERE = "-"
INPUT, BIDS, MODEL, PENALISED, SELECTION = "input", "bids", "model", "penalised model", "selection"
RUN = "run"
# What to do instead of asking for "auto".
SELECTED = "`spca-tv select` chooses sparsity and smoothness by cross-validation"
LEFT_OUT = "leave the option out to compare the default values"
HEADINGS = {
    INPUT: "what to read",
    BIDS: "which images of --bids; several values mean any of them, none means names without it",
    MODEL: "the components",
    PENALISED: "the paper's penalised model, instead of sparsity and smoothness",
    SELECTION: "the choice, and how far to trust it",
    RUN: "the run",
}


@dataclass(frozen=True)
class Option:
    """How an option is given."""

    kind: Kind  # the values that it takes
    group: str  # heading in the help and in the configuration file
    help: str  # one sentence
    kept: bool = True  # whether the effective configuration records it; not if it concerns one run only
    # number of arguments after the option on the command line, if it is more than one; "+" for one or more
    n_values: int | Literal["+"] | None = None


# What the names of the images of --bids must have.
BIDS_FILTERS: dict[str, Option] = {
    name: Option(kinds.one_or_several(kinds.text("LABEL"), "LABEL"), BIDS, text, kept=False, n_values="+")
    for name, text in {
        "subject": "people, such as 01 02",
        "session": "visits",
        "task": "tasks, such as rest",
        "run": "runs, such as 1 2",
        "hemi": "one hemisphere alone: L or R",
        "space": "the space of the images, such as MNI152NLin2009cAsym",
        "res": "their resolution",
        "den": "the density of their mesh",
        "label": "their tissue or structure, such as GM",
        "desc": "how they were processed, such as smoothwm",
        "suffix": "what they show, such as bold, T1w or thickness",
        "extension": "the ending of the files, such as .nii.gz",
        "entity": "any other entity, with its name: acq-mprage",
    }.items()
}
OPTIONS: dict[str, Option] = {
    "array": Option(
        kinds.path(), INPUT, "instead of images: an array (.npy, .npz, .csv, .tsv), one sample per row"
    ),
    "shape": Option(
        kinds.several(kinds.integer(), "N,N,..."),
        INPUT,
        "shape of the field in a row of --array, such as 100,100; needed for an array of two dimensions to "
        "have neighbours, while one of more dimensions has its own shape",
    ),
    "voxel_size": Option(
        kinds.several(kinds.number(), "X,X,..."), INPUT, "sizes of a cell of --array along its axes"
    ),
    "periodic": Option(
        kinds.several(kinds.integer(at_least=0), "AXIS,..."),
        INPUT,
        "axes of --array, counted from 0, that close on themselves (longitude, hour of the day)",
    ),
    "mask": Option(
        kinds.path_or(*MASK_RULES),
        INPUT,
        "an image (with labels, total variation stays inside each label), a .npy file for --array, or a "
        f"strategy: {', '.join(MASK_RULES)} (default: nonzero for volumes, else everything)",
    ),
    "surface": Option(
        kinds.several(kinds.path_or(NO_HEMISPHERE), "LH RH"),
        INPUT,
        "meshes of the left and the right hemisphere (GIFTI or FreeSurfer), for surface and CIFTI data; "
        f"{NO_HEMISPHERE} for a hemisphere that the data do not have",
        n_values=2,
    ),
    "template": Option(kinds.choice("fsaverage5"), INPUT, "instead of --surface: meshes that nilearn ships"),
    "bids": Option(
        kinds.path("DIR"),
        INPUT,
        "instead of images: a BIDS dataset, such as the derivatives of fMRIPrep; the options below say which "
        "of its images, and its participants.tsv is the table of --confounds-columns and --groups",
        kept=False,  # the configuration names the images that were found
    ),
    **BIDS_FILTERS,
    "path_column": Option(
        kinds.text("NAME"),
        INPUT,
        "column of a table that holds the paths (default: path, file, filename or image; left and right "
        "for surfaces)",
    ),
    "confounds": Option(
        kinds.path("TSV"),
        INPUT,
        "table of confounds to regress out; rows are matched by participant_id (and session_id, run), a path "
        "or another id column, by their order only if there is none",
    ),
    "confounds_columns": Option(
        kinds.several(kinds.text("NAME"), "NAME,..."),
        INPUT,
        "columns of --confounds to use: numbers, or text such as sex or site (default: all but ids and "
        "paths)",
    ),
    "standardize": Option(kinds.switch(), INPUT, "divide every feature by its standard deviation"),
    "smoothing_fwhm": Option(
        kinds.number("MM"), INPUT, "smooth every image with a Gaussian kernel of this width (FWHM, in mm)"
    ),
    "resample": Option(
        kinds.switch(),
        INPUT,
        "resample images on other grids, which are refused otherwise: to the grid of the mask, else of the "
        "first image",
    ),
    "target_affine": Option(
        kinds.number("MM"),
        INPUT,
        "resample images and mask to cubic voxels of this size in mm: the larger, the faster",
    ),
    "standardize_runs": Option(
        kinds.switch(),
        INPUT,
        "centre every run (an image of several volumes) and scale it to unit variance, feature by feature "
        "(default: yes for 4-D volumes and other time series)",
    ),
    "detrend": Option(kinds.switch(), INPUT, "remove the linear trend of every run"),
    "high_pass": Option(kinds.number("HZ"), INPUT, "remove slower changes from every run, such as 0.01"),
    "low_pass": Option(kinds.number("HZ"), INPUT, "remove faster changes from every run, such as 0.1"),
    "t_r": Option(
        kinds.number("S"), INPUT, "seconds between volumes, for the filters (default: what the files say)"
    ),
    "run_confounds": Option(
        kinds.several(kinds.text("NAME"), "NAME,..."),
        INPUT,
        "confounds to remove from every run, from the table of fMRIPrep beside it: columns, patterns, or the "
        "strategies motion, wm_csf, global_signal and high_pass",
    ),
    "bad_features": Option(
        kinds.choice(*BAD_FEATURES),
        INPUT,
        "features that are constant, NaN or infinite in some sample: drop and count them, or refuse them",
    ),
    "exclude": Option(
        kinds.several(kinds.text("NAME"), "NAME"),
        INPUT,
        "images to leave out: files, with or without their folder and ending, or participants (sub-07)",
        n_values="+",
    ),
    "cache": Option(
        kinds.path("DIR"),
        INPUT,
        "folder that keeps what was read of the images, one row per sample, for the next run on the same "
        "files; needed if the rows of all images do not fit into memory, or into --memory",
    ),
    "n_components": Option(
        kinds.word_or("auto", kinds.integer("K")),
        MODEL,
        "number of components; auto: those that stand out in samples held out, which takes about as long as "
        "ten components on five folds",
    ),
    "max_components": Option(
        kinds.integer("K"),
        MODEL,
        "with --n-components auto: the largest number to look at (default: 10, or half the samples if fewer)",
    ),
    "sparsity": Option(
        kinds.one_or_several(kinds.number(auto=SELECTED), "S"),
        MODEL,
        "share of the loadings that are exactly zero, at least 0 and below 1: one for all components, or one "
        "per component",
        n_values="+",
    ),
    "smoothness": Option(
        kinds.number(auto=SELECTED),
        MODEL,
        "weight of the structured penalty, in standard deviations of each component's own map: 0 ignores "
        "neighbours, larger values give fewer and larger regions",
    ),
    "penalty": Option(
        kinds.choice(*allowed.PENALTIES), MODEL, "structured penalty: total variation, or squared differences"
    ),
    "positive": Option(kinds.switch(), MODEL, "keep loadings non-negative"),
    "center": Option(kinds.switch(), MODEL, "subtract the mean of every feature"),
    "regress_global": Option(
        kinds.switch(), MODEL, "take the mean over features of every sample out of all features first"
    ),
    "transform_method": Option(
        kinds.choice(*allowed.TRANSFORMS),
        MODEL,
        "scores as in the fit, or by least squares on all loadings at once",
    ),
    "tol": Option(kinds.number(), MODEL, "relative duality gap to reach"),
    "max_iter": Option(
        kinds.integer(), MODEL, "maximum number of alternations of scores and loadings per component"
    ),
    "solver": Option(kinds.choice(*allowed.SOLVER_NAMES), MODEL, "loading solver"),
    "n_init": Option(kinds.integer(), MODEL, "number of starts compared for every component"),
    "init": Option(kinds.choice(*allowed.INITS), MODEL, "how starts are made"),
    "method": Option(
        kinds.choice(*allowed.METHODS),
        MODEL,
        "all components at once, with uncorrelated scores (joint), or one after the other (deflation); auto "
        "is joint, unless --alpha is given",
    ),
    "refit": Option(
        kinds.choice(*allowed.REFITS),
        MODEL,
        "fit the loadings again on their support, without shrinking them",
    ),
    "dtype": Option(
        kinds.choice(*allowed.DTYPES),
        MODEL,
        "precision of the fit (default: float32 for images, that of the array otherwise)",
    ),
    "seed": Option(
        kinds.integer(at_least=0), MODEL, "seed of random starts and of resampling; nothing else is random"
    ),
    "alpha": Option(
        kinds.number(),
        PENALISED,
        "strength of all penalties together, above 0; replaces --sparsity and --smoothness",
    ),
    "l1_ratio": Option(kinds.number(), PENALISED, "share of alpha for the l1 norm"),
    "tv_ratio": Option(kinds.number(), PENALISED, "share of alpha for the structured penalty"),
    "penalty_units": Option(
        kinds.choice(*allowed.UNITS),
        PENALISED,
        "alpha as a fraction of the weight that makes every loading zero (with standardised features, the l1 "
        "weight is then a threshold on correlations with the scores), or as it stands in the objective",
    ),
    "n_alphas": Option(
        kinds.integer(), PENALISED, "with --alpha grid: number of values for every pair of ratios"
    ),
    "cv": Option(kinds.integer(at_least=2), SELECTION, "number of folds"),
    "shuffle": Option(
        kinds.switch(),
        SELECTION,
        "deal samples (or groups) out to folds at random: right if they are sorted, wrong for a time series "
        "(default: consecutive folds, and a warning if the order matters)",
    ),
    "groups": Option(
        kinds.table_column("[TSV:]COLUMN", TABLE_SUFFIXES),
        SELECTION,
        "column whose equal values (a subject, a site) stay together in folds and resamples (default: "
        "samples of one person, or of one file); without a table it is one of --confounds, "
        "or of the table that names the images",
    ),
    "rule": Option(
        kinds.choice(*allowed.RULES),
        SELECTION,
        "how to choose: sparsest setting within one standard error of the lowest held-out error; lowest "
        "error; most reproducible over folds; or, with --alpha, lowest error with sparse second and third "
        "components",
    ),
    "min_sparsity": Option(
        kinds.number(), PENALISED, "share of zeros that rule paper asks of the second and third component"
    ),
    "n_bootstraps": Option(
        kinds.integer(at_least=0),
        SELECTION,
        "resampled fits of the chosen model for its stability; 0 for none",
    ),
    "n_splits": Option(
        kinds.word_or("auto", kinds.integer(at_least=0)),
        SELECTION,
        "splits of the samples into random halves, to see which components both halves find; 0 for none, "
        "auto for 10 where the samples are enough for halves and the data are not too large",
    ),
    "output": Option(kinds.path("DIR"), RUN, "folder for the results; it must be new or empty"),
    "memory": Option(
        kinds.size(),
        RUN,
        "memory that the data and the vectors of a fit may take in each process, such as 4GB (default: half "
        "of what there is); larger data are read from disk, block by block",
    ),
    "device": Option(
        kinds.choice(*allowed.DEVICES),
        RUN,
        "where fits run: cuda is an NVIDIA GPU, with CuPy installed (docs/gpu.md)",
    ),
    "n_jobs": Option(
        kinds.workers(),
        RUN,
        "worker processes of a selection, -1 for one per core, and threads that read files where these are "
        "more than the cores, which helps on a slow or remote disk; any number gives the same result",
    ),
    "scheduler": Option(
        kinds.text("ADDRESS"),
        RUN,
        "fit on all workers of the Dask cluster with this scheduler, such as tcp://host:8786",
        kept=False,
    ),
    "overwrite": Option(
        kinds.switch(), RUN, "replace the results of an earlier run in the output folder", kept=False
    ),
    "resume": Option(
        kinds.switch(),
        RUN,
        "go on with an interrupted run to the same output folder, or start again without what it has kept; "
        "without either, you are asked to decide if there is such a run",
        kept=False,
    ),
}
_VALUES = {
    "sparsity": "shares of exact zeros to try, each for all components",
    "smoothness": "weights of the structured penalty to try, in standard deviations of a component's own map",
    "l1_ratio": "shares of alpha for the l1 norm to try",
    "tv_ratio": "shares of alpha for the structured penalty to try",
}
# Options of `select` that take several values where those of `fit` take one.
GRID_OPTIONS = {
    name: Option(kinds.several(kinds.number(auto=LEFT_OUT), "X"), OPTIONS[name].group, text, n_values="+")
    for name, text in _VALUES.items()
}
GRID_OPTIONS["alpha"] = Option(
    kinds.word_or("grid", kinds.several(kinds.number(), "X")),
    PENALISED,
    "values to try, or the word grid: downwards from just below the one that makes every loading zero; "
    "replaces --sparsity and --smoothness",
    n_values="+",
)
