"""Surfaces: every format gives the same model, hemispheres side by side, the medial wall dropped."""

import gzip
import tracemalloc

import numpy as np
import pytest
from image_files import write_gifti, write_mgh, write_surface

pytest.importorskip("nilearn")
import nibabel as nib
from nilearn.surface import InMemoryMesh, PolyMesh, SurfaceImage

from spcatv import SPCATV
from spcatv.images import BadFeatureWarning, ImageError, ImageSPCATV, read_cohort
from spcatv.images.spaces.overlays import hemisphere_of, pair_hemispheres
from spcatv.structure import concat, mesh


@pytest.fixture(scope="module")
def cortex(thickness):
    return {hemi: inside.astype(np.int32) for hemi, inside in thickness.cortex.items()}


@pytest.fixture(scope="module")
def expected(thickness):
    sides = [thickness.values[hemi][:, thickness.cortex[hemi]] for hemi in ("left", "right")]
    return np.concatenate(sides, axis=1)


@pytest.fixture(scope="module")
def structure(thickness, fsaverage):
    return concat([mesh(*fsaverage[hemi], mask=thickness.cortex[hemi]) for hemi in ("left", "right")])


def settings(**more):
    return {"n_components": 2, "surface": "fsaverage5", **more}


@pytest.fixture(scope="module")
def fitted(thickness, cortex):
    return ImageSPCATV(**settings(mask=cortex)).fit(thickness.files["mgh"])


def test_fit_from_mgh_is_the_fit_from_the_array(fitted, expected, structure):
    plain = SPCATV(n_components=2, structure=structure).fit(expected)
    assert np.array_equal(fitted.components_, plain.components_)
    assert fitted.structure_ == structure


@pytest.mark.parametrize("kind", ["gifti", "curv"])
def test_formats_give_the_same_model(kind, fitted, thickness, cortex):
    other = ImageSPCATV(**settings(mask=cortex)).fit(thickness.files[kind])
    assert np.array_equal(other.components_, fitted.components_)
    assert np.array_equal(fitted.transform(thickness.files[kind]), fitted.transform(thickness.files["mgh"]))


def test_medial_wall_is_dropped_without_a_mask(thickness, expected, structure):
    with pytest.warns(BadFeatureWarning, match=r"of 20,484 vertices were dropped"):
        cohort = read_cohort(thickness.files["gifti"], surface="fsaverage5")
    assert cohort.dropped.n_constant == sum((~inside).sum() for inside in thickness.cortex.values())
    assert np.array_equal(cohort.X, expected)
    assert cohort.space.structure() == structure


def test_forms_of_input_give_the_same_rows(thickness, fsaverage, cortex, expected, tmp_path):
    mgh = thickness.files["mgh"]
    left, right = mgh[:12], mgh[12:]
    stacks = {}
    for hemi, values in thickness.values.items():
        stacks[hemi] = tmp_path / f"{hemi}.mgz"
        write_mgh(stacks[hemi], values)
    gifti = {}
    for hemi, values in thickness.values.items():
        gifti[hemi] = tmp_path / f"{hemi}.func.gii"
        write_gifti(gifti[hemi], values)
    poly = PolyMesh(**{hemi: InMemoryMesh(*arrays) for hemi, arrays in fsaverage.items()})
    data = {hemi: values.T for hemi, values in thickness.values.items()}
    singles = [
        SurfaceImage(poly, {hemi: values[number] for hemi, values in thickness.values.items()})
        for number in range(12)
    ]
    forms = [
        {"left": left, "right": right},
        list(zip(left, right, strict=True)),
        [*right, *left],
        {"left": stacks["left"], "right": stacks["right"]},
        {"left": gifti["left"], "right": gifti["right"]},
        {"left": [nib.load(gifti["left"])], "right": [nib.load(gifti["right"])]},
        SurfaceImage(poly, data),
        singles,
    ]
    for form in forms:
        cohort = read_cohort(form, surface=fsaverage, mask=cortex)
        assert np.array_equal(cohort.X, expected)
        assert len(set(cohort.names)) == 12
    # SurfaceImages bring their mesh
    assert np.array_equal(read_cohort(singles, mask=cortex).X, expected)


