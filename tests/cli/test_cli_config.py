"""Configuration files: what is read is what was written, and mistakes are named."""

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spcatv import SPCATV
from spcatv._util.parameters import SEARCH
from spcatv.cli.app import build_parser
from spcatv.cli.config import config_text, effective_options, flag, read_config
from spcatv.cli.parser import InputError
from spcatv.cli.pipeline import model_parameters
from spcatv.selection import SPCATVCV

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), min_size=1, max_size=20)
column_names = names.filter(lambda name: name.strip() == name and "," not in name)
finite = st.floats(allow_nan=False, allow_infinity=False)
PARSER = build_parser()
COMMANDS = PARSER.commands


def options_of(*words):
    """The effective options of a command line, and what declares them."""
    arguments = PARSER.parse_args([str(word) for word in words])
    return effective_options(arguments), arguments.options


@pytest.mark.parametrize(("command", "estimator"), [("fit", SPCATV), ("select", SPCATVCV)])
def test_defaults_are_those_of_the_estimator(command, estimator):
    own = estimator().get_params()
    options = COMMANDS[command].options
    for name in set(own) & set(options) - {"dtype", "n_jobs", "alpha", "cv"}:
        assert options[name].default == own[name], name
    # what the command line does not offer is what it decides itself; some options have other names
    decided = {"structure", "random_state", "verbose", "global_signal", "memory_limit", "standardize"}
    decided |= {"checkpoint", "smallest_alpha"}
    assert set(own) - set(options) <= decided


def test_parameters_of_the_model_are_those_of_the_estimator():
    given = model_parameters(options_of("fit", "--array", "X.npy")[0])
    own = SPCATV().get_params()
    assert given.pop("random_state") == 0
    assert given == {name: own[name] for name in given}
    assert given["sparsity"] == 0.7
    assert "alpha" not in given


@given(file=names, alpha=finite, columns=st.lists(column_names, min_size=1, max_size=3))
def test_what_is_written_is_what_is_read(file, alpha, columns, tmp_path_factory):
    options, table = options_of(
        *("fit", "x.nii", "--alpha=" + repr(alpha), "--shape", "3,4", "--method", "joint", "--no-center"),
        *("--confounds=/data/" + file, "--confounds-columns=" + ",".join(columns), "--output", "/out"),
    )
    rows = [(Path("/data") / file,), (Path("/l") / file, Path("/r") / file)]
    target = tmp_path_factory.mktemp("config") / "run.toml"
    target.write_bytes(config_text(options, table, rows, name="run.toml").encode("utf-8"))
    again, _ = options_of("fit", "--config", target)
    assert again.images == [str(rows[0][0]), tuple(map(str, rows[1]))]
    assert {**vars(again), "images": None, "config": None} == {
        **vars(options),
        "images": None,
        "config": None,
    }


def test_every_recorded_value_can_be_read_again(tmp_path):
    words = ("select", "x.nii", "--output", "/out", "--groups", "/t.tsv:site", "--surface", "/lh", "-")
    options, table = options_of(*words, "--periodic", "0,1", "--n-components", "auto", "--exclude", "a", "b")
    (tmp_path / "run.toml").write_text(config_text(options, table, [(Path("/x.nii"),)], name="x"))
    again, _ = options_of("select", "--config", tmp_path / "run.toml")
    assert {**vars(again), "images": None, "config": None} == {
        **vars(options),
        "images": None,
        "config": None,
    }
    assert again.sparsity == SEARCH.sparsity


def test_relative_paths_start_at_the_file(tmp_path):
    images = 'images = ["maps/*.nii", ["l.gii", "/r.gii"]]\n'
    (tmp_path / "run.toml").write_text(
        images + 'mask = "m.nii"\nsurface = ["lh", "-"]\noutput = "out"\ngroups = "people.tsv:site"\n'
    )
    read = read_config(tmp_path / "run.toml", COMMANDS["select"].options, "select")
    assert read["images"] == [str(tmp_path / "maps/*.nii"), (str(tmp_path / "l.gii"), "/r.gii")]
    assert read["mask"] == tmp_path / "m.nii"
    assert read["surface"] == (tmp_path / "lh", "-")
    assert read["output"] == tmp_path / "out"
    assert read["groups"] == (tmp_path / "people.tsv", "site")


