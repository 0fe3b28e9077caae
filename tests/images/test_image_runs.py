"""Runs are cleaned one by one: nilearn's `clean` and its maskers are the second opinion."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("nilearn")
import nibabel as nib
import pandas as pd
from nilearn.maskers import NiftiMasker, SurfaceMasker
from nilearn.signal import clean

from spcatv.images import (
    BadFeatureWarning,
    ImageError,
    ImageSPCATV,
    Reading,
    RunWarning,
    read_cohort,
)
from spcatv.images.confounds import table_beside
from spcatv.images.spaces.base import Run

SHAPE = (5, 4, 3)
MASK = np.ones(SHAPE, bool)
N_VOLUMES = 40
T_R = 2.0
QUIET = Reading(standardize_runs=True)


def run_values(seed, n_volumes=N_VOLUMES):
    """Values of a run, (n_volumes, 60): noise on a mean and a trend of its own."""
    rng = np.random.default_rng(seed)
    time = np.linspace(-1, 1, n_volumes)[:, None]
    mean, trend, slow = 100 + 20 * rng.standard_normal((3, 60))
    drift = np.sin(2 * np.pi * 0.004 * T_R * np.arange(n_volumes))[:, None]
    X = mean + 0.1 * trend * time + 0.05 * slow * drift + rng.standard_normal((n_volumes, 60))
    return X.astype(np.float32)


def as_image(X, t_r=T_R, unit="sec"):
    image = nib.Nifti1Image(np.moveaxis(X.reshape(-1, *SHAPE), 0, -1), np.diag([2.0, 2.0, 2.0, 1.0]))
    image.header.set_zooms((2, 2, 2, t_r))
    image.header.set_xyzt_units("mm", unit)
    return image


def read(images, confounds=None, mask=MASK, **wanted):
    return read_cohort(images, mask=mask, confounds=confounds, dtype="float64", reading=Reading(**wanted))


@pytest.fixture
def runs():
    return [run_values(0), run_values(1, 50)]


def test_runs_are_standardised_by_default_with_a_warning(runs):
    images = [as_image(X) for X in runs]
    with pytest.warns(RunWarning, match=r"2 of 2 images are runs.*standardize_runs=False") as caught:
        cohort = read_cohort(images, mask=MASK)
    assert len([one for one in caught if one.category is RunWarning]) == 1
    expected = np.concatenate([(X - X.mean(axis=0)) / X.std(axis=0, ddof=1) for X in runs])
    assert np.allclose(cohort.X, expected, atol=1e-3)
    assert "every run centred and scaled" in cohort.reading_report
    # whoever asks for it is not told, and whoever does not want it gets the values
    for wanted, values in ((True, expected), (False, np.concatenate(runs))):
        assert np.allclose(read(images, standardize_runs=wanted).X, values, atol=1e-3)


def test_single_images_and_maps_are_left_alone(runs, recwarn):
    cohort = read_cohort([as_image(row) for row in runs[0][:, None]], mask=MASK)
    assert np.array_equal(cohort.X, runs[0])
    assert cohort.reading_report == ""
    assert not recwarn.list


@pytest.mark.parametrize(
    "wanted",
    [
        {"standardize_runs": True, "detrend": True},
        {"standardize_runs": True, "high_pass": 0.01},
        {"standardize_runs": False, "high_pass": 0.01, "low_pass": 0.1},
        {"standardize_runs": "psc"},
        {"standardize_runs": "psc", "detrend": True},
        {"standardize_runs": False, "detrend": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("with_confounds", [False, True])
def test_cleaning_is_that_of_nilearn(runs, wanted, with_confounds, monkeypatch):
    # so small that every run is cleaned in many blocks
    monkeypatch.setattr("spcatv.images.preprocessing.BLOCK_VALUES", 7 * N_VOLUMES)
    rng = np.random.default_rng(3)
    tables = [rng.standard_normal((len(X), 3)) for X in runs] if with_confounds else None
    found = read([as_image(X) for X in runs], tables, **wanted).X
    given = {
        **wanted,
        "standardize": {True: "zscore_sample", False: None}.get(wanted["standardize_runs"], "psc"),
    }
    del given["standardize_runs"]
    options = {"detrend": False, "t_r": T_R, **given}
    expected = [
        clean(X.astype(float), confounds=table, **options)
        for X, table in zip(runs, tables or [None, None], strict=True)
    ]
    assert np.allclose(found, np.concatenate(expected), atol=1e-8)


def test_masker_and_the_fitted_masker_agree(runs):
    """A masker's own transform, the cohort, and the masker_ of a fit give the same rows."""
    images = [as_image(X) for X in runs]
    mask = nib.Nifti1Image(MASK.astype(np.uint8), images[0].affine)
    options = {"smoothing_fwhm": 3.0, "detrend": True, "high_pass": 0.01, "t_r": T_R}
    masker = NiftiMasker(mask, standardize="zscore_sample", **options)
    expected = np.concatenate([masker.fit().transform_single_imgs(image) for image in images])
    by_masker = read_cohort(images, mask=masker)
    assert np.allclose(by_masker.X, expected, atol=1e-3)
    by_name = read(images, mask=mask, standardize_runs=True, **options)
    assert np.allclose(by_name.X, expected, atol=1e-3)
    model = ImageSPCATV(1, mask=masker).fit(images)
    rows = np.concatenate([model.masker_.transform(image) for image in images])
    assert np.allclose(rows, expected, atol=1e-3)
    assert np.array_equal(np.asanyarray(model.mask_img_.dataobj), MASK)
    assert np.array_equal(model.variance_, model.explained_variance_)


