"""The values of the options of `fit` and `select`: which command has which, and where a value comes from.

The fields of `FitOptions` and `SelectOptions` are options of `spcatv.cli.option_table`. A value comes from
the command line, else from the configuration file, else it is the default of `SPCATV` or `SPCATVCV`. Nothing
here imports the estimators, so that help is quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from spcatv._util.parameters import FIT, PENALISED_PARAMETERS, SEARCH, TARGET_PARAMETERS
from spcatv.cli.kinds import InputError
from spcatv.cli.option_table import GRID_OPTIONS, OPTIONS, Option

Labels = str | tuple[str, ...] | None


@dataclass(frozen=True)
class BidsOptions:
    """A BIDS dataset, and what the names of its images must have (`spcatv.images.bids_images`)."""

    bids: Path | None = None
    subject: Labels = None
    session: Labels = None
    task: Labels = None
    run: Labels = None
    hemi: Labels = None
    space: Labels = None
    res: Labels = None
    den: Labels = None
    label: Labels = None
    desc: Labels = None
    suffix: Labels = None
    extension: Labels = None
    entity: Labels = None


@dataclass(frozen=True)
class CommonOptions(BidsOptions):
    """The effective value of every option that both commands have, by the names of `OPTIONS`.

    `command` is the name of the command. `ways` are two sets of options that exclude each other; without any
    of them, the defaults of the first set are used. The first option of the second set goes with all others
    of that set.
    """

    command: ClassVar[str]
    ways: ClassVar[tuple[tuple[str, ...], tuple[str, ...]]]

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
    smoothing_fwhm: float | None = None
    resample: bool = False
    target_affine: float | None = None
    standardize_runs: bool | None = None
    detrend: bool = False
    high_pass: float | None = None
    low_pass: float | None = None
    t_r: float | None = None
    run_confounds: tuple[str, ...] | None = None
    bad_features: str = "drop"
    exclude: tuple[str, ...] | None = None
    cache: Path | None = None
    n_components: int | str = FIT.n_components
    max_components: int | None = None
    penalty_units: str | None = FIT.penalty_units
    penalty: str = FIT.penalty
    positive: bool = FIT.positive
    center: bool = FIT.center
    regress_global: bool = False
    transform_method: str = FIT.transform_method
    tol: float = FIT.tol
    max_iter: int = FIT.max_iter
    solver: str = FIT.solver
    n_init: int = FIT.n_init
    init: str = FIT.init
    method: str = FIT.method
    refit: str | None = FIT.refit
    dtype: str | None = None
    seed: int = 0
    output: Path | None = None
    memory: str | None = None
    device: str = "cpu"
    n_jobs: int = 1
    overwrite: bool = False
    resume: bool | None = None

    @property
    def n_workers(self) -> int | None:
        """Workers on this machine."""
        return self.n_jobs

    def model_parameters(self) -> dict[str, Any]:
        """The parameters of `SPCATV` that are options and have a value, without `dtype`."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        offered = set(asdict(FIT))
        given = {name: value for name, value in values.items() if name in offered and value is not None}
        if self.regress_global:
            given["global_signal"] = "regress"
        if self.memory is not None:
            given["memory_limit"] = self.memory
        given["device"] = self.device
        if self.n_components == "auto":
            del given["n_components"]
        return {**given, "random_state": self.seed}


@dataclass(frozen=True)
class FitOptions(CommonOptions):
    """The options of `spca-tv fit`; those of the way that is not taken are None."""

    command: ClassVar[str] = "fit"
    ways = (TARGET_PARAMETERS, PENALISED_PARAMETERS)

    sparsity: float | tuple[float, ...] | None = FIT.sparsity
    smoothness: float | None = FIT.smoothness
    alpha: float | None = FIT.alpha
    l1_ratio: float | None = FIT.l1_ratio
    tv_ratio: float | None = FIT.tv_ratio
    n_splits: int | str = "auto"


@dataclass(frozen=True)
class SelectOptions(CommonOptions):
    """The options of `spca-tv select`; those of the way that is not taken are None."""

    command: ClassVar[str] = "select"
    ways = (TARGET_PARAMETERS, (*PENALISED_PARAMETERS, "n_alphas", "min_sparsity"))

    sparsity: tuple[float, ...] | None = SEARCH.sparsity
    smoothness: tuple[float, ...] | None = SEARCH.smoothness
    alpha: str | tuple[float, ...] | None = None
    l1_ratio: tuple[float, ...] | None = SEARCH.l1_ratio
    tv_ratio: tuple[float, ...] | None = SEARCH.tv_ratio
    n_alphas: int | None = SEARCH.n_alphas
    cv: int = 5
    shuffle: bool | None = None
    groups: tuple[Path | str, ...] | None = None
    rule: str = SEARCH.rule
    min_sparsity: float | None = SEARCH.min_sparsity
    n_bootstraps: int = 50
    n_splits: int | str = 10
    scheduler: str | None = None

    @property
    def n_workers(self) -> int | None:
        """Workers on this machine; those of a cluster are all used."""
        return None if self.scheduler is not None else self.n_jobs

    def search_parameters(self) -> dict[str, Any]:
        """The parameters of `SPCATVCV` that are options and have a value, without `dtype` and `n_jobs`."""
        values = {name: getattr(self, name) for name in ("n_alphas", "min_sparsity", "cv", "rule")}
        known = {name: value for name, value in values.items() if value is not None}
        return {**self.model_parameters(), **known}


OptionsKind = TypeVar("OptionsKind", bound=CommonOptions)


def options_of(kind: type[CommonOptions]) -> dict[str, Option]:
    """The options of a command, in the order of `OPTIONS`."""
    names = {item.name for item in fields(kind)}
    own = GRID_OPTIONS if issubclass(kind, SelectOptions) else {}
    return {name: own.get(name, option) for name, option in OPTIONS.items() if name in names}


def flag(name: str) -> str:
    """The option as it is written on the command line."""
    return "--" + name.replace("_", "-")


def effective_options(
    given: Mapping[str, Any], configured: Mapping[str, Any], kind: type[OptionsKind]
) -> OptionsKind:
    """The value of every option: from the command line, else from the configuration, else the default.

    `given` is the parsed command line, where names that are not options are ignored; `configured` is the
    configuration file (`spcatv.cli.config.read_config`). An InputError says that two options that exclude
    each other are given in one place.
    """
    options = options_of(kind)
    chosen = {name: value for name, value in given.items() if name in options}
    known = {name: value for name, value in configured.items() if name in options}
    if "surface" in chosen:
        chosen["surface"] = options["surface"].kind.check(chosen["surface"])
    return kind(**_one_way(chosen, known, kind))


def _one_way(
    chosen: Mapping[str, Any], known: Mapping[str, Any], kind: type[CommonOptions]
) -> dict[str, Any]:
    """The values of the command line and of the file, with None for all options of the way not taken."""
    for values in (chosen, known):
        both = [[name for name in way if values.get(name) is not None] for way in kind.ways]
        if all(both):
            raise InputError(f"give either {flag(both[0][0])} or {flag(both[1][0])}, not both")
    for way, rivals in (kind.ways, kind.ways[::-1]):
        if any(name in chosen for name in way):
            known = {name: value for name, value in known.items() if name not in rivals}
    merged = {**known, **chosen}
    usual, other = kind.ways
    asked = [name for name in other if merged.get(name) is not None]
    if asked and asked[0] != other[0]:
        raise InputError(
            f"{flag(asked[0])} goes with {flag(other[0])}; without it, use {' and '.join(map(flag, usual))}"
        )
    return {**merged, **dict.fromkeys(usual if asked else other)}
