"""`--cache` and `--memory`: commands share what was read, and data larger than memory stay on disk."""

from pathlib import Path

import numpy as np
import pytest
from cli_files import fields, read_tsv
from numpy.testing import assert_allclose

from spcatv.cli import main
from spcatv.data import StoredData

OPTIONS = ("--n-components", "1", "--alpha", "0.1", "--n-splits", "0")


@pytest.fixture
def unzipped(monkeypatch):
    """The images whose values were read."""
    volume_files = pytest.importorskip("spcatv.images.spaces.volume", reason="extra `images`")
    names, own = [], volume_files.open_values

    def counted(image):
        names.append(Path(image.get_filename()).name)
        return own(image)

    monkeypatch.setattr(volume_files, "open_values", counted)
    return names


@pytest.fixture
def on_disk(monkeypatch):
    """Let no matrix fit into memory."""
    matrix = pytest.importorskip("spcatv.images.loader", reason="extra `images`")
    monkeypatch.setattr(matrix.Storage, "in_memory", lambda self, shape, dtype: False)


def run(*argv):
    assert main([str(word) for word in argv]) == 0


def test_fit_select_and_transform_share_a_cache_on_disk(volumes, tmp_path, unzipped, on_disk, capsys):
    images = ("--mask", tmp_path / "mask.nii.gz", "--cache", tmp_path / "cache")
    choice = ("--n-components", "auto", "--max-components", 2, "--n-splits", 2)
    run("fit", volumes, *images, *choice, "--output", tmp_path / "fit")
    assert len(unzipped) == 11  # and the mask
    grid = ("--sparsity", 0.5, 0.7, "--smoothness", 1, "--cv", 2, "--n-bootstraps", 2, "--n-splits", 0)
    run("select", volumes, *images, "--n-components", 1, *grid, "--output", tmp_path / "select")
    scores = tmp_path / "scores.tsv"
    run("transform", tmp_path / "fit", volumes, "--cache", tmp_path / "cache", "--output", scores)
    assert sorted(set(unzipped)) == sorted([*(file.name for file in volumes.iterdir()), "mask.nii.gz"])
    assert len(unzipped) - unzipped.count("mask.nii.gz") == 10
    again, mixing = (read_tsv(file) for file in (scores, tmp_path / "fit/desc-SPCATV_mixing.tsv"))
    assert [row["input"] for row in again] == [row["input"] for row in mixing]
    assert_allclose(*([float(row["component_1"]) for row in rows] for rows in (again, mixing)), atol=1e-4)
    assert not capsys.readouterr().err


def test_the_results_are_those_without_a_cache(volumes, tmp_path, capsys, done):
    mask = ("--mask", tmp_path / "mask.nii.gz")
    done("fit", volumes, *mask, *OPTIONS, "--output", tmp_path / "plain")
    run("fit", volumes, *mask, *OPTIONS, "--cache", tmp_path / "cache", "--output", tmp_path / "cached")
    for name in ("desc-SPCATV_mixing.tsv", "desc-SPCATV_quality.tsv", "desc-SPCATV_components.nii.gz"):
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "cached" / name).read_bytes()
    capsys.readouterr()
    # the cache is part of the configuration
    (config,) = (tmp_path / "cached").glob("*.toml")
    done("fit", "--config", config, "--output", tmp_path / "again")
    assert f'cache = "{tmp_path / "cache"}"' in config.read_text()


def test_too_little_memory_asks_for_a_cache(volumes, tmp_path, refused, capsys):
    asked = ("fit", volumes, "--mask", tmp_path / "mask.nii.gz", *OPTIONS, "--output", tmp_path / "out")
    message = refused(*asked, "--memory", "5kB")
    assert "does not fit into 5 kB: name a folder for it" in message
    assert "--cache" in message
    assert "too small for 210 features" in refused(*asked, "--memory", "5kB", "--cache", tmp_path / "cache")
    with pytest.raises(SystemExit, match="2"):
        main([*map(str, asked), "--memory", "much"])
    assert "must be a size such as 4GB, 500MB or 1.5GiB, got 'much'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_transform_keeps_to_the_memory_without_a_cache(volumes, tmp_path, done):
    done("fit", volumes, "--mask", tmp_path / "mask.nii.gz", *OPTIONS, "--output", tmp_path / "out")
    done("transform", tmp_path / "out", volumes, "--memory", "7kB", "--output", tmp_path / "scores.tsv")
    found, expected = (
        [float(row["component_1"]) for row in read_tsv(file)]
        for file in (tmp_path / "scores.tsv", tmp_path / "out/desc-SPCATV_mixing.tsv")
    )
    assert_allclose(found, expected, atol=1e-5)


def test_an_array_is_read_in_blocks(tmp_path, done, refused):
    values = fields(n_samples=400, shape=(8, 8)).astype(np.float32)
    np.save(tmp_path / "X.npy", values.reshape(400, 64))
    asked = ("fit", "--array", tmp_path / "X.npy", "--shape", "8,8", *OPTIONS)
    done(*asked, "--output", tmp_path / "whole")
    done(*asked, "--memory", "80kB", "--output", tmp_path / "blocks")
    found, expected = (
        np.load(tmp_path / name / "desc-SPCATV_components.npy") for name in ("blocks", "whole")
    )
    assert_allclose(found, expected, atol=1e-5)
    assert "--cache can only be used with images" in refused(
        *asked, "--cache", tmp_path / "cache", "--output", tmp_path / "out"
    )
    mask = np.ones((8, 8), np.uint8)
    mask[0, 0] = 0
    np.save(tmp_path / "mask.npy", mask)
    message = refused(
        *asked, "--mask", tmp_path / "mask.npy", "--memory", "80kB", "--output", tmp_path / "out"
    )
    assert "take 101 kB, more than --memory 80kB" in message


@pytest.mark.parametrize("dtype", [np.int16, np.uint8, np.bool_])
def test_an_array_of_integers_is_read_in_blocks(dtype, tmp_path, done, refused, monkeypatch):
    values = 8 * fields(n_samples=400, shape=(8, 8)) + 100
    np.save(tmp_path / "X.npy", values > 100 if dtype == np.bool_ else values.clip(0, 255).astype(dtype))
    asked = ("fit", "--array", tmp_path / "X.npy", *OPTIONS)
    done(*asked, "--output", tmp_path / "whole")
    given, own = [], StoredData.in_memory
    monkeypatch.setattr(StoredData, "in_memory", lambda self, X: given.append(X) or own(self, X))
    done(*asked, "--memory", "100kB", "--output", tmp_path / "blocks")
    assert {(type(X), X.itemsize) for X in given} == {(np.memmap, np.dtype(dtype).itemsize)}
    blocks, expected = (
        np.load(tmp_path / name / "desc-SPCATV_components.npy") for name in ("blocks", "whole")
    )
    assert_allclose(blocks, expected, atol=1e-5)
    np.save(tmp_path / "mask.npy", np.arange(64).reshape(8, 8) > 0)
    arguments = ("--mask", tmp_path / "mask.npy", "--memory", "100kB", "--output", tmp_path / "out")
    assert "202 kB" in refused(*asked, *arguments), "they are copied as float64"


def test_an_array_in_fortran_order_is_not_copied_beyond_the_memory(tmp_path, refused):
    np.save(tmp_path / "X.npy", np.asfortranarray(fields(n_samples=400, shape=(8, 8))))
    asked = ("fit", "--array", tmp_path / "X.npy", *OPTIONS, "--memory", "100kB")
    assert "205 kB" in refused(*asked, "--output", tmp_path / "out")
