"""Every wrong input gets one line that names the file and says what is wrong."""

import gzip

import numpy as np
import pytest
from image_files import write_curv, write_gifti, write_mgh, write_surface

pytest.importorskip("nilearn")
import nibabel as nib

from spcatv.images import ImageError, ImageSPCATV, read_cohort


def refused(match, *args, **kwargs):
    with pytest.raises(ImageError, match=match) as caught:
        read_cohort(*args, **kwargs)
    assert "\n" not in str(caught.value)


def saved(path, shape=(6, 5, 4), affine=None, value=1.0):
    values = np.random.default_rng(0).random(shape).astype(np.float32) * value
    nib.save(nib.Nifti1Image(values, np.diag([3.0, 3, 3, 1]) if affine is None else affine), path)
    return path


@pytest.fixture
def three(tmp_path):
    return [saved(tmp_path / f"{name}.nii.gz", value=n + 1) for n, name in enumerate("abc")]


BOX = np.ones((6, 5, 4), dtype=bool)


def test_other_shape(three, tmp_path):
    odd = saved(tmp_path / "odd.nii.gz", shape=(6, 5, 5))
    refused(
        r"odd\.nii\.gz: has shape 6 x 5 x 5 instead of 6 x 5 x 4; the first image is .*a\.nii\.gz",
        [*three, odd],
    )


@pytest.mark.parametrize(
    ("affine", "how"),
    [
        (np.diag([2.0, 2, 2, 1]), r"voxels of 2 x 2 x 2 instead of 3 x 3 x 3 mm"),
        (np.diag([-3.0, 3, 3, 1]), r"another orientation"),
        (
            np.array([[3.0, 0, 0, 12], [0, 3, 0, 0], [0, 0, 3, 0], [0, 0, 0, 1]]),
            r"origin \(12, 0, 0\) instead",
        ),
    ],
)
def test_other_affine(three, tmp_path, affine, how):
    odd = saved(tmp_path / "odd.nii.gz", affine=affine)
    refused(
        rf"odd\.nii\.gz: has another affine .*{how}.*; the first image is .*a\.nii\.gz",
        [*three, odd],
        mask=BOX,
    )


def test_rounding_of_an_affine_is_no_difference(three, tmp_path):
    near = saved(tmp_path / "near.nii.gz", affine=np.diag([3.0, 3.00001, 3, 1]))
    read_cohort([*three, near], mask=BOX)


def test_new_images_must_lie_on_the_mask(three, tmp_path):
    model = ImageSPCATV(n_components=1, mask=BOX).fit(three)
    with pytest.raises(ImageError, match=r"odd\.nii\.gz: has shape .*, compared with the mask of the model"):
        model.transform([saved(tmp_path / "odd.nii.gz", shape=(3, 3, 3))])
    with pytest.raises(ImageError, match="fitted to volume images, these are surface images"):
        model.transform([tmp_path / "lh.shape.gii"])


def test_masks_that_do_not_fit(three, tmp_path):
    small = saved(tmp_path / "mask.nii.gz", shape=(3, 3, 3))
    refused(r"mask\.nii\.gz: the mask does not fit the image .*: it has shape 3 x 3 x 3", three, mask=small)
    shifted = nib.Nifti1Image(BOX.astype(np.uint8), np.diag([2.0, 2, 2, 1]))
    refused(r"the mask: the mask does not fit the image .*: it has another affine", three, mask=shifted)
    refused(r"mask array has shape \(2, 2, 2\)", three, mask=np.ones((2, 2, 2)))
    four = nib.Nifti1Image(np.ones((6, 5, 4, 2), np.uint8), np.diag([3.0, 3, 3, 1]))
    refused(r"a mask is one 3-D image", three, mask=four)


@pytest.mark.parametrize(
    ("values", "how"),
    [
        (np.zeros((6, 5, 4)), "the mask is empty"),
        (np.full((6, 5, 4), 0.3), "values between whole numbers"),
        (np.full((6, 5, 4), -1.0), "labels go from 0"),
        (np.full((6, 5, 4), np.nan), "NaN or infinite"),
    ],
)
def test_masks_without_sense(three, tmp_path, values, how):
    path = tmp_path / "mask.nii.gz"
    nib.save(nib.Nifti1Image(values.astype(np.float32), np.diag([3.0, 3, 3, 1])), path)
    refused(rf"mask\.nii\.gz: .*{how}", three, mask=path)


