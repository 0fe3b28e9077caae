"""Pages of the documentation, their links and anchors, and the tables of contents that lead to them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What `make docs` makes, and Sphinx's own folders.
GENERATED = ("_build", "_templates", "api", "gallery")
# Markdown that people read outside of the site.
OTHERS = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "benchmarks/README.md",
    "benchmarks/NOTES.md",
    "benchmarks/reproduce/README.md",
)
FENCED = re.compile(r"^```.*?^```$|^ {4}[^\n]*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)")
TOCTREE = re.compile(
    r"^:::\{toctree\}\n(?P<md>.*?)^:::$|^\.\. toctree::\n(?P<rst>(?:\n| +[^\n]*\n)+)", re.M | re.S
)
INCLUDE = re.compile(r"^:::\{include\} (\S+)\n(?::.+\n)*:::$", re.MULTILINE)


def documentation_pages(*suffixes):
    """Pages of docs/ with one of the suffixes, relative to the repository."""
    docs = ROOT / "docs"
    return sorted(
        str(file.relative_to(ROOT))
        for file in docs.rglob("*.*")
        if file.suffix in suffixes
        and file.relative_to(docs).parts[0] not in GENERATED
        and file.name != "sg_execution_times.rst"
    )


def text_of(page):
    """The text of a page, with the files that it includes."""
    file = ROOT / page
    return INCLUDE.sub(
        lambda found: (file.parent / found[1]).read_text(encoding="utf-8"), file.read_text(encoding="utf-8")
    )


def anchors(page):
    """Anchors of a Markdown page: its headings, as GitHub and MyST write them."""
    text = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+?)\s*$", text, re.MULTILINE)
    titles = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def dead_links(page):
    """Sentences about the relative links of a page that lead nowhere."""
    file = ROOT / page
    wrong = []
    for target, anchor in LINK.findall(FENCED.sub("", file.read_text(encoding="utf-8"))):
        to = (file.parent / target).resolve() if target else file
        if not to.exists() and to.relative_to(ROOT).parts[:2] != ("docs", "gallery"):
            wrong.append(f"{page} points to {target}, which does not exist")
        elif anchor and to.suffix == ".md" and anchor not in anchors(to.relative_to(ROOT)):
            wrong.append(f"{page} points to {target}#{anchor}, and there is no such heading")
    return wrong


def contents(page):
    """Pages in the tables of contents of a page, as paths without suffix, relative to docs/."""
    lines = [
        line.strip()
        for found in TOCTREE.finditer(text_of(page))
        for line in found[found.lastgroup].splitlines()
    ]
    folder = (ROOT / page).parent.relative_to(ROOT / "docs")
    return {str(folder / line) for line in lines if line and not line.startswith(":")}
