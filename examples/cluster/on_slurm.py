"""Fit a cohort on a Slurm cluster.

Every worker is a job of its own, which dask-jobqueue submits (``pip install dask-jobqueue``):

    python on_slurm.py /shared/X.zarr /shared/mask.npy /shared/model --partition normal --account brain

With ``--local`` the same runs on this machine, without Slurm.
"""

from cohort import parser, run


def slurm_cluster(options):
    """Jobs of one worker each. Nothing is submitted yet."""
    from dask_jobqueue import SLURMCluster

    return SLURMCluster(
        queue=options.partition,
        account=options.account,
        walltime=options.walltime,
        cores=options.threads,
        processes=1,
        memory=options.memory,
        interface=options.interface,  # such as ib0: vectors travel over the fast network
        local_directory=options.scratch,
        log_directory="slurm-logs",
        job_script_prologue=options.prologue,
    )


def main():
    options = parser(__doc__)
    options.add_argument("--partition", help="of the jobs of the workers")
    options.add_argument("--account", help="that pays for them")
    options.add_argument("--walltime", default="12:00:00", help="longer than the fit")
    options.add_argument("--interface", help="network between the workers, such as ib0")
    options.add_argument("--scratch", default="/tmp", help="folder of each worker on its own disk")
    options.add_argument("--prologue", nargs="*", default=[], help='such as "module load python"')
    run(options.parse_args(), slurm_cluster)


if __name__ == "__main__":
    main()
