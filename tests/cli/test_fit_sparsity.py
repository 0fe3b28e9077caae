"""`spca-tv fit`: components of a wanted sparsity and smoothness, or the penalised model, never both."""

import tomllib

import numpy as np
import pytest
from cli_files import listing
from numpy.testing import assert_allclose, assert_array_equal

from spcatv import SPCATV
from spcatv.cli import main

CONFIG = "desc-SPCATV_config.toml"
MAPS = "desc-SPCATV_components.npy"


@pytest.fixture
def array(tmp_path):
    """20 samples of 30 x 24 cells with two hills: no part of their maps is flat, so any share can be met."""
    rng = np.random.default_rng(0)
    row, column = np.mgrid[:30, :24]
    X = rng.standard_normal((20, 30, 24))
    for i, j in ((9, 8), (21, 16)):
        X += 4 * np.exp(-((row - i) ** 2 + (column - j) ** 2) / 60) * rng.standard_normal((20, 1, 1))
    np.save(tmp_path / "X.npy", X.reshape(20, -1))
    return tmp_path / "X.npy"


@pytest.fixture
def command(array):
    return ("fit", "--array", array, "--shape", "30,24", "--n-components", "2")


def settings_of(folder):
    return tomllib.loads((folder / CONFIG).read_text())


def test_the_default_is_a_share_of_zeros(command, array, tmp_path, done):
    done(*command, "--output", tmp_path / "out")
    model = SPCATV(2, structure=(30, 24), sparsity=0.7, smoothness=1.0).fit(np.load(array))
    assert_array_equal(np.load(tmp_path / "out" / MAPS).reshape(2, -1), model.components_)
    assert_allclose(np.mean(model.components_ == 0, axis=1), 0.7, atol=0.01)
    settings = settings_of(tmp_path / "out")
    assert (settings["sparsity"], settings["smoothness"]) == (0.7, 1.0)
    assert not {"alpha", "l1_ratio", "tv_ratio", "penalty_units"} & set(settings)


def test_one_share_for_each_component(command, array, tmp_path, done):
    words = [*command, "--sparsity", "0.5,0.6", "--smoothness", "0.5", "--output", tmp_path / "out"]
    done(*words)
    expected = SPCATV(2, structure=(30, 24), sparsity=(0.5, 0.6), smoothness=0.5)
    found = np.load(tmp_path / "out" / MAPS).reshape(2, -1)
    assert_array_equal(found, expected.fit(np.load(array)).components_)
    assert settings_of(tmp_path / "out")["sparsity"] == "0.5,0.6"
    done("fit", "--config", tmp_path / "out" / CONFIG, "--output", tmp_path / "again")
    assert (tmp_path / "again" / MAPS).read_bytes() == (tmp_path / "out" / MAPS).read_bytes()


def test_images_may_follow_the_numbers(volumes, tmp_path, done):
    mask = ("--mask", tmp_path / "mask.nii.gz", "--n-components", "2", "--smoothness", "0")
    files = sorted(volumes.glob("*.nii.gz"))
    done("fit", *mask, "--sparsity", "0.6,0.8", *files, "--output", tmp_path / "after")
    done("fit", *files, *mask, "--sparsity", "0.6,0.8", "--output", tmp_path / "before")
    for name in ("images", "sparsity"):
        assert settings_of(tmp_path / "after")[name] == settings_of(tmp_path / "before")[name]


def test_alpha_is_the_penalised_model(command, array, tmp_path, done):
    done(*command, "--alpha", "0.05", "--tv-ratio", "0.3", "--output", tmp_path / "out")
    model = SPCATV(2, structure=(30, 24), alpha=0.05, tv_ratio=0.3).fit(np.load(array))
    assert_array_equal(np.load(tmp_path / "out" / MAPS).reshape(2, -1), model.components_)
    settings = settings_of(tmp_path / "out")
    assert (settings["alpha"], settings["l1_ratio"], settings["tv_ratio"]) == (0.05, 0.25, 0.3)
    assert not {"sparsity", "smoothness"} & set(settings)


