"""Damaged inputs for the command line: every outcome is 0, 2, or an error that names the file.

    python tests/fuzz/harness.py 5000 --seed 0      # make fuzz N=5000

Every case depends on its number alone, so that ``--only NUMBER`` repeats it.
"""

import argparse
import contextlib
import gzip
import io
import json
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from pathlib import Path

import nibabel as nib
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from mutations import mutated, mutated_gzip, mutated_json, mutated_stream

from spcatv.cli import main as command_line
from spcatv.model.folder import _document_sha256, _manifest
from spcatv.results import read_results
from spcatv.structure import icosphere

SECONDS = 10  # for one case, of its own time: other work on the machine does not count
WAITING = 300  # for one case in all: it may be stuck
MEMORY = 4 * 2**30  # for the process, in bytes beyond what it has mapped at the start
QUICK = ["--n-components", "1", "--max-iter", "2", "--n-splits", "0", "--quiet"]


class Hang(BaseException):
    """A case took too long."""


def write_inputs(folder):
    """Small files of every kind that the command line reads."""
    rng = np.random.default_rng(0)
    inside = np.zeros((5, 5, 5), np.uint8)
    inside[1:4, 1:4, 1:4] = 1
    nib.save(nib.Nifti1Image(inside, np.eye(4)), folder / "mask.nii")
    coords, triangles = icosphere(1)
    n_vertices = len(coords)
    nib.freesurfer.write_geometry(folder / "lh.white", coords, triangles)
    surface = nib.gifti.GiftiImage()
    for array, intent, kind in ((coords, "POINTSET", "FLOAT32"), (triangles, "TRIANGLE", "INT32")):
        values = array.astype(np.float32 if kind == "FLOAT32" else np.int32)
        code = f"NIFTI_INTENT_{intent}"
        surface.add_gifti_data_array(nib.gifti.GiftiDataArray(values, code, f"NIFTI_TYPE_{kind}"))
    (folder / "lh.white.surf.gii").write_bytes(surface.to_bytes())
    axis = nib.cifti2.BrainModelAxis.from_mask(np.ones(n_vertices, bool), name="CORTEX_LEFT")
    for number in range(4):
        volume = nib.Nifti1Image(rng.standard_normal((5, 5, 5)).astype(np.float32), np.eye(4))
        nib.save(volume, folder / f"v{number}.nii")
        nib.save(volume, folder / f"z{number}.nii.gz")
        nib.save(nib.MGHImage(volume.get_fdata(dtype=np.float32), np.eye(4)), folder / f"m{number}.mgh")
        values = rng.standard_normal(n_vertices).astype(np.float32)
        nib.freesurfer.write_morph_data(folder / f"lh.c{number}", values)
        overlay = nib.gifti.GiftiImage()
        overlay.add_gifti_data_array(nib.gifti.GiftiDataArray(values, datatype="NIFTI_TYPE_FLOAT32"))
        (folder / f"lh.g{number}.shape.gii").write_bytes(overlay.to_bytes())
        (folder / f"lh.h{number}.shape.gii.gz").write_bytes(gzip.compress(overlay.to_bytes()))
        run = rng.standard_normal((5, 5, 5, 3)).astype(np.float32)
        nib.save(nib.Nifti1Image(run, np.eye(4)), folder / f"r{number}.nii.gz")
        nib.save(nib.MGHImage(run[..., 0], np.eye(4)), folder / f"m{number}.mgz")
        runs = rng.standard_normal((n_vertices, 1, 1, 3)).astype(np.float32)
        nib.save(nib.MGHImage(runs, np.eye(4)), folder / f"lh.m{number}.mgz")
        scalar = nib.cifti2.ScalarAxis(["map"])
        nib.save(nib.Cifti2Image(values[None], (scalar, axis)), folder / f"s{number}.dscalar.nii")
    np.savez(folder / "a.npz", X=rng.standard_normal((6, 8)))
    np.save(folder / "a.npy", rng.standard_normal((6, 8)))
    np.savetxt(folder / "a.tsv", rng.standard_normal((6, 8)), delimiter="\t")
    (folder / "t.tsv").write_text(
        "path\tage\tsex\n" + "".join(f"v{i}.nii\t{20 + i * i}\t{'fm'[i % 2]}\n" for i in range(4))
    )
    (folder / "l.txt").write_text("".join(f"v{number}.nii\n" for number in range(4)))
    (folder / "c.toml").write_text(
        'images = ["v0.nii", "v1.nii", "v2.nii", "v3.nii"]\nmask = "mask.nii"\nn_components = 1\n'
        "max_iter = 2\nn_splits = 0\nsparsity = [0.5]\nquiet = true\n"
    )
    for name, command in {
        "array": ["--array", str(folder / "a.npy")],
        "images": [
            *(str(folder / f"v{number}.nii") for number in range(4)),
            "--mask",
            str(folder / "mask.nii"),
        ],
    }.items():
        assert command_line(["fit", *command, *QUICK, "--output", str(folder / name)]) == 0