def test_stacked_frames_are_read_one_by_one(fsaverage, tmp_path):
    """The frames of a FreeSurfer stack are never in memory all at once beside the data matrix."""
    coords, triangles = fsaverage["left"]
    values = np.random.default_rng(0).random((40, len(coords))).astype(np.float32)
    write_mgh(tmp_path / "lh.stack.mgh", values)
    inside = np.arange(len(coords)) < 100
    surface = {"left": (coords, triangles)}
    tracemalloc.start()
    cohort = read_cohort({"left": tmp_path / "lh.stack.mgh"}, surface=surface, mask={"left": inside})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(cohort.X, values[:, inside])
    assert peak < values.nbytes / 2


def test_gifti_series_in_one_array(fsaverage, tmp_path):
    values = np.random.default_rng(0).random((3, len(fsaverage["left"][0]))).astype(np.float32)
    array = nib.gifti.GiftiDataArray(np.ascontiguousarray(values.T))
    nib.save(nib.gifti.GiftiImage(darrays=[array]), tmp_path / "lh.series.func.gii")
    content = (tmp_path / "lh.series.func.gii").read_bytes()
    (tmp_path / "lh.series.func.gii.gz").write_bytes(gzip.compress(content))
    for name in ("lh.series.func.gii", "lh.series.func.gii.gz"):
        cohort = read_cohort(tmp_path / name, surface={"left": fsaverage["left"]})
        assert np.array_equal(cohort.X, values)


def test_forms_of_surfaces_and_masks(thickness, fsaverage, expected, tmp_path):
    files, masks, labels = {}, {}, {}
    for hemi, arrays in fsaverage.items():
        inside = thickness.cortex[hemi]
        files[hemi] = tmp_path / f"{hemi}.surf.gii"
        write_surface(files[hemi], *arrays)
        nib.freesurfer.write_geometry(tmp_path / f"{hemi[0]}h.white", *arrays)
        masks[hemi] = tmp_path / f"{hemi}_mask.shape.gii"
        write_gifti(masks[hemi], inside.astype(np.float32))
        labels[hemi] = tmp_path / f"{hemi[0]}h.cortex.label"
        rows = [f"{vertex}  0.0  0.0  0.0 0.0" for vertex in np.flatnonzero(inside)]
        labels[hemi].write_text("#!ascii label\n" + "\n".join([str(len(rows)), *rows]) + "\n")
    poly = PolyMesh(**{hemi: InMemoryMesh(*arrays) for hemi, arrays in fsaverage.items()})
    surfaces = [
        files,
        (files["left"], files["right"]),
        [tmp_path / "lh.white", tmp_path / "rh.white"],
        poly,
        fsaverage,
    ]
    whole = np.concatenate(list(thickness.cortex.values()))
    image = SurfaceImage(poly, dict(thickness.cortex))
    for surface in surfaces:
        cohort = read_cohort(thickness.files["mgh"], surface=surface, mask=masks)
        assert np.array_equal(cohort.X, expected)
    for mask in (masks, tuple(masks.values()), labels, labels["left"], str(labels["right"]), whole, image):
        assert np.array_equal(read_cohort(thickness.files["mgh"], surface=files, mask=mask).X, expected)


def test_one_hemisphere(thickness, fsaverage):
    files = [file for file in thickness.files["gifti"] if "hemi-R" in file.name]
    cohort = read_cohort(
        files, surface={"right": fsaverage["right"]}, mask={"right": thickness.cortex["right"]}
    )
    assert np.array_equal(cohort.X, thickness.values["right"][:, thickness.cortex["right"]])
    with pytest.raises(
        ImageError,
        match="of the right hemisphere, the surfaces of the left and the right hemispheres; for right alone",
    ):
        read_cohort(files, surface=fsaverage)


