"""The command line: exit codes, and one clear line when something is wrong."""

import errno
import runpy
import subprocess
import sys

import pytest

import spcatv
from spcatv import __version__
from spcatv.cli import info, main
from spcatv.cli.app import build_parser


def run_module(*arguments):
    command = [sys.executable, "-m", "spcatv", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_version_through_a_real_process():
    done = run_module("--version")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, f"spca-tv {__version__}", "")


def test_wrong_folder_through_the_module(tmp_path, monkeypatch, capsys):
    file = tmp_path / "a-file"
    file.write_text("")
    monkeypatch.setattr(sys, "argv", ["spca-tv", "demo", "--output", str(file)])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("spcatv", run_name="__main__")
    assert stop.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert shown.err.startswith(f"spca-tv: error: cannot write to the output folder {file}")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["dance"], "invalid choice: 'dance'"),
        (["demo", "--colour"], "unrecognized arguments: --colour"),
        (["demo", "--seed", "-1"], "argument --seed: must be an integer >= 0, got '-1'"),
        (["demo", "--seed", "x"], "argument --seed: must be an integer >= 0, got 'x'"),
        (["transform", "model", "--memory", "much"], "--memory: must be a size such as 4GB, 500MB or 1.5GiB"),
        (
            ["report", "out", "--variable", "t.tsv", "age", "--variable", "t.tsv", "sex"],
            "--variable: given twice",
        ),
        (["fit", "--exclude", "a", "--exclude", "b"], "--exclude: given twice"),
        (["select", "--sparsity", "0.5", "--sparsity=0.7"], "--sparsity: given twice"),
        (["transform", "model", "--confounds-columns", "age,"], "must be a text that is not empty, got ''"),
    ],
)
def test_wrong_use_is_2(argv, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_switches_and_lists_may_be_given_again(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr("spcatv.demo.run", seen.append)
    parts = ["--only", "dots", "--only", "volume", "--quiet", "--quiet"]
    assert main(["demo", "--output", str(tmp_path), *parts]) == 0
    assert seen[0].only == ["dots", "volume"]


@pytest.mark.parametrize("argv", [["--help"], ["demo", "--help"]])
def test_help_is_0(argv, capsys):
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 0
    assert "usage: spca-tv" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (RuntimeError("the disk\nis full"), 1, "spca-tv: error: the disk is full\n"),
        (ZeroDivisionError(), 1, "spca-tv: error: ZeroDivisionError\n"),
        (KeyboardInterrupt(), 130, "spca-tv: error: interrupted\n"),
    ],
)
def test_failure_is_one_line(error, code, line, monkeypatch, capsys):
    def fail(arguments):
        raise error

    monkeypatch.setattr(info, "run", fail)
    assert main(["info", "x"]) == code
    assert capsys.readouterr().err == line


def test_debug_shows_the_traceback(monkeypatch, capsys):
    def fail(arguments):
        raise RuntimeError("broken")

    monkeypatch.setattr(info, "run", fail)
    assert main(["info", "x", "--debug"]) == 1
    message = capsys.readouterr().err
    assert "Traceback (most recent call last)" in message
    assert message.endswith("spca-tv: error: broken\n")


def test_a_reader_that_leaves_is_not_an_error_message():
    """As `spca-tv info --help | true`: the pipe closes, and no traceback follows."""
    code = (
        "import sys, types, spcatv.cli as cli\n"
        "def talk(arguments):\n"
        "    for _ in range(100_000): print('a line that nobody reads')\n"
        "sys.modules['spcatv.cli.info'] = types.SimpleNamespace(run=talk)\n"
        "sys.exit(cli.main(['info', 'x']))\n"
    )
    talker = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    talker.stdout.close()
    assert talker.stderr.read() == ""
    assert talker.wait() == 1
    talker.stderr.close()


def test_the_broken_pipe_of_a_worker_is_an_error(monkeypatch, capsys):
    def fail(arguments):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(info, "run", fail)
    assert main(["info", "x"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("spca-tv: error: ")
    assert said.count("\n") == 1


def test_errors_import_nothing():
    """The memory or the descriptors that an import needs may be what is missing."""
    code = (
        "import sys, spcatv.cli.app, spcatv.cli as cli\n"
        "def fail(arguments): raise MemoryError\n"
        "cli.app.run = fail\n"
        "before = set(sys.modules)\n"
        "assert cli.main(['completion', 'zsh']) == 1\n"
        "print(*set(sys.modules) - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == "spca-tv: error: MemoryError\n"
    assert not [name for name in done.stdout.split() if name.startswith("spcatv") or name == "numpy"]


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["--help"],
        ["fit", "--help-all"],
        *([name, "--help"] for name in build_parser().commands),
    ],
)
def test_help_waits_for_nothing_that_does_the_work(words):
    """A person who asks for help must not wait until kernels are loaded: about 20 times as long."""
    code = (
        "import sys\n"
        "from spcatv.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as stop: assert stop.code == 0\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "spca-tv" in done.stdout
    loaded = {name.split(".")[0] for name in done.stderr.split()}
    assert "spcatv" in loaded
    assert not loaded & {
        "numpy",
        "scipy",
        "numba",
        "sklearn",
        "joblib",
        "nibabel",
        "nilearn",
        "matplotlib",
        "rich",
    }


def test_the_package_gives_its_estimators_on_demand():
    code = "import sys, spcatv; print(*dir(spcatv)); print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    *names, has_numpy = done.stdout.split()
    assert {"SPCATV", "SPCATVCV", "ImageSPCATV"} <= set(names)
    assert has_numpy == "False"
    assert spcatv.SPCATV.__name__ == "SPCATV"
    with pytest.raises(AttributeError, match="module 'spcatv' has no attribute 'PCA'"):
        spcatv.PCA  # noqa: B018


@pytest.mark.parametrize("command", ["fit", "select", "explore"])
def test_usual_help_fits_one_screen(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert len(capsys.readouterr().out.splitlines()) <= 40