def test_confounds_are_gone_from_every_run(runs):
    rng = np.random.default_rng(0)
    tables = [rng.standard_normal((len(X), 2)) for X in runs]
    cohort = read([as_image(X) for X in runs], tables, standardize_runs=True)
    first, second = cohort.X[:N_VOLUMES], cohort.X[N_VOLUMES:]
    for rows, table in ((first, tables[0]), (second, tables[1])):
        assert np.allclose((table - table.mean(axis=0)).T @ rows, 0, atol=1e-8)
    # a run without a table keeps its own
    partly = read([as_image(X) for X in runs], [tables[0], None], standardize_runs=True)
    assert np.allclose(partly.X[:N_VOLUMES], first)
    assert not np.allclose(partly.X[N_VOLUMES:], second)


def test_new_runs_are_cleaned_as_the_fit(runs, tmp_path):
    images = [as_image(X) for X in runs]
    rng = np.random.default_rng(0)
    tables = [rng.standard_normal((len(X), 2)) for X in runs]
    model = ImageSPCATV(1, mask=MASK, detrend=True, standardize_runs=True, dtype="float64")
    scores = model.fit_transform(images, confounds=tables)
    assert np.allclose(model.transform(images, confounds=tables), scores)
    # the scores of a run do not depend on other runs
    assert np.allclose(model.transform(images[1], confounds=tables[1:]), scores[N_VOLUMES:])
    again = ImageSPCATV.load(model.save(tmp_path / "model"))
    assert np.allclose(again.transform(images, confounds=tables), scores)
    assert again.reading_report_ == model.reading_report_ != ""
    with pytest.raises(ImageError, match="image 1: there is no table of confounds beside it"):
        again.transform(images)
    with pytest.raises(ImageError, match="1 tables were given for 2 images"):
        again.transform(images, confounds=tables[:1])
    plain = ImageSPCATV(1, mask=MASK, standardize_runs=True).fit(images)
    with pytest.raises(ImageError, match="fitted without confounds of runs"):
        plain.transform(images, confounds=tables)
    with pytest.raises(ImageError, match="is a single volume"):
        plain.transform(as_image(runs[0][:1]))


def test_voxels_without_any_change_in_a_run(runs):
    """A voxel that is constant in each run is dropped; in one run only, it is zero there."""
    runs[0][:, 0], runs[1][:, 0] = 1234.567, 7654.321
    runs[0][:, 1] = 0.1
    with pytest.warns(BadFeatureWarning, match="1 of 60 voxels were dropped.*once the runs are cleaned"):
        cohort = read([as_image(X) for X in runs], standardize_runs=True, detrend=True)
    assert cohort.X.shape[1] == 59
    assert cohort.dropped.n_constant == 1
    assert not cohort.X[:N_VOLUMES, 0].any()
    assert np.allclose(cohort.X[N_VOLUMES:, 0].std(ddof=1), 1)


def test_rounding_errors_are_no_signal(runs):
    """A voxel that is a straight line is nothing once the trend is gone, with or without a scale."""
    for X in runs:
        X[:, 0] = 1000 + np.arange(len(X))
    for scaled in (True, False):
        with pytest.warns(BadFeatureWarning, match="1 of 60 voxels were dropped.*once the runs are cleaned"):
            cohort = read([as_image(X) for X in runs], standardize_runs=scaled, detrend=True)
        assert cohort.X.shape[1] == 59


