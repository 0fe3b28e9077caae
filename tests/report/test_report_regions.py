"""Regions with their places, sizes and names; variance from scores; numbers in formatting."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from spcatv import SPCATV
from spcatv.decomposition import ComponentDiagnostics
from spcatv.metrics import adjusted_explained_variance, cumulative_explained_variance
from spcatv.report import ReportError, component, formatting
from spcatv.report.brain_views import index_grid, surface_view, volume_view
from spcatv.report.drawing import pack_map
from spcatv.report.inputs import variance_of
from spcatv.report.maps import views_of
from spcatv.report.regions import cluster_table, label_features, parts_of, read_names, vertex_areas
from spcatv.stability import Region
from spcatv.structure import grid, icosphere


def model_of(structure, loadings):
    """A fitted model with given loadings."""
    rng = np.random.default_rng(0)
    model = SPCATV(len(loadings), structure=structure).fit(rng.standard_normal((8, loadings.shape[1])))
    model.components_ = loadings
    return model


def test_regions_of_a_field_are_counted_and_placed():
    loading = np.zeros((6, 8))
    loading[1:3, 1:4] = 0.2
    loading[2, 2] = 0.5
    loading[4, 6] = -0.3
    model = model_of((6, 8), loading.reshape(1, -1))
    first, second = cluster_table(model, 0, parts_of(model))
    assert (first.place, first.size, first.part.unit) == ("row 2, column 2", 6.0, "pixels")
    assert first.mean_loading == pytest.approx((5 * 0.2 + 0.5) / 6)
    assert (second.peak, second.peak_loading, second.size) == (4 * 8 + 6, -0.3, 1)
    assert first.share + second.share == pytest.approx(1)


def test_features_without_neighbours_have_their_names():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(np.random.default_rng(0).standard_normal((8, 3)), columns=["b", "a", "c"])
    model = SPCATV(1, sparsity=0.3).fit(X)
    (first, *_) = cluster_table(model, 0, parts_of(model))
    assert first.place == X.columns[first.peak]
    model = SPCATV(1, sparsity=0.3).fit(X.to_numpy())
    (first, *_) = cluster_table(model, 0, parts_of(model))
    assert first.place == f"feature {first.peak}"


def test_sizes_are_in_millimetres(volume, surface):
    for made, unit in ((volume, "mm³"), (surface, "mm²")):
        parts = parts_of(made.model)
        assert parts[-1].stop == made.model.n_features_in_
        table = cluster_table(made.model, 0, parts)
        assert {cluster.part.unit for cluster in table} == {unit}
    voxel = abs(np.linalg.det(volume.mask.affine[:3, :3]))
    (main, *_) = cluster_table(volume.model, 0, parts_of(volume.model))
    assert main.size / voxel == pytest.approx(round(main.size / voxel))
    image = np.asanyarray(volume.model.components_img_.dataobj)[..., 0]
    peak = np.unravel_index(np.abs(image).argmax(), image.shape)
    expected = volume.mask.affine[:3, :3] @ peak + volume.mask.affine[:3, 3]
    assert parts_of(volume.model)[0].coords[main.peak] == pytest.approx(expected)


def test_areas_of_vertices_add_up_to_the_sphere():
    coords, triangles = icosphere(4)
    assert vertex_areas(coords, triangles).sum() == pytest.approx(4 * np.pi, rel=5e-3)


def test_cifti_parts_are_hemispheres_and_voxels(cifti):
    parts = parts_of(cifti.model)
    assert [part.name for part in parts] == ["left hemisphere", "right hemisphere", "subcortical volume"]
    assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
    assert (parts[2].measure == 27).all()


def test_atlas_names_voxels_by_position(volume, tmp_path):
    """An atlas of another grid: left, right, and nothing above z = 30."""
    nib = pytest.importorskip("nibabel")
    affine = np.diag([5.0, 5, 5, 1])
    affine[:3, 3] = [-90, -126, -72]
    x, _, z = np.indices((37, 44, 37)) * 5.0 + affine[:3, 3].reshape(3, 1, 1, 1)
    labels = np.where(z > 30, 0, np.where(x < 0, 3, 7)).astype(np.int16)
    nib.save(nib.Nifti1Image(labels, affine), tmp_path / "atlas.nii.gz")
    (tmp_path / "names.tsv").write_text("index\tname\n3\tleft half\n", encoding="utf-8")
    parts = parts_of(volume.model)
    named = label_features(parts, [tmp_path / "atlas.nii.gz"], table=tmp_path / "names.tsv")
    coords = parts[0].coords
    for feature in range(0, len(coords), 97):
        side = "left half" if coords[feature, 0] < -2.5 else "label 7"
        expected = "" if coords[feature, 2] > 32.5 else side
        if abs(coords[feature, 0]) > 2.5 and abs(coords[feature, 2] - 30) > 2.5:
            assert named[feature] == expected
    table = cluster_table(volume.model, 0, parts, named)
    assert table[0].label in ("left half", "label 7", "")
    assert sum(share for _, share in table[0].composition) <= 1 + 1e-9


def test_atlas_names_vertices_by_hemisphere(surface, tmp_path):
    nib = pytest.importorskip("nibabel")
    files = []
    for hemi, part in surface.mesh.parts.items():
        coords = np.asarray(part.coordinates)
        data = nib.gifti.GiftiDataArray(
            (1 + (coords[:, 1] > 0)).astype(np.int32), intent="NIFTI_INTENT_LABEL"
        )
        table = nib.gifti.GiftiLabelTable()
        # the two files number their names in another order
        for key, name in enumerate(
            ["back", "front"] if hemi == "left" else ["posterior", "anterior"], start=1
        ):
            label = nib.gifti.GiftiLabel(key)
            label.label = name
            table.labels.append(label)
        files.append(tmp_path / f"{hemi}.label.gii")
        nib.save(nib.gifti.GiftiImage(darrays=[data], labeltable=table), files[-1])
    parts = parts_of(surface.model)
    named = label_features(parts, files)
    for part, names in zip(parts, (("back", "front"), ("posterior", "anterior")), strict=True):
        for k in range(0, part.stop - part.start, 501):
            assert named[part.start + k] == names[int(part.coords[k, 1] > 0)]
    with pytest.raises(ReportError, match="2 hemispheres, but 1 label file"):
        label_features(parts, files[:1])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("names.tsv", "index\tname\n1\tA\n2\tB b\n"),
        ("names.csv", "Name,Value\nA,1\nB b,2\n"),
        ("lut.txt", "# comment\n1 A 0 0 0 0\n2 B_b 255 0 0 0\n"),
    ],
)
def test_tables_of_names(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert {key: value.replace("_", " ") for key, value in read_names(tmp_path / name).items()} == {
        1: "A",
        2: "B b",
    }


def test_wrong_atlases_are_refused_by_name(volume, tmp_path):
    nib = pytest.importorskip("nibabel")
    from spcatv.images import ImageError

    parts = parts_of(volume.model)
    nib.save(nib.Nifti1Image(np.full((4, 4, 4), 0.5, np.float32), np.eye(4)), tmp_path / "probability.nii.gz")
    with pytest.raises(ReportError, match=r"probability\.nii\.gz: an atlas is a 3-D image of whole numbers"):
        label_features(parts, [tmp_path / "probability.nii.gz"])
    flat = nib.Nifti1Image(np.ones((4, 4, 4), np.uint8), np.eye(4))
    flat.header["sform_code"], flat.header["srow_z"], flat.header["qform_code"] = 1, 0, 0
    (tmp_path / "flat.nii").write_bytes(flat.header.binaryblock + bytes(4) + bytes(64))
    with pytest.raises(ImageError, match=r"flat\.nii: its affine cannot be inverted"):
        label_features(parts, [tmp_path / "flat.nii"])
    with pytest.raises(ReportError, match=r"lh\.annot: the model has 0 hemispheres"):
        label_features(parts, ["lh.annot"])
    (tmp_path / "names.tsv").write_text("a\tb\n1\t2\n", encoding="utf-8")
    with pytest.raises(ReportError, match="a column of numbers"):
        read_names(tmp_path / "names.tsv")
    for text, message in (("infinity", "a label is a whole number"), (200_000 * "1", "is not a table")):
        (tmp_path / "names.tsv").write_text(f"index\tname\n{text}\tA\n", encoding="utf-8")
        with pytest.raises(ReportError, match=rf"names\.tsv:? {message}"):
            read_names(tmp_path / "names.tsv")


@pytest.mark.parametrize("method", ["auto", "projection"])
def test_variance_from_scores_is_that_from_the_data(line, method):
    model = SPCATV(3, structure=(60,), alpha=0.05, transform_method=method).fit(line.X)
    found = variance_of(model, model.transform(line.X).astype(float), None)
    expected = cumulative_explained_variance(line.X, model.components_, mean=model.mean_)
    assert found.cumulative == pytest.approx(expected, rel=1e-4)
    assert (found.adjusted <= found.own * (1 + 1e-4)).all() or method == "projection"


def test_variances_of_a_joint_fit_add_up(line):
    model = SPCATV(3, structure=(60,)).fit(line.X)
    found = variance_of(model, model.transform(line.X).astype(float), None)
    assert found.adjusted is None
    assert found.cumulative[-1] == pytest.approx(found.own.sum())
    assert adjusted_explained_variance(model.transform(line.X)) == pytest.approx(
        model.explained_variance_, rel=1e-4
    )


def record(**changes):
    known = {
        "objective": -2.0,
        "gap": 0.004,
        "relative_gap": 1e-6,
        "error_bound": 0.01,
        "n_alternations": 3,
        "n_inner_iter": 9,
        "seconds": 0.1,
        "converged": True,
        "sparsity": 0.5,
        "n_nonzero": 10,
        "n_certain": 8,
        "objectives": (-1.0, -2.0),
        "inexactness": (0.1, 0.01),
        "l1": 0.1,
        "tv": 0.2,
    }
    return ComponentDiagnostics(**{**known, **changes})


def certified(refit=None, **changes):
    """The certificate of a record, in words."""
    structure = SimpleNamespace(n_rows=1)
    options = {"l2_": 0.5, "tol": 1e-5, "refit": refit, "mixing_": None, "structure_": structure}
    model = SimpleNamespace(diagnostics_=[record(**changes)], **options)
    return " ".join(component.certificate(model, 0)).replace("\u00a0", " ")


def test_certificate_in_words():
    text = certified()
    assert "within 0.10 % of the optimum of its problem, given the scores" in text  # 0.5 * 0.004 / 2
    assert "10 loadings that are not zero, 8 are certainly not zero" in text
    assert "before the tolerance" not in text
    assert "before the tolerance" in certified(converged=False)
    assert "empty" in certified(n_nonzero=0)
    wanted = certified(target_sparsity=0.5, smoothness=1.0)
    assert "of the optimum of its problem" not in wanted, "the gap is that of the smoothed map"
    assert "The duality gap of the smoothed map" in wanted
    assert "0.10" in wanted, "the bound is for the threshold that is reported"
    # a loading that does not beat zero has no share to be stated
    assert "of the optimum" not in certified(objective=1e-9).split("Its")[0]
    assert certified(refit="support").startswith("The loadings shown were fitted again on their support")


def test_certificate_is_a_true_bound(line):
    """A fit to a far smaller gap does not go below the bound that the words state."""
    from spcatv.solvers import solve

    model = SPCATV(1, structure=(60,), alpha=0.2, tol=1e-2).fit(line.X)
    claimed = component.share_above_optimum(model.diagnostics_[0], model.l2_)
    centred = line.X.astype(float) - line.X.astype(float).mean(axis=0)
    scores = centred @ model.components_[0]
    y = centred.T @ (scores / np.linalg.norm(scores)) / (len(centred) * model.l2_)
    from spcatv.problem import LoadingProblem

    problem = LoadingProblem(y, model.structure_, l1=model.l1_ / model.l2_, tv=model.tv_ / model.l2_)
    best = model.l2_ * (solve(problem, tol=1e-10).value - problem.scale())
    assert model.diagnostics_[0].objective - best <= claimed * abs(best) * (1 + 1e-4) + 1e-9


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.326, "32.6 %"),
        (0.0452, "4.5 %"),
        (1, "100 %"),
        (0.9997, "99.97 %"),
        (0.99, "99.0 %"),
        (0, "0 %"),
        (5.2e-6, "0.00052 %"),
        (1e-12, "less than 0.000001 %"),
    ],
)
def test_percentages(share, text):
    assert formatting.percent(share).replace("\u00a0", " ") == text


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (-0.004, 2, "0.00"),
        (-0.006, 2, "−0.01"),
        (1234.5, 1, "1,234.5"),
        (float("nan"), 2, "–"),
        (-0.0, 0, "0"),
    ],
)
def test_fixed_decimals(value, decimals, text):
    assert formatting.fixed(value, decimals) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1234.5, "1,234"), (-0.0123, "−0.0123"), (5.49e-7, "5.49 × 10⁻⁷"), (2e9, "2.00 × 10⁹")],
)
def test_numbers(value, text):
    assert formatting.number(value).replace("\u00a0", " ") == text


def test_maps_keep_their_zeros_and_nothing_else_becomes_one():
    import base64
    import zlib

    values = np.array([0.0, 1e-12, -1e-12, 0.5, -1.0])
    kept = pack_map(values)
    back = np.frombuffer(zlib.decompress(base64.b64decode(kept["values"])), dtype="<i2") * kept["step"]
    assert ((back == 0) == (values == 0)).all()
    assert back == pytest.approx(values, abs=kept["step"])
    assert (np.sign(back) == np.sign(values)).all()


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 0, 1)])
@pytest.mark.parametrize("signs", [(1, 1, 1), (-1, 1, -1)])
def test_voxels_are_shown_where_they_are(axes, signs):
    """Whatever the order and direction of the axes of an image, a voxel is found at its position in mm."""
    affine = np.eye(4)
    affine[:3, :3] = (np.diag(np.array(signs) * [2.0, 3.0, 4.0]))[:, list(axes)]
    affine[:3, 3] = [10, -20, 5]
    voxels = np.argwhere(np.random.default_rng(0).random((5, 6, 4)) < 0.4)
    shown = index_grid(voxels, affine)
    assert shown.values.max() == len(voxels)
    assert (shown.spacing == [2, 3, 4]).all()
    place = np.round((voxels @ affine[:3, :3].T + affine[:3, 3] - shown.origin) / shown.spacing).astype(int)
    assert (shown.values[tuple(place.T)] == np.arange(1, len(voxels) + 1)).all()


def test_oblique_voxels_are_found_at_their_centres():
    turn = np.array([[np.cos(0.3), -np.sin(0.3), 0], [np.sin(0.3), np.cos(0.3), 0], [0, 0, 1]])
    affine = np.eye(4)
    affine[:3, :3] = 2 * turn
    voxels = np.argwhere(np.ones((6, 6, 3)))
    shown = index_grid(voxels, affine)
    assert len(np.setdiff1d(np.arange(1, len(voxels) + 1), shown.values)) < 0.1 * len(voxels)
    for place in np.argwhere(shown.values)[::7]:
        feature = shown.values[tuple(place)] - 1
        point = shown.origin + place * shown.spacing
        inside = np.abs(np.linalg.inv(affine[:3, :3]) @ (point - affine[:3, 3]) - voxels[feature])
        assert inside.max() <= 0.5 + 1e-9


def test_background_is_the_template_only_where_the_mask_lies_in_its_brain(volume):
    mean = volume.X.mean(axis=0).astype(float)
    assert views_of(volume.model)[0].background_name == "MNI152 template"
    voxels = volume.model.space_.voxel_set
    elsewhere = voxels.affine.copy()
    elsewhere[:3, 3] += 100
    moved = volume_view(replace(voxels, affine=elsewhere), mean, None, sides_known=True)
    assert moved.background_name == "mean of the images"


def test_only_the_mesh_of_the_template_is_inflated(surface):
    sets = surface.model.space_.vertex_sets
    assert list(surface_view(sets).hemispheres[0].shapes) == ["inflated", "folded"]
    assert list(surface_view(sets, "folded").hemispheres[0].shapes) == ["folded", "inflated"]
    left, right = surface_view(sets).hemispheres
    assert left.shapes["inflated"][:, 0].max() < right.shapes["inflated"][:, 0].min(), "side by side"

    def with_triangles(triangles):
        changed = [replace(part, mesh=replace(part.mesh, triangles=triangles(part))) for part in sets]
        return surface_view(changed).hemispheres[0].shapes

    assert "inflated" in with_triangles(lambda part: part.mesh.triangles[::-1, ::-1]), "the same mesh"
    turned = with_triangles(lambda part: part.mesh.n_vertices - 1 - part.mesh.triangles)
    assert list(turned) == ["folded"], "as many vertices, but others are neighbours"


def test_views_by_kind(volume, surface, cifti, image, line):
    kinds = [[view.kind for view in views_of(made.model)] for made in (volume, surface, cifti, image, line)]
    assert kinds == [["volume"], ["surface"], ["surface", "volume"], ["image"], ["line"]]
    cube = model_of(grid((4, 5, 3)), np.eye(1, 60))
    assert [view.kind for view in views_of(cube)] == ["volume"]
    assert not views_of(cube)[0].anatomical
    none = SPCATV(1, alpha=0.2, tv_ratio=0).fit(np.random.default_rng(0).standard_normal((9, 12)))
    assert [(view.kind, view.joined) for view in views_of(none)] == [("line", False)]


def test_frequency_is_that_of_the_thresholded_region():
    """As in the table of regions of the same folder, faint loadings at the edge do not count."""
    loading = np.zeros((6, 8))
    loading[1:3, 1:4] = 0.4
    loading[1:3, 4] = 0.01
    loading[5, 7] = -1e-4
    model = model_of((6, 8), loading.reshape(1, -1))
    region = Region(0, np.flatnonzero(loading > 0.1), 1, 1.0, 0.9, 0.75)
    other = Region(1, np.arange(48), 1, 1.0, 0.9, 0.5)
    stability = SimpleNamespace(regions=(region, other))
    first, second = cluster_table(model, 0, parts_of(model), None, stability)
    assert (first.size, first.found) == (8, 0.75)
    assert second.size == 1
    assert np.isnan(second.found)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([2], " 2"), ([1, 2], "s 1 and 2"), ([3, 4, 5, 6], "s 3 to 6"), ([1, 3, 4, 5, 9], "s 1, 3 to 5 and 9")],
)
def test_names_of_components(numbers, text):
    assert formatting.components(numbers) == f"Component{text}"
