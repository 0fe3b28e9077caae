"""What the scripts for Slurm and Kubernetes share: options, X as blocks that workers read, and the fit.

X is a file that every worker can open, with one row per sample: ``X.npy``, a Zarr array ``X.zarr``, or the
dataset ``X`` of an HDF5 file ``X.h5``. Its features are the voxels of a mask, ``mask.npy``.
"""

import argparse
import time
from pathlib import Path

import dask.array as da
import distributed
import numpy as np

from spcatv import SPCATV
from spcatv.structure import grid

# Samples of a block of X, at least, so that it is many times what travels for it; and bytes, at least, so
# that there are not too many tasks. A worker needs memory for two such blocks per thread.
BLOCK_SAMPLES, BLOCK_BYTES = 128, 128_000_000
# Share of the memory of all workers that X may take; the rest is for vectors and for Dask itself.
X_SHARE = 0.5
# Seconds to wait for workers, which may have to wait in a queue themselves.
PATIENCE = 24 * 3600


def parser(description):
    """Return the options that both scripts have."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("X", type=Path, help="X.npy, X.zarr or X.h5 on a file system that all workers share")
    options.add_argument("mask", type=Path, help="mask.npy: which voxels the features are")
    options.add_argument("output", type=Path, help="folder for the model, and for the scores beside it")
    options.add_argument("--components", type=int, default=10)
    options.add_argument("--sparsity", type=float, default=0.9, help="share of zeros")
    options.add_argument("--workers", type=int, default=8)
    options.add_argument("--threads", type=int, default=4, help="blocks that a worker reads at a time")
    options.add_argument("--memory", default="32GiB", help="of each worker")
    options.add_argument("--local", action="store_true", help="try it out: workers on this machine")
    return options


def local_cluster(options):
    """Worker processes on this machine, in the place of a cluster."""
    return distributed.LocalCluster(
        n_workers=options.workers,
        threads_per_worker=options.threads,
        memory_limit=options.memory,
        dashboard_address=":0",
    )


def open_matrix(path):
    """X as an array in a file, with `shape`, `dtype` and slices."""
    if path.suffix == ".npy":
        return np.load(path, mmap_mode="r")
    if path.suffix == ".zarr":
        import zarr

        return zarr.open_array(path, mode="r")
    import h5py

    return h5py.File(path, "r")["X"]


def read_block(path, block_info=None):
    """Rows of X, on a worker."""
    first, last = block_info[None]["array-location"][0]
    return np.array(open_matrix(path)[first:last])


def blocks_of(path):
    """X as a Dask array. Its blocks are read by workers, and read again if a worker is lost."""
    X = open_matrix(path)
    n_samples, n_features = X.shape
    height = max(BLOCK_SAMPLES, BLOCK_BYTES // (n_features * X.dtype.itemsize))
    stored = (getattr(X, "chunks", None) or (1,))[0]
    height = max(1, height // stored) * stored  # whole chunks of the file
    heights = tuple(min(height, n_samples - first) for first in range(0, n_samples, height))
    return da.map_blocks(
        read_block, path.absolute(), chunks=(heights, (n_features,)), meta=np.empty((0, 0), X.dtype)
    )


def fit(client, options):
    """Fit X on the workers of a client, write the model and the scores, and print time and passes."""
    print(f"Watch it: {client.dashboard_link}", flush=True)
    # a fit can start with fewer workers, but blocks are spread over those that are there when X is loaded
    client.wait_for_workers(options.workers, timeout=PATIENCE)
    X = blocks_of(options.X)
    memory = sum(worker["memory_limit"] for worker in client.scheduler_info(n_workers=-1)["workers"].values())
    if X.nbytes <= X_SHARE * memory:
        X = X.persist()
        distributed.wait(X)
    else:
        print("X does not fit into the memory of all workers: every pass reads it again", flush=True)
    started = time.perf_counter()
    model = SPCATV(
        options.components, structure=grid(np.load(options.mask)), sparsity=options.sparsity, verbose=1
    ).fit(X)
    seconds, n_passes = time.perf_counter() - started, sum(record.n_passes for record in model.diagnostics_)
    size = f"{X.shape[0]} x {X.shape[1]}, {options.components} components"
    print(f"{size}: {seconds:.1f} s, 3 + {n_passes} passes over X", flush=True)
    model.save(options.output)
    np.save(options.output.with_name(f"{options.output.name}-scores.npy"), model.transform(X))
    return model


def run(options, make_cluster):
    """Fit on a new cluster, or on processes of this machine with ``--local``."""
    with (local_cluster if options.local else make_cluster)(options) as cluster:
        cluster.scale(options.workers)
        with distributed.Client(cluster) as client:
            fit(client, options)
