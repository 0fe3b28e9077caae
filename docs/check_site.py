"""Check a built site without a network: `python docs/check_site.py docs/_build/html`.

Every link to a page, an anchor or a file leads somewhere, and nothing that a page needs to be shown (scripts,
styles, fonts, pictures) comes from elsewhere.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser loads by itself, by tag; links in <a> are only followed by readers.
LOADED = {"script": "src", "img": "src", "source": "src", "iframe": "src", "link": "href"}
NOT_LOADED = {"canonical", "author", "license", "next", "prev", "search", "index"}  # rel of <link>
IN_STYLES = re.compile(r"""(?:url\(\s*|@import\s+)["']?((?:https?:)?//[^"')\s]+)""")


class Page(HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self, text):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Note what a tag defines and where it leads."""
        named = {name: value or "" for name, value in attrs}
        self.anchors |= {named[name] for name in ("id", "name") if name in named}
        if tag == "a" and named.get("href"):
            self.links.append(named["href"])
        if tag in LOADED and named.get(LOADED[tag]) and not NOT_LOADED & set(named.get("rel", "").split()):
            self.loaded.append(named[LOADED[tag]])


def is_external(address):
    """Whether an address leads out of the site."""
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme in ("http", "https", "mailto")


def check(root):
    """Sentences about everything that is wrong with the site in a folder."""
    files = [file for file in sorted(root.rglob("*.html")) if "_static" not in file.parts]
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in files}
    wrong = [] if pages else [f"{root} holds no page"]
    for file, page in pages.items():
        name = file.relative_to(root)
        wrong += [f"{name} loads {address}" for address in page.loaded if is_external(address)]
        for address in page.links + page.loaded:
            parts = urlsplit(address)
            if is_external(address) or parts.scheme in ("data", "javascript"):
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                wrong.append(f"{name} links to {address}, which does not exist")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                wrong.append(f"{name} links to {address}, and there is no such anchor")
    for file in sorted(root.rglob("*.css")):
        loaded = IN_STYLES.findall(file.read_text(encoding="utf-8"))
        wrong += [f"{file.relative_to(root)} loads {address}" for address in loaded]
    return list(dict.fromkeys(wrong))


if __name__ == "__main__":
    problems = check(Path(sys.argv[1]).resolve())
    print("\n".join(problems) or "All links lead somewhere, and nothing is loaded from elsewhere.")
    sys.exit(bool(problems))
