"""CIFTI-2: surfaces and voxels in one file, whatever the order in it, and back as a valid file."""

from types import SimpleNamespace

import numpy as np
import pytest
from image_files import write_surface

pytest.importorskip("nilearn")
import nibabel as nib
from nibabel.cifti2 import BrainModelAxis, Cifti2Image, ScalarAxis, SeriesAxis

from spcatv import SPCATV
from spcatv.images import ImageError, ImageSPCATV, Reading, read_cohort
from spcatv.images.spaces import cifti
from spcatv.structure import concat, grid, icosphere, mesh

N_IMAGES = 10
BOX = (6, 5, 4)
VOXEL_SIZE = tuple(np.round(np.array((2, 2, 3)) / 12 ** (1 / 3), 6))  # over the geometric mean
AFFINE = np.array([[-2.0, 0, 0, 90], [0, 2, 0, -126], [0, 0, 3, -72], [0, 0, 0, 1]])


def make_axis(cortex, left_voxels, right_voxels):
    """Cortices with a hole, a thalamus and a putamen that touch."""
    parts = [
        BrainModelAxis.from_mask(cortex["left"], name="CortexLeft"),
        BrainModelAxis.from_mask(cortex["right"], name="CortexRight"),
        BrainModelAxis.from_mask(left_voxels, name="thalamus_left", affine=AFFINE),
        BrainModelAxis.from_mask(right_voxels, name="putamen_left", affine=AFFINE),
    ]
    axis = parts[0]
    for part in parts[1:]:
        axis = axis + part
    return axis


@pytest.fixture(scope="module")
def grayordinates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cifti")
    rng = np.random.default_rng(3)
    coords, triangles = icosphere(3)
    cortex = {hemi: coords[:, 0] * side < 0.9 for hemi, side in (("left", 1), ("right", -1))}
    thalamus, putamen = np.zeros(BOX, bool), np.zeros(BOX, bool)
    thalamus[1:3, 1:4, 1:3] = True
    putamen[3:5, 1:4, 1:4] = True
    axis = make_axis(cortex, thalamus, putamen)
    # voxels of a file come in any order
    voxels = np.flatnonzero(axis.volume_mask)
    order = np.concatenate(
        [np.flatnonzero(axis.surface_mask), rng.permutation(voxels[:12]), voxels[12:][::-1]]
    )
    axis = axis[order]
    values = (5 + rng.standard_normal((N_IMAGES, len(axis)))).astype(np.float32)
    values[:, :200] += 2 * rng.standard_normal((N_IMAGES, 1)).astype(np.float32)
    paths = []
    for number, row in enumerate(values):
        paths.append(folder / f"sub-{number}.dscalar.nii")
        nib.save(Cifti2Image(row[None], (ScalarAxis(["thickness"]), axis)), paths[-1])
    surfaces = {}
    for hemi in cortex:
        surfaces[hemi] = folder / f"{hemi}.surf.gii"
        write_surface(surfaces[hemi], coords, triangles)
    box = thalamus + 2 * putamen.astype(int)
    structure = concat(
        [
            *(mesh(coords, triangles, mask=cortex[hemi]) for hemi in ("left", "right")),
            grid(box, voxel_size=VOXEL_SIZE),
        ]
    )
    return SimpleNamespace(
        folder=folder, paths=paths, values=values, axis=axis, surfaces=surfaces, structure=structure, box=box
    )


def in_feature_order(data):
    """Columns in the order of the features, found by looking up every vertex and voxel."""
    voxels = np.flatnonzero(data.axis.volume_mask)
    place = {tuple(data.axis.voxel[column]): column for column in voxels}
    columns = [place[tuple(voxel)] for voxel in np.argwhere(data.box)]
    return data.values[:, [*np.flatnonzero(data.axis.surface_mask), *columns]]


@pytest.fixture(scope="module")
def fitted(grayordinates):
    return ImageSPCATV(n_components=2, surface=grayordinates.surfaces).fit(grayordinates.paths)


def test_fit_is_that_of_the_array(fitted, grayordinates):
    X = in_feature_order(grayordinates)
    plain = SPCATV(n_components=2, structure=grayordinates.structure).fit(X)
    assert np.array_equal(fitted.components_, plain.components_)
    assert fitted.structure_ == grayordinates.structure


