"""Models with one alpha per component, and searched models: their certificates, weights and code."""

import numpy as np
import pytest

from spcatv import SPCATV
from spcatv.problem import LoadingProblem
from spcatv.report import formatting, generate_report
from spcatv.report.component import share_above_optimum
from spcatv.report.inputs import gather
from spcatv.selection import SPCATVCV
from spcatv.solvers import solve

ALPHAS = (0.05, 0.3)


@pytest.fixture(scope="module")
def model(line):
    """Rising alphas: the weights of the first component are far too small for the second one."""
    return SPCATV(2, structure=(60,), tol=1e-2, alpha=ALPHAS).fit(line.X)


def text_of(html):
    return html.replace("\u00a0", " ")


def test_weights_are_those_of_a_fit_with_this_alpha(model, line):
    for k, alpha in enumerate(ALPHAS):
        alone = SPCATV(1, structure=(60,), alpha=alpha).fit(line.X)
        for name in ("l1_", "l2_", "tv_"):
            assert getattr(model, name)[k] == pytest.approx(getattr(alone, name), rel=1e-5)


def test_certificate_is_that_of_its_own_problem(model, line):
    """The bound on the page holds for the best loading for the same scores, and is not too small."""
    html = text_of(generate_report(model).html)
    residual = line.X.astype(float) - line.X.astype(float).mean(axis=0)
    for k in range(2):
        l1, l2, tv = (weight[k] for weight in (model.l1_, model.l2_, model.tv_))
        record = model.diagnostics_[k]
        claimed = share_above_optimum(record, l2)
        assert claimed == pytest.approx(l2 * record.gap / abs(record.objective))
        assert f"within {formatting.percent(claimed, 2)} of the optimum".replace("\u00a0", " ") in html
        component = model.components_[k].astype(float)
        scores = residual @ component
        y = residual.T @ (scores / np.linalg.norm(scores)) / (len(residual) * l2)
        problem = LoadingProblem(y, model.structure_, l1=l1 / l2, tv=tv / l2)
        best = l2 * (solve(problem, tol=1e-10).value - problem.scale())
        assert record.objective - best <= claimed * abs(best) * (1 + 1e-4) + 1e-9
        residual -= np.outer(scores, component)


def test_every_alpha_is_reported(model, tmp_path):
    html = text_of(generate_report(model).html)
    weights = ", ".join(f"{weight:.6g}" for weight in model.l2_)
    assert "Weights used (one per component)" in html
    assert f"l2 {weights};" in html
    assert '<th scope="row" class="text">alpha</th><td class="text">0.05, 0.3</td>' in html
    model.save(tmp_path / "model")
    assert text_of(generate_report(tmp_path / "model").html) == html


def test_the_code_to_repeat_it_repeats_it(model, line):
    html = generate_report(model).html
    code = html.partition('<pre id="repeat">')[2].partition("</pre>")[0]
    assert "alpha=(0.05, 0.3)" in code
    names = {"X": line.X}
    *imports, call = code.replace(".fit(...)", ".fit(X)").splitlines()
    exec("\n".join(imports), names)
    again = eval(call, names)
    assert again.components_ == pytest.approx(model.components_, abs=1e-12)


def test_a_search_has_a_report_of_its_own_with_its_call(line):
    search = SPCATVCV(2, structure=(60,), alpha=[0.1, 0.3], l1_ratio=0.2, tv_ratio=[0.5], cv=3, rule="one_se")
    search.fit(line.X)
    html = search.generate_report(title="Searched", data=line.X).html
    assert "<h1>Searched</h1>" in html
    code = html.partition('<pre id="repeat">')[2].partition("</pre>")[0]
    assert "from spcatv import SPCATVCV" in code
    for given in ("alpha=[0.1, 0.3]", "l1_ratio=0.2", "tv_ratio=[0.5]", "cv=3", "structure=(60,)"):
        assert given in code
    assert "The rule “one_se” takes the sparsest setting" in html


def test_scores_of_a_search_are_those_of_the_samples_that_it_adjusts():
    rng = np.random.default_rng(0)
    X, confounds = rng.standard_normal((40, 60)) * np.linspace(1, 20, 60), rng.standard_normal((40, 1))
    search = SPCATVCV(2, structure=(60,), sparsity=[0.5], smoothness=[0.5], standardize=True, cv=2)
    search.fit(X, confounds=confounds)
    found = gather(search, data=X, confounds=confounds)
    np.testing.assert_allclose(found.scores.values, search.transform(X, confounds))
    assert (found.variance.ceiling >= found.variance.cumulative).all()


def test_an_unfitted_search_reports_it():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        SPCATVCV(2).generate_report()


def test_a_search_over_sparsity_gives_the_reason(line):
    search = SPCATVCV(2, structure=(60,), sparsity=(0.6, 0.8), smoothness=(0.1, 0.5), cv=2).fit(line.X)
    html = text_of(generate_report(search).html)
    assert f"Why: {search.choice_reason_}." in html
    assert "against their held-out error" in html


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_search_over_sparsity_reports_its_settings(line):
    search = SPCATVCV(2, structure=(60,), sparsity=(0.5, 0.65), smoothness=(0.25,), cv=2).fit(line.X)
    html = text_of(generate_report(search).html)
    for title in ("sparsity", "smoothness"):
        assert f'<th scope="col">{title}</th>' in html
    for value in (0.5, 0.65, 0.25):
        assert f"<td>{value:.4g}</td>" in html
    assert "param_alpha" not in search.cv_results_
