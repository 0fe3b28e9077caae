"""The results folder of `spca-tv fit` and `spca-tv select`: its names, writing and reading (docs/cli.md)."""

from spcatv.results.folder import ResultsError, claimed_folder, report_file, writing_results
from spcatv.results.reading import Results, Scores, Selection, Stability, open_model, read_results
from spcatv.results.writing import SampleSet, write_curve, write_results, write_selection

__all__ = [
    "Results",
    "ResultsError",
    "SampleSet",
    "Scores",
    "Selection",
    "Stability",
    "claimed_folder",
    "open_model",
    "read_results",
    "report_file",
    "write_curve",
    "write_results",
    "write_selection",
    "writing_results",
]