def test_structures_are_separate(fitted, grayordinates):
    step = np.zeros(fitted.n_features_in_)
    step[-np.count_nonzero(grayordinates.box) :] = grayordinates.box[grayordinates.box > 0] == 2
    assert fitted.structure_.value(step) == 0


def test_comes_back_as_a_valid_dscalar(fitted, grayordinates, tmp_path):
    paths = fitted.space_.write(fitted.components_, tmp_path)
    assert [path.name for path in paths] == [
        "desc-SPCATV_components.dscalar.nii",
        "desc-SPCATV_components.json",
    ]
    image = nib.load(paths[0])
    assert isinstance(image, Cifti2Image)
    assert image.nifti_header.get_intent()[0] == "ConnDenseScalar"
    scalars, axis = image.header.get_axis(0), image.header.get_axis(1)
    assert axis == grayordinates.axis
    assert list(scalars.name) == ["component 1", "component 2"]
    # what comes back goes in again
    assert np.array_equal(fitted.masker_.transform(paths[0]), fitted.components_)
    values = np.asanyarray(image.dataobj)
    surface = grayordinates.axis.surface_mask
    assert np.array_equal(values[:, surface], fitted.components_[:, : surface.sum()])


def test_series_and_images_give_the_same_rows(grayordinates, monkeypatch):
    series = Cifti2Image(grayordinates.values, (SeriesAxis(0, 1, N_IMAGES), grayordinates.axis))
    path = grayordinates.folder / "all.dtseries.nii"
    nib.save(series, path)
    # so small that the file is read in many blocks
    monkeypatch.setattr("spcatv.images.spaces.cifti.BLOCK_VALUES", 1000)
    expected = in_feature_order(grayordinates)
    for imgs in (path, series, nib.load(path), [nib.load(p) for p in grayordinates.paths]):
        cohort = read_cohort(
            imgs,
            surface=grayordinates.surfaces,
            reading=Reading(standardize_runs=False),
        )
        assert np.array_equal(cohort.X, expected)


def test_mask_and_bad_grayordinates(grayordinates):
    rng = np.random.default_rng(0)
    keep = rng.random(len(grayordinates.axis)) < 0.8
    image = Cifti2Image(keep[None].astype(np.float32), (ScalarAxis(["mask"]), grayordinates.axis))
    by_image = read_cohort(grayordinates.paths, surface=grayordinates.surfaces, mask=image)
    by_array = read_cohort(grayordinates.paths, surface=grayordinates.surfaces, mask=keep)
    assert by_image.X.shape == (N_IMAGES, keep.sum())
    assert np.array_equal(by_image.X, by_array.X)
    values = grayordinates.values.copy()
    values[:, ~keep] = 3
    constant = Cifti2Image(values, (SeriesAxis(0, 1, N_IMAGES), grayordinates.axis))
    with pytest.warns(UserWarning, match="grayordinates were dropped"):
        dropped = read_cohort(
            constant, surface=grayordinates.surfaces, reading=Reading(standardize_runs=False)
        )
    assert np.array_equal(dropped.X, by_array.X)
    assert dropped.space.structure() == by_array.space.structure()
    assert np.array_equal(dropped.space.places, by_array.space.places)


def test_voxels_alone_need_no_surface(grayordinates):
    voxels = np.flatnonzero(grayordinates.axis.volume_mask)
    axis = grayordinates.axis[voxels]
    image = Cifti2Image(grayordinates.values[:, voxels], (SeriesAxis(0, 1, N_IMAGES), axis))
    cohort = read_cohort(image)
    assert cohort.space.structure() == grid(grayordinates.box, voxel_size=VOXEL_SIZE)


def test_saved_and_loaded(fitted, grayordinates, tmp_path):
    again = ImageSPCATV.load(fitted.save(tmp_path / "model"))
    assert np.array_equal(again.transform(grayordinates.paths), fitted.transform(grayordinates.paths))
    assert again.components_img_.header.get_axis(1) == grayordinates.axis
    assert (tmp_path / "model" / "maps" / "desc-SPCATV_components.dscalar.nii").is_file()


