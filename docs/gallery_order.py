"""The order of the examples on the site: brains first, then other fields, then what takes more knowledge."""

ORDER = (
    "paper_simulation",
    "contrast_maps",
    "grey_matter_age",
    "thickness_fsaverage5",
    "cifti",
    "el_nino",
    "spectra",
    "faces",
    "genes_pathways",
    "pipeline_classifier",
    "tv_regression",
    "custom_penalty",
    "dask_cluster",
    "gpu",
)


def order(file):
    """Where in the gallery an example stands; one that is not listed comes last."""
    name = file.removeprefix("plot_").removesuffix(".py")
    return ORDER.index(name) if name in ORDER else len(ORDER)
