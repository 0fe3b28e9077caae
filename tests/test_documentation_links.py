"""Every page of the documentation can be reached, and every link in it leads somewhere."""

import runpy

import pytest
from documentation_links import OTHERS, ROOT, contents, dead_links, documentation_pages


@pytest.mark.parametrize("page", [*OTHERS, *documentation_pages(".md")])
def test_links_lead_somewhere(page):
    assert dead_links(page) == []


def test_every_page_is_in_one_table_of_contents():
    """And every table of contents names pages that are there; the gallery is made by `make docs`."""
    pages = documentation_pages(".md", ".rst")
    named = [name for page in pages for name in contents(page)]
    there = {page.removeprefix("docs/").rsplit(".", 1)[0] for page in pages}
    assert sorted(named) == sorted((there - {"index"}) | {"gallery/index"})


def test_a_dead_link_and_a_dead_anchor_are_found(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(
        "# Of `v`, and x\n[1](b.md) [2](#of-v-and-x) [3](a.md#of-v) [4](https://x.org) `[5](c.md)`\n"
    )
    monkeypatch.setattr("documentation_links.ROOT", tmp_path)
    assert dead_links("docs/a.md") == [
        "docs/a.md points to b.md, which does not exist",
        "docs/a.md points to a.md#of-v, and there is no such heading",
    ]


def test_the_check_of_the_built_site_finds_what_is_wrong(tmp_path):
    check = runpy.run_path(str(ROOT / "docs" / "check_site.py"))["check"]
    (tmp_path / "index.html").write_text(
        "<h1 id='top'></h1><a href='#top'></a><a href='b.html#here'></a><a href='https://x.org'></a>"
    )
    (tmp_path / "b.html").write_text("<h1 id=here></h1><a href='index.html#top'></a>")
    assert check(tmp_path) == []
    (tmp_path / "b.html").write_text(
        "<a href='index.html#gone'></a><a href='c.html'></a><script src='//x.org/a.js'>"
    )
    (tmp_path / "a.css").write_text(
        "@import 'https://x.org/font.css'; a { background: url(https://x.org/b.png) }"
    )
    assert check(tmp_path) == [
        "b.html loads //x.org/a.js",
        "b.html links to index.html#gone, and there is no such anchor",
        "b.html links to c.html, which does not exist",
        "index.html links to b.html#here, and there is no such anchor",
        "a.css loads https://x.org/font.css",
        "a.css loads https://x.org/b.png",
    ]
