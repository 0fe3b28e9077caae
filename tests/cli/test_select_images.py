"""`spca-tv select` on images: stability maps come back in the space of the input."""

import json

import numpy as np
import pytest
from cli_files import AFFINE, SHAPE, listing, read_tsv
from numpy.testing import assert_allclose, assert_array_equal

from spcatv._util.tables import read_table
from spcatv.cli import pipeline
from spcatv.structure import icosphere

nib = pytest.importorskip("nibabel", reason="images are read with nibabel (extra `images`)")
pytest.importorskip("nilearn", reason="images are read with nilearn (extra `images`)")

SMALL = (
    *("--n-components", "1", "--alpha", "0.1", "0.3", "--l1-ratio", "0.25", "--tv-ratio", "0.25", "0.5"),
    *("--cv", "2", "--n-bootstraps", "4"),
)
MAPS = ("SPCATV", "frequency", "signconsistency", "regions")


@pytest.fixture
def participants(volumes, tmp_path):
    """The volumes in a table: two visits of five subjects, and their ages."""
    names = listing(volumes)
    rows = [f"images/{name}\ts{row % 5}\t{30 + row * row % 7}" for row, name in enumerate(names)]
    (tmp_path / "participants.tsv").write_text("path\tsubject\tage\n" + "\n".join(rows) + "\n")
    return tmp_path / "participants.tsv"


def test_volumes_and_the_table_that_names_them(participants, mask_array, tmp_path, done):
    from spcatv import SPCATVCV, ImageSPCATV
    from spcatv.images import read_cohort

    out = tmp_path / "out"
    mask = ("--mask", tmp_path / "mask.nii.gz")
    done("select", participants, *mask, *SMALL, "--groups", "subject", "--output", out)
    images = sorted((tmp_path / "images").iterdir())
    cohort = read_cohort(images, mask=str(tmp_path / "mask.nii.gz"))
    search = SPCATVCV(1, structure=cohort.space.structure(), alpha=(0.1, 0.3), l1_ratio=0.25, cv=2)
    search.set_params(tv_ratio=(0.25, 0.5), random_state=0)
    search.fit(cohort.X, groups=[f"s{row % 5}" for row in range(10)])
    rows = read_tsv(out / "desc-SPCATV_selection.tsv")
    errors = [float(row["mean_test_error"]) for row in rows]
    assert_array_equal(errors, search.cv_results_["mean_test_error"])
    model = ImageSPCATV.load(out / "model")
    assert_array_equal(model.components_, search.best_estimator_.components_)
    assert (model.alpha, model.dtype) == (search.best_params_["alpha"], "float32")
    assert_allclose(
        model.transform(images)[:, 0],
        [float(row["component_1"]) for row in read_tsv(out / "desc-SPCATV_mixing.tsv")],
        rtol=1e-5,
    )
    with np.load(out / "stability.npz", allow_pickle=False) as stored:
        frequency = stored["selection_frequency"]
    for name in MAPS:
        maps = nib.load(out / f"desc-{name}_components.nii.gz")
        assert maps.shape == (*SHAPE, 1)
        assert_array_equal(maps.affine, AFFINE)
        assert not maps.get_fdata()[..., 0][~mask_array].any()
    values = nib.load(out / "desc-frequency_components.nii.gz").get_fdata(dtype=np.float32)[..., 0]
    assert_array_equal(values[mask_array], frequency[0].astype(np.float32))
    about = json.loads((out / "desc-frequency_components.json").read_text())
    assert about["NumberOfResamples"] == 4


def test_groups_and_confounds_of_one_table_and_the_run_repeated(participants, tmp_path, done):
    confounds = ("--confounds", participants, "--confounds-columns", "age", "--groups", "subject")
    mask = ("--mask", tmp_path / "mask.nii.gz")
    done("select", tmp_path / "images", *mask, *SMALL, *confounds, "--output", tmp_path / "first")
    config = tmp_path / "first" / "desc-SPCATV_config.toml"
    done("select", "--config", config, "--output", tmp_path / "second")
    first, second = (tmp_path / name / "desc-SPCATV_mixing.tsv" for name in ("first", "second"))
    assert first.read_text() == second.read_text()


def test_the_table_of_groups_is_read_once(participants, tmp_path, done, monkeypatch):
    read = []
    monkeypatch.setattr(pipeline, "read_table", lambda file: read.append(file) or read_table(file))
    command = ("select", tmp_path / "images", "--mask", tmp_path / "mask.nii.gz", *SMALL)
    said = done(*command, "--groups", f"{participants}:subject", "--output", tmp_path / "out")
    assert "Groups: samples of one subject stay together" in said
    assert f"{participants}: rows matched by path" in said
    assert read == [participants]


