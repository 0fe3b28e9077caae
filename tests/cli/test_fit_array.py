"""`spca-tv fit --array`: every form of array, and what is written."""

import json
import tomllib

import numpy as np
import pytest
from cli_files import fields, listing, read_tsv
from numpy.testing import assert_allclose, assert_array_equal

from spcatv import SPCATV, __version__
from spcatv.estimator.verdicts import verdict_lines
from spcatv.results import read_results
from spcatv.stability import split_halves
from spcatv.structure import grid

OPTIONS = ("--n-components", "2", "--alpha", "0.05")


def reference(structure, X, **options):
    return SPCATV(2, structure=structure, alpha=0.05, random_state=0, **options).fit(X)


def test_same_as_the_library(array, tmp_path, done, usual_splits, monkeypatch):
    monkeypatch.setattr("spcatv.cli.pipeline.AUTO_SPLITS", usual_splits)
    said = done("fit", "--array", array, "--shape", "12,10", *OPTIONS, "--output", tmp_path / "out")
    X = np.load(array)
    model = reference((12, 10), X)
    maps = np.load(tmp_path / "out" / "desc-SPCATV_components.npy", allow_pickle=False)
    assert_array_equal(maps.reshape(2, -1), model.components_)
    rows = read_tsv(tmp_path / "out" / "desc-SPCATV_mixing.tsv")
    assert [row["input"] for row in rows] == [f"{array}[{number}]" for number in range(16)]
    scores = [[float(row["component_1"]), float(row["component_2"])] for row in rows]
    assert_allclose(scores, model.transform(X), rtol=1e-12)
    assert "Read 16 samples of 120 features (a field of 12 x 10 cells)" in said
    assert f"Results: {tmp_path / 'out'}" in said
    halves = split_halves(model, X, n_splits=10, random_state=0).reproducibility
    read = read_results(tmp_path / "out").halves
    assert read == halves
    assert SPCATV.load(tmp_path / "out/model").reproducibility_ == halves
    assert "\n".join(verdict_lines(halves)) in said


@pytest.mark.parametrize(
    ("options", "n_samples", "reason"),
    [
        ((), 9, "random halves of 9 samples are too small"),
        (("--n-splits", "3"), 3, "halves need at least 2 samples or groups each, but there are 3"),
        ((), 16, "the data are large (16 x 120)"),
    ],
)
def test_without_verdicts_the_reason_is_reported(
    options, n_samples, reason, array, tmp_path, done, monkeypatch
):
    """The fit itself is kept, whatever becomes of the halves."""
    if reason.startswith("the data"):
        monkeypatch.setattr("spcatv.cli.pipeline.MOST_VALUES", 16 * 120 - 1)
    np.save(array, np.load(array)[:n_samples])
    said = done("fit", "--array", array, "--shape", "12,10", *OPTIONS, *options, "--output", tmp_path / "out")
    assert f"Not known which components are confirmed: {reason}" in said
    assert read_results(tmp_path / "out").halves is None


def test_verdicts_can_be_left_out(array, tmp_path, done, capsys):
    command = ("fit", "--array", array, "--shape", "12,10", *OPTIONS, "--output", tmp_path / "out")
    assert "confirmed" not in done(*command, "--n-splits", "0")
    with pytest.raises(SystemExit):
        done(*command, "--n-splits", "some")
    assert "argument --n-splits: must be auto or an integer >= 0, got 'some'" in capsys.readouterr().err


