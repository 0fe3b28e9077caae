"""A component that every feature varies with is named."""

import numpy as np
import pytest

from spcatv import SPCATV


def _global_data(n_features=60):
    """All features follow one signal, with some noise; shape (40, n_features)."""
    rng = np.random.default_rng(0)
    signal = np.outer(rng.standard_normal(40), rng.uniform(1, 2, n_features))
    return signal + 0.5 * rng.standard_normal((40, n_features)) + 4


def _one_region():
    """One strong region in noise: it dominates the row means, but the other features do not follow."""
    rng = np.random.default_rng(1)
    X = 0.5 * rng.standard_normal((40, 60))
    X[:, 20:35] += 3 * rng.standard_normal((40, 1))
    return X


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("given", [{"alpha": 0.01}, {"alpha": None, "smoothness": 0.1}])
def test_the_figures_are_those_of_scores_and_data(given, center):
    X = _global_data()
    model = SPCATV(2, structure=(60,), center=center, **given).fit(X)
    scores, centred = model.transform(X), X - model.mean_
    for k, record in enumerate(model.diagnostics_):
        covariance = centred.T @ scores[:, k]
        share = max((covariance > 0).mean(), (covariance < 0).mean())
        assert record.same_sign == pytest.approx(share)
        correlation = abs(np.corrcoef(scores[:, k], X.mean(axis=1))[0, 1])
        assert record.global_correlation == pytest.approx(correlation, abs=1e-9)


def test_a_global_component_is_named():
    model = SPCATV(2, structure=(60,), alpha=0.01).fit(_global_data())
    first, second = model.diagnostics_
    assert first.same_sign == 1
    assert first.global_correlation > 0.99
    assert first.global_remark(1) == (
        "Component 1 is global: 100 % of the features vary with it in the same direction, and its scores "
        f"follow the mean of each sample (r = {first.global_correlation:.2f}). "
        'global_signal="regress" removes this mean.'
    )
    assert not second.is_global
    assert second.global_remark(2) == ""


def test_nothing_is_global_after_the_regression():
    model = SPCATV(2, structure=(60,), alpha=0.01, global_signal="regress").fit(_global_data())
    assert max(record.global_correlation for record in model.diagnostics_) < 1e-8
    assert not any(record.is_global for record in model.diagnostics_)


def test_one_strong_region_is_not_global():
    model = SPCATV(1, structure=(60,), alpha=0.1).fit(_one_region())
    record = model.diagnostics_[0]
    assert (model.components_[0] >= 0).all()
    assert record.global_correlation > 0.95
    assert record.same_sign < 0.9
    assert not record.is_global


def test_an_empty_component_is_not_global():
    with pytest.warns(UserWarning, match="1 of 1 components are empty"):
        record = SPCATV(1, alpha=50).fit(_global_data()).diagnostics_[0]
    assert (record.same_sign, record.global_correlation, record.is_global) == (0, 0, False)


def test_the_sign_and_the_scale_of_the_data_do_not_matter():
    X = _global_data()
    first = SPCATV(1, alpha=0.01).fit(X).diagnostics_[0]
    other = SPCATV(1, alpha=0.01).fit(-1e3 * X).diagnostics_[0]
    assert other.same_sign == first.same_sign
    assert other.global_correlation == pytest.approx(first.global_correlation)


def test_verbose_reports_it(capsys):
    SPCATV(1, alpha=0.01, verbose=1).fit(_global_data())
    assert "[SPCATV] Component 1 is global: 100 %" in capsys.readouterr().out
    SPCATV(1, alpha=0.1, structure=(60,), verbose=1).fit(_one_region())
    assert "global" not in capsys.readouterr().out


def test_the_report_shows_it():
    report = pytest.importorskip("spcatv.report", reason="reports need the extra `report`")
    model = SPCATV(2, structure=(60,), alpha=0.01).fit(_global_data())
    page = str(report.generate_report(model))
    assert page.count("Component 1 is global: 100 % of the features") == 1
    assert "Component 2 is global" not in page
