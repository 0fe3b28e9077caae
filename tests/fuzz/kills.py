"""Kill `spca-tv select` at random moments, go on, and compare the results byte for byte with an unbroken run.

    python tests/fuzz/kills.py 50 --seed 0      # make test-kills N=50

Every tenth run has two worker processes. Clocks stand still in the processes that are killed: results hold
the seconds that fits took.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import spcatv.cli.select  # noqa: F401 (loaded here, not in every process)
from spcatv.cli import main

OPTIONS = (
    *("--shape", "12,10", "--n-components", "auto", "--max-components", "2", "--sparsity", "0.6", "0.8"),
    *("--smoothness", "0.5", "1", "--cv", "2", "--n-bootstraps", "6", "--n-splits", "3"),
    *("--tol", "1e-3", "--quiet"),
)
STOPPED = "import time\ntime.perf_counter = lambda: 0.0\n"


def start(argv):
    """Run a command in another process; the number of the process."""
    child = os.fork()
    if child:
        return child
    try:
        time.perf_counter = lambda: 0.0
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # warnings are the same every time
        os._exit(main(argv))
    finally:
        os._exit(99)


def ended(child):
    """The exit code of a process that ended; None if it was killed."""
    status = os.waitpid(child, 0)[1]
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else None


def contents(folder):
    """All files below a folder, and their bytes."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def stage_of(checkpoint):
    """What a run was doing when it was killed: the last stage that it had begun."""
    if not checkpoint.is_dir():
        return "before the first record, or after the results"
    stages = [(folder.stat().st_ctime_ns, folder.name) for folder in checkpoint.iterdir() if folder.is_dir()]
    return max(stages)[1] if stages else "before the first record, or after the results"


def study(folder, n_kills, seed):
    """Kill and go on so often; returns how many runs ended with other bytes, and where they were killed."""
    rng = random.Random(seed)
    values = np.random.default_rng(1)
    fields = values.standard_normal((24, 12, 10))
    for corner in (1, 6):
        fields[:, corner : corner + 4, corner : corner + 4] += values.normal(0, 2, (24, 1, 1))
    np.save(folder / "X.npy", fields)
    # worker processes find it when they start
    (folder / "sitecustomize.py").write_text(STOPPED)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    out, checkpoint = folder / "out", folder / ".out.spca-tv-checkpoint"
    argv = ["select", "--array", str(folder / "X.npy"), *OPTIONS, "--output", str(out), "--resume"]
    assert ended(start(argv)) == 0
    shutil.rmtree(out)
    began = time.monotonic()
    assert ended(start(argv)) == 0
    seconds = time.monotonic() - began
    whole = contents(out)
    shutil.rmtree(out)
    stages, n_other, n_done = Counter(), 0, 0
    print(f"an unbroken run takes {seconds:.1f} s and writes {len(whole)} files", flush=True)
    while n_done < n_kills:
        jobs = "2" if n_done % 10 == 9 else "1"
        child = start([*argv, "--n-jobs", jobs])
        # a random moment is what is tried here, at whatever it is: workers take their time to start
        time.sleep(rng.uniform(0, seconds) * (2 if jobs == "2" else 1))
        os.kill(child, signal.SIGKILL)
        if ended(child) is None:
            n_done += 1
            stages[stage_of(checkpoint)] += 1
            if n_done < n_kills and rng.random() < 0.5:
                continue  # killed again before it ends
        elif not out.is_dir():
            raise SystemExit(f"kill {n_done}: a run failed by itself")
        if not out.is_dir() and ended(start(argv)) != 0:
            raise SystemExit(f"kill {n_done}: the run did not go on")
        found = contents(out)
        left = sorted(file.name for file in folder.iterdir() if file.name.startswith(".out"))
        if found != whole or left:
            n_other += 1
            names = {name for name in {*found, *whole} if found.get(name) != whole.get(name)}
            print(f"kill {n_done}: other bytes in {sorted(names)}, left behind: {left}", flush=True)
        shutil.rmtree(out)
        print(f"{n_done} of {n_kills} kills", flush=True)
    return n_other, stages


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("n_kills", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="spcatv-kills-"))
    n_other, stages = study(place, options.n_kills, options.seed)
    for stage, count in stages.most_common():
        print(f"  {count:3d} killed in {stage}")
    print(
        f"{options.n_kills} kills at random moments; {n_other} runs ended with other bytes or left something"
    )
    shutil.rmtree(place)
    sys.exit(n_other > 0)
