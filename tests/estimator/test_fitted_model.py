"""What a fitted model shows of itself: verdicts, summary, pictures in a notebook, types."""

import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_validate

from spcatv import SPCATV, SPCATVCV
from spcatv.datasets import make_dots
from spcatv.estimator.verdicts import verdict_lines
from spcatv.stability import split_halves
from spcatv.structure.regions import connected_regions

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def dots():
    return make_dots(n_samples=40, size=14, snr=2.0, random_state=0)


@pytest.fixture
def model(dots):
    return SPCATV(2, structure=dots.shape, sparsity=0.8).fit(dots.X)


def table(html):
    """The cells of the table of components in an HTML representation, row by row."""
    rows = html.split("<tbody>")[-1].split("</tbody>")[0].split("</tr>")[:-1]
    return [row.removeprefix("<tr><td>").removesuffix("</td>").split("</td><td>") for row in rows]


def test_checked_verdicts_are_kept_and_shown(dots, model, tmp_path):
    before = repr(model)
    assert model.reproducibility_ is None
    assert model.check_stability(dots.X, n_splits=2, groups=np.arange(40) // 2) is model
    halves = split_halves(model, dots.X, n_splits=2, groups=np.arange(40) // 2, random_state=0)
    assert model.reproducibility_ == halves.reproducibility
    assert repr(model).splitlines() == [before, *verdict_lines(halves.reproducibility)]
    assert SPCATV.load(model.save(tmp_path / "model")).reproducibility_ == model.reproducibility_
    assert model.fit(dots.X).reproducibility_ is None


def test_report_shows_the_verdicts(dots, model):
    pytest.importorskip("matplotlib")
    assert "Stability not checked" in model.generate_report().html
    html = model.check_stability(dots.X, n_splits=2).generate_report().html
    assert "Stability not checked" not in html
    assert all(record.sentence in html for record in model.reproducibility_)


def test_summary(dots, model):
    pytest.importorskip("pandas")
    found = model.summary()
    assert found.index.tolist() == [1, 2]
    assert found["variance"].tolist() == model.explained_variance_ratio_.tolist()
    assert found["zeros"].tolist() == [np.mean(row == 0) for row in model.components_]
    assert found["regions"].tolist() == [
        len(connected_regions(model.structure_, row)) for row in model.components_
    ]
    assert found["relative_gap"].tolist() == [record.relative_gap for record in model.diagnostics_]
    assert set(found["pattern"]) == {"not checked"}
    model.check_stability(dots.X, n_splits=2)
    found = model.summary()
    assert found["pattern"].tolist() == [record.verdict for record in model.reproducibility_]
    assert found["outline"].tolist() == [record.outline for record in model.reproducibility_]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_summary_of_empty_components_and_of_features_without_neighbours():
    pytest.importorskip("pandas")
    X = np.outer(np.arange(6.0), [1.0, 2.0, 0.0, 0.0])
    found = SPCATV(2, sparsity=0.5).fit(X).summary()
    assert found["pattern"].tolist() == ["not checked", "empty"]
    assert np.isnan(found["relative_gap"].iloc[1])
    assert found["regions"].isna().all()


def test_summary_without_pandas(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        model.summary()


@pytest.mark.parametrize("method", ["summary", "plot_components"])
def test_nothing_is_shown_before_a_fit(method):
    if method == "plot_components":
        pytest.importorskip("matplotlib")
    with pytest.raises(NotFittedError):
        getattr(SPCATV(), method)()
    assert "<tbody>" not in SPCATV()._repr_mimebundle_()["text/html"].split("</script>")[-1]


def test_notebooks_show_a_picture_of_every_component(model, monkeypatch):
    pytest.importorskip("matplotlib")
    rows = table(model._repr_mimebundle_()["text/html"])
    assert [row[0] for row in rows] == ["1", "2"]
    assert all(row[1].startswith('<img src="data:image/png;base64,') for row in rows)
    assert {row[6] for row in rows} == {"not checked"}
    monkeypatch.setitem(sys.modules, "spcatv.report", None)  # without the extra
    rows = table(model._repr_mimebundle_()["text/html"])
    assert [row[1] for row in rows] == ["", ""]


def test_diagnostics_are_short(model):
    assert len(repr(model.diagnostics_)) < 300


def test_data_of_another_size_are_refused():
    X = np.random.default_rng(0).standard_normal((20, 12))
    model = SPCATV(1).fit(X)
    with pytest.raises(ValueError, match="9 features, but the model was fitted to 12"):
        model.check_stability(X[:, :9])


def test_halves_of_a_search_are_adjusted_as_its_fits(dots):
    age = np.linspace(0, 1, 40)[:, None]
    X = dots.X + 3 * age
    search = SPCATVCV(1, structure=dots.shape, sparsity=[0.8, 0.9], smoothness=1.0, standardize=True, cv=2)
    search.fit(X, groups=np.arange(40) // 2, confounds=age)
    with pytest.raises(ValueError, match="confounds"):
        search.check_stability(X)
    own = {"groups": np.arange(40) // 2, "standardize": True, "confounds": age}
    halves = split_halves(search.best_estimator_, X, n_splits=2, random_state=0, **own)
    search.check_stability(X, n_splits=2, confounds=age)
    assert search.best_estimator_.reproducibility_ == halves.reproducibility


def warned(work):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    return [warning for warning in caught if warning.category is ConvergenceWarning]


def test_a_search_of_scikit_learn_warns_once(dots):
    never = SPCATV(1, structure=dots.shape, max_iter=1, tol=1e-12)
    grid = {"sparsity": [0.7, 0.8, 0.9]}
    (warning,) = warned(lambda: GridSearchCV(never, grid, cv=2).fit(dots.X))
    assert warning.filename == __file__
    # no fit of all samples follows here
    assert len(warned(lambda: cross_validate(never, dots.X, cv=2))) == 2


@pytest.mark.slow  # mypy reads the whole package
def test_types_of_a_users_script(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api")
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import numpy as np
            from spcatv import SPCATV, ImageSPCATV

            X = np.zeros((3, 4))
            model = SPCATV(2).fit(X)
            reveal_type(model)
            reveal_type(model.components_)
            reveal_type(model.fit_transform(X))
            reveal_type(model.diagnostics_)
            reveal_type(ImageSPCATV(2).fit("*.nii").components_)
            """
        )
    )
    monkeypatch.setenv("MYPYPATH", str(ROOT / "src"))
    # with the options of the whole package, so that its cache is used
    options = [f"--config-file={ROOT / 'pyproject.toml'}", f"--cache-dir={ROOT / '.mypy_cache'}"]
    found, _, _ = api.run([*options, str(script)])
    revealed = [line.split('"')[1] for line in found.splitlines() if "Revealed" in line]
    assert [text.split("[")[0].rsplit(".", 1)[1] for text in revealed[:3]] == ["SPCATV", "ndarray", "ndarray"]
    assert "ComponentDiagnostics" in revealed[3]
    assert "ndarray" in revealed[4]
