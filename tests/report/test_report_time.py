"""Time courses, power spectra, and the methods paragraph."""

import re
import shutil
from copy import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from report_files import write_mixing

from spcatv import SPCATV
from spcatv.report import Column, generate_report
from spcatv.report.brain_views import mean_image
from spcatv.report.image_sections import long_runs, run_labels, spectra
from spcatv.report.methods_text import REFERENCE, today
from spcatv.selection import SPCATVCV
from spcatv.stability import bootstrap_components, split_halves


def text_of(html):
    return html.replace("\u00a0", " ")


def paragraph(html):
    found = re.search(r'<div id="methods-text">\s*<p>(.*?)</p>', text_of(html), re.DOTALL)
    return found[1].replace("&#39;", "'")


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    """Two runs of two participants with a region that oscillates at 0.05 Hz, a volume every 2 s."""
    nib = pytest.importorskip("nibabel", reason="images are read with nibabel (extra `images`)")
    from spcatv.images import ImageSPCATV

    folder = tmp_path_factory.mktemp("series")
    rng = np.random.default_rng(0)
    files = []
    for person in (1, 2):
        for run in (1, 2):
            length = 60 + 20 * (person == 2)
            values = 100 + rng.standard_normal((8, 8, 8, length))
            wave = 4 * np.sin(2 * np.pi * 0.05 * 2 * np.arange(length) + rng.uniform(0, 6))
            values[2:5, 2:5, 2:5] += wave
            image = nib.Nifti1Image(values.astype(np.float32), np.diag([4.0, 4, 4, 1]))
            image.header.set_zooms((4, 4, 4, 2000))
            image.header.set_xyzt_units("mm", "msec")
            files.append(folder / f"sub-{person}_run-{run}_bold.nii.gz")
            nib.save(image, files[-1])
    mask = nib.Nifti1Image(np.ones((8, 8, 8), np.uint8), np.diag([4.0, 4, 4, 1]))
    nib.save(mask, folder / "mask.nii.gz")
    model = ImageSPCATV(1, mask=folder / "mask.nii.gz", sparsity=0.9)
    scores = model.fit_transform([str(file) for file in files])
    return SimpleNamespace(folder=folder, files=files, model=model, scores=scores)


def test_runs_are_recognised_and_their_volumes_in_order():
    names = [f"b.nii[{k}]" for k in reversed(range(20))] + [f"a.nii[{k}]" for k in range(3)] + ["c.nii"]
    ((name, samples),) = long_runs(names).items()
    assert name == "b.nii"
    np.testing.assert_array_equal(samples, np.arange(20)[::-1])


def test_spectrum_of_a_sine_peaks_at_its_frequency(series):
    found = long_runs(series.model.input_names_)
    assert list(map(len, found.values())) == [60, 60, 80, 80]
    assert series.model.preparation_.t_r == 2.0, "2000 ms in the header"
    frequencies, power = spectra([series.scores[samples] for samples in found.values()], 2.0)
    assert frequencies[-1] == 0.25
    np.testing.assert_allclose(frequencies[power[:, 0].argmax(axis=1)], 0.05, atol=frequencies[1])
    np.testing.assert_allclose(power.sum(axis=2) * frequencies[1], 1, rtol=1e-5)


def test_page_shows_time_courses(series, tmp_path, monkeypatch):
    html = text_of(generate_report(series.model, data=[str(file) for file in series.files]).html)
    assert "Time courses</h2>" in html
    assert "4 runs of 60 to 80 volumes. A volume was taken every 2 s." in html
    assert "Peak (Hz)" in html
    assert "Power up to 0.1 Hz" in html
    assert "The samples came from 2 participants and 4 runs." in paragraph(html)
    series.model.save(tmp_path / "model")
    names = [name.replace(str(series.folder), "/gone") for name in series.model.input_names_]
    write_mixing(tmp_path, names, series.scores)
    monkeypatch.setattr("spcatv.images.dataset.Preparation.open", lambda *_: pytest.fail("opens the images"))
    html = text_of(generate_report(tmp_path).html)
    assert "Peak (Hz)" in html, "the images are gone, but the model has their time"
    # models of earlier versions have none
    model = copy(series.model)
    model.preparation_ = replace(model.preparation_, t_r=None)
    shutil.rmtree(tmp_path / "model")
    model.save(tmp_path / "model")
    assert "Peak (cycles per volume)" in text_of(generate_report(tmp_path).html)