def test_what_is_left_behind(array, tmp_path, done):
    done("fit", "--array", array, "--shape", "12,10", *OPTIONS, "--output", tmp_path / "out")
    assert listing(tmp_path / "out") == [
        ".bidsignore",
        "README.md",
        "dataset_description.json",
        "desc-SPCATV_components.json",
        "desc-SPCATV_components.npy",
        "desc-SPCATV_config.toml",
        "desc-SPCATV_halves.json",
        "desc-SPCATV_halves.tsv",
        "desc-SPCATV_metrics.json",
        "desc-SPCATV_metrics.tsv",
        "desc-SPCATV_mixing.json",
        "desc-SPCATV_mixing.tsv",
        "model",
    ]
    assert listing(tmp_path) == ["X.npy", "out"], "no lock, no half of a folder"
    description = json.loads((tmp_path / "out" / "dataset_description.json").read_text())
    assert description["DatasetType"] == "derivative"
    assert description["GeneratedBy"][0]["Name"] == "spca-tv"
    assert description["GeneratedBy"][0]["Version"] == __version__
    model = SPCATV.load(tmp_path / "out" / "model")
    metrics = read_tsv(tmp_path / "out" / "desc-SPCATV_metrics.tsv")
    about = json.loads((tmp_path / "out" / "desc-SPCATV_metrics.json").read_text())
    assert list(metrics[0]) == list(about)
    for row, record, ratio in zip(metrics, model.diagnostics_, model.explained_variance_ratio_, strict=True):
        assert float(row["relative_gap"]) == record.relative_gap <= 1e-6
        assert float(row["explained_variance_ratio"]) == ratio
        assert int(row["n_nonzero"]) == record.n_nonzero
        assert row["converged"] == "true"


def test_clusters_are_counted_as_by_scipy(array, tmp_path, done):
    from scipy.ndimage import label

    done("fit", "--array", array, "--shape", "12,10", *OPTIONS, "--output", tmp_path / "out")
    maps = np.load(tmp_path / "out" / "desc-SPCATV_components.npy")
    counted = [int(row["n_clusters"]) for row in read_tsv(tmp_path / "out" / "desc-SPCATV_metrics.tsv")]
    assert counted == [label(component > 0)[1] + label(component < 0)[1] for component in maps]


def test_every_format_gives_the_same(array, tmp_path, done):
    X = np.load(array)
    np.save(tmp_path / "fields.npy", X.reshape(16, 12, 10))
    np.savez(tmp_path / "one.npz", anything=X)
    np.savez(tmp_path / "several.npz", X=X, age=np.arange(16))
    np.savetxt(tmp_path / "X.csv", X, delimiter=",", fmt="%.17g")
    names = "\t".join(f"cell{number}" for number in range(120))
    np.savetxt(tmp_path / "X.tsv", X, delimiter="\t", fmt="%.17g", header=names, comments="")
    expected = reference((12, 10), X).components_.reshape(2, 12, 10)
    for file in ("fields.npy", "one.npz", "several.npz", "X.csv", "X.tsv"):
        shape = () if file == "fields.npy" else ("--shape", "12,10")
        out = tmp_path / f"out-{file}"
        done("fit", "--array", tmp_path / file, *shape, *OPTIONS, "--output", out, "--quiet")
        assert_array_equal(np.load(out / "desc-SPCATV_components.npy"), expected, err_msg=file)


def test_mask_of_cells_and_rows_over_the_mask(tmp_path, done):
    X = fields()
    inside = np.ones((12, 10), dtype=bool)
    inside[0] = inside[:, 9] = False
    np.save(tmp_path / "mask.npy", inside)
    np.save(tmp_path / "all.npy", X)
    np.save(tmp_path / "rows.npy", X[:, inside])
    expected = reference(grid(inside), X[:, inside]).components_
    for file in ("all.npy", "rows.npy"):
        out = tmp_path / f"out-{file}"
        done("fit", "--array", tmp_path / file, "--mask", tmp_path / "mask.npy", *OPTIONS, "--output", out)
        maps = np.load(out / "desc-SPCATV_components.npy")
        assert_array_equal(maps[:, inside], expected)
        assert np.isnan(maps[:, ~inside]).all()


def test_bad_cells_are_dropped_with_a_count_or_refused(tmp_path, done, refused):
    X = fields()
    X[3, 0, 0] = np.nan
    X[:, 11, 9] = 7.0
    file = tmp_path / "X.npy"
    np.save(file, X)
    line = refused("fit", "--array", file, "--bad-features", "raise", "--output", tmp_path / "out")
    assert f"2 of 120 features of {file} are constant, NaN or infinite" in line
    assert listing(tmp_path) == ["X.npy"]
    said = done("fit", "--array", file, *OPTIONS, "--output", tmp_path / "out")
    assert "118 features" in said
    assert "2 left out" in said
    maps = np.load(tmp_path / "out" / "desc-SPCATV_components.npy")
    assert np.argwhere(np.isnan(maps[0])).tolist() == [[0, 0], [11, 9]]


