"""Completion: a real shell completes commands, options, values and files."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spcatv.cli import main
from spcatv.cli.app import SHELLS

pytest.importorskip("argcomplete", reason="completion is done by argcomplete (extra `images`)")


@pytest.fixture
def script(capsys):
    def print_script(shell):
        assert main(["completion", shell]) == 0
        return capsys.readouterr().out

    return print_script


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes(script, tmp_path):
    text = script("bash")
    (tmp_path / "maps.nii").touch()
    scripts = Path(sys.executable).parent

    def completed(line):
        """What bash offers at the end of a line."""
        code = f"""PATH={scripts}:$PATH
{text}
COMP_WORDS=({line}); [[ {line[-1:]!r} == ' ' ]] && COMP_WORDS+=("")
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMP_LINE={line!r}; COMP_POINT={len(line)}; COMP_TYPE=9
compopt() {{ :; }}
_python_argcomplete spca-tv
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
        command = ["bash", "--norc", "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return [word.strip() for word in done.stdout.splitlines()]

    assert completed("spca-tv se") == ["select"]
    assert completed("spca-tv fit --spars") == ["--sparsity"]
    assert completed("spca-tv select --rule ") == ["one_se", "error", "stability", "paper"]
    assert completed("spca-tv fit --mask ma") == ["maps.nii"]


@pytest.mark.parametrize("shell", SHELLS)
def test_shells_can_read_the_scripts(shell, script, tmp_path):
    text = script(shell)
    assert "spca-tv" in text
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    file = tmp_path / "script"
    file.write_text(text)
    check = "--no-execute" if shell == "fish" else "-n"
    done = subprocess.run([shell, check, str(file)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_the_package_the_command_states_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    assert main(["completion", "bash"]) == 2
    assert "pip install argcomplete" in capsys.readouterr().err