def fit(*arguments):
    """A call of ``spca-tv fit``."""
    return lambda folder: command_line(
        ["fit", *(a.replace("@", f"{folder}/") for a in arguments), *QUICK, "--output", f"{folder}/out"]
    )


def images(pattern, *options):
    """A fit of four images."""
    return fit(*(f"@{pattern.replace('#', str(number))}" for number in range(4)), *options)


def read_folder(name):
    """Read a results folder, and describe its model."""

    def call(folder):
        read_results(folder / name)
        return command_line(["info", f"{folder}/{name}"])

    return call


MASK = ("--mask", "@mask.nii")
SURFACE = ("--surface", "@lh.white", "-")
# the file that is damaged, how, and what is then called
TARGETS = {
    "nifti": ("v1.nii", mutated, images("v#.nii", *MASK)),
    "first nifti": ("v0.nii", mutated, images("v#.nii")),
    "mask": ("mask.nii", mutated, images("v#.nii", *MASK)),
    "nifti gz": ("z1.nii.gz", mutated_gzip, images("z#.nii.gz", *MASK)),
    "mgh": ("m1.mgh", mutated, images("m#.mgh", *MASK)),
    "run": ("r1.nii.gz", mutated_stream, images("r#.nii.gz", *MASK)),
    "run without a mask": ("r1.nii.gz", mutated_stream, images("r#.nii.gz")),
    "mgz": ("m1.mgz", mutated_stream, images("m#.mgz", *MASK)),
    "mgz without a mask": ("m1.mgz", mutated_stream, images("m#.mgz")),
    "overlay mgz": ("lh.m1.mgz", mutated_stream, images("lh.m#.mgz", *SURFACE)),
    "curv": ("lh.c1", mutated, images("lh.c#", *SURFACE)),
    "gifti": ("lh.g1.shape.gii", mutated, images("lh.g#.shape.gii", *SURFACE)),
    "gifti gz": ("lh.h1.shape.gii.gz", mutated_gzip, images("lh.h#.shape.gii.gz", *SURFACE)),
    "surface": ("lh.white", mutated, images("lh.c#", *SURFACE)),
    "gifti surface": ("lh.white.surf.gii", mutated, images("lh.c#", "--surface", "@lh.white.surf.gii", "-")),
    "cifti": ("s1.dscalar.nii", mutated, images("s#.dscalar.nii", *SURFACE)),
    "npy": ("a.npy", mutated, fit("--array", "@a.npy")),
    "npz": ("a.npz", mutated, fit("--array", "@a.npz")),
    "tsv array": ("a.tsv", "text", fit("--array", "@a.tsv")),
    "confounds": ("t.tsv", "text", images("v#.nii", *MASK, "--confounds", "@t.tsv")),
    "table of paths": ("t.tsv", "text", fit("@t.tsv", *MASK)),
    "list": ("l.txt", "text", fit("@l.txt", *MASK)),
    "toml": ("c.toml", "text", fit("--config", "@c.toml")),
    "results of an array": ("array", "folder", read_folder("array")),
    "results of images": ("images", "folder", read_folder("images")),
}  # fmt: skip