def test_a_rule_for_the_mask_is_no_path(tmp_path):
    (tmp_path / "run.toml").write_text('mask = "gm-template"\nimages = "x.nii"\n')
    options, table = options_of("fit", "--config", tmp_path / "run.toml")
    assert options.mask == "gm-template"
    assert tomllib.loads(config_text(options, table, None, name="x"))["mask"] == "gm-template"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n_component = 3", "'n_component' is not an option of spca-tv fit; did you mean 'n_components'?"),
        ("L1-ratio = 0.1", "did you mean 'l1_ratio'?"),
        ("zzz = 1", "'zzz' is not an option of spca-tv fit; the keys are images, "),
        ("rule = 'paper'", "'rule' is not an option of spca-tv fit"),
        ("[model]\nalpha = 0.1", "'model' is not an option"),
        ("alpha = 'much'", "alpha must be a finite number, got 'much'"),
        ("alpha = nan", "alpha must be a finite number, got 'nan'"),
        ("alpha = [0.1, 0.2]", "alpha must be one value, got [0.1, 0.2]"),
        ("sparsity = [0.5, 0.6]", "sparsity takes one value, or one share per component with commas"),
        ("sparsity = 90", "sparsity must be at least 0 and below 1, got 90; did you mean 0.9?"),
        ("n_components = 2.5", "n_components must be auto or an integer >= 1, got '2.5'"),
        ("n_components = true", "n_components must be auto or an integer >= 1, got 'true'"),
        ("n-components = 0", "n-components must be auto or an integer >= 1, got '0'"),
        ("penalty = 'tvv'", "penalty invalid choice: 'tvv'; did you mean tv? The choices are tv, graphnet"),
        ("verbose = 'much'", "verbose must be an integer, got 'much'"),
        ("positive = 1", "positive must be true or false, got 1"),
        ("shape = []", "shape must be a list that is not empty, got []"),
        ("shape = 'a'", "shape must be an integer >= 1, got 'a'"),
        ("shape = [0]", "shape must be an integer >= 1, got '0'"),
        ("surface = ['lh']", "surface must hold 2 values, got 1"),
        ("images = [3]", "images must hold paths, or pairs of a left and a right path, got [3]"),
        ("images = 3", "images must hold paths, or pairs of a left and a right path, got 3"),
        ("images = []", "images must hold paths, or pairs of a left and a right path, got []"),
        ("mask = ''", "mask must be a path, got ''"),
        ("mask = {a = 1}", "mask must be a text, a number, true or false, or a list of these"),
        ("quiet = 'no'", "quiet must be true or false, got 'no'"),
        ("center = 1", "center must be true or false, got 1"),
        ("n_init = 2\nn-init = 3", "n_init is given twice"),
        ("alpha = ", "is not valid TOML"),
    ],
)
def test_mistakes_are_named_with_the_file(text, message, tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        read_config(file, COMMANDS["fit"].options, "fit")
    assert str(file) in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    options = COMMANDS["fit"].options
    with pytest.raises(InputError, match=r"cannot read the configuration .*no\.toml \(No such file"):
        read_config(tmp_path / "no.toml", options, "fit")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is not a text file in UTF-8"):
        read_config(tmp_path / "bytes.toml", options, "fit")


def test_names_that_are_no_text_are_refused_before_the_work():
    options, table = options_of("fit", "x.nii", "--output", "out")
    with pytest.raises(InputError, match="is not valid Unicode; rename the file"):
        config_text(options, table, [(Path("/data/\udcff.nii"),)], name="x")


def test_mistakes_in_the_file_are_wrong_use(tmp_path, refused):
    (tmp_path / "run.toml").write_text("alfa = 1")
    assert "did you mean 'alpha'?" in refused("fit", "--config", tmp_path / "run.toml", "--output", "x")


def test_flags_are_spelled_as_they_are_parsed():
    for command in ("fit", "select", "transform"):
        for name, option in COMMANDS[command].options.items():
            assert flag(name) in option.action.option_strings