def test_what_cannot_be_cleaned_is_refused_before_it_is_read(runs, monkeypatch):
    monkeypatch.setattr("spcatv.images.dataset.read_matrix", None)
    with pytest.raises(ImageError, match=r"image 2: is a single volume.*standardize_runs=False"):
        read([as_image(runs[0]), as_image(runs[1][:1])], standardize_runs=True)
    with pytest.raises(ImageError, match="image 1: does not state the time"):
        read(as_image(runs[0], 0), standardize_runs=True, low_pass=0.1)


def test_more_confounds_than_volumes_are_refused(runs):
    tables = [np.random.default_rng(0).standard_normal((len(X), 39)) for X in runs]
    with pytest.raises(ImageError, match="image 1: has 40 volumes, but 39 confounds"):
        read([as_image(X) for X in runs], tables, standardize_runs=True)


@pytest.mark.parametrize(
    ("t_r", "unit", "found"),
    [
        (2.0, "sec", 2.0),
        (2000.0, "msec", 2.0),
        (2.5, "unknown", 2.5),
        (2000.0, "unknown", None),
        (0, "sec", None),
    ],
)
def test_time_between_volumes(runs, t_r, unit, found):
    image = as_image(runs[0], t_r, unit)
    if found is None:
        with pytest.raises(ImageError, match=r"image 1: does not state the time.*t_r="):
            read(image, high_pass=0.01, standardize_runs=True)
        return
    expected = clean(runs[0].astype(float), detrend=False, high_pass=0.01, t_r=found)
    assert np.allclose(read(image, high_pass=0.01, standardize_runs=True).X, expected, atol=1e-8)
    # what is given goes first
    other = read(image, high_pass=0.01, t_r=1.0, standardize_runs=True).X
    assert np.allclose(other, clean(runs[0].astype(float), detrend=False, high_pass=0.01, t_r=1.0), atol=1e-8)


def test_time_between_volumes_from_the_sidecar(runs, tmp_path):
    nib.save(as_image(runs[0], 0), tmp_path / "sub-1_bold.nii.gz")
    (tmp_path / "sub-1_bold.json").write_text(json.dumps({"RepetitionTime": 1.5}))
    found = read(tmp_path / "sub-1_bold.nii.gz", high_pass=0.01, standardize_runs=True).X
    assert np.allclose(found, clean(runs[0].astype(float), detrend=False, high_pass=0.01, t_r=1.5), atol=1e-8)


