"""Runs of several volumes, from files to scores: what is done to them is said, and new runs get the same."""

import numpy as np
import pytest

pytest.importorskip("nilearn")
import nibabel as nib
import pandas as pd
from nilearn.maskers import NiftiMasker

from spcatv.cli import main
from spcatv.images import ImageSPCATV

SHAPE = (8, 8, 4)
AFFINE = np.diag([3.0, 3.0, 3.0, 1.0])
N_VOLUMES = 30
QUICK = ("--n-components", "1", "--sparsity", "0.5")


def write_run(path, seed, affine=AFFINE, shape=SHAPE):
    """A run of one person: a level of its own, a block of voxels that vary together, and motion in all."""
    rng = np.random.default_rng(seed)
    values = 200 * rng.random() + 50 + rng.standard_normal((*shape, N_VOLUMES))
    values[1:4, 1:4] += 3 * rng.standard_normal(N_VOLUMES)
    motion = np.cumsum(rng.standard_normal(N_VOLUMES))
    values += motion
    image = nib.Nifti1Image(values.astype(np.float32), affine)
    image.header.set_zooms((3, 3, 3, 2.0))
    image.header.set_xyzt_units("mm", "sec")
    nib.save(image, path)
    return pd.DataFrame({"trans_x": motion, "csf": rng.standard_normal(N_VOLUMES)})


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Four people with a run each, tables of fMRIPrep beside them, and a mask."""
    folder = tmp_path_factory.mktemp("runs")
    for number in range(1, 5):
        stem = f"sub-{number:02d}_task-rest"
        table = write_run(folder / f"{stem}_desc-preproc_bold.nii.gz", number)
        table.to_csv(folder / f"{stem}_desc-confounds_timeseries.tsv", sep="\t", index=False)
    nib.save(nib.Nifti1Image(np.ones(SHAPE, np.uint8), AFFINE), folder / "mask.nii.gz")
    return folder


def run_cli(capsys, *words):
    code = main([str(word) for word in words])
    told = capsys.readouterr()
    return code, told.out, told.err


def fit(capsys, runs, output, *options):
    found = sorted(runs.glob("*_bold.nii.gz"))
    return run_cli(
        capsys, "fit", *found, "--mask", runs / "mask.nii.gz", *QUICK, *options, "--output", output
    )


def scores_of(file):
    return pd.read_csv(file, sep="\t")["component_1"].to_numpy()


def share_between(scores):
    """Share of the variance of scores that lies between people."""
    means = scores.reshape(4, N_VOLUMES).mean(axis=1)
    return means.var() / scores.var()


@pytest.mark.filterwarnings("ignore")
def test_people_do_not_differ_by_their_level(runs, tmp_path, capsys):
    """Levels of people are no component, and the command says what it did; without it, they are."""
    code, out, err = fit(capsys, runs, tmp_path / "default")
    assert code == 0
    assert "4 of 4 images are runs of several volumes" in err
    assert "every run is centred and scaled to unit variance" in err
    assert "unit variance" not in out, "one thing is said once"
    assert "4 runs have confounds beside them, which are not used" in out
    scores = scores_of(tmp_path / "default/desc-SPCATV_mixing.tsv")
    assert share_between(scores) < 1e-6
    code, out, err = fit(capsys, runs, tmp_path / "raw", "--no-standardize-runs")
    assert code == 0
    assert "runs of several volumes" not in err
    assert share_between(scores_of(tmp_path / "raw/desc-SPCATV_mixing.tsv")) > 0.9


@pytest.mark.filterwarnings("ignore")
def test_transform_does_what_the_model_says(runs, tmp_path, capsys):
    """Smoothing, filter and confounds of the fit are applied to a new run without any option."""
    options = ("--standardize-runs", "--smoothing-fwhm", "4", "--detrend", "--high-pass", "0.01")
    options += ("--run-confounds", "trans_x,csf")
    code, out, err = fit(capsys, runs, tmp_path / "results", *options)
    assert code == 0, err
    assert "smoothed with a kernel of 4 mm" in out
    assert "confounds (trans_x, csf) removed from every run" in out
    scores = scores_of(tmp_path / "results/desc-SPCATV_mixing.tsv")
    last = sorted(runs.glob("*_bold.nii.gz"))[-1]
    code, _, err = run_cli(
        capsys, "transform", tmp_path / "results", last, "--output", tmp_path / "scores.tsv"
    )
    assert code == 0, err
    assert np.allclose(scores_of(tmp_path / "scores.tsv"), scores[-N_VOLUMES:], atol=1e-3)
    # the second opinion: nilearn's masker, and the loadings
    table = pd.read_csv(runs / "sub-04_task-rest_desc-confounds_timeseries.tsv", sep="\t")
    masker = NiftiMasker(
        runs / "mask.nii.gz",
        standardize="zscore_sample",
        smoothing_fwhm=4,
        detrend=True,
        high_pass=0.01,
        t_r=2,
    ).fit()
    rows = masker.transform_single_imgs(str(last), confounds=table)
    model = ImageSPCATV.load(tmp_path / "results/model")
    assert np.allclose(model.estimator_.transform(rows)[:, 0], scores[-N_VOLUMES:], atol=1e-2)


@pytest.mark.filterwarnings("ignore")
def test_a_repeated_run_reads_alike(runs, tmp_path, capsys):
    """The configuration that a run writes repeats it, cleaning included."""
    code, _, _ = fit(capsys, runs, tmp_path / "first", "--detrend", "--run-confounds", "csf")
    assert code == 0
    config = tmp_path / "first/desc-SPCATV_config.toml"
    assert 'run_confounds = ["csf"]' in config.read_text()
    code, _, err = run_cli(capsys, "fit", "--config", config, "--output", tmp_path / "again")
    assert code == 0, err
    name = "desc-SPCATV_mixing.tsv"
    assert np.array_equal(scores_of(tmp_path / "first" / name), scores_of(tmp_path / "again" / name))


@pytest.mark.filterwarnings("ignore")
def test_another_grid_is_refused_until_it_is_requested(runs, tmp_path, capsys):
    other = tmp_path / "sub-05_task-rest_desc-preproc_bold.nii.gz"
    write_run(other, 5, affine=np.diag([2.5, 2.5, 2.5, 1.0]), shape=(10, 10, 5))
    files = [*sorted(runs.glob("*_bold.nii.gz")), other]
    words = ["fit", *files, "--mask", runs / "mask.nii.gz", *QUICK, "--standardize-runs"]
    code, _, err = run_cli(capsys, *words, "--output", tmp_path / "refused")
    assert code != 0
    assert str(other) in err
    assert "--resample" in err
    code, out, err = run_cli(capsys, *words, "--resample", "--output", tmp_path / "resampled")
    assert code == 0, err
    assert "1 of 5 images resampled to its grid" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--run-confounds", "trans_y"), "sub-01_task-rest_desc-confounds_timeseries.tsv: no column"),
        (("--run-confounds", "scrub"), "the strategy 'scrub' cannot be used"),
        (("--high-pass", "0.1", "--low-pass", "0.05"), "must be below --low-pass"),
        (("--smoothing-fwhm", "-3"), "--smoothing-fwhm must be above 0"),
    ],
)
def test_wrong_options_are_named(runs, tmp_path, capsys, options, message):
    code, _, err = fit(capsys, runs, tmp_path / "results", *options)
    assert code != 0
    assert message in err
    assert not (tmp_path / "results").exists()


def test_options_of_runs_are_not_for_arrays(tmp_path, capsys):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).standard_normal((10, 20)))
    for option in (("--detrend",), ("--smoothing-fwhm", "3"), ("--standardize-runs",), ("--resample",)):
        code, _, err = run_cli(
            capsys, "fit", "--array", tmp_path / "X.npy", *option, "--output", tmp_path / "results"
        )
        assert code != 0
        assert f"{option[0]} can only be used with images" in err


@pytest.mark.filterwarnings("ignore")
def test_select_reads_as_fit_does(runs, tmp_path, capsys):
    files = sorted(runs.glob("*_bold.nii.gz"))
    words = ["select", *files, "--mask", runs / "mask.nii.gz", "--n-components", "1", "--smoothing-fwhm", "4"]
    words += ["--sparsity", "0.5", "--smoothness", "1", "--cv", "2", "--n-bootstraps", "0", "--n-splits", "0"]
    code, out, err = run_cli(capsys, *words, "--output", tmp_path / "selected")
    assert code == 0, err
    assert "4 of 4 images are runs" in err
    assert "smoothed with a kernel of 4 mm" in out
    model = ImageSPCATV.load(tmp_path / "selected/model")
    assert model.preparation_.reading.standardize_runs == "zscore_sample"
    assert model.smoothing_fwhm == 4


def test_what_cannot_be_cleaned_is_reported_with_the_remedy(runs, tmp_path, capsys):
    code, _, err = fit(capsys, runs, tmp_path / "out", "--high-pass", "0.4")
    assert code == 2
    assert "up to 0.25 Hz, and --high-pass (0.4 Hz) removes them all" in err
    code, _, err = fit(capsys, runs, tmp_path / "out", "--run-confounds", "motoin")
    assert code == 2
    assert (
        "no column is called or matches 'motoin'; there are trans_x, csf, and the strategies motion," in err
    )
    single = nib.load(next(runs.glob("*_bold.nii.gz"))).slicer[..., 0]
    maps = [tmp_path / f"map{number}.nii.gz" for number in (1, 2)]
    for file in maps:
        nib.save(single, file)
    code, _, err = run_cli(capsys, "fit", *maps, "--high-pass", "0.01", "--output", tmp_path / "out")
    assert code == 2
    assert "--no-standardize-runs" in err


@pytest.mark.filterwarnings("ignore")
def test_images_and_their_volumes_are_counted(runs, tmp_path, capsys):
    code, out, _ = fit(capsys, runs, tmp_path / "out", "--n-splits", "0")
    assert code == 0
    assert out.startswith(f"Read 4 images, {4 * N_VOLUMES} volumes: mask of ")