def test_periodic_axis_and_cell_sizes_reach_the_structure(array, tmp_path, done):
    more = ("--periodic", "1", "--voxel-size", "1,2")
    done("fit", "--array", array, "--shape", "12,10", *more, *OPTIONS, "--output", tmp_path / "out")
    expected = grid((12, 10), voxel_size=(1, 2), periodic=[False, True])
    assert SPCATV.load(tmp_path / "out" / "model").structure_ == expected


def test_without_a_shape_there_are_no_neighbours(array, tmp_path, done):
    done("fit", "--array", array, *OPTIONS, "--tv-ratio", "0", "--output", tmp_path / "out")
    maps = np.load(tmp_path / "out" / "desc-SPCATV_components.npy")
    assert_array_equal(maps, reference(None, np.load(array), tv_ratio=0.0).components_)
    rows = read_tsv(tmp_path / "out" / "desc-SPCATV_metrics.tsv")
    assert [row["n_clusters"] for row in rows] == ["n/a", "n/a"]


def test_effective_configuration_repeats_the_run(array, tmp_path, done, monkeypatch):
    done(
        *("fit", "--array", array, "--shape", "12,10", "--n-components", "2", "--init", "random"),
        *("--n-init", "3", "--seed", "5", "--tol", "1e-5", "--alpha", "0.05", "--output", tmp_path / "first"),
    )
    config = tmp_path / "first" / "desc-SPCATV_config.toml"
    settings = tomllib.loads(config.read_text())
    assert (settings["seed"], settings["n_init"], settings["tol"]) == (5, 3, 1e-5)
    assert settings["array"] == str(array)
    monkeypatch.chdir(tmp_path / "first")  # the file does not depend on where one stands
    done("fit", "--config", config, "--output", tmp_path / "second")
    first, second = (tmp_path / name / "desc-SPCATV_components.npy" for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()
    again = tomllib.loads((tmp_path / "second" / "desc-SPCATV_config.toml").read_text())
    assert again == {**settings, "output": str(tmp_path / "second")}


def test_command_line_goes_before_the_configuration(array, tmp_path, done):
    (tmp_path / "run.toml").write_text(
        'array = "X.npy"\nshape = [12, 10]\nn-components = 4\nalpha = 0.2\nquiet = true\n'
    )
    said = done("fit", "--config", tmp_path / "run.toml", "--n-components", "1", "--output", tmp_path / "out")
    assert said == ""
    assert np.load(tmp_path / "out" / "desc-SPCATV_components.npy").shape == (1, 12, 10)


def test_warnings_are_lines(array, tmp_path, capsys):
    from spcatv.cli import main

    command = ["fit", "--array", str(array), "--shape", "12,10", "--alpha", "50", "--output"]
    assert main([*command, str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert shown.startswith("spca-tv: warning: 3 of 3 components are empty")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--shape", "12,11"), "has 120 values per sample, but the field has 12 x 11 = 132 cells"),
        (("--alpha", "0"), "--alpha must be above 0"),
        (("--alpha", "0.1", "--l1-ratio", "0.6"), "--l1-ratio + --tv-ratio must be below 1"),
        (("--tol", "2"), "--tol must lie between 1e-14 and 1"),
        (("--periodic", "2"), "the field has the axes 0 to 1, got 2"),
        (("--voxel-size", "1,1,1"), "--voxel-size must be one number or one per axis (2)"),
        (("--mask", "nothing.npy"), "no such file: nothing.npy"),
        (("--confounds", "table.tsv"), "--confounds can only be used with images"),
        (("--surface", "a", "b"), "--surface can only be used with images"),
        (("--standardize",), "--standardize can only be used with images"),
        (("image.nii",), "give either images or --array, not both"),
    ],
)
def test_wrong_options_leave_nothing(change, message, array, tmp_path, refused):
    given = ["fit", "--array", array, "--shape", "12,10", "--output", tmp_path / "new" / "out", *change]
    assert message in refused(*given)
    assert listing(tmp_path) == ["X.npy"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.npy", None, "no such file"),
        ("cut.npy", b"\x93NUMPY\x01\x00", "cannot read"),
        ("text.npy", b"no array at all", "cannot read"),
        ("cut.npz", b"PK\x03\x04", "cannot read"),
        ("words.csv", b"a,b\n1,2\n3,x\n", "cannot read"),
        ("empty.npy", b"", "is empty"),
        ("empty.csv", b"", "is empty"),
        ("people.xlsx", b"PK", "is a spreadsheet; save it as CSV"),
        ("image.png", b"\x89PNG", "is not an array; the formats are .npy, .npz, .csv, .tsv"),
    ],
)
def test_unreadable_arrays_are_named(name, content, message, tmp_path, refused):
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    line = refused("fit", "--array", file, "--output", tmp_path / "out")
    assert message in line
    assert str(file) in line
    assert not (tmp_path / "out").exists()


