"""Systems without the calls of POSIX, such as Windows: the package imports, fits, and writes its results."""

import json
import subprocess
import sys

import numpy as np
import pytest
from cli_files import fields

# What Windows does not have is hidden before anything of ours is imported.
HIDE = """
import multiprocessing.resource_tracker, shutil, signal, os, sys
import joblib, numba, scipy.sparse.linalg, sklearn.base, sklearn.decomposition
usage = shutil.disk_usage(os.curdir)  # which has an implementation of its own for Windows
shutil.disk_usage = lambda place: usage
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for module, names in {
    os: ("fork", "register_at_fork", "sched_getaffinity", "sysconf", "geteuid", "getuid", "statvfs", "umask"),
    signal: ("SIGHUP", "SIGALRM", "SIGKILL", "SIGUSR1"),
}.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
"""
RUN = """
from unittest.mock import patch
import filelock
from spcatv.cli import main
assert filelock.FileLock is not getattr(filelock, 'UnixFileLock', None)
with patch.object(sys, "platform", "win32"):
    print(*[main([*sys.argv[1:], *more]) for more in ((), (), ("--overwrite",))])
"""


def test_a_fit_without_posix(tmp_path):
    """A first run, a second one that is refused, and one that replaces the results."""
    pytest.importorskip("threadpoolctl", "3.8", "it looks for the libraries of a real Windows")
    np.save(tmp_path / "X.npy", fields())
    argv = ("fit", "--array", tmp_path / "X.npy", "--n-components", "1", "--n-splits", "1", "--quiet")
    command = [sys.executable, "-c", HIDE + RUN, *map(str, argv), "--output", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "0 2 0\n", done.stderr
    assert json.loads((tmp_path / "out" / "model" / "model.json").read_text())
    assert sorted(file.name for file in tmp_path.iterdir()) == ["X.npy", "out"]
