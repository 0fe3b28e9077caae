"""What a stranger relies on: version, extras, a light import, the two commands."""

import re
import subprocess
import sys
import tomllib
from importlib import metadata, resources
from pathlib import Path

import pytest

import spcatv

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = {"bench", "images", "report", "dask", "gpu", "dev", "all"}
OPTIONAL = [
    "matplotlib",
    "nibabel",
    "nilearn",
    "dask",
    "distributed",
    "cupy",
    "cvxpy",
    "pandas",
    "jinja2",
    "rich",
]


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def in_a_new_process(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.split()


def test_one_version_everywhere():
    assert re.fullmatch(r"\d+\.\d+\.\d+", spcatv.__version__)
    assert f"\nversion: {spcatv.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## [{spcatv.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert metadata.version("spca-tv") == spcatv.__version__


def test_extras(project):
    assert set(project["optional-dependencies"]) == EXTRAS
    plain = " ".join(project["dependencies"])
    assert not [name for name in OPTIONAL if name in plain]


def test_types_are_shipped():
    assert resources.files("spcatv").joinpath("py.typed").is_file()


def test_import_brings_no_extra():
    """An extra that is installed must stay asleep until it is needed."""
    code = (
        # scikit-learn takes pandas and rich along where they are installed; that is not our doing
        "import sys, sklearn.base, importlib.util as util;"
        "util.find_spec('sklearn.callback') and __import__('sklearn.callback');"
        "before = set(sys.modules); import spcatv, spcatv.cli;"
        f"print(*[name for name in {OPTIONAL!r} if name in set(sys.modules) - before])"
    )
    assert in_a_new_process(code) == []


def test_import_says_nothing_and_keeps_the_global_seed():
    code = (
        "import numpy as np; np.random.seed(5); before = np.random.get_state()[1].copy();"
        "import spcatv; print((before == np.random.get_state()[1]).all())"
    )
    assert in_a_new_process(code) == ["True"]


def test_public_names():
    assert set(spcatv.__all__) >= {"SPCATV", "__version__"}
    assert all(hasattr(spcatv, name) for name in spcatv.__all__)


def test_readme_shows_the_two_commands_and_the_picture():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text
    images = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert images, "the README opens with a picture that has an alternative text"
    for image in images:
        assert (ROOT / image).is_file()


def test_readme_links_lead_somewhere():
    for name in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for target in re.findall(r"(?<!!)\[[^\]]+\]\((?!https?://|#)([^)#]+)", text):
            assert (ROOT / target).exists(), f"{name} points to {target}"


def test_readme_example_runs(capsys):
    """The first Python block of the README is complete: it runs as it stands."""
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    names = {}
    exec(compile(block.group(1), "README.md", "exec"), names)
    assert names["model"].components_.shape == (3, 10_000)


def test_makefile_has_its_targets_and_ci_calls_them():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "test", "test-all", "lint", "bench", "clean", "help"):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    ci = ROOT / ".ci" / "run"
    assert ci.stat().st_mode & 0o111, "executable"
    assert {"make lint", "make test"} <= set(ci.read_text(encoding="utf-8").splitlines())