def test_labels_keep_total_variation_inside(thickness, cortex, structure):
    parcels = {hemi: inside.copy() for hemi, inside in cortex.items()}
    parcels["left"][5000:] *= 2
    space = read_cohort(thickness.files["mgh"], surface="fsaverage5", mask=parcels).space
    step = np.concatenate([labels[labels != 0] for labels in parcels.values()]) == 2
    assert space.structure().value(step.astype(float)) == 0
    assert structure.value(step.astype(float)) > 0


def test_maps_are_gifti_that_other_tools_read(fitted, thickness, tmp_path):
    paths = fitted.space_.write(fitted.components_, tmp_path)
    assert [path.name for path in paths] == [
        "hemi-L_desc-SPCATV_components.func.gii",
        "hemi-R_desc-SPCATV_components.func.gii",
        "desc-SPCATV_components.json",
    ]
    start = 0
    for path, hemi, name in zip(paths, ("left", "right"), ("CortexLeft", "CortexRight"), strict=False):
        image = nib.load(path)
        assert image.meta["AnatomicalStructurePrimary"] == name
        values = np.stack([array.data for array in image.darrays])
        inside = thickness.cortex[hemi]
        stop = start + inside.sum()
        assert np.array_equal(values[:, inside], fitted.components_[:, start:stop])
        assert not values[:, ~inside].any()
        start = stop


def test_components_image_and_masker(fitted, thickness):
    image = fitted.components_img_
    assert isinstance(image, SurfaceImage)
    assert image.shape == (20484, 2)
    assert np.allclose(fitted.masker_.transform(image), fitted.components_)
    back = fitted.inverse_transform(fitted.transform(thickness.files["mgh"]))
    assert back.shape == (20484, 12)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("surf/lh.thickness", ("left", "surf/*.thickness")),
        ("rh.thickness.fwhm10.mgh", ("right", "*.thickness.fwhm10.mgh")),
        ("sub-1_hemi-R_thickness.gii", ("right", "sub-1_hemi-*_thickness.gii")),
        ("sub-1_hemi-L.func.gii", ("left", "sub-1_hemi-*.func.gii")),
        ("100307.L.thickness.32k_fs_LR.shape.gii", ("left", "100307.*.thickness.32k_fs_LR.shape.gii")),
        ("sub-1_thickness.gii", None),
        ("alhambra.gii", None),
    ],
)
def test_hemispheres_in_names(name, expected):
    assert hemisphere_of(name) == expected


def test_pairing_by_name():
    names = ["a/lh.area", "b/rh.area", "b/lh.area", "a/rh.area"]
    pairs = [{"left": "a/lh.area", "right": "a/rh.area"}, {"left": "b/lh.area", "right": "b/rh.area"}]
    assert pair_hemispheres(names) == pairs
    with pytest.raises(ImageError, match=r"b/rh\.area: there is no file of the left hemisphere for it"):
        pair_hemispheres(["a/lh.area", "a/rh.area", "b/rh.area"])
    with pytest.raises(ImageError, match=r"lh\.area: given twice"):
        pair_hemispheres(["lh.area", "rh.area", "lh.area"])
    with pytest.raises(ImageError, match=r"c\.gii: .* hemisphere"):
        pair_hemispheres(["lh.area", "c.gii"])


@pytest.mark.parametrize(
    "name",
    [
        "lh.s0.mgh",
        "s0_lh.thickness.mgh",
        "s0.lh.mgh",
        "s0_hemi-L_x.shape.gii",
        "s0.L.gii",
        "s0_lh2fsaverage5_20.mgh",
    ],
)
def test_names_that_state_their_hemisphere(name):
    assert hemisphere_of(name)[0] == "left"