def test_the_command_line_replaces_the_other_way_in_the_file(command, tmp_path, done):
    done(*command, "--sparsity", "0.6", "--output", tmp_path / "shares")
    done(
        *("fit", "--config", tmp_path / "shares" / CONFIG, "--alpha", "0.1"),
        *("--output", tmp_path / "penalised"),
    )
    settings = settings_of(tmp_path / "penalised")
    assert settings["alpha"] == 0.1
    assert "sparsity" not in settings
    done(
        *("fit", "--config", tmp_path / "penalised" / CONFIG, "--smoothness", "0.5"),
        *("--output", tmp_path / "smooth"),
    )
    settings = settings_of(tmp_path / "smooth")
    assert (settings["sparsity"], settings["smoothness"]) == (0.7, 0.5)
    assert "l1_ratio" not in settings


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--sparsity", "0.5,0.6,0.7"), "one for each of the 2 components; got (0.5, 0.6, 0.7)"),
        (("--smoothness", "-1"), "--smoothness must not be negative"),
        (("--sparsity", "0.7", "--alpha", "0.1"), "give either --sparsity or --alpha, not both"),
        (("--smoothness", "1", "--alpha", "0.1"), "give either --smoothness or --alpha, not both"),
        (("--sparsity", "0.7", "--tv-ratio", "0"), "give either --sparsity or --tv-ratio, not both"),
        (("--l1-ratio", "0.1"), "--l1-ratio goes with --alpha; without it, use --sparsity and --smoothness"),
        (("--penalty-units", "absolute"), "--penalty-units goes with --alpha"),
        (("--sparsity", "0.9999"), "--sparsity 0.9999 leaves"),
        (("--sparsity", "0.7,0.8", "maps"), "give either images or --array, not both"),
    ],
)
def test_what_cannot_be_is_refused(change, message, command, tmp_path, refused):
    assert message in refused(*command, *change, "--output", tmp_path / "out")
    assert listing(tmp_path) == ["X.npy"]


@pytest.mark.parametrize("text", ["sparsity = 0.8\nalpha = 0.1", "l1-ratio = 0.1", "sparsity = 'much'"])
def test_the_same_is_refused_in_a_file(text, command, tmp_path, refused):
    (tmp_path / "run.toml").write_text(text)
    line = refused(*command, "--config", tmp_path / "run.toml", "--output", tmp_path / "out")
    assert "give either" in line or "goes with --alpha" in line or "must be a finite number" in line


@pytest.mark.parametrize(
    ("name", "option", "word", "message"),
    [
        ("fit", "--sparsity", "much", "must be a finite number, got 'much'"),
        ("fit", "--sparsity", "1", "must be at least 0 and below 1, got 1"),
        ("fit", "--sparsity", "-0.1", "must be at least 0 and below 1, got -0.1"),
        ("fit", "--sparsity", "90", "must be at least 0 and below 1, got 90; did you mean 0.9?"),
        ("fit", "--sparsity", "0.5,70", "must be at least 0 and below 1, got 70; did you mean 0.7?"),
        ("fit", "--sparsity", "0.5 0.6", "takes one value, or one share per component with commas"),
        ("select", "--sparsity", "0.5 1.5", "must be at least 0 and below 1, got 1.5"),
        ("select", "--sparsity", "0.5,0.6", "must be a finite number, got '0.5,0.6'"),
        ("fit", "--sparsity", "auto", "must be a finite number, got 'auto': `spca-tv select` chooses"),
        ("fit", "--smoothness", "auto", "must be a finite number, got 'auto': `spca-tv select` chooses"),
        ("select", "--sparsity", "auto", "must be a finite number, got 'auto': leave the option out"),
    ],
)
def test_values_are_checked_when_the_command_line_is_read(
    name, option, word, message, command, tmp_path, capsys
):
    with pytest.raises(SystemExit) as stop:
        main([name, *map(str, command[1:]), option, *word.split(), "--output", str(tmp_path / "out")])
    assert stop.value.code == 2
    assert f"argument {option}: {message}" in capsys.readouterr().err


def test_a_share_of_zeros_that_is_jumped_over_is_a_warning(tmp_path, capsys):
    """Fifty copies of a column enter and leave together."""
    columns = np.random.default_rng(0).standard_normal((20, 2)) * (2, 1)
    np.save(tmp_path / "copies.npy", np.repeat(columns, 50, axis=1))
    words = ["fit", "--array", str(tmp_path / "copies.npy"), "--n-components", "1", "--sparsity", "0.7"]
    assert main([*words, "--output", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("spca-tv: warning: the share of zeros is not the one asked for")
    assert "(component 1: 50.0% instead of 70.0%): features that are" in said
