"""Commands of `spca-tv` and their options, each declared once: parser, help, configuration files, completion.

Nothing here imports what does the work, so that help is quick. A command is the function `run` of the module
with its name.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from spcatv._util import parameters as allowed
from spcatv._util.parameters import EXPLORE, FIT, SEARCH
from spcatv._version import __version__
from spcatv.cli.parser import (
    CommaList,
    InputError,
    Parser,
    ShortHelp,
    Values,
    column,
    integer,
    number,
    path,
    path_or,
    plain_text,
    share,
    shares,
    size,
)

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
Add: TypeAlias = Callable[..., None]

BAD_FEATURES = ("drop", "raise")
# the strategies of spcatv.images.masking, which cannot be imported without its extra
MASK_RULES = ("nonzero", "background", "epi", "whole-brain-template", "gm-template", "wm-template")
NO_HEMISPHERE = "-"
SHELLS = ("bash", "zsh", "fish")
# Headings of options. Those of ARRAY, IMAGES and BIDS go with such inputs alone; those of RUN do not change
# the numbers of the results.
INPUT, ARRAY, IMAGES = "what to read", "an array instead of images", "how images are read"
FIELDS = "a field of NetCDF (.nc) or Zarr (.zarr)"
BIDS, RUN = "which images of --bids (several values: any of them)", "the run"
PAGE = "what to write"
GRID_HINT = "leave the option out to compare the default values, or separate values by spaces"
NUMBERS = Values(partial(number, hint=GRID_HINT))
MODEL, SELECTION = "the components", "the choice, and how far to trust it"
PENALISED = "the paper's penalised model, instead of --sparsity and --smoothness"
# options that `--help` shows; `--help-all` shows all
USUAL = ("output", "n_components", "sparsity", "smoothness", "mask", "confounds", "confounds_columns")
BIDS_FILTERS = {
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
}

FIT_TEXT = """\
Find a few components of images (NIfTI, GIFTI, FreeSurfer, CIFTI-2), NetCDF, Zarr, or an
array: coherent regions that vary together. Writes maps, scores, the model, and which
components random halves of the samples confirm."""
FIT_EXAMPLES = """\
examples:
  spca-tv fit 'maps/*.nii.gz' --output results
  spca-tv fit 'maps/*.nii.gz' -k auto --sparsity 0.9 -o results
  spca-tv fit 'maps/*.nii.gz' --sparsity 0.7,0.8,0.9 --smoothness 0.5 -o results
  spca-tv fit people.tsv --confounds people.tsv --confounds-columns age,sex -o results
  spca-tv fit 'sub-*/surf/?h.thickness.mgh' --surface lh.pial rh.pial -o results
  spca-tv fit sst.nc --variable sst --weights coslat --output results
  spca-tv fit --config results/desc-SPCATV_config.toml --output again
"""
SELECT_TEXT = """\
Choose sparsity and smoothness by cross-validation, fit all samples with them, and
resample to see which voxels are selected often. Writes what `fit` writes, the table of
settings, and stability maps."""
SELECT_EXAMPLES = """\
examples:
  spca-tv select 'maps/*.nii.gz' --output results --n-jobs -1
  spca-tv select 'maps/*.nii.gz' --sparsity 0.7 0.8 0.9 --smoothness 1 -o results
  spca-tv select people.tsv --mask gm.nii.gz --groups subject --output results
  spca-tv select --array X.npy --shape 100,100 --alpha grid --rule paper -o results
"""
EXPLORE_TEXT = """\
Fit a grid of settings, and write one page with two sliders, sparsity and smoothness:
the maps change at once, beside what every setting explains of held-out samples, how
far random halves agree, and the setting that `select` would choose."""
EXPLORE_EXAMPLES = """\
examples:
  spca-tv explore 'maps/*.nii.gz' --output results --n-jobs -1 --open
  spca-tv explore 'maps/*.nii.gz' -k 5 --sparsity 0.8 0.9 0.95 --smoothness 0.5 1 -o results
  spca-tv explore --array X.npy --shape 100,100 -o results
