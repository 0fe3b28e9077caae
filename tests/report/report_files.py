"""Small data and the files that may lie beside a model."""

import json
from pathlib import Path

import numpy as np
import pytest

ARTEFACTS = Path(__file__).parents[1] / "artefacts"  # pictures of pages for people; git ignores it
AXE = ARTEFACTS / "package" / "axe.min.js"
needs_axe = pytest.mark.skipif(
    not AXE.is_file(), reason="axe-core is not here: `make axe` gets it from the npm registry"
)
N_SAMPLES = 24


def blobs(places, sizes=(3.0, 2.0), n_samples=N_SAMPLES, seed=0):
    """Regions of neighbours with scores of their own, on noise; shape (n_samples, n_places)."""
    rng = np.random.default_rng(seed)
    X = 5 + 0.3 * rng.standard_normal((n_samples, len(places)))
    for number, size in enumerate(sizes):
        centre = places[(2 * number + 1) * len(places) // (2 * len(sizes))]
        near = np.linalg.norm(places - centre, axis=1)
        region = near < np.sort(near)[len(places) // (14 * (number + 1))]
        X[:, region] += size * rng.standard_normal((n_samples, 1))
    return X.astype(np.float32)


def write_mixing(folder, names, scores):
    """The table of scores, as `spca-tv fit` writes it."""
    columns = ["input", *(f"component_{k + 1}" for k in range(scores.shape[1]))]
    rows = [
        "\t".join([name, *(repr(float(value)) for value in row)])
        for name, row in zip(names, scores, strict=True)
    ]
    (folder / "desc-SPCATV_mixing.tsv").write_text(
        "\n".join(["\t".join(columns), *rows]) + "\n", encoding="utf-8"
    )


def write_selection(folder):
    """Twelve settings on two pairs of ratios, of which the eighth is chosen."""
    lines = [
        "param_alpha\tparam_l1_ratio\tparam_tv_ratio\tmean_test_error\tstd_test_error\tmean_dice\tmean_sparsity"
        "\tmean_test_explained"
    ]
    for k in range(12):
        alpha, ratio = (0.01, 0.03, 0.1, 0.2, 0.4, 0.8)[k % 6], (0.1, 0.3)[k // 6]
        dice = "n/a" if k == 11 else f"{0.5 + 0.04 * k}"
        lines.append(f"{alpha}\t{ratio}\t0.5\t{100 + (k - 7) ** 2}\t1.5\t{dice}\t{0.08 * k}\t0.5")
    (folder / "desc-SPCATV_selection.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    choice = {"rule": "paper", "best_index": 7, "n_folds": 5}
    (folder / "desc-SPCATV_selection.json").write_text(json.dumps(choice), encoding="utf-8")


AGREEMENTS = ("dice", "signed_dice", "cosine")


def write_stability(folder, components, n_resamples=20):
    rng = np.random.default_rng(0)
    np.savez(
        folder / "stability.npz",
        selection_frequency=np.where(components != 0, 0.8, 0.1),
        sign_consistency=np.where(components != 0, 0.9, 0.0),
        **{name: 0.7 + 0.2 * rng.random((n_resamples, len(components))) for name in AGREEMENTS},
    )


def load_axe(browser):
    """Load axe-core into the page, and unfold what is folded, which it would not look at."""
    browser.evaluate(AXE.read_text(encoding="utf-8") + "; true")
    browser.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")


def violations(browser):
    """The accessibility errors that axe-core finds in what the page shows now."""
    return json.loads(
        browser.evaluate(
            "axe.run().then(r => JSON.stringify(r.violations.map(v => [v.id, v.help, v.nodes.slice(0, 5)"
            ".map(n => n.target + ': ' + (n.any[0] || n.all[0] || n.none[0])?.message)])))"
        )
    )