def damage(path, how, rng):
    """Damage a file, or a file of a results folder, whose model is signed again now and then."""
    if how != "folder":
        path.write_bytes(
            mutated(path.read_bytes(), rng, text=True) if how == "text" else how(path.read_bytes(), rng)
        )
        return path
    files = sorted(file for file in path.rglob("*") if file.is_file() and file.suffix != ".html")
    model = next(file for file in files if file.name == "model.json")
    if rng.random() < 0.5:
        document = mutated_json(model.read_text(), rng)
        sign(model, document if isinstance(document, dict) else {})
        return model
    victim = files[int(rng.integers(0, len(files)))]
    victim.write_bytes(mutated(victim.read_bytes(), rng))
    if victim.parent == model.parent and victim != model:
        sign(model, json.loads(model.read_text()))
    return victim


def sign(model, document):
    """Write a document with the hashes that belong to it."""
    with contextlib.suppress(Exception):
        document["files"] = document["files"] and {
            k: v for k, v in _manifest(model.parent).items() if k != model.name
        }
        document["sha256"] = _document_sha256(document)
    model.write_text(json.dumps(document))


def same_inside(whole, damaged):
    """Whether a damaged gzip file has kept its content: some bits of a stream mean nothing."""
    try:
        return gzip.decompress(damaged.read_bytes()) == gzip.decompress(whole.read_bytes())
    except (OSError, EOFError, zlib.error):
        return False


def run_case(number, originals, workspace, names=tuple(TARGETS)):
    """One case; what is wrong with its outcome, or an empty text, and its kind."""
    rng = np.random.default_rng(number)
    kind = names[number % len(names)]
    name, how, call = TARGETS[kind]
    shutil.rmtree(workspace, ignore_errors=True)
    shutil.copytree(originals, workspace)
    victim = damage(workspace / name, how, rng)

    begun, own = time.monotonic(), time.process_time()

    def too_long(*_):
        if time.process_time() - own < SECONDS and time.monotonic() - begun < WAITING:
            signal.alarm(1)
        else:
            raise Hang

    output = io.StringIO()
    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS)
    try:
        with (
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(output),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            code = call(workspace)
    except Hang:
        return f"took more than {SECONDS} s", kind
    except SystemExit as error:
        code = error.code
    except ValueError as error:  # of read_results: ModelError and ResultsError say what is wrong
        output.write(str(error))
        code = 1 if str(workspace) in str(error) else f"{type(error).__name__}: {error}"
    except BaseException:
        code = traceback.format_exc()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    said = output.getvalue()
    named = victim.name in said or f"{workspace}/{name}" in said
    if code == 0 and how is mutated_stream and not same_inside(originals / name, victim):
        return "a damaged stream was read", kind
    return "" if code in (0, 2) or (code == 1 and named) else f"{code}: {said[-400:]}", kind


def main():
    """Run many cases under limits, and count what happens."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n_cases", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--kinds", nargs="*", default=list(TARGETS))
    arguments = parser.parse_args()
    numbers = range(arguments.seed, arguments.seed + arguments.n_cases)
    failed, started = Counter(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        originals, workspace = Path(folder) / "originals", Path(folder) / "work"
        originals.mkdir()
        write_inputs(originals)
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY, resource.RLIM_INFINITY))
        for number in numbers if arguments.only is None else [arguments.only]:
            wrong, kind = run_case(number, originals, workspace, tuple(arguments.kinds))
            if wrong:
                failed[kind] += 1
                print(f"case {number} ({kind}): {wrong}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{arguments.n_cases} cases in {time.perf_counter() - started:.0f} s, {sum(failed.values())} wrong "
        f"{dict(failed) or ''}; peak memory {peak:.1f} GiB"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