def test_a_mask_that_is_no_image(three, tmp_path):
    refused(r"nowhere\.nii: no such file, nor a strategy", three, mask=tmp_path / "nowhere.nii")
    refused(r"grey: no such file, nor a strategy for a mask .*'gm-template'", three, mask="grey")
    refused(r"the mask: not a volume", three, mask=42)
    with_nothing = saved(tmp_path / "nothing.nii.gz", value=0)
    refused(r"'nonzero' is empty", [with_nothing, with_nothing])
    refused(r"'background' is empty", [with_nothing, with_nothing], mask="background")


def test_one_image_or_none(three):
    refused(r"a\.nii\.gz: one image only", three[:1])
    refused(r"a\.nii\.gz: one image only", three[0])
    refused("no image was given", [])
    refused(r"nothing_\*\.nii: no file matches", "nothing_*.nii")


def test_no_images_at_all(three, tmp_path):
    refused(r"an array of shape \(3, 4\) is not an image", np.ones((3, 4)))
    refused("images are files, image objects or lists", 3)
    refused(r"is a directory", [tmp_path, three[0]])
    refused(r"gone\.nii\.gz: no such file", [three[0], tmp_path / "gone.nii.gz"])
    refused("surfaces were given, but the images are volumes", three, surface="fsaverage5")
    refused(r"c\.gii: is a surface image, but the first one, .*a\.nii\.gz", [three[0], tmp_path / "c.gii"])
    refused("image 1: not a volume", [object(), object()])


def test_complex_and_five_dimensional_images(three):
    five = nib.Nifti1Image(np.zeros((2, 2, 2, 1, 3), np.float32), np.eye(4))
    refused(r"3 or 4 dimensions", [five, five])
    complex_ = nib.Nifti1Image(np.zeros((2, 2, 2), np.complex64), np.eye(4))
    refused(r"image 1: .*complex64", [complex_, complex_])


@pytest.mark.parametrize("name", ["text.nii", "text.nii.gz", "text.mgz", "text.txt"])
def test_not_an_image(three, tmp_path, name):
    path = tmp_path / name
    path.write_text("subject\tage\n" * 100)
    refused(rf"{name}: (not an image|cannot be read)", [*three, path], mask=BOX)


def test_empty_damaged_and_cut_files_are_described_at_once(three):
    empty, cut, other = three
    empty.write_bytes(b"")
    cut.write_bytes(cut.read_bytes()[:-200])
    other.write_bytes(b"no image")
    refused(r"3 images cannot be used: .*a\.nii\.gz: is empty; .*b\.nii\.gz: .*; .*c\.nii\.gz: ", three)


@pytest.mark.parametrize("name", ["cut.nii", "cut.nii.gz", "cut.mgz", "cut.mgh", "empty.nii", "empty.nii.gz"])
@pytest.mark.parametrize("share", [0.3, 0.95])
def test_truncated_volumes(tmp_path, name, share):
    shape = (20, 20, 20)
    values = np.random.default_rng(0).random(shape).astype(np.float32)
    whole, path = tmp_path / f"whole_{name}", tmp_path / name
    image = nib.MGHImage if ".mg" in name else nib.Nifti1Image
    nib.save(image(values, np.eye(4, dtype=np.float32)), whole)
    content = whole.read_bytes()
    path.write_bytes(b"" if "empty" in name else content[: int(share * len(content))])
    refused(rf"{name}: (not an image|cannot be read|is empty)", [whole, path], mask=np.ones(shape, bool))


def test_damaged_bytes_in_a_compressed_file(three, tmp_path):
    content = bytearray(three[0].read_bytes())
    content[-20:-4] = b"\0" * 16
    path = tmp_path / "damaged.nii.gz"
    path.write_bytes(bytes(content))
    refused(r"damaged\.nii\.gz: (not an image|cannot be read)", [three[0], path], mask=BOX)