def test_state_round_trip(fitted, grayordinates):
    space = type(fitted.space_).from_state(*fitted.space_.state())
    assert space.axis == grayordinates.axis
    assert space.structure() == fitted.structure_
    assert np.array_equal(space.places, fitted.space_.places)


def test_bad_input(grayordinates, fitted, tmp_path):
    with pytest.raises(ImageError, match=r"sub-0\.dscalar\.nii: has cortical surfaces .* meshes are needed"):
        read_cohort(grayordinates.paths)
    small = icosphere(2)
    with pytest.raises(ImageError, match=r"left cortex has 642 vertices, but of the surfaces .* has 162"):
        read_cohort(grayordinates.paths, surface={"left": small, "right": small})
    other = grayordinates.axis[:-3]
    path = tmp_path / "other.dscalar.nii"
    nib.save(Cifti2Image(grayordinates.values[:1, :-3], (ScalarAxis(["x"]), other)), path)
    with pytest.raises(ImageError, match=r"other\.dscalar\.nii: has 15 grayordinates of .* instead of 18"):
        read_cohort([*grayordinates.paths, path], surface=grayordinates.surfaces)
    with pytest.raises(ImageError, match=r"other\.dscalar\.nii: has 15 grayordinates .* as the model"):
        fitted.transform([path])
    with pytest.raises(ImageError, match="mask does not fit"):
        read_cohort(grayordinates.paths, surface=grayordinates.surfaces, mask=path)
    with pytest.raises(ImageError, match=r"mask array has shape \(3,\)"):
        read_cohort(grayordinates.paths, surface=grayordinates.surfaces, mask=np.ones(3))
    cut = tmp_path / "cut.dscalar.nii"
    cut.write_bytes(grayordinates.paths[0].read_bytes()[:-100])
    with pytest.raises(ImageError, match=r"cut\.dscalar\.nii: cannot be read"):
        read_cohort([*grayordinates.paths, cut], surface=grayordinates.surfaces)
    plain = tmp_path / "plain.dscalar.nii"
    nib.save(nib.Nifti1Image(np.zeros((2, 2, 2), np.float32), np.eye(4)), plain)
    with pytest.raises(ImageError, match=r"plain\.dscalar\.nii: not a CIFTI-2 image"):
        read_cohort([plain, plain], surface=grayordinates.surfaces)


def test_grayordinates_are_parsed_once(grayordinates, tmp_path, monkeypatch):
    parsed = []
    own = cifti._axis
    monkeypatch.setattr(cifti, "_axis", lambda xml, number: parsed.append(number) or own(xml, number))
    # nibabel itself would parse all of it
    monkeypatch.setattr(cifti, "open_volume", None)
    series = tmp_path / "run.dtseries.nii"
    times = SeriesAxis(start=0, step=0.8, size=3)
    nib.save(Cifti2Image(grayordinates.values[:3], (times, grayordinates.axis)), series)
    files = cifti.CiftiSpace.open_images([*grayordinates.paths[:3], series])
    assert parsed.count(1) == 1
    assert all(file.axis is files[0].axis for file in files)
    assert files[0].axis == grayordinates.axis
    assert [file.t_r for file in files] == [None, None, None, 0.8]
    assert [file.n_samples for file in files] == [1, 1, 1, 3]
    np.testing.assert_array_equal(np.asarray(files[3].values[:, :]), grayordinates.values[:3])


@pytest.mark.parametrize("change", ["order", "affine"])
def test_as_many_other_grayordinates_are_refused(grayordinates, tmp_path, change):
    axis = grayordinates.axis[np.arange(len(grayordinates.axis))]
    if (
        change == "order"
    ):  # the last two voxels, which describe themselves with the same bytes in another order
        axis = axis[np.r_[np.arange(len(axis) - 2), len(axis) - 1, len(axis) - 2]]
    else:
        axis.affine = np.diag([2.0, 2.0, 3.5, 1.0])
    path = tmp_path / "other.dscalar.nii"
    nib.save(Cifti2Image(grayordinates.values[:1], (ScalarAxis(["thickness"]), axis)), path)
    with pytest.raises(ImageError, match=r"other\.dscalar\.nii: has other vertices or voxels"):
        read_cohort([grayordinates.paths[0], path], surface=grayordinates.surfaces)
