"""All examples run: in docstrings, on Markdown pages and in examples/.

The code blocks of a page run from top to bottom in one namespace and one folder, as somebody would type them.
`stand_ins` provides small data under the names that a page takes for granted.
"""

import argparse
import doctest
import importlib
import pkgutil
import re
import runpy
import shlex
import shutil
import sys
import tomllib
from pathlib import Path

import joblib
import pytest
import stand_ins
from documentation_links import documentation_pages
from markdown_blocks import read_blocks

import spcatv
from spcatv.cli import main
from spcatv.cli.app import build_parser
from spcatv.selection import SPCATVCV, workers
from spcatv.stability import bootstrap_components, split_halves

for package in ("nibabel", "nilearn", "matplotlib", "jinja2", "pandas"):
    pytest.importorskip(package, reason="the examples need all extras, which `make test` installs")

pytestmark = pytest.mark.no_cover
ROOT = Path(__file__).resolve().parents[1]
PAGES = {page: read_blocks((ROOT / page).read_text(encoding="utf-8")) for page in stand_ins.PAGES}
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# What an example needs beyond the packages above.
NEEDED = {
    "plot_dask_cluster.py": ("distributed",),
    "plot_el_nino.py": ("xarray",),
    "plot_faces.py": ("skimage",),
}
# A command that somebody has to complete, as in `spca-tv fit IMAGES... --output DIR`.
PLACEHOLDER = re.compile(r"[A-Z]{3,}(\.\.\.)?")
# A minute of work, and tested on its own.
NOT_RUN = ("demo",)
# Fits that only repeat others: the examples run with a few of them.
FEWER = {
    "n_resamples=100": "n_resamples=2",
    "n_resamples=20": "n_resamples=2",
    "n_splits=10": "n_splits=2",
    "n_init=10": "n_init=2",
    "max_components=10": "max_components=4",
    "cv=5": "cv=2",
}
FEWER_BY_DEFAULT = {
    bootstrap_components: {"n_resamples": 2},
    split_halves: {"n_splits": 2},
    SPCATVCV.__init__: {"cv": 2, "sparsity": (0.5, 0.7), "n_alphas": 3},
}
FEWER_OPTIONS = {
    "fit": ("--n-splits", "1", "--tol", "0.01"),
    "explore": ("--n-splits", "1", "--cv", "2", "--tol", "0.01"),
    "select": ("--n-splits", "1", "--n-bootstraps", "2", "--cv", "2", "--tol", "0.01"),
}


