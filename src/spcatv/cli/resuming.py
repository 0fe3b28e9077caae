"""Going on after an interruption (`--resume`): what a run has done is kept until its results are there."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from spcatv._util.files import read_text
from spcatv.cli.inputs import SampleFiles
from spcatv.cli.kinds import InputError
from spcatv.cli.options import CommonOptions, flag, options_of
from spcatv.model.checkpoint import (
    CheckpointMismatchError,
    checkpointing,
    current_checkpoint,
    differences,
    n_records,
)
from spcatv.results.layout import CONFIG

# Options that may change when a run goes on: none of them changes what is fitted.
FREE = ("output", "overwrite", "resume", "n_jobs", "memory", "cache", "scheduler")
# Errors in the input or in the options: the same run would end with them again.
WOULD_COME_BACK = (InputError, ValueError, TypeError)


def checkpoint_folder(output: Path) -> Path:
    """Where a run keeps what it has finished: a hidden folder beside its output folder."""
    place = Path(os.path.realpath(output.expanduser()))
    return place.parent / f".{place.name}.spca-tv-checkpoint"


def is_finished(
    output: Path, options: CommonOptions, files: Sequence[SampleFiles] | None, config: str
) -> bool:
    """Return whether a run with `--resume` has nothing left to do: its results are in the output folder.

    An InputError is raised if the results there have another configuration, or if an input has changed since.
    """
    file = output.expanduser() / CONFIG
    if not options.resume or options.overwrite or not file.is_file():
        return False
    found, wanted = map(_comparable, (read_text(file, "configuration", InputError), config))
    if found != wanted:
        raise InputError(
            f"{output} holds the results of another run: {differences(found, wanted)}. Name another folder "
            "with --output, or replace them with --overwrite"
        )
    values = [getattr(options, name) for name in options_of(type(options))]
    nested = [item for value in values for item in (value if isinstance(value, tuple) else (value,))]
    inputs = [Path(item) for item in nested if isinstance(item, Path)]
    inputs += [path for sample in files or () for path in sample]
    for path in filter(Path.is_file, inputs):
        # a file that is replaced by one with an old time of modification gets a new st_ctime
        if max(path.stat().st_mtime_ns, path.stat().st_ctime_ns) >= file.stat().st_mtime_ns:
            raise InputError(
                f"{path} was changed after the results in {output} were written; compute them again with "
                "--overwrite"
            )
    return True


def _comparable(config: str) -> dict[str, Any]:
    """Split the text of a configuration into options, without those that do not change the results."""
    head, _, rest = config.partition("\n\n")
    lines = [line.partition(" = ") for line in rest.splitlines() if not line.startswith("#")]
    options = {flag(name): value for name, equals, value in lines if equals and name not in FREE}
    return {"version or command": head, **options, "files": [name for name, equals, _ in lines if not equals]}


def kept_text(output: Path, argv: Sequence[str]) -> str:
    """What is kept of a run that has ended early, and how to go on; empty if nothing is."""
    n_kept = n_records(checkpoint_folder(output))
    if n_kept == 0:
        return ""
    again = [word for word in argv if word not in ("--resume", "--no-resume")]
    return f"{_pieces(n_kept)} kept. To go on: {shlex.join(['spca-tv', *again, '--resume'])}"


def _pieces(n_kept: int) -> str:
    return "1 finished piece of the work is" if n_kept == 1 else f"{n_kept} finished pieces of the work are"


class KeptWork(AbstractContextManager[None]):
    """The checkpoint of a run: as a context manager, it is removed with success, and where it is of no use.

    `files` are those of every sample, None for an array; `note` is told what is going on.
    """

    def __init__(
        self,
        output: Path,
        options: CommonOptions,
        files: Sequence[SampleFiles] | None,
        note: Callable[[str], None],
    ) -> None:
        self._output, self._options, self._files, self._note = output, options, files, note
        self._folder = checkpoint_folder(output)
        self._is_new = False  # whether all that is kept was done by this run

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or n_records(self._folder) == 0 or (self._is_new and kind in WOULD_COME_BACK):
            shutil.rmtree(self._folder, ignore_errors=True)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Keep what is done inside a ``with`` block, and take what was kept before if that is asked for."""
        n_kept = n_records(self._folder)
        self._is_new = n_kept == 0 or self._options.resume is False
        if self._is_new:
            shutil.rmtree(self._folder, ignore_errors=True)
        try:
            with checkpointing(self._folder):
                self._begin(n_kept)
                yield
        except CheckpointMismatchError as error:
            raise InputError(
                f"an interrupted run to {self._output} cannot go on as another one: {error.differences}. "
                "Give it the data and options that it had, and --resume; or start again without what it has "
                "kept (--no-resume)"
            ) from error

    def _begin(self, n_kept: int) -> None:
        """Refuse to go on as something else, or without being asked to."""
        checkpoint, resume = current_checkpoint(), self._options.resume
        assert checkpoint is not None
        checkpoint.stage("command", self._about())
        if n_kept and resume is None:
            raise InputError(
                f"an interrupted run to {self._output} can go on: {_pieces(n_kept)} kept in {self._folder}. "
                "Add --resume to go on, or --no-resume to start again without them"
            )
        if resume:
            going_on = f"going on with an interrupted run, of which {_pieces(n_kept)} kept"
            nothing = f"nothing is kept of an earlier run to {self._output}; starting at the beginning"
            self._note(going_on if n_kept else nothing)

    def _about(self) -> dict[str, Any]:
        """What the work depends on, as far as the options tell."""
        given = {name: getattr(self._options, name) for name in options_of(type(self._options))}
        files = None if self._files is None else [str(file) for sample in self._files for file in sample]
        return {
            "command": self._options.command,
            **{flag(name): _absolute(value) for name, value in given.items() if name not in FREE},
            "files": files,
        }


def _absolute(value: Any) -> Any:
    return os.path.abspath(value.expanduser()) if isinstance(value, Path) else value