def test_the_time_between_volumes_is_common_to_all_runs(tmp_path):
    pytest.importorskip("nibabel", reason="extra `images`")
    from spcatv.images.preprocessing import Reading, common_t_r
    from spcatv.images.spaces.base import Run

    runs = [Run("a", 0, 9, t_r=0.8), Run("b", 9, 18, t_r=np.float32(0.8)), Run("c", 18, 19)]
    assert common_t_r(runs, Reading()) == 0.8
    assert common_t_r([*runs, Run("d", 19, 29, t_r=2.0)], Reading()) is None
    assert common_t_r([*runs, Run("d", 19, 29)], Reading()) is None
    assert common_t_r([*runs, Run("d", 19, 29)], Reading(t_r=3.0)) == 3.0
    assert common_t_r(runs[2:], Reading(t_r=3.0)) is None


def test_samples_of_arrays_are_no_series(line):
    names = [f"data.npy[{k}]" for k in range(len(line.X))]
    assert "Time courses" not in generate_report(line.model, data=line.X, names=names).html


def test_versions_of_the_image_packages_are_kept(series, tmp_path):
    import nibabel
    import nilearn

    from spcatv.model import read_model

    series.model.save(tmp_path / "model")
    kept = read_model(tmp_path / "model").versions
    assert (kept["nilearn"], kept["nibabel"]) == (nilearn.__version__, nibabel.__version__)
    for source in (series.model, tmp_path / "model"):
        said = paragraph(generate_report(source).html)
        assert f"nilearn {nilearn.__version__}, nibabel {nibabel.__version__}" in said


def test_methods_report_the_smoothness_that_was_used(image):
    """A smoothness that leaves no share of zeros to choose is lowered; a paper must say so."""
    model = copy(image.model)
    for used, text in (
        ((1.0, 1.0), "with a weight of 1 (in standard deviations"),
        ((0.24, 1.0), "with a weight of 1, lowered to 0.24, 1 for the components in turn so that"),
    ):
        records = zip(image.model.diagnostics_, used, strict=True)
        model.diagnostics_ = [replace(record, smoothness=weight) for record, weight in records]
        assert text in paragraph(generate_report(model).html)