def modules_with_examples():
    """Names of the modules that have examples in their docstrings."""
    names = [module.name for module in pkgutil.walk_packages(spcatv.__path__, "spcatv.")]
    files = {name: ROOT / "src" / Path(*name.split(".")) for name in names}
    texts = {
        name: (file / "__init__.py" if file.is_dir() else file.with_suffix(".py")).read_text(encoding="utf-8")
        for name, file in files.items()
    }
    return [name for name, text in texts.items() if ">>>" in text]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """An empty folder to read and write files in, threads for workers, and no web browser."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT)  # for the package benchmarks
    monkeypatch.setattr("webbrowser.open", lambda address: None)
    for function, defaults in FEWER_BY_DEFAULT.items():
        for name, value in defaults.items():
            assert name in function.__kwdefaults__
            monkeypatch.setitem(function.__kwdefaults__, name, value)
    with joblib.parallel_config(backend="threading"):  # processes would take longer to start than to work
        yield tmp_path


@pytest.fixture
def any_address(monkeypatch):
    """A Dask cluster in this process answers at every address."""
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50
    ) as local:
        monkeypatch.setattr(
            workers, "_connected", lambda package, address: package.Client(local, set_as_default=False)
        )
        yield


def prepare(make, text, folder, request):
    """The names that an example knows, with its files in the folder, and a cluster if it names one."""
    if "tcp://" in text:
        request.getfixturevalue("any_address")
    return make(folder)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", modules_with_examples())
def test_docstrings(name, own_folder, request):
    if name.startswith("spcatv.xarray"):
        pytest.importorskip("xarray", reason="needs the extra xarray")
    module = importlib.import_module(name)
    text = Path(module.__file__).read_text(encoding="utf-8")
    names = prepare(stand_ins.MODULES.get(name, stand_ins.nothing), text, own_folder, request)
    runner = doctest.DocTestRunner()
    said = []
    for example in doctest.DocTestFinder(exclude_empty=True).find(module, name, extraglobs=names):
        runner.run(example, out=said.append)
    assert runner.tries == sum(line.lstrip().startswith(">>> ") for line in text.splitlines())
    assert runner.failures == 0, "".join(said)


def test_docstrings_are_found():
    assert len(modules_with_examples()) > 10


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("page", PAGES)
def test_pages(page, own_folder, request):
    text = "".join(block.text for block in PAGES[page])
    names = prepare(stand_ins.PAGES[page], text, own_folder, request)
    for block in PAGES[page]:
        if block.not_run is not None:
            continue
        where = f"{page}, line {block.line}"
        if block.language == "python":
            code = re.sub("|".join(FEWER), lambda found: FEWER[found[0]], block.text)
            # as many lines above it as in the page, so that a traceback shows the right one
            exec(compile("\n" * (block.line - 1) + code, str(ROOT / page), "exec"), names)
        elif block.language == "toml":
            tomllib.loads(block.text)
            Path("run.toml").write_text(block.text, encoding="utf-8")
        else:
            assert block.language == "commands", f"{where}: no test knows the language {block.language!r}"
            for words in block.commands():
                check_command(words, where)


def test_few_blocks_are_not_run():
    """A block is left out by a comment before it, <!-- not run: the reason -->."""
    blocks = [block for page in PAGES.values() for block in page]
    assert len(blocks) > 30
    assert sum(block.not_run is not None for block in blocks) <= 2
    assert set(documentation_pages(".md")) < set(PAGES)


def check_command(words, where):
    """Let the parser of a command read it; run it where it is one of ours, complete and quick."""
    program, *argv = words
    line = f"{where}: {shlex.join(words)}"
    if program == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        targets = [word for word in argv if "=" not in word]
        assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets), line
    elif program == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        wanted = re.fullmatch(r"spca-tv(?:\[(.+)\])?", argv[-1])
        assert argv[0] == "install", line
        assert set((wanted[1] or "all").split(",")) <= set(extras), line
    elif program == "python":
        assert argv[0] == "-m", line
        assert importlib.import_module(f"{argv[1]}.__main__").parse(argv[2:])
    else:
        arguments = build_parser().parse_args(argv)
        if argv[0] not in NOT_RUN and not any(map(PLACEHOLDER.fullmatch, argv)):
            make_room(arguments)
            assert main([*argv, *FEWER_OPTIONS.get(argv[0], ())]) == 0, line


def make_room(arguments: argparse.Namespace):
    """Remove what an earlier command of the page has written to the same place."""
    if "model" in arguments:
        for page in arguments.model.glob("*_report.html"):
            page.unlink()
    else:  # a configuration may name the folder, too
        shutil.rmtree(getattr(arguments, "output", "results"), ignore_errors=True)


@pytest.mark.parametrize("file", EXAMPLES, ids=[file.name for file in EXAMPLES])
@pytest.mark.filterwarnings("error::UserWarning", "ignore:.*non-interactive:UserWarning")
def test_examples(file, capsys, monkeypatch):
    """A script prints some lines and draws figures."""
    import matplotlib.pyplot as plt

    for package in NEEDED.get(file.name, ()):
        pytest.importorskip(package, reason="the examples need all extras, which `make test` installs")
    plt.switch_backend("agg")
    monkeypatch.setattr(sys, "argv", [str(file)])
    try:
        runpy.run_path(str(file), run_name="__main__")
        assert plt.get_fignums()
    finally:
        plt.close("all")
    assert capsys.readouterr().out.count("\n") > 1


@pytest.mark.parametrize("file", EXAMPLES, ids=[file.name for file in EXAMPLES])
def test_examples_can_be_shown_in_a_gallery(file):
    """A title, cells with text between the code, a figure, and a sentence about it in the end."""
    text = file.read_text(encoding="utf-8")
    assert re.match(r'"""\n(.+)\n(=+)\n\n', text), "the title comes first"
    title, underline = text.splitlines()[1:3]
    assert len(title) == len(underline)
    cells = text.split("\n# %%\n")
    assert len(cells) > 3
    assert all(cell.startswith("# ") for cell in cells[1:])
    assert "plt.show()" in text
    assert text.rindex("\n# ") > text.rindex("plt.show()"), "the last figure is explained"
