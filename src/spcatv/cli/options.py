"""The options of `fit` and `select` in one table: it makes the arguments, the help and the configuration.

Which command has which option is said by the fields of `FitOptions` and `SelectOptions`. A value is the one
given on the command line, else the one of the configuration file, else the default. The defaults of the
model are those of `SPCATV` itself, those of a selection those of `SPCATVCV`.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from spcatv.cli import kinds
from spcatv.cli.errors import InputError
from spcatv.cli.kinds import Kind
from spcatv.cli.tables import TABLE_SUFFIXES
from spcatv.decomposition import INITS
from spcatv.estimator import SPCATV
from spcatv.estimator.parameters import DTYPES, TRANSFORMS, UNITS
from spcatv.problem import PENALTIES
from spcatv.selection import SPCATVCV
from spcatv.selection.rules import RULES
from spcatv.solvers import METHODS

SOLVERS = ("auto", *(method for method in METHODS if method != "closed_form"))
BAD_FEATURES = ("drop", "raise")
# the names in spcatv.images.volume_mask, which cannot be imported without its extra
MASK_RULES = ("background", "epi", "whole-brain-template", "gm-template", "wm-template")
NO_HEMISPHERE = "-"
_DEFAULTS = {name: parameter.default for name, parameter in inspect.signature(SPCATV).parameters.items()}
_CV_DEFAULTS = {name: parameter.default for name, parameter in inspect.signature(SPCATVCV).parameters.items()}
INPUT, MODEL, SELECTION, RUN = "input", "model", "selection", "run"
_HEADINGS = {INPUT: "what to read", MODEL: "the model", SELECTION: "the choice", RUN: "the run"}


@dataclass(frozen=True)
class Option:
    """How an option is given.

    Attributes
    ----------
    kind : Kind
        What values it takes.
    group : str
        Heading in the help and in the configuration file.
    help : str
        One sentence.
    kept : bool
        Whether the effective configuration records it: not so for what only concerns one run.
    n_values : int or None
        Number of words after the option on the command line, where it is more than one.
    """

    kind: Kind
    group: str
    help: str
    kept: bool = True
    n_values: int | None = None


OPTIONS: dict[str, Option] = {
    "array": Option(
        kinds.path(), INPUT, "instead of images: an array (.npy, .npz, .csv, .tsv), a sample a row"
    ),
    "shape": Option(
        kinds.several(kinds.integer(), "N,N,..."),
        INPUT,
        "shape of the field that a row of --array holds, such as 100,100; needed for an array of two "
        "dimensions to have neighbours, while one of more dimensions has its own shape",
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
        "an image (labels keep total variation inside a label), a .npy file for --array, or a rule of "
        f"nilearn's: {', '.join(MASK_RULES)} (default: background for volumes, else everything)",
    ),
    "surface": Option(
        kinds.several(kinds.path_or(NO_HEMISPHERE), "LH RH"),
        INPUT,
        "meshes of the left and the right hemisphere (GIFTI or FreeSurfer), for surface and CIFTI data; "
        f"{NO_HEMISPHERE} for a hemisphere that the data do not have",
        n_values=2,
    ),
    "template": Option(kinds.choice("fsaverage5"), INPUT, "instead of --surface: meshes that nilearn ships"),
    "path_column": Option(
        kinds.text("NAME"),
        INPUT,
        "column of a table that holds the paths (default: path, file, filename or image; left and right "
        "for surfaces)",
    ),
    "confounds": Option(
        kinds.path("TSV"),
        INPUT,
        "table of confounds to regress out, a row a sample in the order of the images",
    ),
    "confounds_columns": Option(
        kinds.several(kinds.text("NAME"), "NAME,..."),
        INPUT,
        "columns of --confounds to use: numbers, or text such as sex or site (default: all but one of paths)",
    ),
    "standardize": Option(kinds.switch(), INPUT, "divide every feature by its standard deviation"),
    "bad_features": Option(
        kinds.choice(*BAD_FEATURES),
        INPUT,
        "features that are constant, NaN or infinite in some sample: leave out and count them, or refuse",
    ),
    "n_components": Option(kinds.integer("K"), MODEL, "number of components"),
    "alpha": Option(kinds.number(), MODEL, "strength of all penalties together, above 0"),
    "sparsity": Option(
        kinds.one_or_several(kinds.number(), "X[,X...]"),
        MODEL,
        "instead of alpha: the share of loadings that shall be zero, such as 0.9, of all components together "
        "or one for each of them",
    ),
    "l1_ratio": Option(kinds.number(), MODEL, "share of alpha for sparsity (l1 norm)"),
    "tv_ratio": Option(kinds.number(), MODEL, "share of alpha for coherence (total variation)"),
    "penalty_units": Option(
        kinds.choice(*UNITS),
        MODEL,
        "alpha as a fraction of the weight that kills every loading, or as it stands in the objective",
    ),
    "penalty": Option(
        kinds.choice(*PENALTIES), MODEL, "structured penalty: total variation, or squared differences"
    ),
    "positive": Option(kinds.switch(), MODEL, "keep loadings non-negative"),
    "center": Option(kinds.switch(), MODEL, "subtract the mean of every feature"),
    "transform_method": Option(
        kinds.choice(*TRANSFORMS),
        MODEL,
        "scores by the deflation of the fit, or by least squares on all loadings at once",
    ),
    "tol": Option(kinds.number(), MODEL, "relative duality gap to reach"),
    "max_iter": Option(kinds.integer(), MODEL, "most alternations of scores and loadings, a component"),
    "solver": Option(kinds.choice(*SOLVERS), MODEL, "loading solver"),
    "n_init": Option(kinds.integer(), MODEL, "starts compared for every component"),
    "init": Option(kinds.choice(*INITS), MODEL, "what starts are made from"),
    "refine": Option(kinds.switch(), MODEL, "refine all components jointly at the end"),
    "dtype": Option(
        kinds.choice(*DTYPES), MODEL, "precision of the fit (default: float32 for images, an array's own)"
    ),
    "seed": Option(
        kinds.integer(at_least=0), MODEL, "seed of random starts and of resampling; nothing else is random"
    ),
    "alphas": Option(
        kinds.count_or_numbers("N|X,X,..."),
        SELECTION,
        "values of alpha to try; or how many, a whole number, from just below the one that kills everything "
        "downwards",
    ),
    "l1_ratios": Option(kinds.several(kinds.number(), "X,X,..."), SELECTION, "values of l1_ratio to try"),
    "tv_ratios": Option(kinds.several(kinds.number(), "X,X,..."), SELECTION, "values of tv_ratio to try"),
    "cv": Option(kinds.integer(at_least=2), SELECTION, "number of folds"),
    "groups": Option(
        kinds.table_column("[TSV:]COLUMN", TABLE_SUFFIXES),
        SELECTION,
        "column whose equal values (a subject, a site) stay together in folds and resamples; without a table "
        "it is one of --confounds, or of the table that names the images",
    ),
    "rule": Option(
        kinds.choice(*RULES),
        SELECTION,
        "lowest held-out error with sparse components; sparsest within one standard error; or error and "
        "stability together",
    ),
    "min_sparsity": Option(
        kinds.number(), SELECTION, "share of zeros that rule paper asks of the second and third component"
    ),
    "n_bootstraps": Option(
        kinds.integer(at_least=0),
        SELECTION,
        "resampled fits of the chosen model for its stability; 0 for none",
    ),
    "output": Option(kinds.path("DIR"), RUN, "folder for the results; it must be new or empty"),
    "n_jobs": Option(
        kinds.workers(),
        RUN,
        "threads that read files ahead, which pays on a slow or distant disk, and worker processes of a "
        "selection, -1 for one a core; any number gives the same result",
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
}


@dataclass(frozen=True)
class CommonOptions:
    """The effective value of every option that both commands have, by the names of `OPTIONS`.

    `command` is the name of the command, and `strength` the option that `sparsity` takes the place of.
    """

    command: ClassVar[str]
    strength: ClassVar[str]

    array: Path | None = None
    shape: tuple[int, ...] | None = None
    voxel_size: tuple[float, ...] | None = None
    periodic: tuple[int, ...] | None = None
    mask: Path | str | None = None
    surface: tuple[Path | str, ...] | None = None
    template: str | None = None
    path_column: str | None = None
    confounds: Path | None = None
    confounds_columns: tuple[str, ...] | None = None
    standardize: bool = False
    bad_features: str = "drop"
    n_components: int = _DEFAULTS["n_components"]
    sparsity: float | tuple[float, ...] | None = None
    penalty_units: str = _DEFAULTS["penalty_units"]
    penalty: str = _DEFAULTS["penalty"]
    positive: bool = _DEFAULTS["positive"]
    center: bool = _DEFAULTS["center"]
    transform_method: str = _DEFAULTS["transform_method"]
    tol: float = _DEFAULTS["tol"]
    max_iter: int = _DEFAULTS["max_iter"]
    solver: str = _DEFAULTS["solver"]
    n_init: int = _DEFAULTS["n_init"]
    init: str = _DEFAULTS["init"]
    refine: bool = _DEFAULTS["refine"]
    dtype: str | None = None
    seed: int = 0
    output: Path | None = None
    n_jobs: int = 1
    overwrite: bool = False

    def model_parameters(self) -> dict[str, Any]:
        """The parameters of `SPCATV` that are options, but for `dtype`, by their names there."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        given = {name: value for name, value in values.items() if name in _DEFAULTS and name != "dtype"}
        return {**given, "random_state": self.seed}


