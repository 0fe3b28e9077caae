"""`spca-tv fit` and `transform` on images: the same as the library, and files that others can read."""

import json
import os

import numpy as np
import pytest
from cli_files import AFFINE, SHAPE, listing, read_tsv
from numpy.testing import assert_allclose, assert_array_equal

from spcatv import SPCATV
from spcatv.structure import grid

nib = pytest.importorskip("nibabel", reason="images are read with nibabel (extra `images`)")
pytest.importorskip("nilearn", reason="images are read with nilearn (extra `images`)")

OPTIONS = ("--n-components", "1", "--alpha", "0.1")


def rows_of(folder, mask):
    files = sorted(folder.glob("*.nii.gz"))
    return np.stack([np.asarray(nib.load(file).dataobj)[mask] for file in files])


def test_volumes_as_from_the_array(volumes, mask_array, tmp_path, done):
    """With voxels of equal sides, the structure is that of the mask alone."""
    out = tmp_path / "out"
    done("fit", volumes, "--mask", tmp_path / "mask.nii.gz", *OPTIONS, "--output", out)
    X = rows_of(volumes, mask_array)
    model = SPCATV(1, structure=grid(mask_array), alpha=0.1).fit(X)
    maps = nib.load(out / "desc-SPCATV_components.nii.gz")
    assert maps.shape == (*SHAPE, 1)
    assert_array_equal(maps.affine, AFFINE)
    values = maps.get_fdata(dtype=np.float32)[..., 0]
    assert_array_equal(values[mask_array], model.components_[0])
    assert not values[~mask_array].any()
    mixing = read_tsv(out / "desc-SPCATV_mixing.tsv")
    assert [row["input"] for row in mixing] == [str(file) for file in sorted(volumes.glob("*.nii.gz"))]
    assert_allclose([float(row["component_1"]) for row in mixing], model.transform(X)[:, 0], rtol=1e-5)
    about = json.loads((out / "desc-SPCATV_components.json").read_text())
    assert about["NumberOfFeatures"] == mask_array.sum()
    assert {"dataset_description.json", "desc-SPCATV_metrics.tsv", "model"} < set(listing(out))


def test_every_way_to_name_images_gives_the_same(volumes, tmp_path, done):
    names = sorted(os.listdir(volumes))
    (tmp_path / "list.txt").write_text("# ten maps\n" + "\n".join(f"images/{name}" for name in names) + "\n")
    rows = "\n".join(f"{number}\timages/{name}" for number, name in enumerate(names))
    (tmp_path / "table.tsv").write_text(f"id\tpath\n{rows}\n")
    ways = {
        "folder": [volumes],
        "pattern": [volumes / "sub-*_map.nii.gz"],
        "files": [volumes / name for name in names],
        "list": [tmp_path / "list.txt"],
        "table": [tmp_path / "table.tsv"],
    }
    maps = {}
    for way, given in ways.items():
        more = ("--mask", tmp_path / "mask.nii.gz", "--n-jobs", 2 if way == "list" else 1, "--n-splits", 0)
        done("fit", *given, *more, *OPTIONS, "--quiet", "--output", tmp_path / way)
        maps[way] = np.asarray(nib.load(tmp_path / way / "desc-SPCATV_components.nii.gz").dataobj)
        assert_array_equal(maps[way], maps["folder"], err_msg=way)


def test_configuration_repeats_a_run_on_images(volumes, tmp_path, done):
    (tmp_path / "ages.csv").write_text(
        "participant_id,age,group\n" + "".join(f"sub-{n:02d},{20 + 3 * n},a\n" for n in range(10))
    )
    done(
        *("fit", volumes / "*.nii.gz", "--mask", tmp_path / "mask.nii.gz", *OPTIONS, "--standardize"),
        *("--confounds", tmp_path / "ages.csv", "--confounds-columns", "age", "--output", tmp_path / "first"),
    )
    config = tmp_path / "first" / "desc-SPCATV_config.toml"
    done("fit", "--config", config, "--output", tmp_path / "second")
    first, second = (tmp_path / name / "desc-SPCATV_mixing.tsv" for name in ("first", "second"))
    assert first.read_text() == second.read_text()


