"""Resume from a checkpoint (`--resume`): finished work is kept until the results are there."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from spcatv._util.files import read_text
from spcatv.cli.app import RUN, build_parser
from spcatv.cli.config import Options, flag
from spcatv.cli.display import complain
from spcatv.cli.inputs import SampleFiles
from spcatv.cli.parser import InputError
from spcatv.model.checkpoint import (
    CheckpointMismatchError,
    checkpointing,
    current_checkpoint,
    differences,
    n_records,
)
from spcatv.results import ResultsError
from spcatv.results.layout import CONFIG

# Errors in the input or in the options: the same run would end with them again.
WOULD_COME_BACK = (InputError, ValueError, TypeError)


def checkpoint_folder(output: Path) -> Path:
    """Return the checkpoint of a run: a hidden folder beside its output folder."""
    place = Path(os.path.realpath(output.expanduser()))
    return place.parent / f".{place.name}.spca-tv-checkpoint"


def is_finished(options: Options, files: Sequence[SampleFiles] | None, config: str) -> bool:
    """Return whether a run with `--resume` has nothing left to do: its results are in the output folder.

    An InputError is raised if the results there have another configuration, or if an input has changed since.
    """
    output = options.output
    file = output.expanduser() / CONFIG
    if not options.resume or options.overwrite or not file.is_file():
        return False
    texts = (read_text(file, "configuration", InputError), config)
    found, wanted = (_comparable(text, _free(options)) for text in texts)
    if found != wanted:
        raise InputError(
            f"{output} holds the results of another run: {differences(found, wanted)}. Name another folder "
            "with --output, or replace them with --overwrite"
        )
    nested = [
        item for value in vars(options).values() for item in (value if isinstance(value, tuple) else (value,))
    ]
    inputs = [item for item in nested if isinstance(item, Path)]
    inputs += [path for sample in files or () for path in sample]
    for path in filter(Path.is_file, inputs):
        # a file that is replaced by one with an old time of modification gets a new st_ctime
        if max(path.stat().st_mtime_ns, path.stat().st_ctime_ns) >= file.stat().st_mtime_ns:
            raise InputError(
                f"{path} was changed after the results in {output} were written; compute them again with "
                "--overwrite"
            )
    return True


def _free(options: Options) -> set[str]:
    """Return the names of options that may change when a run is resumed."""
    table = build_parser().commands[options.command].options
    return {"images", "command", "cache", *(name for name in table if table[name].group == RUN)}


def _comparable(config: str, free: set[str]) -> dict[str, Any]:
    """Split the text of a configuration into options, without those that do not change the results."""
    head, _, rest = config.partition("\n\n")
    lines = [line.partition(" = ") for line in rest.splitlines() if not line.startswith("#")]
    options = {flag(name): value for name, equals, value in lines if equals and name not in free}
    return {"version or command": head, **options, "files": [name for name, equals, _ in lines if not equals]}


@contextmanager
def rerun_hint_on_interrupt(output: Path, argv: Sequence[str]) -> Iterator[None]:
    """On an interruption or a failure, print what is kept and how to resume or start again."""
    try:
        yield
    except BaseException as error:
        n_kept = n_records(checkpoint_folder(output))
        again = [word for word in argv if word not in ("--resume", "--no-resume")]
        kept = (
            f"{_pieces(n_kept)} kept. To resume: {shlex.join(['spca-tv', *again, '--resume'])}"
            if n_kept
            else ""
        )
        if _interrupted(error):
            next_step = kept or f"To start again: {shlex.join(['spca-tv', *argv])}"
            raise KeyboardInterrupt(f"interrupted; nothing was written to {output}. {next_step}") from error
        if kept and not isinstance(error, (InputError, ResultsError)):
            complain("note", kept)
        raise


def _interrupted(error: BaseException | None) -> bool:
    """Return whether an interruption is the error, or led to it: the clean-up of a library may fail then."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


def _pieces(n_kept: int) -> str:
    return "1 finished piece of the work is" if n_kept == 1 else f"{n_kept} finished pieces of the work are"


class KeptWork(AbstractContextManager[None]):
    """Checkpoint of a run, which is removed when the run succeeds or when nobody could resume it.

    `files` are those of every sample, None for an array; `note` prints a line.
    """

    def __init__(
        self, options: Options, files: Sequence[SampleFiles] | None, note: Callable[[str], None]
    ) -> None:
        self._output, self._options, self._files, self._note = options.output, options, files, note
        self._folder = checkpoint_folder(options.output)
        self._is_new = False  # whether all that is kept was done by this run

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or n_records(self._folder) == 0 or (self._is_new and kind in WOULD_COME_BACK):
            shutil.rmtree(self._folder, ignore_errors=True)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Keep finished work inside a ``with`` block, and resume from kept work if `--resume` is given."""
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
                f"the checkpoint of an interrupted run to {self._output} was made with different settings: "
                f"{error.differences}. Give the data and options that it had, and --resume; or start again "
                "without it (--no-resume)"
            ) from error

    def _begin(self, n_kept: int) -> None:
        """Refuse to resume other work, or to start while there is a checkpoint and no option decides."""
        checkpoint, resume = current_checkpoint(), self._options.resume
        assert checkpoint is not None
        checkpoint.stage("command", self._about())
        if n_kept and resume is None:
            raise InputError(
                f"an interrupted run to {self._output} can be resumed: {_pieces(n_kept)} kept in "
                f"{self._folder}. Add --resume, or --no-resume to start again without them"
            )
        if resume:
            resumed = f"resuming an interrupted run, of which {_pieces(n_kept)} kept"
            nothing = f"nothing is kept of an earlier run to {self._output}; starting at the beginning"
            self._note(resumed if n_kept else nothing)

    def _about(self) -> dict[str, Any]:
        """Return the options that the work depends on."""
        given, free = vars(self._options), _free(self._options)
        files = None if self._files is None else [str(file) for sample in self._files for file in sample]
        return {
            "command": self._options.command,
            **{flag(name): _absolute(value) for name, value in given.items() if name not in free},
            "files": files,
        }


def _absolute(value: Any) -> Any:
    return os.path.abspath(value.expanduser()) if isinstance(value, Path) else value
