"""The description of the package on PyPI: README.md without relative links, which lead nowhere there."""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = r"\((?!\w+:)[^)]+\)"
# A picture of the checkout, with the caption in italics below it.
PICTURE = re.compile(rf"^!\[[^\]]*\]{RELATIVE}\n\n(?:\*[^*].*?\*\n\n)?", re.MULTILINE | re.DOTALL)
LINK = re.compile(rf"\[([^\]]+)\]({RELATIVE})")
NOTE = "\n\nFiles named in brackets are in the source distribution; `make docs` makes a site of them.\n"


def for_pypi(readme: str) -> str:
    """Remove pictures of the checkout, and replace relative links by file names in brackets."""

    def named(link: re.Match[str]) -> str:
        text, path = link[1], link[2][1:-1]
        return text if text == path else f"{text} (`{path}`)"

    head, heading, pages = LINK.sub(named, PICTURE.sub("", readme)).partition("\n## Documentation\n")
    return head + heading.rstrip("\n") + NOTE + pages


class Readme(MetadataHookInterface):
    """Gives hatchling the description, for wheel and sdist alike."""

    def update(self, metadata: dict) -> None:
        """Set the field `readme` of the project."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_pypi(text)}