def test_groups_in_another_order_are_matched_by_path(participants, tmp_path, done):
    head, *rows = participants.read_text().splitlines()
    other = tmp_path / "other.tsv"
    other.write_text("\n".join([head, *reversed(rows)]) + "\n")
    command = ("select", participants, "--mask", tmp_path / "mask.nii.gz", *SMALL)
    for file in (participants, other):
        done(*command, "--groups", f"{file}:subject", "--output", tmp_path / file.stem)
    tables = (tmp_path / file.stem / "desc-SPCATV_selection.tsv" for file in (participants, other))
    first, second = (
        [(row["split0_test_error"], row["split1_test_error"]) for row in read_tsv(table)] for table in tables
    )
    assert first == second


@pytest.fixture
def meshes(tmp_path):
    """The two hemispheres, spheres of 42 vertices, as GIFTI files."""
    coords, triangles = icosphere(1)
    arrays = [
        nib.gifti.GiftiDataArray(coords.astype(np.float32), intent="NIFTI_INTENT_POINTSET"),
        nib.gifti.GiftiDataArray(triangles.astype(np.int32), intent="NIFTI_INTENT_TRIANGLE"),
    ]
    files = [tmp_path / f"{side}.surf.gii" for side in ("lh", "rh")]
    for file in files:
        nib.save(nib.gifti.GiftiImage(darrays=arrays), file)
    return files


def vertex_values(n_samples, n_vertices):
    rng = np.random.default_rng(4)
    values = rng.standard_normal((n_samples, n_vertices)).astype(np.float32)
    near = np.argsort(-icosphere(1)[0][:, 2])[:8]
    values[:, near] += 4 * rng.standard_normal((n_samples, 1)).astype(np.float32)
    return values


def test_surfaces(meshes, tmp_path, done):
    folder = tmp_path / "overlays"
    folder.mkdir()
    for number, row in enumerate(vertex_values(8, 84)):
        for side, half in (("L", row[:42]), ("R", row[42:])):
            array = nib.gifti.GiftiDataArray(half, intent="NIFTI_INTENT_SHAPE")
            nib.save(nib.gifti.GiftiImage(darrays=[array]), folder / f"sub-{number}_hemi-{side}.shape.gii")
    done("select", folder, "--surface", *meshes, *SMALL, "--output", tmp_path / "out")
    frequency = np.load(tmp_path / "out" / "stability.npz")["selection_frequency"][0]
    for name in MAPS:
        files = [tmp_path / "out" / f"hemi-{side}_desc-{name}_components.func.gii" for side in "LR"]
        assert [nib.load(file).agg_data().shape for file in files] == [(42,), (42,)]
        if name == "frequency":
            shown = np.concatenate([nib.load(file).agg_data() for file in files])
            assert_array_equal(shown, frequency.astype(np.float32))
    done(
        "select", folder, "--surface", *meshes, *SMALL, "--overwrite", "--quiet", "--output", tmp_path / "out"
    )


def test_cifti(meshes, tmp_path, done):
    axis = nib.cifti2.BrainModelAxis.from_surface(np.arange(42), 42, "CORTEX_LEFT")
    axis += nib.cifti2.BrainModelAxis.from_mask(np.ones((2, 2, 2), bool), "THALAMUS_LEFT", affine=AFFINE)
    for number, row in enumerate(vertex_values(8, len(axis))):
        header = nib.Cifti2Header.from_axes((nib.cifti2.ScalarAxis(["map"]), axis))
        nib.save(nib.Cifti2Image(row[None], header), tmp_path / f"sub-{number}.dscalar.nii")
    images = tmp_path / "sub-*.dscalar.nii"
    done("select", images, "--surface", meshes[0], "-", *SMALL, "--output", tmp_path / "out")
    for name in MAPS:
        maps = nib.load(tmp_path / "out" / f"desc-{name}_components.dscalar.nii")
        assert maps.header.get_axis(1) == axis
    frequency = np.load(tmp_path / "out" / "stability.npz")["selection_frequency"]
    shown = nib.load(tmp_path / "out" / "desc-frequency_components.dscalar.nii").get_fdata()
    assert_array_equal(shown, frequency.astype(np.float32))
