"""Resume from a checkpoint (`--resume`): finished work is kept until the results are there."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from spcatv._util.atomic_files import read_text
from spcatv.cli.app import RUN, build_parser
from spcatv.cli.config import Options, parse_toml
from spcatv.cli.display import complain
from spcatv.cli.inputs import SampleFiles
from spcatv.cli.parser import InputError, flag, is_wrong_input
from spcatv.model.checkpoint import (
    CheckpointMismatchError,
    checkpointing,
    current_checkpoint,
    differences,
    n_records,
)
from spcatv.results.layout import CONFIG


def checkpoint_folder(output: Path) -> Path:
    """Return the checkpoint of a run: a hidden folder beside its output folder."""
    place = Path(os.path.realpath(output.expanduser()))
    return place.parent / f".{place.name}.spca-tv-checkpoint"


def remove_checkpoint(output: Path) -> None:
    """Remove the checkpoint of a run that nobody needs to resume."""
    shutil.rmtree(checkpoint_folder(output), ignore_errors=True)


def is_finished(options: Options, files: Sequence[SampleFiles] | None, config: str) -> bool:
    """Return whether a run with `--resume` has nothing left to do: its results are in the output folder.

    An InputError is raised if the results there have another configuration, or if an input has changed since.
    """
    output = options.output
    file = output.expanduser() / CONFIG
    if not options.resume or options.overwrite or not file.is_file():
        return False
    texts = (read_text(file, "configuration", InputError), config)
    found, wanted = (_described(text, options.command, file) for text in texts)
    if found != wanted:
        raise InputError(
            f"{output} holds the results of another run: {differences(found, wanted)}. Name another folder "
            "with --output, or replace them with --overwrite"
        )
    inputs = [value if isinstance(value, tuple) else (value,) for value in vars(options).values()]
    for path in chain.from_iterable([*inputs, *(files or ())]):
        if not (isinstance(path, Path) and path.is_file()):
            continue
        # a file that is replaced by one with an old time of modification gets a new st_ctime
        if max(path.stat().st_mtime_ns, path.stat().st_ctime_ns) >= file.stat().st_mtime_ns:
            raise InputError(
                f"{path} was changed after the results in {output} were written; compute them again with "
                "--overwrite"
            )
    return True


def _described(config: str, command: str, file: Path) -> dict[str, Any]:
    """Return what the results depend on: version, command, options and files of a configuration."""
    table = build_parser().commands[command].options
    free = {"images", "cache", *(name for name in table if table[name].group == RUN)}
    values = parse_toml(config, file)
    version, _, repeat, *_ = [*config.splitlines(), "", "", ""]  # `config_text` begins with comments
    return {
        "version": version,
        "command": repeat.partition(" spca-tv ")[2].partition(" ")[0],
        **{flag(name): value for name, value in values.items() if name not in free},
        "files": values.get("images"),
    }


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
        if kept and not is_wrong_input(error):
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


@contextmanager
def kept_work(options: Options, config: str) -> Iterator[None]:
    """Keep finished work inside a ``with`` block, and resume from kept work if `--resume` is given.

    `config` is the text of the configuration. After an error the checkpoint is removed if nobody could resume
    it.
    """
    folder = checkpoint_folder(options.output)
    n_kept = n_records(folder)
    is_new = n_kept == 0 or options.resume is False
    if is_new:
        remove_checkpoint(options.output)
    try:
        with checkpointing(folder):
            _begin(options, config, n_kept)
            yield
    except CheckpointMismatchError as error:
        raise InputError(
            f"the checkpoint of an interrupted run to {options.output} was made with different settings: "
            f"{error.differences}. Give the data and options that it had, and --resume; or start again "
            "without it (--no-resume)"
        ) from error
    except BaseException as error:
        would_come_back = is_wrong_input(error) or type(error) in (ValueError, TypeError)
        if n_records(folder) == 0 or (is_new and would_come_back):
            remove_checkpoint(options.output)
        raise


def _begin(options: Options, config: str, n_kept: int) -> None:
    """Refuse to resume other work, or to start while there is a checkpoint and no option decides."""
    checkpoint = current_checkpoint()
    assert checkpoint is not None
    checkpoint.stage("command", _described(config, options.command, options.output / CONFIG))
    if n_kept and options.resume is None:
        raise InputError(
            f"an interrupted run to {options.output} can be resumed: {_pieces(n_kept)} kept in "
            f"{checkpoint.folder}. Add --resume, or --no-resume to start again without them"
        )
    if options.resume and not options.quiet:
        resumed = f"resuming an interrupted run, of which {_pieces(n_kept)} kept"
        nothing = f"nothing is kept of an earlier run to {options.output}; starting at the beginning"
        complain("note", resumed if n_kept else nothing)
