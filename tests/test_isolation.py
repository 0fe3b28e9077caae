"""Importing every module, and fits of arrays and images, reach nothing outside and unpickle nothing."""

import subprocess
import sys

import pytest

pytest.importorskip("nilearn")

CODE = """
import sys, traceback

OUTSIDE = ("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.spawn", "pty.",
           "urllib.", "http.", "ftplib.", "smtplib.", "webbrowser.", "pickle.find_class")
seen, probes = [], []

def hook(event, details):
    if not event.startswith(OUTSIDE):
        return
    files = [frame.filename for frame in traceback.extract_stack()]
    # Numba reads the kernels that it has compiled, in the user's own folder, by pickle
    by_numba = event == "pickle.find_class" and any("/numba/core/" in file for file in files)
    # older releases of two dependencies ask lscpu and ldconfig about the machine
    asks = event.startswith("subprocess.") and any(
        file.endswith(("/numpy/testing/_private/utils.py", "/threadpoolctl.py")) for file in files
    )
    # nilearn imports urllib3, which binds a socket to the loopback address and closes it, to look for IPv6
    looks = event == "socket.__new__" or (event == "socket.bind" and details[1] == ("::1", 0))
    if looks and any(file.endswith("/urllib3/util/connection.py") for file in files):
        probes.append(event)
    elif not (by_numba or asks):
        seen.append(f"{event} {details}"[:200])

sys.addaudithook(hook)

import importlib, pkgutil
import spcatv

for module in pkgutil.walk_packages(spcatv.__path__, "spcatv."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)

import numpy as np
from spcatv.cli import main

np.save("X.npy", np.random.default_rng(0).standard_normal((12, 30)))
words = ["--array", "X.npy", "--shape", "5,6", "--n-components", "1", "--alpha", "0.1", "--quiet"]
assert main(["fit", *words, "--output", "out"]) == 0
assert main(["transform", "out", "--array", "X.npy", "--output", "scores.tsv"]) == 0
assert main(["info", "out"]) == 0
assert main(["report", "out"]) == 0
assert not seen, seen
assert not probes, probes

import nibabel as nib

for k in range(4):
    values = np.random.default_rng(k).standard_normal((4, 4, 4)).astype(np.float32)
    nib.save(nib.Nifti1Image(values, np.diag([3.0, 3.0, 3.0, 1.0])), f"sub-0{k}.nii.gz")
nib.save(nib.Nifti1Image(np.ones((4, 4, 4), np.uint8), np.diag([3.0, 3.0, 3.0, 1.0])), "mask.nii")
words = ["--mask", "mask.nii", "--n-components", "1", "--alpha", "0.1", "--n-splits", "0", "--quiet"]
assert main(["fit", "sub-*.nii.gz", *words, "--output", "images"]) == 0
assert main(["transform", "images", "sub-*.nii.gz", "--output", "image_scores.tsv"]) == 0
assert main(["info", "images"]) == 0
assert main(["report", "images"]) == 0
assert not seen, seen
assert probes in ([], ["socket.__new__", "socket.bind"]), probes

# the hook would have seen it
import pickle, socket
socket.socket().close()
pickle.loads(pickle.dumps(socket.AF_INET))
assert len(seen) == 2, seen
"""


def test_nothing_outside_is_reached(tmp_path):
    process = subprocess.run([sys.executable, "-c", CODE], cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
