"""Every public name has a docstring in the style of numpydoc, with an example that runs.

`tests/test_documentation.py` runs the examples; this file knows which names are public.
"""

import ast
import collections
import enum
import functools
import importlib.util
import inspect
import re
import types
from pathlib import Path

import pytest

for package in ("nibabel", "nilearn", "matplotlib", "jinja2", "xarray"):
    pytest.importorskip(
        package, reason="the public names include those of all extras, which `make test` installs"
    )

ROOT = Path(__file__).resolve().parents[1]
# Everything in `__all__` of these modules (without `__all__`, everything that they define) ...
WHOLE = (
    *("spcatv", "spcatv.structure", "spcatv.problem", "spcatv.problem.composite", "spcatv.solvers"),
    *("spcatv.selection", "spcatv.stability", "spcatv.significance", "spcatv.metrics", "spcatv.datasets"),
    *("spcatv.testing", "spcatv.images", "spcatv.report", "spcatv.estimator", "spcatv.xarray"),
)
# ... and some of what these offer to the rest of the package.
PARTS = {
    "spcatv.data": ("BlockedData", "ChunkWarning", "Data", "as_data", "checked_memory_limit"),
    "spcatv.model": ("ModelError", "SavedModel", "file_sha256", "read_model"),
    "spcatv.progress": ("Listener", "listening"),
    "spcatv.results": ("Results", "ResultsError", "read_results"),
}
# Classes to derive from: `spcatv.testing` and CONTRIBUTING.md show authors what their methods are for.
FOR_AUTHORS = (
    *("BallPenalty", "BlockedData", "CompositeProblem", "Data", "GraphNet", "HuberTV", "ProxPenalty"),
    *("RegularizedLoss", "SmoothLoss", "Space", "StructuredPenalty", "TotalVariation"),
)
SECTIONS = (
    *("Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns", "See Also", "Notes"),
    *("References", "Examples"),
)


def public_objects():
    """All public functions and classes by their names; constants have no docstrings."""
    names = {module: getattr(importlib.import_module(module), "__all__", None) for module in WHOLE} | PARTS
    found = {}
    for module, listed in names.items():
        members = vars(importlib.import_module(module))
        here = [name for name, member in members.items() if getattr(member, "__module__", None) == module]
        for name in here if listed is None else listed:
            member = getattr(importlib.import_module(module), name)
            if not name.startswith("_") and isinstance(member, type | types.FunctionType):
                found.setdefault(member, f"{module}.{name}")
    return {name: member for member, name in found.items()}


PUBLIC = public_objects()


def public_members(cls):
    """Public methods and properties that a class has from public classes and mixins, by their names."""
    for owner in cls.__mro__:
        if owner in PUBLIC.values() or owner.__name__ in ("ComponentsMixin", "ModelFolderMixin"):
            for name, member in vars(owner).items():
                if name.startswith("_"):
                    continue
                if isinstance(member, property | functools.cached_property):
                    yield name, member
                elif isinstance(member, classmethod | staticmethod | types.FunctionType):
                    yield name, getattr(member, "__func__", member)


def example_lines(docstring):
    return "\n".join(
        line for line in (docstring or "").splitlines() if line.lstrip().startswith((">>>", "..."))
    )


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_an_example(name):
    doc = inspect.getdoc(PUBLIC[name])
    assert doc, "no docstring"
    assert example_lines(doc), "the docstring has no example"
    assert "\nExamples\n--------\n" in doc


CLASSES = [name for name, member in PUBLIC.items() if isinstance(member, type)]


@pytest.mark.parametrize("name", CLASSES)
def test_public_members_have_examples(name):
    """In their own docstrings or in that of the class, here or in a class that it derives from."""
    cls = PUBLIC[name]
    docs = {}
    for member, function in public_members(cls):
        docs.setdefault(member, []).append(function.__doc__ or "")
    assert all(any(texts) for texts in docs.values())
    if cls.__name__ in FOR_AUTHORS or issubclass(cls, enum.Enum | BaseException):
        return
    shown = "\n".join(example_lines(owner.__doc__) for owner in cls.__mro__ if owner in PUBLIC.values())
    missing = [
        member
        for member, texts in docs.items()
        if not any(map(example_lines, texts)) and not re.search(rf"(\.|def ){member}\b", shown)
    ]
    assert not missing


@pytest.mark.parametrize("name", PUBLIC)
def test_sections_are_those_of_numpydoc(name):
    """Known sections in the usual order; every parameter is described."""
    member = PUBLIC[name]
    documented = [(member, inspect.getdoc(member) or "")]
    if isinstance(member, type):
        documented += [
            (function, inspect.cleandoc(function.__doc__ or "")) for _, function in public_members(member)
        ]
    for function, doc in documented:
        titles = re.findall(r"^(\S.*)\n-{3,}$", doc, re.MULTILINE)
        assert set(titles) <= set(SECTIONS), doc
        assert titles == sorted(titles, key=SECTIONS.index), doc
        if "Parameters" in titles and isinstance(function, types.FunctionType):
            wanted = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
            assert parameter_names(doc) == wanted, doc


def parameter_names(doc):
    """The parameters that a docstring describes, in order."""
    body = doc.split("Parameters\n----------\n")[1]
    body = re.split(r"\n\n[A-Z].*\n-{3,}\n", body)[0]
    names = [line.split(" : ")[0] for line in body.splitlines() if line and not line.startswith(" ")]
    return [name.strip().lstrip("*") for line in names for name in line.split(",")]


def test_the_reference_lists_every_public_name_and_no_other():
    text = (ROOT / "docs" / "api.rst").read_text(encoding="utf-8")
    listed = [_found(name) for name in re.findall(r"^   (spcatv\.[\w.]+)$", text, re.MULTILINE)]
    assert len(listed) == len(set(listed)), "no name twice"
    assert set(listed) == set(PUBLIC.values())


def _found(name):
    module, _, member = name.rpartition(".")
    return getattr(importlib.import_module(module), member)


def test_no_two_modules_define_classes_of_one_name():
    places = collections.defaultdict(list)
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(file.name)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