@dataclass(frozen=True)
class FitOptions(CommonOptions):
    """The options of `spca-tv fit`; `alpha` is None where `sparsity` takes its place."""

    command: ClassVar[str] = "fit"
    strength: ClassVar[str] = "alpha"

    alpha: float | None = _DEFAULTS["alpha"]
    l1_ratio: float = _DEFAULTS["l1_ratio"]
    tv_ratio: float = _DEFAULTS["tv_ratio"]

    def model_parameters(self) -> dict[str, Any]:
        """As for all commands; an alpha that is still to be found is left out."""
        return {name: value for name, value in super().model_parameters().items() if value is not None}


@dataclass(frozen=True)
class SelectOptions(CommonOptions):
    """The options of `spca-tv select`; `alphas` is None where `sparsity` takes its place."""

    command: ClassVar[str] = "select"
    strength: ClassVar[str] = "alphas"

    alphas: int | tuple[float, ...] | None = _CV_DEFAULTS["n_alphas"]
    l1_ratios: tuple[float, ...] = _CV_DEFAULTS["l1_ratio"]
    tv_ratios: tuple[float, ...] = _CV_DEFAULTS["tv_ratio"]
    cv: int = 5
    groups: tuple[Path | str, ...] | None = None
    rule: str = _CV_DEFAULTS["rule"]
    min_sparsity: float = _CV_DEFAULTS["min_sparsity"]
    n_bootstraps: int = 50
    scheduler: str | None = None


