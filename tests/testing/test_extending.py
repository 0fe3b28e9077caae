"""A new part of any kind touches at most two files of the package.

The patches below are applied in a process of its own, which then runs the public check of every part.
"""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import spcatv

PACKAGE = Path(spcatv.__file__).parent
TESTS = Path(__file__).resolve().parents[1]
# file of the package: its text, or a line and what stands there after the patch
Patch = dict[str, str | tuple[str, str]]


def shown(path: str, begin: str, end: str) -> str:
    """Code of a test file that docs/extending.md includes."""
    text = (TESTS / path).read_text(encoding="utf-8")
    return text[text.index(begin) : text.index(end)]


def own_part(name: str, imports: str) -> str:
    """Code between the marks of a part in `test_own_parts`, without its test, as a module."""
    code = shown("testing/test_own_parts.py", f"# {name}: begin", f"# {name}: end")
    return f"import numpy as np\n{imports}\n{code[: code.index('def test_')]}"


def structure() -> tuple[Patch, str]:
    imports = "import scipy.sparse as sp\nfrom dataclasses import dataclass\n"
    line = "from spcatv.structure.mesh import icosphere, mesh\n"
    patch: Patch = {
        "structure/tree.py": own_part("structure", imports + "from spcatv.structure.base import Structure"),
        "structure/__init__.py": (line, line + "from spcatv.structure.tree import tree\n"),
    }
    return (
        patch,
        """
        from spcatv.structure import tree
        spcatv.testing.check_structure(tree([-1, 0, 0, 1]))
        assert spcatv.SPCATV(1, structure=tree([-1, *range(19)])).fit(X).components_.any()
    """,
    )


def penalty() -> tuple[Patch, str]:
    new = '''
    @dataclass(frozen=True)
    class SoftTV(BallPenalty):
        """Total variation that is quadratic below 1/2."""

        ball = DualBall(0.5, 1.0)


    '''
    tables = "# A value of the parameter `penalty`"
    classes = "(TotalVariation, GraphNet, HuberTV)"
    names = 'PENALTIES = {\n    "tv"'
    source = (PACKAGE / "problem/penalties.py").read_text(encoding="utf-8")
    whole = source.replace(tables, textwrap.dedent(new).lstrip() + tables).replace(
        classes, "(TotalVariation, GraphNet, HuberTV, SoftTV)"
    )
    patch: Patch = {
        "problem/penalties.py": whole,
        "_util/parameters.py": (
            names,
            'PENALTIES = {\n    "soft": ("SoftTV", "soft total variation"),\n    "tv"',
        ),
    }
    return (
        patch,
        """
        from spcatv.problem import as_penalty
        spcatv.testing.check_penalty("soft", structure=spcatv.structure.grid((2, 3)))
        model = spcatv.SPCATV(1, structure=(4, 5), penalty="soft").fit(X)
        assert spcatv.SPCATV.load(model.save(folder / "soft")).penalty == "soft"
        assert "soft" in help_of("fit")
    """,
    )


def solver() -> tuple[Patch, str]:
    imports = "from spcatv.solvers.api import Monitor, Solution"
    patch: Patch = {
        "solvers/ascent.py": own_part("solver", imports),
        "_util/parameters.py": (
            "SOLVERS = {\n",
            'SOLVERS = {\n    "ascent": ("ascent", "plain_dual_ascent"),\n',
        ),
    }
    return (
        patch,
        """
        spcatv.testing.check_solver("ascent")
        assert spcatv.SPCATV(1, structure=(4, 5), solver="ascent", tol=1e-3).fit(X).components_.any()
        assert "ascent" in help_of("fit")
    """,
    )


def data() -> tuple[Patch, str]:
    imports = "from spcatv.data.blocks import BlockedData\nfrom spcatv.data.protocol import row_blocks"
    line = "    if not all(hasattr(X, name) for name in"
    patch: Patch = {
        "data/parts.py": own_part("data", imports),
        "data/__init__.py": (
            line,
            "    if isinstance(X, list) and all(np.ndim(part) == 2 for part in X):\n"
            "        from spcatv.data.parts import Parts\n\n"
            "        return Parts(X)\n" + line,
        ),
    }
    return (
        patch,
        """
        spcatv.testing.check_data(lambda X: np.array_split(X, 3) if len(X) > 3 else [X])
        assert spcatv.SPCATV(1, structure=(4, 5)).fit([X[:5], X[5:]]).components_.any()
    """,
    )


