"""What the tests of `spca-tv select` have in common: a small grid, and how two folders are compared."""

from cli_files import read_tsv

OPTIONS = (
    "--shape 12,10",
    "--n-components 2",
    "--alpha 0.1 0.4",
    "--l1-ratio 0.25",
    "--tv-ratio 0.25 0.5",
    "--cv 4",
    "--n-bootstraps 6",
    "--n-splits 2",
)
SMALL = tuple(" ".join(OPTIONS).split())


def small_but(*words):
    """`SMALL` with other options, which replace its own: these may not be given twice."""
    kept = [option.split() for option in OPTIONS if option.split()[0] not in words]
    return [*(word for option in kept for word in option), *words]


def assert_same_results(one, other):
    """The same numbers in two folders, except for times."""
    for first, second in zip(
        *(read_tsv(folder / "desc-SPCATV_selection.tsv") for folder in (one, other)), strict=True
    ):
        assert {**first, "mean_fit_time": ""} == {**second, "mean_fit_time": ""}
    for name in ("stability.npz", "desc-SPCATV_components.npy", "desc-SPCATV_mixing.tsv"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
