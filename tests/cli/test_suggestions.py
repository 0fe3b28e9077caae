"""Mistyped commands, options and values: the error names what was probably meant."""

import pytest

from spcatv.cli import main
from spcatv.cli.app import build_parser


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("fti 'maps/*'", "invalid choice: 'fti'; did you mean fit? The choices are fit, select, "),
        ("xyz", "invalid choice: 'xyz'; choose one of fit, select, "),
        (
            "fit a.nii --alpa 0.2 --output r",
            "fit: error: unrecognized arguments: --alpa (did you mean --alpha?)",
        ),
        ("fit a.nii --sparisty=0.3 --output r", "--sparisty (did you mean --sparsity?)"),
        ("fit a.nii --n_components 3 --output r", "--n_components (did you mean --n-components?)"),
        ("fit a.nii --rule paper --output r", "--rule (an option of spca-tv select)"),
        (
            "fit a.nii --atlass x --alpa 1",
            "--atlass (did you mean --atlas of spca-tv report?), --alpa (did you mean --alpha?)",
        ),
        ("select a.nii --alpha-x 3 --output r", "--alpha-x (did you mean --alpha?)"),
        ("select a.nii --alphas 1 --output r", "--alphas (did you mean --alpha?)"),
        ("select a.nii --rule one-se --output r", "did you mean one_se? The choices are one_se, error"),
        ("fit a.nii --sparsity 90 --output r", "did you mean 0.9?"),
        ("fit a.nii --sparsity 90% --output r", "did you mean 0.9?"),
        ("fit a.nii --sparsity 0,9 --output r", "did you mean 0.9?"),
        # the option that is missing is the mistyped one
        ("transform model a.nii --outptu x.tsv", "--outptu (did you mean --output?)"),
        ("--sparsity 0.9 fit a.nii", "--sparsity (options come after the command)"),
        ("fit a.nii --colour red", "unrecognized arguments: --colour"),
        ("info one two", "unrecognized arguments: two\n"),
    ],
)
def test_what_was_meant(words, said, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words.split())
    assert stop.value.code == 2
    assert said in capsys.readouterr().err


def test_help_comes_first(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["fit", "--alpa", "--help-all"])
    assert stop.value.code == 0
    assert "--alpha" in capsys.readouterr().out


def test_values_are_no_options(tmp_path, capsys):
    """A title with spaces, or a file after `--`, may begin with hyphens."""
    assert main(["report", str(tmp_path / "none"), "--title", "--an odd title"]) == 2
    assert main(["info", "--", "--odd"]) == 2
    said = capsys.readouterr().err
    assert "unrecognized" not in said


@pytest.mark.parametrize("words", [["people.tsv:group"], ["people.tsv", "group"]])
def test_a_column_of_a_table_in_one_word_or_two(words):
    parsed = build_parser().parse_args(["report", "--groups", *words, "results", "--variable", "b.csv:age"])
    assert (str(parsed.model), parsed.groups) == ("results", ("people.tsv", "group"))
    assert parsed.variable == ("b.csv", "age")


@pytest.mark.parametrize("command", ["fit", "select"])
def test_help_fits_on_a_screen_and_all_help_names_every_option(command, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    for option in ("--help", "--help-all"):
        with pytest.raises(SystemExit) as stop:
            main([command, option])
        assert stop.value.code == 0
    usual, every = capsys.readouterr().out.split("usage: ")[1:]
    assert usual.count("\n") <= 40
    for option in build_parser().commands[command].options.values():
        assert option.action.option_strings[-1] in every
        assert not option.default or "(default: " in option.action.help


@pytest.mark.parametrize("words", ["fit a.nii -k 3 b.nii", "transform model -o s.tsv a.nii b.nii"])
def test_images_may_stand_after_options(words):
    assert build_parser().parse_args(words.split()).images == ["a.nii", "b.nii"]