@pytest.mark.parametrize("name", ["run.nii.gz", "one.nii.gz", "run.mgz", "one.mgz"])
@pytest.mark.parametrize("mask", [BOX, None])
@pytest.mark.filterwarnings("ignore:2 of 2 images are runs")
def test_damage_that_only_the_checksum_shows(tmp_path, name, mask):
    """A flipped bit of a stored block can be decoded, and so can a stream without its last bytes."""
    shape = (6, 5, 4, 3) if "run" in name else (6, 5, 4)
    values = 10 + np.random.default_rng(0).random(shape).astype(np.float32)
    image = (nib.MGHImage if name.endswith(".mgz") else nib.Nifti1Image)(values, np.diag([3.0, 3, 3, 1]))
    content = gzip.compress(image.to_bytes(), 0)
    whole, damaged = tmp_path / f"whole_{name}", tmp_path / name
    whole.write_bytes(content)
    place = content.index(values.astype(">f4" if "mgz" in name else "<f4").tobytes("F")[-40:])
    flipped = bytearray(content)
    flipped[place] ^= 64
    for other in (bytes(flipped), content + b"rest", *(content[:-missing] for missing in range(1, 10))):
        damaged.write_bytes(other)
        refused(rf"\b{name}: cannot be read", [whole, damaged], mask=mask)


def test_every_cut_of_a_file_is_reported(tmp_path):
    """However a file is cut, the error is an ImageError, and no data are made up."""
    coords = np.random.default_rng(0).random((50, 3))
    triangles = np.stack([np.arange(48), np.arange(1, 49), np.arange(2, 50)], axis=1)
    write_gifti(tmp_path / "lh.gii", coords[:, 0])
    write_mgh(tmp_path / "lh.mgz", coords[:, 0])
    write_curv(tmp_path / "lh.curv", coords[:, 0])
    write_surface(tmp_path / "surface.gii", coords, triangles)
    nib.freesurfer.write_geometry(tmp_path / "lh.white", coords, triangles)
    surface = {"left": (coords, triangles)}
    for name in ("lh.gii", "lh.mgz", "lh.curv"):
        content = (tmp_path / name).read_bytes()
        shortest = [len(content) - missing for missing in range(1, 10)] if name.endswith(".mgz") else []
        for length in [*np.linspace(0, len(content) - 4, 60).astype(int), *shortest]:
            cut = tmp_path / f"cut.{name}"
            cut.write_bytes(content[:length])
            refused(r"cut\.", {"left": [tmp_path / name, cut]}, surface=surface)
    for name in ("surface.gii", "lh.white"):
        content = (tmp_path / name).read_bytes()
        for length in np.linspace(0, len(content) - 4, 60).astype(int):
            cut = tmp_path / f"cut.{name}"
            cut.write_bytes(content[:length])
            refused(r"cut\.", {"left": [tmp_path / "lh.gii"] * 2}, surface={"left": cut})


def test_surfaces_that_do_not_match(tmp_path):
    coords = np.random.default_rng(0).random((50, 3))
    triangles = np.stack([np.arange(48), np.arange(1, 49), np.arange(2, 50)], axis=1)
    surface = {"left": (coords, triangles)}
    for write, name in ((write_gifti, "lh.a.gii"), (write_mgh, "lh.a.mgh"), (write_curv, "lh.a")):
        write(tmp_path / name, np.arange(40.0))
        refused(rf"{name}: holds 40 values .* 50 vertices", {"left": [tmp_path / name] * 2}, surface=surface)
    refused("overlays need their surfaces", [tmp_path / "lh.a.gii"] * 1)
    refused("surface must be 'fsaverage5'", {"left": [tmp_path / "lh.a.gii"]}, surface="fsaverage9")
    refused("a damaged mesh", {"left": [tmp_path / "lh.a"]}, surface={"left": (coords, triangles + 9)})
    refused("not a triangle mesh", {"left": [tmp_path / "lh.a"]}, surface={"left": (coords, coords[:, :2])})
    write_surface(tmp_path / "lh.surf.gii", coords, triangles)
    refused(r"lh\.surf\.gii: is a surface, not values", {"left": [tmp_path / "lh.surf.gii"]}, surface=surface)
    no_surface = {"left": tmp_path / "lh.a.gii"}
    refused(r"lh\.a\.gii: a GIFTI file without a surface", {"left": [tmp_path / "lh.a"]}, surface=no_surface)
    refused("keys 'left' and 'right'", {"both": [1]}, surface=surface)
    refused("a pair .* is needed, got 3", [(1, 2, 3)], surface=surface)
    write_curv(tmp_path / "lh.good", np.arange(50.0))
    good = {"left": [tmp_path / "lh.good"]}
    refused("mask array has shape", good, surface=surface, mask=np.ones(3))
    refused(r"lh\.a: holds 40 values", good, surface=surface, mask={"left": tmp_path / "lh.a"})
    refused(r"lh\.b: no such file", good, surface=surface, mask=tmp_path / "lh.b")
    both = {"left": (coords, triangles), "right": (coords, triangles)}
    refused("mask.gii: .* hemisphere", good, surface=both, mask="mask.gii")
    refused("must be given for the hemispheres", good, surface=surface, mask={"right": tmp_path / "lh.a"})
    refused(r"lh\.good: one image only", good, surface=surface)


