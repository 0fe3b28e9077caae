"""Results folder of `spca-tv fit` and `spca-tv select`: layout, writing and reading (docs/cli.md)."""

from spcatv.results.layout import ResultsError, claimed_folder, report_file, writing_results
from spcatv.results.read import Results, Scores, Selection, open_model, read_results
from spcatv.results.write import SampleSet, write_results, write_selection

__all__ = [
    "Results",
    "ResultsError",
    "SampleSet",
    "Scores",
    "Selection",
    "claimed_folder",
    "open_model",
    "read_results",
    "report_file",
    "write_results",
    "write_selection",
    "writing_results",
]