def image_format() -> tuple[Patch, str]:
    pytest.importorskip("nilearn")
    whole = shown("images/test_image_formats.py", "from dataclasses", "@pytest.fixture")
    tests_alone = ("import pytest", "pytest.", "from spcatv import", "from spcatv.images import")
    code = "".join(line for line in whole.splitlines(True) if not line.startswith(tests_alone))
    patch: Patch = {
        "images/spaces/numbers.py": code,
        "images/spaces/__init__.py": (
            "SPACES: tuple[type[Space], ...] = (",
            "from spcatv.images.spaces.numbers import TextSpace\n\n"
            "SPACES: tuple[type[Space], ...] = (TextSpace, ",
        ),
    }
    return (
        patch,
        """
        images = [folder / f"{number}.numbers" for number in range(4)]
        for number, image in enumerate(images):
            np.savetxt(image, X[:3, :].reshape(1, -1) + number)
        model = spcatv.ImageSPCATV(1).fit(images)
        assert model.space_.kind == "text"
        assert spcatv.ImageSPCATV.load(model.save(folder / "of_images")).space_.kind == "text"
    """,
    )


def option() -> tuple[Patch, str]:
    written = 'add("-o --output TSV", path, "file for the scores")\n'
    patch: Patch = {
        "cli/app.py": (written, written + '    add("--digits N", integer(), "decimals of the scores", 6)\n'),
        "cli/transform.py": (
            "mixing_table(names, scores, coordinates)",
            "mixing_table(names, scores.round(options.digits), coordinates)",
        ),
    }
    return (
        patch,
        """
        np.save(folder / "X.npy", X)
        model = str(spcatv.SPCATV(1, structure=(4, 5)).fit(X).save(folder / "model"))
        words = ["transform", model, "--array", str(folder / "X.npy"), "--output", str(folder / "scores.tsv")]
        assert main([*words, "--digits", "1"]) == 0
        rows = [line.split() for line in (folder / "scores.tsv").read_text().splitlines()[1:]]
        assert len(rows) == 10
        assert all(len(row[-1].partition(".")[2]) <= 1 for row in rows)
    """,
    )


PARTS = (structure, penalty, solver, data, image_format, option)
RUN = """
import importlib.abc, importlib.util, io, json, sys, warnings
from contextlib import redirect_stdout, suppress
from pathlib import Path

root, changed, folder = sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3])

class Patched(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        for file in changed:
            module = "spcatv." + file.removesuffix(".py").replace("/", ".")
            is_package = module.endswith(".__init__")
            if name == module.removesuffix(".__init__"):
                where = [str(Path(root, file).parent)] if is_package else None
                return importlib.util.spec_from_file_location(
                    name, folder / file, submodule_search_locations=where
                )

sys.meta_path.insert(0, Patched())
import numpy as np
import spcatv, spcatv.testing
from spcatv.cli import main

def help_of(command):
    found = io.StringIO()
    with redirect_stdout(found), suppress(SystemExit):
        main([command, "--help-all"])
    return found.getvalue()

warnings.simplefilter("ignore")
X = np.random.default_rng(0).standard_normal((10, 20))
X[:, 4:9] += 3 * np.random.default_rng(1).standard_normal((10, 1))
"""


def test_a_new_part_touches_at_most_two_files(tmp_path):
    texts: dict[str, str] = {}
    program = RUN
    for part in PARTS:
        patch, code = part()
        assert len(patch) <= 2
        program += textwrap.dedent(code)
        for name, change in patch.items():
            if isinstance(change, tuple):
                before = texts.get(name) or (PACKAGE / name).read_text(encoding="utf-8")
                assert before.count(change[0]) == 1
                texts[name] = before.replace(*change)
            else:
                texts[name] = change
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-c", program, str(PACKAGE), json.dumps(list(texts)), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
