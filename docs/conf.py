"""Configuration of the site (`make docs`)."""

import os
import re
import sys
import warnings
from pathlib import Path

import spcatv

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS))

project = "spca-tv"
author = "The spca-tv developers"
copyright = "The spca-tv developers"
version = release = spcatv.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = [
    "_build",
    "_templates",
    "pictures",
    "sg_execution_times.rst",
    "**/sg_execution_times.rst",
    "gallery/**/*.ipynb",
]
templates_path = ["_templates"]
nitpicky = True
default_role = "code"  # docstrings put names of parameters between single backticks
highlight_language = "none"  # indented blocks are formulas, tables and commands

# --- Markdown -----------------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

# Pages of the site that show a file from elsewhere in the repository, which stays where people look for it.
PAGE_OF = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "benchmarks/README.md": "benchmarks.md",
    "benchmarks/NOTES.md": "notes.md",
    "benchmarks/reproduce/README.md": "reproduce.md",
}
# A whole file, or the part between two comments.
_INCLUDE = re.compile(
    r"^:::\{include\} (?P<file>\S+)\n(?::start-after: (?P<start>.+)\n:end-before: (?P<end>.+)\n)?:::$",
    re.MULTILINE,
)
_LINK = re.compile(r"(?P<text>\]\()(?P<target>(?!\w+:|#)[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def _on_the_site(text, written_in, shown_in):
    """Links of a file as they have to be in the page that shows it."""

    def link(found):
        target = os.path.relpath((written_in.parent / found["target"]).resolve(), ROOT)
        page = DOCS / PAGE_OF[target] if target in PAGE_OF else ROOT / target
        return f"{found['text']}{os.path.relpath(page, shown_in.parent)}{found['anchor'] or ''})"

    return _LINK.sub(link, text)


def _read(app, name, source):
    """Put included files into Markdown pages, with their links mended."""
    page = Path(app.env.doc2path(name))
    if page.suffix != ".md":
        return

    def included(found):
        file = (page.parent / found["file"]).resolve()
        app.env.note_dependency(str(file))
        text = file.read_text(encoding="utf-8")
        if found["start"] is not None:
            text = text.partition(found["start"])[2].partition(found["end"])[0].strip()
        return _on_the_site(text, file, page)

    source[0] = _INCLUDE.sub(included, _on_the_site(source[0], page, page))


# --- API ----------------------------------------------------------------------------------------

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say it
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"  # the column beside the text is narrow
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False


def _linked(app, what, name, obj, options, lines):
    """Docstrings name pages as files, docs/method.md section 2.1; on the site these are links."""
    lines[:] = [re.sub(r"docs/([a-z-]+)\.md( section)?", r":doc:`/\1`\2", line) for line in lines]


def _skip(app, what, name, obj, skip, options):
    """Leave out what is inherited from scikit-learn and the standard library."""
    home = getattr(obj, "__module__", None) or getattr(getattr(obj, "fget", None), "__module__", None)
    return True if home is not None and not home.startswith("spcatv") else None


# --- gallery ------------------------------------------------------------------------------------

warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"^(?!(.*/)?plot_)",
    "within_subsection_order": "gallery_order.order",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1,
    "abort_on_example_error": True,
    "remove_config_comments": True,
}

# --- HTML ---------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "spca-tv"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {name: [] for name in ("index", "start", "gallery/index", "search", "genindex")}
html_theme_options = {
    "logo": {"text": "spca-tv"},
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True


def setup(app):
    """Connect the functions above."""
    app.connect("source-read", _read)
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _linked)
