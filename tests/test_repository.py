"""What people rely on: version, extras, a light import, the two commands, and a correct map of the code."""

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata, resources
from pathlib import Path
from types import SimpleNamespace

import pytest

import spcatv

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = {"bench", "images", "report", "dask", "xarray", "gpu12", "gpu13", "dev", "docs", "all"}
OPTIONAL = [
    "matplotlib",
    "nibabel",
    "nilearn",
    "dask",
    "distributed",
    "h5py",
    "zarr",
    "cupy",
    "xarray",
    "cvxpy",
    "pandas",
    "jinja2",
    "rich",
]


@pytest.fixture(scope="module")
def pyproject():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def project(pyproject):
    return pyproject["project"]


@pytest.fixture(scope="module")
def layers(pyproject):
    """Every import contract as a list of layers, highest first, each a list of top-level modules."""
    return [
        [re.findall(r"(?:spcatv\.)?(\w+)", layer) for layer in contract["layers"]]
        for contract in pyproject["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    ]


def modules(folder):
    """Top-level modules and packages in a folder."""
    found = {file.stem for file in folder.glob("*.py")}
    return found | {package.name for package in folder.iterdir() if list(package.glob("*.py"))}


def in_a_new_process(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def read(*names):
    return ROOT.joinpath(*names).read_text(encoding="utf-8")


def test_one_version_everywhere():
    version = spcatv.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert f"\nversion: {version}\n" in read("CITATION.cff")
    assert f'\n  version: "{version}"\n' in read("recipe", "recipe.yaml")
    assert json.loads(read("codemeta.json"))["version"] == version
    assert f"## [{version}]" in read("CHANGELOG.md")
    assert metadata.version("spca-tv") == version


def test_one_licence_and_the_same_authors_everywhere(project):
    (author,) = project["authors"]
    about, citation, recipe = (
        json.loads(read("codemeta.json")),
        read("CITATION.cff"),
        read("recipe", "recipe.yaml"),
    )
    assert f'\nauthors:\n  - name: "{author["name"]}"\n' in citation
    assert [each["name"] for each in about["author"]] == [author["name"]]
    assert f"\nlicense: {project['license']}\n" in citation
    assert f"\n  license: {project['license']}\n" in recipe
    assert about["license"] == f"https://spdx.org/licenses/{project['license']}"
    assert f"org.opencontainers.image.licenses {project['license']}\n" in read("apptainer.def")
    assert read("LICENSE").startswith("BSD 3-Clause License")
    assert about["description"] == project["description"]
    assert about["keywords"] == project["keywords"]


def test_the_recipe_asks_for_the_same_packages(project):
    recipe = read("recipe", "recipe.yaml")
    names = {
        "matplotlib": "matplotlib-base",
        "dask": "dask-core",
        "isal": "python-isal",
    }  # those of conda-forge
    extras = project["optional-dependencies"]
    for section, wanted in {
        "run": project["dependencies"],
        "run_constraints": [*extras["images"], *extras["report"], *extras["dask"], *extras["xarray"]],
    }.items():
        block = re.search(rf"^  {section}:\n((?:    .*\n)+)", recipe, re.MULTILINE)[1]
        found = [line for line in re.findall(r"- (\S+ \S+)", block) if "python " not in line]
        split = (re.fullmatch(r"([\w-]+)(.+)", each).groups() for each in wanted)
        assert found == [f"{names.get(name, name)} {bound}" for name, bound in split], section


def test_classifiers_are_versions_that_are_tested(project):
    versions = [line.rpartition(" ")[2] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)]
    tested = re.search(r"python: \[(.*)\]", read(".github", "workflows", "tests.yml"))[1]
    assert set(versions) <= set(re.findall(r"[\d.]+", tested))
    assert project["requires-python"] == f">={versions[0]}"
    assert f'python_min: "{versions[0]}"' in read("recipe", "recipe.yaml")


def test_actions_are_pinned_and_may_do_little():
    for file in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = file.read_text(encoding="utf-8")
        for action in re.findall(r"uses: (.*)", text):
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}  # v[\d.]+", action), f"{file.name}: {action}"
        assert "\npermissions:\n  contents: read\n" in text, file.name
        assert re.findall(r"(\w[\w-]*): write", text) == ["id-token"] * (file.name == "release.yml"), (
            file.name
        )
        for target in re.findall(r"run: make ([\w-]+)", text):
            assert re.search(rf"^{target}:", read("Makefile"), re.MULTILINE), target


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


def test_import_prints_nothing_and_keeps_the_global_seed():
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


@pytest.fixture
def description(monkeypatch):
    """What hatchling is told to put on PyPI."""
    interface = SimpleNamespace(MetadataHookInterface=object)  # hatchling is there during a build only
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", interface)
    names = {}
    exec(compile(read("hatch_build.py"), "hatch_build.py", "exec"), names)
    hook, project = names["Readme"](), {}
    hook.root = str(ROOT)
    hook.update(project)
    return project["readme"]["text"]


def test_the_description_on_pypi_has_no_relative_link(description, project):
    assert {"version", "readme"} == set(project["dynamic"])
    target = r"""(\]\(|^\[.*\]:\s*|(src|href)\s*=\s*["']?)(?!https?://)"""
    assert not re.search(target, description, re.MULTILINE)
    assert "**Start here** (`docs/start.md`)" in description
    assert "see LICENSE." in description
    assert "(https://doi.org/" in description
    assert "Random halves of the" not in description  # the caption of a picture that is not there
    assert "in the source distribution" in description
    assert description.count("\n## ") == read("README.md").count("\n## ")


def test_containers_have_what_the_build_reads():
    for name in ("Dockerfile", ".dockerignore", "apptainer.def"):
        for needed in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "src"):
            assert needed in read(name), f"{name}: {needed}"


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


def test_the_import_contract_is_small_and_names_every_module(layers):
    whole = [name for layer in layers[0] for name in layer]
    assert len(layers[0]) <= 10
    assert sorted(whole) == sorted(modules(ROOT / "src" / "spcatv") - {"__init__"})


def test_the_layout_in_contributing_is_the_import_contract(layers):
    """Every module stands in the table once, below everything that it may import."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = re.search(r"^## Layout$(.*?)^## ", text, re.MULTILINE | re.DOTALL)[1]
    first_cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    table = [name for cell in first_cells for name in re.findall(r"`(\w+)/?`", cell)]
    assert sorted(table) == sorted(name for layer in layers[0] for name in layer)
    for contract in layers:
        heights = {name: height for height, layer in enumerate(reversed(contract)) for name in layer}
        found = [heights[name] for name in table if name in heights]
        assert found == sorted(found), "an import points up the table"


def test_tests_mirror_the_package():
    folders = {file.parent.name for file in (ROOT / "tests").glob("*/test_*.py")}
    packages = {file.parent.name for file in (ROOT / "src" / "spcatv").glob("*/__init__.py")}
    assert folders - {"benchmarks", "gpu", "fuzz", "surprises"} <= packages
    assert packages - {"_util"} <= folders