def test_hemispheres_of_different_length(tmp_path):
    coords = np.random.default_rng(0).random((50, 3))
    triangles = np.stack([np.arange(48), np.arange(1, 49), np.arange(2, 50)], axis=1)
    surface = dict.fromkeys(("left", "right"), (coords, triangles))
    write_mgh(tmp_path / "lh.x.mgh", np.random.default_rng(0).random((3, 50)))
    write_mgh(tmp_path / "rh.x.mgh", np.random.default_rng(0).random((2, 50)))
    left, right = tmp_path / "lh.x.mgh", tmp_path / "rh.x.mgh"
    refused("equally many samples", {"left": [left], "right": [right]}, surface=surface)
    refused(
        "2 files of the left hemisphere but 1 of the right",
        {"left": [left] * 2, "right": right},
        surface=surface,
    )


def test_nan_in_new_images_names_the_file(three, tmp_path):
    model = ImageSPCATV(n_components=1, mask=BOX).fit(three)
    values = np.ones((6, 5, 4), np.float32)
    values[2, 2, :2] = np.nan
    path = tmp_path / "new.nii.gz"
    nib.save(nib.Nifti1Image(values, np.diag([3.0, 3, 3, 1])), path)
    with pytest.raises(ImageError, match=r"new\.nii\.gz: 2 of the model's 120 voxels are NaN or infinite"):
        model.transform([three[0], path])


def test_raise_instead_of_drop(three):
    mask = np.ones((6, 5, 4), dtype=bool)
    flat = nib.Nifti1Image(np.ones((6, 5, 4, 3), np.float32), np.eye(4))
    refused(r"no voxels are left: of 120, 120 have the same value in all 3 images", flat, mask=mask)
    values = np.random.default_rng(0).random((6, 5, 4, 3)).astype(np.float32)
    values[0, 0, 0] = 7
    values[1, 0, 0, 1] = np.inf
    image = nib.Nifti1Image(values, np.eye(4))
    refused(
        r"2 of 120 voxels cannot be used: 1 have the same .* 1 are NaN .*image 1\[1\]",
        image,
        mask=mask,
        bad_features="raise",
    )
    with pytest.raises(ValueError, match="unknown bad_features 'ignore'"):
        read_cohort(image, mask=mask, bad_features="ignore")


def test_gzip_of_something_else(three, tmp_path):
    path = tmp_path / "other.nii.gz"
    path.write_bytes(gzip.compress(b"hello" * 1000))
    refused(r"other\.nii\.gz: (not an image|cannot be read)", [three[0], path], mask=BOX)


def test_a_file_without_permission_is_reported(three, monkeypatch):
    """Root may read everything, so the system itself says no."""

    def denied(*args, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("spcatv._util.atomic_files.os.open", denied)
    refused(r"a\.nii\.gz: cannot be read \(Permission denied\)", three, mask=BOX)


@pytest.mark.parametrize(("value", "dtype"), [(1e30, "float32"), (-1e200, "float64")])
def test_an_image_without_room_for_squares_is_named_while_it_is_read(volumes, tmp_path, value, dtype):
    image = nib.load(volumes.paths[4])
    values = np.asanyarray(image.dataobj).astype(np.float64)
    values[tuple(np.argwhere(volumes.inside)[7])] = value
    values[tuple(np.argwhere(volumes.inside)[9])] = np.nan
    damaged = tmp_path / "sub-05_damaged.nii.gz"
    nib.save(nib.Nifti1Image(values, image.affine), damaged)
    with pytest.raises(
        ImageError, match=rf"sub-05_damaged\.nii\.gz: values of up to {abs(value):.3g}".replace("+", r"\+")
    ):
        read_cohort([*volumes.paths[:4], damaged], mask=volumes.mask, dtype=dtype)
