"""Surfaces and CIFTI-2 from files alone: what is said about volumes is said about them."""

import numpy as np
import pytest

from spcatv.structure import icosphere

nib = pytest.importorskip("nibabel", reason="overlays are read with nibabel (extra `images`)")
pytest.importorskip("nilearn", reason="images are read with nilearn (extra `images`)")

N_PEOPLE = 12
SMALL = ("--n-components", "1", "--sparsity", "0.5", "--tol", "1e-3", "--n-splits", "0")


@pytest.fixture
def thickness(tmp_path):
    """Spheres as hemispheres, and a function that writes overlays of 12 people after spoiling one."""
    coords, triangles = icosphere(2)
    for side in ("lh", "rh"):
        nib.freesurfer.write_geometry(tmp_path / f"{side}.pial", 50 * coords, triangles)
    rng = np.random.default_rng(0)
    common = 3 + rng.random((2, len(coords)))
    ages = rng.permutation(np.arange(20, 20 + N_PEOPLE))
    values = [common + 0.1 * rng.standard_normal(common.shape) + 0.05 * age for age in ages]

    def write(spoil=lambda values: None):
        spoil(values)
        for number, both in enumerate(values, start=1):
            for side, row in zip("LR", both, strict=True):
                array = nib.gifti.GiftiDataArray(row.astype(np.float32), intent="NIFTI_INTENT_SHAPE")
                file = tmp_path / "maps" / f"sub-{number:02d}_hemi-{side}_thickness.shape.gii"
                file.parent.mkdir(exist_ok=True)
                nib.save(nib.gifti.GiftiImage(darrays=[array]), file)
        rows = [f"sub-{number:02d}\t{age}\n" for number, age in enumerate(ages, start=1)]
        (tmp_path / "people.tsv").write_text("participant_id\tage\n" + "".join(reversed(rows)))
        return tmp_path

    return write


@pytest.fixture
def fit(spca_tv):
    def run(folder, *options):
        surfaces = ("--surface", folder / "lh.pial", folder / "rh.pial")
        return spca_tv("fit", folder / "maps", *surfaces, *SMALL, *options, "--output", folder / "out")

    return run


def test_a_shuffled_table_is_matched_by_participant(thickness, fit):
    folder = thickness()
    ran = fit(folder, "--confounds", folder / "people.tsv")
    assert ran.code == 0
    assert "rows matched by participant_id" in ran.out
    scores = np.loadtxt(folder / "out" / "desc-SPCATV_mixing.tsv", delimiter="\t", skiprows=1, usecols=(2,))
    ages = [float(line.split()[1]) for line in (folder / "people.tsv").read_text().splitlines()[1:]][::-1]
    assert abs(np.corrcoef(scores, ages)[0, 1]) < 1e-4, "age was regressed out of the right people"


@pytest.mark.parametrize(
    ("spoil", "code", "said"),
    [
        (
            lambda values: values[4][0].fill(np.nan),
            0,
            "(50 % missing); values missing there cost the mask",
        ),
        (lambda values: values[4].fill(0), 2, "(0 everywhere): the same value, or none, in all 324 vertices"),
        (lambda values: np.copyto(values[4], values[2]), 0, "the same values as another one and would count"),
        (lambda values: np.multiply(values[4], -1, out=values[4]), 0, "is unlike the others"),
    ],
)
def test_bad_overlays_are_named(spoil, code, said, thickness, fit):
    ran = fit(thickness(spoil))
    assert ran.code == code
    assert said in ran.err
    assert "sub-05_hemi-L_thickness.shape.gii" in ran.err


def test_bad_maps_of_a_cifti_file_are_named(tmp_path, spca_tv):
    from nibabel.cifti2 import BrainModelAxis, Cifti2Image, ScalarAxis

    coords, triangles = icosphere(2)
    nib.freesurfer.write_geometry(tmp_path / "lh.pial", 50 * coords, triangles)
    axis = BrainModelAxis.from_mask(np.ones(len(coords), bool), name="CortexLeft")
    rng = np.random.default_rng(0)
    X = (rng.random(len(coords)) + 0.1 * rng.standard_normal((12, len(coords)))).astype(np.float32)
    X[3, :81] = np.nan
    X[7] = X[1]
    image = Cifti2Image(X, (ScalarAxis([f"map {number}" for number in range(12)]), axis))
    nib.save(image, tmp_path / "maps.dscalar.nii")
    surfaces = ("--surface", tmp_path / "lh.pial", "-")
    ran = spca_tv("fit", tmp_path / "maps.dscalar.nii", *surfaces, *SMALL, "--output", tmp_path / "out")
    assert ran.code == 0
    assert "maps.dscalar.nii[3] (50 % missing); values missing there cost the mask 81 of its 162" in ran.err
    assert "maps.dscalar.nii[7] (as " in ran.err
