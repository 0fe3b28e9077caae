"""Completion scripts: they know every command and option, and a real shell completes with them."""

import shutil
import subprocess

import pytest

from spcatv.cli import main
from spcatv.cli.options import SelectOptions, flag, options_of
from spcatv.cli.parser import SHELLS, build_parser


@pytest.fixture
def script(capsys):
    def print_script(shell):
        assert main(["completion", shell]) == 0
        return capsys.readouterr().out

    return print_script


@pytest.mark.parametrize("shell", SHELLS)
def test_every_option_of_every_command(shell, script):
    text = script(shell)
    written = {"bash": "{} ", "zsh": "'*{}[", "fish": " {} "}[shell]
    if shell == "bash":
        text = text.replace("'", " ")
    parsers = build_parser().commands
    for name, parser in parsers.items():
        assert name in text
        for option in parser._option_string_actions:
            spelled = fish_name(option) if shell == "fish" else option
            assert written.format(spelled) in text, f"{name} {option}"
    assert {flag(name) for name in options_of(SelectOptions)} <= set(parsers["select"]._option_string_actions)


def fish_name(option):
    return f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"


def completed(script, *words):
    """What bash offers after `words`, the last of which is being typed."""
    code = f"""{script}
complete -p spca-tv | grep -q -- '-F _spca_tv' || exit 1
COMP_WORDS=({" ".join(map(repr, words))})
COMP_CWORD={len(words) - 1}
_spca_tv
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes(script):
    text = script("bash")
    assert completed(text, "spca-tv", "se") == ["select"]
    assert completed(text, "spca-tv", "--v") == ["--version"]
    assert completed(text, "spca-tv", "fit", "--spars") == ["--sparsity"]
    assert completed(text, "spca-tv", "select", "maps/", "--rul") == ["--rule"]
    assert completed(text, "spca-tv", "fit", "maps/", "--rul") == []
    assert completed(text, "spca-tv", "select", "--rule", "") == ["one_se", "error", "stability", "paper"]
    assert completed(text, "spca-tv", "select", "--rule", "pa") == ["paper"]
    assert completed(text, "spca-tv", "completion", "") == list(SHELLS)
    # nothing of its own: bash goes on with file names
    assert completed(text, "spca-tv", "fit", "ma") == []
    assert completed(text, "spca-tv", "fit", "--mask", "ma") == []


@pytest.mark.parametrize(("shell", "check"), [("zsh", ["-n"]), ("fish", ["--no-execute"]), ("bash", ["-n"])])
def test_shells_can_read_them(shell, check, script, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    file = tmp_path / "script"
    file.write_text(script(shell))
    done = subprocess.run([shell, *check, str(file)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