def test_transform_gives_the_scores_of_the_fit(volumes, tmp_path, done):
    rows = "".join(f"sub-{n:02d}\t{20 + 3 * n}\t{'FM'[n % 3 % 2]}\n" for n in range(10))
    (tmp_path / "age.tsv").write_text("participant_id\tage\tsex\n" + rows)
    confounds = ("--confounds", tmp_path / "age.tsv")
    done("fit", volumes, "--mask", tmp_path / "mask.nii.gz", *confounds, *OPTIONS, "--output", tmp_path / "o")
    # a larger table will do: the model knows its columns
    lines = (tmp_path / "age.tsv").read_text().splitlines()
    wider = [f"id\t{lines[0]}", *(f"s{n}\t{line}" for n, line in enumerate(lines[1:]))]
    (tmp_path / "age.tsv").write_text("\n".join(wider) + "\n")
    said = done("transform", tmp_path / "o", volumes, *confounds, "--output", tmp_path / "scores.tsv")
    assert f"Scores of 10 samples on 1 component: {tmp_path / 'scores.tsv'}" in said
    expected, got = (read_tsv(tmp_path / name) for name in ("o/desc-SPCATV_mixing.tsv", "scores.tsv"))
    assert [row["input"] for row in got] == [row["input"] for row in expected]
    assert_allclose(
        [float(row["component_1"]) for row in got],
        [float(row["component_1"]) for row in expected],
        rtol=1e-4,
        atol=1e-4,
    )
    fewer = ("--exclude", "sub-03", "sub-07_map", "--output", tmp_path / "fewer.tsv")
    assert "Scores of 8 samples" in done("transform", tmp_path / "o", volumes, *confounds, *fewer)
    kept = [row for row in got if row["participant_id"] not in ("sub-03", "sub-07")]
    assert read_tsv(tmp_path / "fewer.tsv") == kept


def test_another_size_of_the_voxels(volumes, tmp_path, done, refused):
    """The mask is resampled, too, and new images are brought to the grid of the model."""
    mask, out = ("--mask", tmp_path / "mask.nii.gz"), ("--output", tmp_path / "out")
    said = done("fit", volumes, *mask, "--target-affine", "6", *OPTIONS, *out)
    assert "10 of 10 images resampled to its grid" in said
    maps = nib.load(tmp_path / "out" / "desc-SPCATV_components.nii.gz")
    assert_array_equal(np.diag(maps.affine)[:3], 6)
    done("transform", tmp_path / "out", volumes, "--output", tmp_path / "scores.tsv")
    expected, got = (read_tsv(tmp_path / name) for name in ("out/desc-SPCATV_mixing.tsv", "scores.tsv"))
    assert_allclose(*([float(row["component_1"]) for row in rows] for rows in (expected, got)), rtol=1e-4)
    wrong = ("--target-affine", "-2", "--output", tmp_path / "wrong")
    assert "must be a voxel size above 0 mm" in refused("fit", volumes, *mask, *OPTIONS, *wrong)


def octahedron():
    """A closed mesh of 66 vertices, subdivided twice."""
    from nilearn.surface import InMemoryMesh

    coords = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], dtype=float)
    faces = np.array(
        [[0, 2, 4], [2, 1, 4], [1, 3, 4], [3, 0, 4], [2, 0, 5], [1, 2, 5], [3, 1, 5], [0, 3, 5]], dtype=int
    )
    for _ in range(2):
        middle, new = {}, []
        points = list(coords)
        for a, b, c in faces:
            mids = []
            for i, j in ((a, b), (b, c), (c, a)):
                key = (min(i, j), max(i, j))
                if key not in middle:
                    middle[key] = len(points)
                    points.append((points[i] + points[j]) / np.linalg.norm(points[i] + points[j]))
                mids.append(middle[key])
            new += [[a, mids[0], mids[2]], [b, mids[1], mids[0]], [c, mids[2], mids[1]], mids]
        coords, faces = np.array(points), np.array(new)
    return InMemoryMesh(coords.astype(np.float32), faces.astype(np.int32))


def save_mesh(mesh, file):
    arrays = [
        nib.gifti.GiftiDataArray(np.asarray(mesh.coordinates), intent="NIFTI_INTENT_POINTSET"),
        nib.gifti.GiftiDataArray(np.asarray(mesh.faces), intent="NIFTI_INTENT_TRIANGLE"),
    ]
    nib.save(nib.gifti.GiftiImage(darrays=arrays), file)


@pytest.fixture
def surfaces(tmp_path):
    """Eight people with one GIFTI overlay per hemisphere, and the two meshes; the folder of the overlays."""
    mesh = octahedron()
    for side in ("lh", "rh"):
        save_mesh(mesh, tmp_path / f"{side}.surf.gii")
    folder = tmp_path / "overlays"
    folder.mkdir()
    rng = np.random.default_rng(2)
    near = np.argsort(np.linalg.norm(np.asarray(mesh.coordinates) - [0, 0, 1], axis=1))[:9]
    for number in range(8):
        score = 4 * rng.standard_normal()
        for side in "LR":
            values = rng.standard_normal(66).astype(np.float32)
            values[near] += np.float32(score)
            array = nib.gifti.GiftiDataArray(values, intent="NIFTI_INTENT_SHAPE")
            nib.save(nib.gifti.GiftiImage(darrays=[array]), folder / f"sub-{number}_hemi-{side}_t.shape.gii")
    return folder


