"""Packages of optional extras: checked before any work, with the command that installs them."""

from __future__ import annotations

from importlib.util import find_spec


class MissingExtraError(RuntimeError):
    """A package of an optional extra is not installed; the message says what to install."""


def require(packages: tuple[str, ...], extra: str, purpose: str) -> None:
    """Raise MissingExtraError unless all packages, which the extra brings, can be imported.

    `purpose` says what they are needed for; it is the beginning of a sentence.
    """
    for package in packages:
        if not _is_there(package):
            raise MissingExtraError(
                f"{purpose} with {package}, which is not installed; install it with: "
                f'pip install "spca-tv[{extra}]"'
            )


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # raised if sys.modules holds something without a specification
        return False
