"""Completion scripts: they know every command and option, and a real shell completes with them."""

import os
import re
import select
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


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes(script, tmp_path):
    file = tmp_path / "spca-tv.fish"
    file.write_text(script("fish"))

    def offered(typed):
        code = f"source {file}; complete -C '{typed}'"
        done = subprocess.run(["fish", "--no-config", "-c", code], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        return [line.split("\t")[0] for line in done.stdout.splitlines()]

    assert offered("spca-tv se") == ["select"]
    assert offered("spca-tv fit --spars") == ["--sparsity"]
    assert offered("spca-tv fit maps/ --rul") == []
    assert sorted(offered("spca-tv select --rule ")) == ["error", "one_se", "paper", "stability"]
    assert offered(f"spca-tv fit --mask {tmp_path}/spca") == [str(file)]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_completes(script, tmp_path):
    pytest.importorskip("pty")
    file = tmp_path / "_spca-tv"
    file.write_text(script("zsh"))
    with Zsh(tmp_path, f"fpath=({tmp_path} $fpath); autoload -U compinit; compinit -u -D") as shell:
        assert shell.completed("spca-tv se") == "spca-tv select "
        assert shell.completed("spca-tv fit --spars") == "spca-tv fit --sparsity "
        assert shell.completed("spca-tv fit maps/ --rul") == "spca-tv fit maps/ --rul"
        assert shell.completed("spca-tv select --rule pa") == "spca-tv select --rule paper "
        assert shell.completed(f"spca-tv fit --mask {file}"[:-3]) == f"spca-tv fit --mask {file} "


class Zsh:
    """An interactive zsh in a terminal of its own: completion exists nowhere else."""

    def __init__(self, home, setup):
        self.setup = f"{setup}; PS1=''; show() {{ print -r -- \"GOT<$BUFFER>\"; BUFFER=''; }}; zle -N show; "
        self.setup += "bindkey '^G' show; print RE''ADY\n"
        self.environment = {**os.environ, "HOME": str(home), "TERM": "dumb"}

    def __enter__(self):
        import pty

        self.terminal, inside = pty.openpty()
        self.process = subprocess.Popen(
            ["zsh", "-f", "-i"], stdin=inside, stdout=inside, stderr=inside, env=self.environment
        )
        os.close(inside)
        os.write(self.terminal, self.setup.encode())
        self.read_until(b"READY")
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
        os.close(self.terminal)

    def read_until(self, pattern):
        seen = b""
        while not (found := re.search(pattern, seen)):
            ready, _, _ = select.select([self.terminal], [], [], 60)
            assert ready, seen
            seen += os.read(self.terminal, 4096)
        return found

    def completed(self, typed):
        """The line after a press of the tab key."""
        os.write(self.terminal, typed.encode() + b"\t\x07")
        return self.read_until(b"GOT<(.*?)>")[1].decode()


@pytest.mark.parametrize(("shell", "check"), [("zsh", ["-n"]), ("fish", ["--no-execute"]), ("bash", ["-n"])])
def test_shells_can_read_them(shell, check, script, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    file = tmp_path / "script"
    file.write_text(script(shell))
    done = subprocess.run([shell, *check, str(file)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
