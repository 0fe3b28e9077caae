"""The logic of `make licences`."""

import importlib.util
from email.message import Message
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "tools" / "licences.py"
if not SCRIPT.is_file():
    pytest.skip("a source distribution has no tools", allow_module_level=True)
spec = importlib.util.spec_from_file_location("licences", SCRIPT)
licences = importlib.util.module_from_spec(spec)
spec.loader.exec_module(licences)


class Package:
    """Stands in for an installed package."""

    version = "1.0"

    def __init__(self, *requires, **fields):
        self.requires = requires
        self.metadata = Message()
        for name, value in fields.items():
            self.metadata[name.replace("_", "-")] = value


@pytest.mark.parametrize(
    ("text", "copyleft"),
    [
        ("BSD-3-Clause", False),
        ("GPL-3.0-or-later", True),
        ("LGPL-2.1-only", True),
        ("GNU Affero General Public License v3", True),
        ("MIT AND LGPL-3.0-only", True),
        ("MIT OR GPL-2.0-only", False),
        ("BSD-3-Clause AND GPL-3.0-or-later WITH GCC-exception-3.1", False),
        ("Mozilla Public License 2.0 (MPL 2.0)", False),
    ],
)
def test_copyleft(text, copyleft):
    assert licences.is_copyleft(text) == copyleft


def test_an_expression_counts_more_than_classifiers_and_these_more_than_text():
    classifier = "License :: OSI Approved :: MIT License"
    assert licences.licence(Package(License_Expression="0BSD", Classifier=classifier)) == "0BSD"
    assert licences.licence(Package(License="long text about GPL", Classifier=classifier)) == "MIT License"
    assert licences.licence(Package(License="BSD\nmore")) == "BSD"
    assert licences.licence(Package()) == "unknown"


def test_packages_of_packages_are_found_and_a_copyleft_one_is_refused(monkeypatch, capsys):
    packages = {
        "spca-tv": Package("numpy>=2", "dask[array]>=1; extra == 'dask'", "black; extra == 'dev'"),
        "numpy": Package(License="BSD"),
        "dask": Package("Tool_Z; python_version > '3'", "zict; extra == 'array'", "other; extra == 'x'"),
        "Tool_Z": Package("numpy", License="MIT"),
        "zict": Package("dask", License="BSD"),
        "black": Package(License="GPL-3.0-only"),
        "other": Package(License="LGPL"),
    }  # fmt: skip

    def distribution(name):
        if name not in packages:
            raise licences.PackageNotFoundError(name)
        return packages[name]

    monkeypatch.setattr(licences, "distribution", distribution)
    assert sorted(licences.installed("spca-tv", "")) == ["numpy"]
    assert sorted(licences.installed("spca-tv", "dask")) == ["dask", "numpy", "tool-z", "zict"]
    assert licences.main() == 0
    assert "black" in capsys.readouterr().out
    packages["Tool_Z"] = Package(License="LGPL-3.0-only")
    assert licences.main() == 1
    assert "tool-z 1.0: LGPL-3.0-only" in capsys.readouterr().err