OptionsKind = TypeVar("OptionsKind", bound=CommonOptions)


def options_of(kind: type[CommonOptions]) -> dict[str, Option]:
    """The part of the table that a command has, in its order."""
    names = {item.name for item in fields(kind)}
    return {name: option for name, option in OPTIONS.items() if name in names}


def flag(name: str) -> str:
    """The option as it is written on the command line."""
    return "--" + name.replace("_", "-")


def add_arguments(parser: argparse.ArgumentParser, kind: type[CommonOptions]) -> argparse._ArgumentGroup:
    """Declare every option of a command; what is not given stays out of the parsed arguments.

    Returns
    -------
    argparse group
        The last one, for what else concerns the run.
    """
    defaults = {item.name: item.default for item in fields(kind)}
    options = options_of(kind)
    used = {option.group for option in options.values()}
    groups = {name: parser.add_argument_group(title) for name, title in _HEADINGS.items() if name in used}
    for name, option in options.items():
        _add_argument(groups[option.group], name, option, defaults[name])
    return groups[RUN]


def _add_argument(group: argparse._ArgumentGroup, name: str, option: Option, default: Any) -> None:
    shown = option.help.replace("%", "%%")
    if default is not None and option.kind.metavar is not None:
        shown += f" (default: {_shown(default)})"
    if option.kind.metavar is None:
        shown += f" (default: {'yes' if default else 'no'})"
        group.add_argument(
            flag(name), action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=shown
        )
    elif option.n_values is not None:
        # one word after the other, where a shell completes file names
        metavar = tuple(option.kind.metavar.split())
        group.add_argument(
            flag(name), nargs=option.n_values, default=argparse.SUPPRESS, metavar=metavar, help=shown
        )
    else:
        group.add_argument(
            flag(name),
            type=_argument_type(option.kind),
            default=argparse.SUPPRESS,
            metavar=option.kind.metavar,
            help=shown,
        )


def _shown(default: Any) -> str:
    if isinstance(default, tuple):
        return ",".join(map(_shown, default))
    return f"{default:g}" if isinstance(default, float) else str(default)


def _argument_type(kind: Kind) -> Any:
    def read(text: str) -> Any:
        try:
            return kind.read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read


def effective_options(
    given: Mapping[str, Any], configured: Mapping[str, Any], kind: type[OptionsKind]
) -> OptionsKind:
    """Put the values together: those given, else those configured, else the defaults.

    Parameters
    ----------
    given : mapping
        What the command line holds; other names than those of options are ignored.
    configured : mapping
        What the configuration file holds, checked (`spcatv.cli.config.read_config`).
    kind : type
        `FitOptions` or `SelectOptions`.

    Returns
    -------
    FitOptions or SelectOptions

    Raises
    ------
    InputError
        If two options are given in one place of which one takes the other's place.
    """
    options = options_of(kind)
    chosen = {name: value for name, value in given.items() if name in options}
    known = {name: value for name, value in configured.items() if name in options}
    if "surface" in chosen:
        chosen["surface"] = options["surface"].kind.check(chosen["surface"])
    rivals = (kind.strength, "sparsity")
    for values in (chosen, known):
        if all(values.get(name) is not None for name in rivals):
            raise InputError(f"give either {flag(rivals[0])} or {flag(rivals[1])}, not both")
    if any(name in chosen for name in rivals):
        known = {name: value for name, value in known.items() if name not in rivals}
    merged = {**known, **chosen}
    if merged.get("sparsity") is not None:
        merged[kind.strength] = None
    return kind(**merged)


def add_speech(parser: argparse._ActionsContainer) -> None:
    """Declare how much a command says."""
    parser.add_argument("--quiet", action="store_true", help="print nothing when all goes well")
    parser.add_argument(
        "--verbose",
        "-v",
        action="count",
        default=0,
        help="log what happens; twice: every alternation as well",
    )
