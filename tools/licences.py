"""List the licences of all packages that are installed with spca-tv, per extra; fail on copyleft ones.

    make licences

Packages of the extras that only developers need are listed, too, but may have any licence: nothing of them
is imported by the library.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution

PACKAGE = "spca-tv"
# Extras whose packages the library imports; "" is what it always needs.
IMPORTED = ("", "images", "report", "dask", "gpu12", "gpu13")
TOOLS = ("dev", "bench")
NAME = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?")
EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")
# the libraries of GCC may be linked with anything
HARMLESS = re.compile(r"[AL]?GPL\S*\s+WITH\s+GCC-exception-[0-9.]+", re.IGNORECASE)
COPYLEFT = re.compile(r"\b[AL]?GPL|General Public License", re.IGNORECASE)


def licence(about: Distribution) -> str:
    """Return the licence that a package declares: its SPDX expression, its classifiers, or its own words."""
    metadata = about.metadata
    classifiers = [
        line.split(" :: ")[-1]
        for line in metadata.get_all("Classifier") or ()
        if line.startswith("License ::") and not line.endswith("OSI Approved")
    ]
    words = (metadata.get("License") or "").strip().splitlines()
    return metadata.get("License-Expression") or ", ".join(classifiers) or (words[0] if words else "unknown")


def is_copyleft(text: str) -> bool:
    """Whether every choice that a licence leaves is a GPL, LGPL or AGPL."""
    choices = re.split(r"\s+OR\s+", HARMLESS.sub("", text))
    return all(COPYLEFT.search(choice) for choice in choices)


def requirements(about: Distribution, extra: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Names and extras of the packages that a package needs by itself (``extra=""``) or for an extra."""
    for line in about.requires or ():
        wanted, _, marker = line.partition(";")
        match, of_extra = NAME.match(wanted), EXTRA.search(marker)
        if match and (of_extra.group(1) if of_extra else "") == extra:
            yield match.group(1), tuple(filter(None, re.split(r"\s*,\s*", match.group(2) or "")))


def installed(name: str, extra: str) -> dict[str, Distribution]:
    """Return packages that an extra of a package brings along, by name, as far as they are installed here."""
    found: dict[str, Distribution] = {}
    waiting, seen = [(name, extra)], {(name, extra)}
    while waiting:
        name, extra = waiting.pop()
        try:
            about = distribution(name)
        except PackageNotFoundError:
            continue  # for another system or version of Python, or an extra that is not installed
        found[re.sub(r"[-_.]+", "-", name).lower()] = about
        for other, extras in requirements(about, extra):
            new = {(other, one) for one in ("", *extras)} - seen
            seen |= new
            waiting += new
    found.pop(PACKAGE, None)
    return found


def main() -> int:
    """Print one line per package; return 1 if one that the library imports is copyleft."""
    refused = []
    for extra in (*IMPORTED, *TOOLS):
        packages = installed(PACKAGE, extra)
        print(f"{PACKAGE}[{extra}]" if extra else PACKAGE, f"({len(packages)} packages)")
        for name, about in sorted(packages.items()):
            found = licence(about)
            print(f"  {name:28} {about.version:14} {found}")
            if extra in IMPORTED and is_copyleft(found):
                refused.append(f"{name} {about.version}: {found}")
    for line in dict.fromkeys(refused):
        print(f"error: the library imports a package under a copyleft licence: {line}", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
