"""Configuration files: what is read is what was written, and mistakes are named."""

import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spcatv import SPCATV
from spcatv.cli.config import config_text, read_config
from spcatv.cli.kinds import InputError
from spcatv.cli.option_table import OPTIONS
from spcatv.cli.options import FitOptions, SelectOptions, effective_options, options_of

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), min_size=1, max_size=20)
finite = st.floats(allow_nan=False, allow_infinity=False)


def test_options_and_their_values_have_the_same_names():
    names = {item.name for kind in (FitOptions, SelectOptions) for item in fields(kind)}
    assert names == set(OPTIONS)
    for kind in (FitOptions, SelectOptions):
        assert {item.name for item in fields(kind)} == set(options_of(kind))


def test_defaults_are_those_of_the_estimator():
    own = SPCATV().get_params()
    given = FitOptions().model_parameters()
    assert given.pop("random_state") == 0
    assert given == {name: own[name] for name in given}
    # what the command line does not offer is what it decides itself
    # global_signal is offered as --regress-global
    decided = {"structure", "random_state", "verbose", "global_signal", "memory_limit"}
    assert set(own) - {item.name for item in fields(FitOptions)} == decided


@given(file=names, alpha=finite, columns=st.lists(names.filter(str.strip), min_size=1, max_size=3))
def test_what_is_written_is_what_is_read(file, alpha, columns, tmp_path_factory):
    options = FitOptions(
        confounds=Path("/data") / file,
        sparsity=None,
        smoothness=None,
        alpha=alpha,
        confounds_columns=tuple(columns),
        shape=(3, 4),
        method="joint",
        center=False,
    )
    rows = [(Path("/data") / file,), (Path("/l") / file, Path("/r") / file)]
    target = tmp_path_factory.mktemp("config") / "run.toml"
    target.write_bytes(config_text(options, rows, name="run.toml").encode("utf-8"))
    read = read_config(target, FitOptions)
    images = read.pop("images")
    assert images == [str(rows[0][0]), tuple(map(str, rows[1]))]
    assert effective_options({}, read, FitOptions) == options


def test_relative_paths_start_at_the_file(tmp_path):
    images = 'images = ["maps/*.nii", ["l.gii", "/r.gii"]]\n'
    (tmp_path / "run.toml").write_text(images + 'mask = "m.nii"\nsurface = ["lh", "-"]\noutput = "out"\n')
    read = read_config(tmp_path / "run.toml", FitOptions)
    assert read["images"] == [str(tmp_path / "maps/*.nii"), (str(tmp_path / "l.gii"), "/r.gii")]
    assert read["mask"] == tmp_path / "m.nii"
    assert read["surface"] == (tmp_path / "lh", "-")
    assert read["output"] == tmp_path / "out"


def test_a_run_from_before_joint_fits_is_repeated_by_deflation(tmp_path):
    (tmp_path / "run.toml").write_text('sparsity = 0.7\ntransform_method = "deflation"\nrefine = false\n')
    options = effective_options({}, read_config(tmp_path / "run.toml", FitOptions), FitOptions)
    assert (options.method, options.transform_method) == ("deflation", "auto")


def test_a_rule_for_the_mask_is_no_path(tmp_path):
    (tmp_path / "run.toml").write_text('mask = "gm-template"\n')
    read = read_config(tmp_path / "run.toml", FitOptions)
    assert read == {"mask": "gm-template"}
    text = config_text(effective_options({}, read, FitOptions), None, name="x")
    assert tomllib.loads(text)["mask"] == "gm-template"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n_component = 3", "unknown key 'n_component'; did you mean 'n_components'?"),
        ("L1-ratio = 0.1", "unknown key 'L1-ratio'; did you mean 'l1_ratio'?"),
        ("zzz = 1", "unknown key 'zzz'; the keys are array, shape"),
        ("[model]\nalpha = 0.1", "unknown key 'model'"),
        ("alpha = 'much'", "alpha must be a finite number, got 'much'"),
        ("alpha = nan", "alpha must be a finite number, got nan"),
        ("n_components = 2.5", "n_components must be auto or an integer >= 1, got 2.5"),
        ("n_components = true", "n_components must be auto or an integer >= 1, got True"),
        ("n-components = 0", "n-components must be auto or an integer >= 1, got 0"),
        ("method = true", "method must be one of auto, joint, deflation, got True"),
        ("penalty = 'tvv'", "penalty must be one of tv, graphnet, got 'tvv'"),
        ("shape = []", "shape must be a list that is not empty, got []"),
        ("shape = 'a'", "shape must be an integer >= 1, got 'a'"),
        ("shape = [0]", "shape must be an integer >= 1, got 0"),
        ("surface = ['lh']", "surface must hold 2 values, got 1"),
        ("images = [3]", "images must hold paths, or pairs of a left and a right path, got 3"),
        ("images = []", "images must be a path or a list of paths, got []"),
        ("mask = ''", "mask must be a path, got ''"),
        ("quiet = 'no'", "quiet must be true or false, got 'no'"),
        ("n_init = 2\nn-init = 3", "n_init is given twice"),
        ("alpha = ", "is not valid TOML"),
    ],
)
def test_mistakes_are_named_with_the_file(text, message, tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_config(file, FitOptions)
    assert message in str(caught.value)
    assert str(file) in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"cannot read the configuration .*no\.toml \(No such file"):
        read_config(tmp_path / "no.toml", FitOptions)
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is not a text file in UTF-8"):
        read_config(tmp_path / "bytes.toml", FitOptions)


def test_names_that_are_no_text_are_refused_before_the_work():
    with pytest.raises(InputError, match="is not valid Unicode; rename the file"):
        config_text(FitOptions(), [(Path("/data/\udcff.nii"),)], name="x")


def test_mistakes_in_the_file_are_wrong_use(tmp_path, refused):
    (tmp_path / "run.toml").write_text("alfa = 1")
    assert "did you mean 'alpha'?" in refused("fit", "--config", tmp_path / "run.toml", "--output", "x")