"""
REPORT_EXAMPLES = """\
examples:
  spca-tv report results
  spca-tv report results --groups participants.tsv diagnosis --variable participants.tsv age
  spca-tv report results --atlas aal.nii.gz --atlas-names aal.tsv --title 'Grey matter' --open
"""
COMPLETION_EXAMPLES = """\
in bash, now and in every new shell:
  source <(spca-tv completion bash)
  echo 'source <(spca-tv completion bash)' >> ~/.bashrc
in zsh, into a folder of $fpath:
  spca-tv completion zsh > ~/.zfunc/_spca-tv
in fish:
  spca-tv completion fish > ~/.config/fish/completions/spca-tv.fish
"""


def build_parser() -> Parser:
    """Return the parser of the whole command line; `command` is the name of the given command."""
    parser = Parser(
        prog="spca-tv",
        description="Structured sparse PCA: components made of a few coherent regions, with a certificate.",
    )
    parser.add_argument("--version", action="version", version=f"spca-tv {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for add, _ in COMMANDS.values():
        command = add(commands)
        command.add_argument("--debug", action="store_true", help="on failure, show the traceback as well")
        command.commands = commands.choices
    parser.commands = commands.choices
    return parser


# One or two lines per option: flags and placeholder, type; help, default.
# fmt: off
def _add_fit(commands: Commands) -> Parser:
    parser = _samples_command(
        commands, "fit", "find the components of images or of an array", FIT_TEXT, FIT_EXAMPLES,
        ("surface", "bids", "array"))
    hint = "`spca-tv select` chooses sparsity and smoothness by cross-validation"
    one = ("takes one value, or one share per component with commas (0.7,0.8,0.9); several values to choose "
           "from are for spca-tv select")
    _add_inputs(parser)
    add = parser.in_group(MODEL)
    _add_number(add)
    add("--sparsity S", Values(partial(shares, hint=hint), only_one=one),
        "share of exact zeros: for all components, or S,S,... for each", FIT.sparsity)
    add("--smoothness X", partial(number, hint=hint),
        "structured penalty: 0 ignores neighbours, more gives larger regions", FIT.smoothness)
    _add_model(add)
    add = parser.in_group(PENALISED)
    add("--alpha X", number, "strength of all penalties together, above 0")
    add("--l1-ratio X", number, "share of alpha for the l1 norm", FIT.l1_ratio)
    add("--tv-ratio X", number, "share of alpha for the structured penalty", FIT.tv_ratio)
    _add_units(add)
    _add_splits(parser.in_group(SELECTION), "auto")
    _add_run(parser.in_group(RUN))
    return parser


def _add_select(commands: Commands) -> Parser:
    parser = _samples_command(
        commands, "select", "choose sparsity and smoothness by cross-validation, and measure stability",
        SELECT_TEXT, SELECT_EXAMPLES, ("groups", "rule", "n_jobs"))
    _add_inputs(parser)
    _add_grid(parser.in_group(MODEL), SEARCH.sparsity, SEARCH.smoothness)
    add = parser.in_group(PENALISED)
    add("--alpha X", Values(partial(number, hint=GRID_HINT), word="grid"),
        "values to try, or the word grid: downwards from just below the one that makes every loading zero")
    add("--l1-ratio X", NUMBERS, "shares of alpha for the l1 norm to try", SEARCH.l1_ratio)
    add("--tv-ratio X", NUMBERS, "shares of alpha for the structured penalty to try", SEARCH.tv_ratio)
    _add_units(add)
    add("--n-alphas N", integer(), "with --alpha grid: number of values for every pair of ratios",
        SEARCH.n_alphas)
    add("--min-sparsity X", number,
        "share of zeros that --rule paper requires of the second and third component", SEARCH.min_sparsity)
    add = parser.in_group(SELECTION)
    _add_folds(add, allowed.RULES, "; or, with --alpha, lowest error with sparse components")
    add("--n-bootstraps N", integer(at_least=0),
        "resampled fits of the chosen model for its stability; 0 for none", 50)
    _add_splits(add, 10)
    add("--explore", bool, "write the page of spca-tv explore, with sliders that show every setting", False)
    add = parser.in_group(RUN)
    add("--scheduler ADDRESS", plain_text,
        "fit on all workers of the Dask cluster with this scheduler, such as tcp://host:8786",
        recorded=False)
    _add_run(add)
    return parser


def _add_explore(commands: Commands) -> Parser:
    parser = _samples_command(
        commands, "explore", "write a page that shows the maps for every sparsity and smoothness",
        EXPLORE_TEXT, EXPLORE_EXAMPLES, ("groups", "n_jobs", "open"))
    _add_inputs(parser)
    _add_grid(parser.in_group(MODEL), EXPLORE.sparsity, EXPLORE.smoothness)
    add = parser.in_group(SELECTION)
    _add_folds(add, [rule for rule in allowed.RULES if rule != "paper"], "")
    add("--n-splits N", integer(), "splits of the samples into random halves for every setting",
        EXPLORE.n_splits)
    add = parser.in_group(RUN)
    add("--title TEXT", plain_text, "heading of the page")
    add("--open", bool, "show the page in the web browser", False, recorded=False)
    _add_run(add)
    return parser


def _samples_command(
    commands: Commands, name: str, help: str, description: str, examples: str, usual: Sequence[str]
) -> Parser:
    """Add a command that reads samples and writes a results folder; `usual` options are shown by `--help`."""
    parser = commands.add_parser(
        name, help=help, usual=(*USUAL, *usual), usage=f"spca-tv {name} IMAGES... --output DIR [options]",
        description=description, epilog=examples, add_help=False,
        allow_abbrev=False)  # a later option must not make a script ambiguous
    parser.add_argument(
        "images", nargs="*", metavar="IMAGES",
        help="files, folders, patterns in quotes, lists (.txt) or tables (.tsv, .csv) of paths")
    parser.add_argument("-h", "--help", action=ShortHelp, help="show the usual options and end")
    parser.add_argument("--help-all", action="help", help="show all options and end")
    return parser


def _add_inputs(parser: Parser) -> None:
    add = parser.in_group(INPUT)
    add("--mask FILE", path_or(*MASK_RULES),
        f"an image, a .npy file for --array, or a strategy: {', '.join(MASK_RULES)}")
    add("--bids DIR", path, "a BIDS dataset instead of images (more options: --help-all)",
        recorded=False)  # the configuration names the images that were found
    add("--bad-features", BAD_FEATURES,
        "drop and count features that are constant, NaN or infinite in some sample, or refuse them", "drop")
    add = parser.in_group(ARRAY)
    add("--array FILE", path, "an array (.npy, .npz, .csv, .tsv) instead of images")
    add("--shape N,N,...", CommaList(integer()),
        "shape of the field in a row of --array, such as 100,100; an array of two dimensions has no "
        "neighbours without it, an array of more dimensions has its own shape")
    add("--voxel-size X,X,...", CommaList(number), "sizes of a cell of --array along its axes")
    add("--periodic AXIS,...", CommaList(integer(at_least=0)),
        "axes of --array, counted from 0, that close on themselves (longitude, hour of the day)")
    add = parser.in_group(FIELDS)
    add("--variable NAME", plain_text, "variable to read (default: the only one with samples and places)")
    add("--dim NAME,...", CommaList(plain_text), "dimensions of the samples (default: time)")
    add("--weights", ("coslat",),
        "weight cells by the square root of the cosine of their latitude, so that they count by their area")
    add = parser.in_group(IMAGES)
    add("--surface LH RH", path_or(NO_HEMISPHERE),
        f"meshes (GIFTI, FreeSurfer); {NO_HEMISPHERE} for a hemisphere without data")
    add("--template", ("fsaverage5",), "meshes that nilearn ships, instead of --surface")
    add("--path-column NAME", plain_text,
        "column of paths in a table (default: path, file, filename or image; left and right for surfaces)")
    add("--confounds TSV", path, "table of confounds to regress out")
    add("--confounds-columns NAME,...", CommaList(plain_text),
        "columns of --confounds to use (default: all but ids and paths)")
    add("--standardize", bool, "divide every feature by its standard deviation", False)
    add("--smoothing-fwhm MM", number, "smooth every image with a Gaussian kernel of this width (FWHM)")
    add("--resample", bool,
        "resample images on other grids, which are refused otherwise: to the grid of the mask, else of the "
        "first image", False)
    add("--target-affine MM", number,
        "resample images and mask to cubic voxels of this size: the larger, the faster")
    add("--standardize-runs", bool,
        "centre every run (an image of several volumes) and scale it to unit variance, feature by feature "
        "(default: yes for 4-D volumes and other time series)")
    add("--detrend", bool, "remove the linear trend of every run", False)
    add("--high-pass HZ", number, "remove slower changes from every run, such as 0.01")
    add("--low-pass HZ", number, "remove faster changes from every run, such as 0.1")
    add("--t-r S", number, "seconds between volumes, for the filters (default: as in the files)")
    add("--run-confounds NAME,...", CommaList(plain_text),
        "confounds to remove from every run, from the table of fMRIPrep beside it: columns, patterns, or "
        "the strategies motion, wm_csf, global_signal and high_pass")
    _add_filters(parser, add)
    add("--cache DIR", path,
        "folder that keeps what was read of the images for the next run; needed if their rows do not fit "
        "into memory, or into --memory")


def _add_filters(parser: Parser, add: Add) -> None:
    add("--exclude NAME", Values(plain_text),
        "images to leave out: files, with or without their folder and ending, or participants (sub-07)")
    add = parser.in_group(BIDS)
    for name, text in BIDS_FILTERS.items():
        add(f"--{name} LABEL", Values(plain_text), text, recorded=False)


def _add_number(add: Add) -> None:
    add("-k --n-components K", integer(word="auto"),
        "number of components; auto: those that stand out of noise", FIT.n_components)
    add("--max-components K", integer(),
        "largest number of --n-components auto (default: 10, or half the samples if fewer)")


def _add_grid(add: Add, sparsity: object, smoothness: object) -> None:
    _add_number(add)
    add("--sparsity S", Values(partial(share, hint=GRID_HINT)),
        "shares of exact zeros to try, each for all components", sparsity)
    add("--smoothness X", NUMBERS, "weights of the structured penalty to try", smoothness)
    _add_model(add)


def _add_folds(add: Add, rules: Sequence[str], more: str) -> None:
    add("--cv N", integer(at_least=2), "number of folds", 5)
    add("--shuffle", bool,
        "deal samples (or groups) out to folds at random: right if they are sorted, wrong for a time series "
        "(default: consecutive folds, and a warning if the order matters)")
    add("--groups [TSV:]COLUMN", column,
        "keep samples with equal values of this column (a subject, a site) together in every split")
    add("--rule", tuple(rules),
        "sparsest setting within one standard error of the lowest held-out error; lowest error; most "
        f"reproducible over folds{more}", SEARCH.rule)


def _add_model(add: Add) -> None:
    add("--penalty", tuple(allowed.PENALTIES),
        "structured penalty: total variation, or squared differences", FIT.penalty)
    add("--positive", bool, "keep loadings non-negative", FIT.positive)
    add("--center", bool, "subtract the mean of every feature", FIT.center)
    add("--regress-global", bool,
        "remove the mean over features of every sample from all features first", False)
    add("--transform-method", allowed.TRANSFORMS,
        "scores as in the fit, or by least squares on all loadings at once", FIT.transform_method)
    add("--tol X", number, "relative duality gap to reach", FIT.tol)
    add("--max-iter N", integer(), "maximum number of alternations of scores and loadings", FIT.max_iter)
    add("--solver", allowed.SOLVER_NAMES, "loading solver", FIT.solver)
    add("--n-init N", integer(),
        "number of starts compared for every component, with --method deflation", FIT.n_init)
    add("--init", allowed.INITS, "how starts are made", FIT.init)
    add("--method", allowed.METHODS,
        "all components at once, with uncorrelated scores (joint), or one after the other (deflation); auto "
        "is joint, unless --alpha is given", FIT.method)
    add("--refit", allowed.REFITS, "fit the loadings again on their support, without shrinking them")
    add("--dtype", allowed.DTYPES,
        "precision of the fit (default: float32 for images, that of the array otherwise)")
    add("--device", allowed.DEVICES,
        "where fits run: cuda is an NVIDIA GPU, with CuPy installed (docs/gpu.md)", "cpu")
    add("--seed N", integer(at_least=0),
        "seed of random starts and of resampling; nothing else is random", 0)


def _add_units(add: Add) -> None:
    add("--penalty-units", allowed.UNITS,
        "alpha as a fraction of the weight that makes every loading zero (with standardised features, the "
        "l1 weight is then a threshold on correlations with the scores), or as in the objective",
        FIT.penalty_units)


def _add_splits(add: Add, default: int | str) -> None:
    add("--n-splits N", integer(at_least=0, word="auto"),
        "splits of the samples into random halves, to see which components both halves confirm; 0 for none, "
        "auto for 10 where the samples are enough and the data are not too large", default)


def _add_run(add: Add) -> None:
    add("-o --output DIR", path, "folder for the results, new or empty")
    add("--memory SIZE", size,
        "memory for data and vectors in each process, such as 4GB (default: half of the machine); larger "
        "data are read from disk, block by block")
    add("--n-jobs N", integer(or_all=True),
        "worker processes, -1 for one per core (default: the threads of one process); any number gives the "
        "same result")
    add("--overwrite", bool, "replace the results of an earlier run in the output folder", False,
        recorded=False)
    add("--resume", bool,
        "resume an interrupted run to the same output folder, or start again without its checkpoint",
        recorded=False)
    add("--config FILE", path, "TOML file that holds any of these options", recorded=False)
    _add_verbosity(add)


def _add_verbosity(add: Add) -> None:
    add("--quiet", bool, "print nothing when all goes well", False, recorded=False)
    add("-v --verbose", int, "log files and components; twice: alternations", 0, recorded=False)


def _add_transform(commands: Commands) -> Parser:
    parser = commands.add_parser(
        "transform", help="scores of new images on the components of a model",
        usage="spca-tv transform MODEL IMAGES... --output TSV [options]",
        description="Write the scores of images on the components of a model, one row per sample. The "
                    "images get the same treatment as in the fit: mask, confounds and scale.")
    parser.add_argument("model", type=Path, metavar="MODEL", help="folder that `spca-tv fit` has written")
    parser.add_argument("images", nargs="*", metavar="IMAGES", help="as for `spca-tv fit`")
    add = parser.in_group(INPUT)
    add("--array FILE", path, "an array instead of images, one sample per row")
    add("--bids DIR", path, "a BIDS dataset instead of images")
    add("--variable NAME", plain_text, "variable of NetCDF or Zarr (default: that of the fit)")
    add("--path-column NAME", plain_text, "column of a table that holds the paths")
    add("--confounds TSV", path, "table of the confounds that the model was fitted with")
    add("--confounds-columns NAME,...", CommaList(plain_text),
        "columns of --confounds to use (default: those that the model was fitted with)")
    _add_filters(parser, add)
    add("--cache DIR", path, "folder that keeps what was read, as for `spca-tv fit`")
    add("--memory SIZE", size,
        "memory that the images may take, such as 4GB; more are read in parts, one after the other")
    add = parser.in_group(RUN)
    add("-o --output TSV", path, "file for the scores")
    add("--overwrite", bool, "replace the file if it exists", False)
    _add_verbosity(add)
    return parser


def _add_report(commands: Commands) -> Parser:
    parser = commands.add_parser(
        "report", help="make a page about a model: maps, regions, scores, certificates",
        usage="spca-tv report MODEL [options]", epilog=REPORT_EXAMPLES,
        description="Write one HTML file about a model: what was run, interactive maps and regions of every "
                    "component, scores, explained variance, certificates, and selection and stability where "
                    "the folder has them. The file needs no network.")
    parser.add_argument("model", type=Path, metavar="MODEL",
                        help="folder that `spca-tv fit` or `spca-tv select` has written")
    add = parser.in_group(PAGE)
    add("-o --output FILE", path,
        "the page (default: desc-SPCATV_report.html among the results, or MODEL_report.html beside a model)")
    add("--overwrite", bool, "replace the file if it exists", False)
    add("--title TEXT", str, "heading of the page")
    add("--groups TSV COLUMN", plain_text, "labels of the samples, which colour the scores")
    add("--variable TSV COLUMN", plain_text, "numbers to draw the scores against")
    add("--atlas ATLAS", Values(path),
        "label images that name regions: NIfTI for voxels; GIFTI or .annot for surfaces, left, right")
    add("--atlas-names FILE", path, "labels of the atlas: table, or XML of FSL")
    add("--background FILE", plain_text,
        "picture behind volumes: an image, 'template' (MNI152) or 'mean' (default: the template if the mask "
        "lies in its brain)")
    add("--open", bool, "show the page in the web browser", False)
    add("--quiet", bool, "print nothing when all goes well", False)
    return parser


def _add_info(commands: Commands) -> Parser:
    parser = commands.add_parser(
        "info", help="show the content of a model folder",
        description="Check a model folder (versions, SHA-256, shapes, finite values) and show its "
                    "parameters, what it was fitted to, and the certificate of every component.")
    parser.add_argument("model", type=Path, metavar="MODEL", help="folder that `spca-tv fit` has written")
    parser.add_argument("--json", action="store_true", help="print everything but the arrays as JSON")
    return parser


def _add_demo(commands: Commands) -> Parser:
    parser = commands.add_parser(
        "demo", help="run the method on simulated images, volumes and surfaces",
        usage="spca-tv demo [options]",
        description="Three parts. dots: the images of the paper, fitted and drawn beside the truth. volume, "
                    "surface: simulated cohorts on the grey matter of the MNI152 template and on the cortex "
                    "of fsaverage5, written as NIfTI and GIFTI files, fitted with `spca-tv fit` and shown by "
                    "`spca-tv report`. Nothing is downloaded.")
    add = parser.in_group(PAGE)
    add("-o --output DIR", path, "folder for pictures and files, created if needed", Path("demo-output"))
    add("--seed N", integer(at_least=0), "seed of the simulated data", 0)
    parser.add_argument(
        "--only", action="append", choices=("dots", "volume", "surface"), metavar="PART",
        help="run this part only: dots, volume or surface (may be given several times)")
    add("--open", bool, "show the reports in the browser at the end", False)
    add("--quiet", bool, "print nothing when all goes well", False)
    return parser


def _add_completion(commands: Commands) -> Parser:
    parser = commands.add_parser(
        "completion", help="print a script with which a shell completes commands and options",
        description="Print a script that lets a shell complete commands, options and their values.",
        epilog=COMPLETION_EXAMPLES)
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    return parser


# fmt: on
# The function that declares a command, and the module whose function `run` does its work.
COMMANDS = {
    "fit": (_add_fit, "spcatv.cli.fit"),
    "select": (_add_select, "spcatv.cli.select"),
    "explore": (_add_explore, "spcatv.cli.select"),  # a selection without resamples
    "transform": (_add_transform, "spcatv.cli.transform"),
    "report": (_add_report, "spcatv.cli.report"),
    "info": (_add_info, "spcatv.cli.info"),
    "demo": (_add_demo, "spcatv.demo"),
    "completion": (_add_completion, "spcatv.cli.app"),
}


def complete_if_asked(parser: Parser) -> None:
    """Answer a shell that completes a word, and end the process."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete  # imported here: it would slow down every command

        argcomplete.autocomplete(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print the completion script of a shell."""
    try:
        import argcomplete
    except ImportError as error:
        raise InputError("completion needs a package: pip install argcomplete") from error
    print(argcomplete.shellcode(["spca-tv"], shell=arguments.shell), end="")