@pytest.mark.parametrize(
    ("wanted", "needed"),
    [
        ({"high_pass": 0.01}, 19),
        ({"low_pass": 0.1}, 19),
        ({"low_pass": 0.3}, 19),  # beyond what the volumes show
        ({"high_pass": 0.01, "low_pass": 0.1}, 34),
    ],
    ids=str,
)
def test_runs_too_short_for_a_filter_are_named_before_they_are_read(
    wanted, needed, runs, tmp_path, monkeypatch
):
    """The least number of volumes is that of nilearn and SciPy, to one."""
    long, short = (tmp_path / f"sub-{name}_bold.nii.gz" for name in ("long", "short"))
    nib.save(as_image(runs[1]), long)
    nib.save(as_image(runs[0][:needed]), short)
    assert read([long, short], **wanted).X.shape == (50 + needed, 60)
    nib.save(as_image(runs[0][: needed - 1]), short)
    with pytest.raises(ValueError, match="padlen"):
        clean(runs[0][: needed - 1].astype(float), detrend=False, t_r=T_R, **wanted)
    monkeypatch.setattr("spcatv.images.dataset.read_matrix", None)  # never reached
    said = (
        rf"short_bold.* {needed - 1} volumes, and {' and '.join(wanted)} needs? at least {needed};.*detrend"
    )
    with pytest.raises(ImageError, match=said):
        read([long, short], **wanted)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"smoothing_fwhm": -1}, "smoothing_fwhm must be above 0"),
        ({"smoothing_fwhm": "fast"}, "smoothing_fwhm must be a number"),
        ({"standardize_runs": "zscore"}, "standardize_runs must be True, False"),
        ({"detrend": 1}, "detrend must be True or False"),
        ({"high_pass": 0.1, "low_pass": 0.01}, "must be below low_pass"),
        ({"t_r": 0}, "t_r must be above 0"),
        ({"run_confounds": "scrub"}, "the strategy 'scrub' cannot be used: it would drop volumes"),
        ({"run_confounds": [3]}, "run_confounds must be names"),
        ({"resample": "yes"}, "resample must be True or False"),
        ({"cache": 3}, "cache must be the path"),
    ],
    ids=str,
)
def test_wrong_parameters_before_any_image_is_opened(wanted, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ImageSPCATV(**wanted).fit(["there is no such file"])


# --- tables beside the runs


def fmriprep_table(n_volumes, seed=0):
    """A table with the columns of fMRIPrep; derivatives miss their first value."""
    rng = np.random.default_rng(seed)
    columns = {}
    for name in [f"{kind}_{axis}" for kind in ("trans", "rot") for axis in "xyz"] + ["white_matter", "csf"]:
        columns[name] = rng.standard_normal(n_volumes)
        columns[f"{name}_derivative1"] = np.r_[np.nan, np.diff(columns[name])]
        columns[f"{name}_power2"] = columns[name] ** 2
        columns[f"{name}_derivative1_power2"] = columns[f"{name}_derivative1"] ** 2
    columns["cosine00"] = np.cos(np.pi * (np.arange(n_volumes) + 0.5) / n_volumes)
    for name in ("global_signal", "a_comp_cor_00", "a_comp_cor_01", "aroma_motion_01"):
        columns[name] = rng.standard_normal(n_volumes)
    return pd.DataFrame(columns)


@pytest.fixture
def fmriprep(tmp_path):
    """Two runs of long files as fMRIPrep names them, with their tables, and the table of another run."""
    files = []
    for number in (1, 2):
        stem = tmp_path / f"sub-01_task-rest_run-{number}"
        files.append(tmp_path / f"{stem.name}_space-MNI152NLin2009cAsym_desc-preproc_bold.nii.gz")
        nib.save(as_image(run_values(number, 80)), files[-1])
        table = fmriprep_table(80, number)
        table.to_csv(f"{stem}_desc-confounds_timeseries.tsv", sep="\t", index=False, na_rep="n/a")
        about = {"Method": "aCompCor", "Mask": "combined", "Retained": True}
        about = {f"a_comp_cor_0{k}": {**about, "VarianceExplained": 0.1} for k in range(2)}
        Path(f"{stem}_desc-confounds_timeseries.json").write_text(json.dumps(about))
    fmriprep_table(80).to_csv(
        tmp_path / "sub-02_task-rest_run-1_desc-confounds_timeseries.tsv", sep="\t", index=False
    )
    return files


def test_tables_are_found_by_entities(fmriprep, tmp_path):
    found = [table_beside(Run(str(file), 0, 80, (file,))) for file in fmriprep]
    assert [path.name for path in found] == [
        f"sub-01_task-rest_run-{number}_desc-confounds_timeseries.tsv" for number in (1, 2)
    ]
    assert table_beside(Run("x", 0, 80, (tmp_path / "sub-03_task-rest_bold.nii.gz",))) is None
    assert table_beside(Run("in memory", 0, 80)) is None


@pytest.mark.parametrize(
    "strategy",
    [
        ("motion",),
        ("motion", "wm_csf"),
        ("high_pass", "global_signal"),
        ("high_pass", "compcor"),
        ("wm_csf", "ica_aroma"),
    ],
    ids=str,
)
def test_strategies_are_those_of_nilearn(fmriprep, strategy):
    from nilearn.interfaces.fmriprep import load_confounds

    cohort = read(fmriprep, run_confounds=strategy, standardize_runs=True)
    for number, file in enumerate(fmriprep):
        table, _ = load_confounds(str(file), strategy=strategy, ica_aroma="basic")
        values = np.moveaxis(np.asanyarray(nib.load(file).dataobj), -1, 0).reshape(80, -1)
        expected = clean(values.astype(float), detrend=False, confounds=table)
        assert np.allclose(cohort.X[80 * number : 80 * (number + 1)], expected, atol=1e-8)


def test_strategies_and_columns_together(fmriprep, tmp_path):
    """Also for images that fMRIPrep has not named, whose table is found by its entities; in given files."""
    smoothed = [file.with_name(file.name.replace("preproc", "smooth6")) for file in fmriprep]
    for file, new in zip(fmriprep, smoothed, strict=True):
        file.rename(new)
    words = ["wm_csf", "a_comp_cor_0[01]", "csf"]
    expected = read(smoothed, run_confounds=["white_matter", "csf", "a_comp_cor_0*"], standardize_runs=True)
    found = read(smoothed, run_confounds=words[:2], standardize_runs=True)
    table = pd.read_csv(table_beside(Run("", 0, 80, (smoothed[0],))), sep="\t")
    assert np.allclose(found.X, expected.X, atol=1e-8)
    with_csf = read(smoothed, run_confounds=words, standardize_runs=True)
    assert np.allclose(with_csf.X, found.X, atol=1e-8), "csf is removed once"
    tables = [table_beside(Run("", 0, 80, (file,))) for file in smoothed]
    given = read(smoothed, tables, run_confounds=words[:2], standardize_runs=True)
    assert np.array_equal(given.X, found.X)
    with pytest.raises(ImageError, match="'wm_csf' needs a file of fMRIPrep"):
        read(smoothed, [table, table], run_confounds=["wm_csf"], standardize_runs=True)


def test_tables_beside_runs_are_mentioned_but_not_used(fmriprep):
    cohort = read(fmriprep, standardize_runs=True)
    assert "2 runs have confounds beside them, which are not used" in cohort.reading_report
    with_them = read(fmriprep, standardize_runs=True, run_confounds=["csf"])
    assert "not used" not in with_them.reading_report
    assert "(csf)" in with_them.reading_report
    assert not np.allclose(cohort.X, with_them.X)


def test_new_runs_bring_their_own_tables(fmriprep):
    model = ImageSPCATV(1, mask=MASK, run_confounds=["motion"], standardize_runs=True)
    scores = model.fit_transform(fmriprep)
    assert np.allclose(model.transform(fmriprep[1]), scores[80:], atol=1e-4)


def test_volumes_before_the_steady_state_are_regressed_out(fmriprep):
    path = table_beside(Run("", 0, 80, (fmriprep[0],)))
    table = pd.read_csv(path, sep="\t")
    table["non_steady_state_outlier00"] = np.eye(80)[0]
    table.to_csv(path, sep="\t", index=False)
    cohort = read(fmriprep, run_confounds=["wm_csf"], standardize_runs=True)
    spike = np.eye(80)[0] - 1 / 80
    assert np.allclose(spike @ cohort.X[:80], 0, atol=1e-8)


@pytest.mark.parametrize(
    ("change", "words", "message"),
    [
        (lambda t: t.iloc[:-1], ["csf"], "has 79 rows, but there are 80 volumes"),
        (lambda t: t.drop(columns="csf"), ["csf"], "no column is called or matches 'csf'"),
        (lambda t: t.assign(csf=np.where(np.arange(80) == 5, np.nan, 1)), ["csf"], "row 6, column 'csf'"),
        (lambda t: t.assign(csf="high"), ["csf"], "must be a table of numbers"),
        (lambda t: t, ["t_comp_cor_0[0-4]"], "no column is called or matches"),
    ],
)
def test_bad_tables_are_named(fmriprep, change, words, message):
    path = table_beside(Run("", 0, 80, (fmriprep[0],)))
    change(pd.read_csv(path, sep="\t")).to_csv(path, sep="\t", index=False)
    with pytest.raises(ImageError, match=message) as error:
        read(fmriprep, run_confounds=words, standardize_runs=True)
    assert str(path) in str(error.value)


# --- surfaces


def test_surfaces_are_cleaned_and_smoothed_by_a_masker():
    from nilearn.surface import InMemoryMesh, PolyMesh, SurfaceImage

    from spcatv.structure import icosphere

    coords, triangles = icosphere(2)
    coords = coords.astype(np.float32)  # as they are kept
    mesh = PolyMesh(left=InMemoryMesh(coords, triangles), right=InMemoryMesh(coords + 5, triangles))
    rng = np.random.default_rng(0)
    data = {hemi: (10 + rng.standard_normal((len(coords), 30))).astype(np.float32) for hemi in mesh.parts}
    image = SurfaceImage(mesh, data)
    inside = {hemi: np.arange(len(coords)) < 100 for hemi in mesh.parts}
    masker = SurfaceMasker(
        SurfaceImage(mesh, inside), smoothing_fwhm=0.5, standardize="zscore_sample", detrend=True
    ).fit()
    cohort = read_cohort(image, mask=masker)
    assert np.allclose(cohort.X, masker.transform(image), atol=1e-3)
    # overlays without a mesh of their own take that of the masker
    parts = {hemi: [values] for hemi, values in data.items()}
    assert np.allclose(read_cohort(parts, mask=masker).X, cohort.X)
    # maps on a surface are no time series
    assert np.allclose(read_cohort(image).X[:, 0], data["left"][0])
    model = ImageSPCATV(1, mask=masker).fit(image)
    assert np.allclose(model.masker_.transform(image), cohort.X, atol=1e-3)
    assert model.mask_img_.mesh.n_vertices == 2 * len(coords)