def test_surfaces_come_back_as_surfaces(surfaces, tmp_path, done):
    meshes = ("--surface", tmp_path / "lh.surf.gii", tmp_path / "rh.surf.gii")
    out = tmp_path / "out"
    done("fit", surfaces, *meshes, *OPTIONS, "--output", out)
    halves = [nib.load(out / f"hemi-{side}_desc-SPCATV_components.func.gii").agg_data() for side in "LR"]
    assert [half.shape for half in halves] == [(66,), (66,)]
    assert all(half.any() for half in halves)
    assert_allclose(sum(float(half @ half) for half in halves), 1, rtol=1e-5)
    assert len(read_tsv(out / "desc-SPCATV_mixing.tsv")) == 8
    table = tmp_path / "pairs.tsv"
    rows = [f"overlays/sub-{n}_hemi-L_t.shape.gii\toverlays/sub-{n}_hemi-R_t.shape.gii" for n in range(8)]
    table.write_text("left\tright\n" + "\n".join(rows) + "\n")
    done("fit", table, *meshes, *OPTIONS, "--output", tmp_path / "pairs")
    done("fit", "--config", tmp_path / "pairs" / "desc-SPCATV_config.toml", "--output", tmp_path / "again")
    for name in ("pairs", "again"):
        again = nib.load(tmp_path / name / "hemi-R_desc-SPCATV_components.func.gii").agg_data()
        assert_array_equal(again, halves[1])


def test_one_hemisphere_alone(surfaces, tmp_path, done):
    meshes = ("--surface", tmp_path / "lh.surf.gii", "-")
    done("fit", surfaces / "*hemi-L*", *meshes, *OPTIONS, "--output", tmp_path / "out")
    assert (tmp_path / "out" / "hemi-L_desc-SPCATV_components.func.gii").is_file()
    assert not (tmp_path / "out" / "hemi-R_desc-SPCATV_components.func.gii").exists()
    done("fit", "--config", tmp_path / "out" / "desc-SPCATV_config.toml", "--output", tmp_path / "again")


def test_cifti_comes_back_as_cifti(tmp_path, done):
    for side in ("lh", "rh"):
        save_mesh(octahedron(), tmp_path / f"{side}.surf.gii")
    kept = np.arange(60)  # the others are no cortex
    voxels = np.ones((3, 3, 2), dtype=bool)
    axis = (
        nib.cifti2.BrainModelAxis.from_surface(kept, 66, "CORTEX_LEFT")
        + nib.cifti2.BrainModelAxis.from_surface(kept, 66, "CORTEX_RIGHT")
        + nib.cifti2.BrainModelAxis.from_mask(voxels, "THALAMUS_LEFT", affine=AFFINE)
    )
    rng = np.random.default_rng(3)
    values = rng.standard_normal((7, len(axis))).astype(np.float32)
    values[:, -9:] += 4 * rng.standard_normal((7, 1)).astype(np.float32)
    for number, row in enumerate(values):
        header = nib.Cifti2Header.from_axes((nib.cifti2.ScalarAxis(["map"]), axis))
        nib.save(nib.Cifti2Image(row[None], header), tmp_path / f"sub-{number}.dscalar.nii")
    meshes = ("--surface", tmp_path / "lh.surf.gii", tmp_path / "rh.surf.gii")
    done("fit", tmp_path / "sub-*.dscalar.nii", *meshes, *OPTIONS, "--output", tmp_path / "out")
    maps = nib.load(tmp_path / "out" / "desc-SPCATV_components.dscalar.nii")
    assert maps.header.get_axis(1) == axis
    assert maps.shape == (1, len(axis))
    assert np.linalg.norm(maps.get_fdata()[0, -9:]) > 0.95, "the component is in the voxels that vary"
    assert len(read_tsv(tmp_path / "out" / "desc-SPCATV_mixing.tsv")) == 7


def test_surface_that_does_not_match(surfaces, tmp_path, refused):
    from nilearn.surface import InMemoryMesh

    small = InMemoryMesh(np.eye(3, dtype=np.float32), np.array([[0, 1, 2]], dtype=np.int32))
    save_mesh(small, tmp_path / "small.surf.gii")
    meshes = ("--surface", tmp_path / "lh.surf.gii", tmp_path / "small.surf.gii")
    line = refused("fit", surfaces, *meshes, "--output", tmp_path / "out")
    assert "sub-0_hemi-R_t.shape.gii" in line
    assert "66" in line
    assert "3" in line
    (surfaces / "sub-3_hemi-R_t.shape.gii").unlink()
    meshes = ("--surface", tmp_path / "lh.surf.gii", tmp_path / "rh.surf.gii")
    line = refused("fit", surfaces, *meshes, "--output", tmp_path / "out")
    assert "sub-3_hemi-L_t.shape.gii" in line
    assert not (tmp_path / "out").exists()


def test_names_of_the_mask_rules_are_those_of_the_library():
    from spcatv.cli.app import BAD_FEATURES, MASK_RULES
    from spcatv.images import masking, quality

    assert masking.STRATEGIES == MASK_RULES
    assert quality.RULES == BAD_FEATURES