def test_methods_of_images(volume, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    groups = Column("diagnosis", ["patient", "control"] * 12)
    html = generate_report(volume.folder, variable=Column("age", range(24)), groups=groups).html
    said = paragraph(html)
    n_features = volume.model.n_features_in_
    for text in (
        f"with 2 components was applied to 24 samples of {n_features:,} voxels.",
        "The analysis was limited to a mask of",
        "given (mask.nii.gz)",
        "Features were centred over the samples.",
        "exactly zero in 70 % of the features, and smoothed by total variation with a weight of 1",
        "certified relative duality gap of 1 × 10⁻⁶.",
        "12 settings (alpha 0.01, 0.03, 0.1, 0.2, 0.4, 0.8; l1 ratio 0.1, 0.3) were compared by 5-fold",
        "repeated on 20 resamples",
        "Scores were related to age by Pearson’s and Spearman’s correlation.",
        "Mean scores were compared between control and patient (Hedges’ g, Welch’s t). Two-sided "
        "p-values are from Welch’s test",
        "spca-tv ",
        ", report of 14 November 2023.",
    ):
        assert text in said
    assert "https://doi.org/10.1109/TMI.2017.2749140" in html
    assert "standardised" not in said
    assert "nan" not in said.lower()


def test_methods_of_the_penalised_model_and_of_options(line):
    model = SPCATV(
        2, structure=(60,), alpha=0.1, positive=True, center=False, refit="support", global_signal="regress"
    ).fit(line.X)
    said = paragraph(generate_report(model).html)
    for text in (
        "alpha = 0.1 (relative units); the shares of the l1 norm and of the structured penalty were 0.25",
        "kept non-negative",
        "fitted again on their supports",
        "mean over features of every sample was regressed out",
    ):
        assert text in said
    assert "centred" not in said
    assert "samples of" not in said, "their number is not known"


def test_methods_of_a_search_with_resamples_and_halves(line):
    search = SPCATVCV(1, structure=(60,), sparsity=[0.5, 0.7], smoothness=1.0, cv=3).fit(line.X)
    resampled = bootstrap_components(search.best_estimator_, line.X, n_resamples=3, random_state=0)
    halves = split_halves(search.best_estimator_, line.X, n_splits=2, random_state=0)
    said = paragraph(generate_report(search, data=line.X, stability=resampled, halves=halves).html)
    assert (
        "2 settings (sparsity 0.5, 0.7) were compared by 3-fold cross-validation; the sparsest setting"
        in said
    )
    assert "repeated on 3 resamples" in said
    assert "between the two halves of" in said


def test_methods_state_which_samples_folds_kept_together(line):
    groups = np.arange(len(line.X)) // 4
    search = SPCATVCV(1, structure=(60,), sparsity=[0.5, 0.7], smoothness=1.0, cv=3)
    said = paragraph(generate_report(search.fit(line.X, groups=groups)).html)
    assert f"Folds kept all samples of one group together ({len(set(groups))} in all)." in said
    assert "together" not in paragraph(generate_report(search.fit(line.X)).html)


def test_reference_is_that_of_the_citation_file():
    from pathlib import Path

    citation = (Path(__file__).parents[2] / "CITATION.cff").read_text(encoding="utf-8")
    doi = re.search(r'doi: "(.*)"', citation)[1]
    assert REFERENCE.endswith(f"https://doi.org/{doi}")
    authors = re.findall(r'family-names: "(.*)"', citation)
    places = [REFERENCE.index(name) for name in authors]
    assert places == sorted(places)
    title = re.search(r'preferred-citation:.*?title: "(.*?)"', citation, re.DOTALL)[1]
    assert title.lower() in REFERENCE.lower()


def test_date_is_in_words(monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert re.fullmatch(r"\d{1,2} [A-Z][a-z]+ \d{4}", today())


def test_the_button_copies_paragraph_and_reference(browser, tmp_path, line):
    page = generate_report(line.model, data=line.X).save_as_html(tmp_path / "report.html")
    browser.open(page, 1200, 900)
    browser.evaluate("""navigator.clipboard.writeText = async (text) => { window.copied = text; }""")
    browser.evaluate("""document.querySelector("[data-copy]").click()""")
    copied = browser.evaluate("window.copied")
    assert "SPCA-TV" in copied
    assert REFERENCE in copied
    assert browser.evaluate(
        """document.querySelector("[data-copy]").parentElement.querySelector("output").textContent"""
    )
    assert browser.evaluate("window.getSelection().toString()").startswith("Structured sparse principal")


def test_time_between_volumes_as_the_images_were_read(series, tmp_path):
    """What the fit was told counts first, then the header, then the file beside the run."""
    nib = pytest.importorskip("nibabel")
    from spcatv.images import ImageSPCATV

    files = []
    for source in series.files[:2]:
        image = nib.load(source)
        silent = nib.Nifti1Image(image.get_fdata().astype(np.float32), image.affine)
        silent.header["pixdim"][4] = 0
        files.append(tmp_path / source.name)
        nib.save(silent, files[-1])
        sidecar = files[-1].with_name(source.name.split(".")[0] + ".json")
        sidecar.write_text('{"RepetitionTime": 1.5}')
    beside = ImageSPCATV(1, mask=series.folder / "mask.nii.gz", sparsity=0.9).fit(list(map(str, files)))
    assert beside.preparation_.t_r == 1.5
    told = ImageSPCATV(1, mask=series.folder / "mask.nii.gz", sparsity=0.9, t_r=3.0, high_pass=0.02)
    told.fit(list(map(str, files)))
    assert told.preparation_.t_r == 3.0
    page = text_of(generate_report(told, data=list(map(str, files))).html)
    assert "A volume was taken every 3 s." in page
    said = paragraph(page)
    assert "every run filtered (high-pass 0.02 Hz), every run centred and scaled to unit variance." in said


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (
            [
                f"sub-0{k}/sub-0{k}_task-rest_run-{r}_space-X_desc-preproc_bold.nii"
                for k in (1, 2)
                for r in (1, 2)
            ],
            ["sub-01 run-1", "sub-01 run-2", "sub-02 run-1", "sub-02 run-2"],
        ),
        (["sub-01_ses-a_bold.nii", "sub-01_ses-b_bold.nii"], ["ses-a", "ses-b"]),
        (["a.nii", "b.nii"], ["a.nii", "b.nii"]),
        (["sub-01_bold.nii"], ["sub-01_bold.nii"]),
        (["sub-01_x.nii", "sub-01_y.nii", "sub-02_x.nii"], ["sub-01 x.nii", "sub-01 y.nii", "sub-02 x.nii"]),
    ],
)
def test_runs_are_distinguished_by_short_names(names, labels):
    assert run_labels(names) == labels


def test_mask_of_centred_runs_is_not_shown_on_rounding_errors(series):
    assert not mean_image(series.model).any()
    assert "The mask (orange) on the mean image." in generate_report(series.model).html
    loaded = copy(series.model)
    loaded.mean_img_ = None  # as after `load`: what is left is the mean of centred runs
    page = generate_report(loaded).html
    assert "The mask (orange) on the MNI152 template." in page
    assert "on the mean" not in page
