"""Fit a cohort on a Kubernetes cluster that has the operator of Dask.

Every worker is a pod. The script needs ``pip install dask-kubernetes`` and runs in a pod of the same image,
with the same volume:

    python on_kubernetes.py /data/X.zarr /data/mask.npy /data/model --image registry/spca-tv:1 --claim cohort

With ``--local`` the same runs on this machine, without Kubernetes.
"""

from cohort import parser, run


def description(options):
    """Return the cluster as a DaskCluster resource: pods with the volume of X."""
    from dask_kubernetes.operator import make_cluster_spec

    spec = make_cluster_spec(
        name=options.name,
        image=options.image,
        n_workers=options.workers,
        worker_command=["dask-worker", "--nthreads", str(options.threads), "--memory-limit", options.memory],
        idle_timeout=1800,  # seconds after which the cluster is removed if this script is gone
    )
    pod = spec["spec"]["worker"]["spec"]
    size = {"cpu": str(options.threads), "memory": options.pod_memory}
    pod["containers"][0]["resources"] = {"requests": size, "limits": size}
    pod["containers"][0]["volumeMounts"] = [{"name": "cohort", "mountPath": options.mount, "readOnly": True}]
    pod["volumes"] = [{"name": "cohort", "persistentVolumeClaim": {"claimName": options.claim}}]
    return spec


def kubernetes_cluster(options):
    """Start a scheduler and workers, and remove them at the end."""
    from dask_kubernetes.operator import KubeCluster

    return KubeCluster(custom_cluster_spec=description(options), namespace=options.namespace)


def main():
    options = parser(__doc__)
    options.add_argument("--name", default="spca-tv", help="of the cluster")
    options.add_argument("--namespace", help="where it runs")
    options.add_argument("--image", help="with Python, spca-tv and Dask in the versions that this script has")
    options.add_argument("--claim", help="PersistentVolumeClaim with X, which many pods may read")
    options.add_argument("--mount", default="/data", help="where its files are in the pods")
    options.add_argument("--pod-memory", default="36Gi", help="of each pod; some more than --memory")
    run(options.parse_args(), kubernetes_cluster)


if __name__ == "__main__":
    main()