def test_arrays_that_cannot_be_used_are_named(tmp_path, refused):
    def refuse(array, message, *options):
        np.save(tmp_path / "X.npy", array)
        line = refused("fit", "--array", tmp_path / "X.npy", *options, "--output", tmp_path / "out")
        assert message in line
        assert str(tmp_path / "X.npy") in line

    refuse(np.arange(5.0), "has shape (5,)")
    refuse(np.ones((1, 5)), "holds 1 sample; at least two are needed")
    refuse(np.ones((4, 5)), "all of 5 features")
    refuse(np.ones((4, 5), dtype=complex), "does not hold real numbers, but complex128")
    refuse(np.array([[1.0, np.nan], [2.0, 3.0]]), "take these columns out")
    refuse(fields(4), "--shape 10 x 12 is not the shape of a sample", "--shape", "10,12")
    np.save(tmp_path / "mask.npy", np.zeros((12, 10)))
    assert "is empty" in refused(
        *("fit", "--array", tmp_path / "X.npy", "--mask", tmp_path / "mask.npy", "--output", tmp_path / "out")
    )
    np.savez(tmp_path / "two.npz", a=np.ones(3), b=np.ones(3))
    line = refused("fit", "--array", tmp_path / "two.npz", "--output", tmp_path / "out")
    assert "holds 2 arrays (a, b)" in line


def test_pickles_are_never_opened(tmp_path, refused):
    np.save(tmp_path / "X.npy", np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
    assert "cannot read" in refused("fit", "--array", tmp_path / "X.npy", "--output", tmp_path / "out")


def test_a_global_component_is_named_and_can_be_taken_out(tmp_path, done):
    rng = np.random.default_rng(0)
    X = 3 * rng.standard_normal((16, 1)) + rng.standard_normal((16, 120))
    np.save(tmp_path / "X.npy", X)
    options = ("fit", "--array", tmp_path / "X.npy", "--shape", "12,10", *OPTIONS)
    said = done(*options, "--output", tmp_path / "out")
    assert said.count("Component 1 is global: 100 % of the features vary with it in the same direction") == 1
    first, second = read_tsv(tmp_path / "out" / "desc-SPCATV_metrics.tsv")
    assert float(first["same_sign"]) == 1
    assert float(first["global_correlation"]) > 0.99 > float(second["global_correlation"])
    said = done(*options, "--regress-global", "--output", tmp_path / "without")
    assert "is global" not in said
    model = SPCATV.load(tmp_path / "without" / "model")
    assert_array_equal(model.components_, reference((12, 10), X, global_signal="regress").components_)
    config = tomllib.loads((tmp_path / "without" / "desc-SPCATV_config.toml").read_text())
    assert config["regress_global"] is True
    # shares of the variance of what is left, by PCA as well
    ceiling = read_tsv(tmp_path / "without" / "desc-SPCATV_metrics.tsv")[1]
    share = sum(model.explained_variance_ratio_)
    assert share < float(ceiling["pca_cumulative_explained_variance_ratio"]) < 1.5 * share


def test_loadings_can_be_refitted(array, tmp_path, done):
    options = ("--shape", "12,10", *OPTIONS, "--refit", "support")
    done("fit", "--array", array, *options, "--output", tmp_path / "out")
    maps = np.load(tmp_path / "out" / "desc-SPCATV_components.npy", allow_pickle=False)
    model = reference((12, 10), np.load(array), refit="support")
    assert_array_equal(maps.reshape(2, -1), model.components_)
