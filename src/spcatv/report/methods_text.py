"""Methods paragraph for a paper."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from spcatv._util.bids import group_noun, natural_groups
from spcatv._util.parameters import PENALTIES
from spcatv.report import formatting as fmt
from spcatv.report.inputs import ReportInputs, is_joint
from spcatv.report.regions import noun_of
from spcatv.report.relations import Relation
from spcatv.report.sections import PARAMETERS, Section, chosen_by
from spcatv.report.statistics import participants_of, runs_of

REFERENCE = (
    "de Pierrefeu, A., Löfstedt, T., Hadj-Selem, F., Dubois, M., Jardri, R., Fovet, T., Ciuciu, P., Frouin, "
    "V., & Duchesnay, E. (2018). Structured sparse principal components analysis with the TV-elastic net "
    "penalty. IEEE Transactions on Medical Imaging, 37(2), 396–407. https://doi.org/10.1109/TMI.2017.2749140"
)
PACKAGES = {
    "python": "Python",
    "numpy": "NumPy",
    "scipy": "SciPy",
    "scikit-learn": "scikit-learn",
    "numba": "Numba",
    "nilearn": "nilearn",
    "nibabel": "nibabel",
}


def methods_section(inputs: ReportInputs, relations: Sequence[Relation]) -> Section:
    """Create the section with the paragraph and the reference, and a button that copies both."""
    return Section(
        "For the methods section of a paper",
        parts=[Section(text=methods_text(inputs, relations)), Section(text=REFERENCE)],
        id="methods",
        link="Methods paragraph",
        copy="Copy the paragraph and the reference",
    )


def methods_text(inputs: ReportInputs, relations: Sequence[Relation]) -> str:
    """Describe the analysis as far as the model and its results folder record it."""
    sentences = (
        *_data(inputs),
        *_preparation(inputs.model),
        *_model(inputs.model),
        *_selection(inputs),
        *_stability(inputs),
        _kept_together(inputs),
        *(relation.method for relation in relations),
        _software(inputs),
    )
    return " ".join(filter(None, sentences))


def _data(inputs: ReportInputs) -> Iterator[str]:
    """Describe samples, features, repeated samples of one participant or run, and the mask."""
    model, noun = inputs.model, noun_of(inputs.model)
    names = getattr(model, "input_names_", ()) if inputs.scores is None else inputs.scores.names
    n_components, n_features = model.components_.shape
    samples = f"{fmt.count(len(names), 'sample')} of " if names else ""
    yield (
        f"Structured sparse principal component analysis (SPCA-TV; de Pierrefeu et al., 2018) with "
        f"{fmt.count(n_components, 'component')} was applied to {samples}{n_features:,} {noun}."
    )
    if hasattr(model, "preparation_"):
        repeated = {"participant": participants_of(names), "run": runs_of(names)}
        counted = [fmt.count(len(set(members)), name) for name, members in repeated.items() if members]
        if counted:
            yield f"The samples came from {' and '.join(counted)}."
    if hasattr(model, "mask_report_"):
        dropped = model.dropped_.n_dropped
        less = f"; {dropped:,} {noun} without usable values were dropped" if dropped else ""
        article = "a " if model.mask_report_.startswith("mask") else ""
        # a paper does not need the folders of a mask
        report = re.sub(r"\(([^()]*[/\\])", "(", model.mask_report_)
        yield f"The analysis was limited to {article}{report}{less}."


def _preparation(model: Any) -> Iterator[str]:
    """Describe the preprocessing of the data."""
    preparation = getattr(model, "preparation_", None)
    if preparation is not None and (described := preparation.reading.described()):
        yield f"While the images were read, they were treated as follows: {described}."
    confounds = getattr(preparation, "confounds", None)
    if confounds is not None:
        yield f"Confounds were removed from every feature by linear regression ({confounds.described()})."
    steps = ["centred"] if model.center else []
    if getattr(preparation, "scale", None) is not None:
        steps.append("scaled to unit variance")
    if steps:
        yield f"Features were {' and '.join(steps)} over the samples."
    if model.global_signal is not None:
        yield "The mean over features of every sample was regressed out."


def _model(model: Any) -> Iterator[str]:
    """Describe the weights of the model and the tolerance of the computation."""
    penalty = f"the penalty {type(model.penalty).__name__}"
    if isinstance(model.penalty, str):
        penalty = PENALTIES[model.penalty][1]
    if model.alpha is None:
        shares = np.unique(np.atleast_1d(model.sparsity))
        zeros = " to ".join(dict.fromkeys(f"{100 * share:g}" for share in (shares[0], shares[-1])))
        used = [record.smoothness for record in model.diagnostics_ if record.smoothness is not None]
        weight = f"a weight of {model.smoothness:g}"
        if any(weight != model.smoothness for weight in used):
            shown = fmt.values(used, 3)
            weight += f", lowered to {shown} for the components in turn so that this share could be reached"
        smoothed = f", and smoothed by {penalty} with {weight} (in standard deviations of the map itself)"
        yield (
            f"Every loading map was required to be exactly zero in {zeros}{fmt.SPACE}% of the features"
            f"{smoothed if model.structure_.n_rows else ''}."
        )
    else:
        norms = "l1 norm and squared l2 norm"
        if model.structure_.n_rows:
            norms = f"l1 norm, squared l2 norm and {penalty}"
        yield (
            f"Loadings were penalised by {norms}, with a total weight of "
            f"alpha{fmt.SPACE}={fmt.SPACE}{fmt.values(model.alpha)} ({model.penalty_units} units); the "
            f"shares of the l1 norm and of the structured penalty were {model.l1_ratio:g} and "
            f"{model.tv_ratio:g}."
        )
    if len(model.components_) > 1:
        yield (
            "All components were fitted at once, with uncorrelated scores."
            if is_joint(model)
            else "Components were fitted one after the other, each to the residual of those before it."
        )
    if model.positive:
        yield "Loadings were kept non-negative."
    if model.refit is not None:
        yield "Loadings were fitted again on their supports, without penalties."
    missed = sum(record.n_nonzero > 0 and not record.converged for record in model.diagnostics_)
    reached = "" if missed == 0 else f", which {fmt.count(missed, 'component')} did not reach"
    yield (
        f"Loading problems were solved to a certified relative duality gap of {fmt.number(model.tol, 1)}"
        f"{reached}."
    )


def _selection(inputs: ReportInputs) -> Iterator[str]:
    """Describe the settings that were compared."""
    selection = inputs.selection
    if selection is None:
        return
    varied = []
    for name, title in PARAMETERS.items():
        tried = list(dict.fromkeys(fmt.values(value) for value in selection.columns.get(name, ())))
        if len(tried) > 1:
            varied.append(
                f"{title} {', '.join(tried)}" if len(tried) <= 12 else f"{len(tried)} values of {title}"
            )
    n_settings = len(selection.columns["mean_test_error"])
    folds = "" if selection.n_folds is None else f"{selection.n_folds}-fold "
    grid = f" ({'; '.join(varied)})" if varied else ""
    verb = "was" if n_settings == 1 else "were"
    yield (
        f"{fmt.count(n_settings, 'setting')}{grid} {verb} compared by {folds}cross-validation; "
        f"{chosen_by(selection) or 'one setting'} was chosen."
    )


def _stability(inputs: ReportInputs) -> Iterator[str]:
    """Describe resamples and halves."""
    if inputs.stability is not None:
        yield (
            f"The fit was repeated on {len(inputs.stability.dice)} resamples to see how often features "
            "and regions are selected (bootstrap frequency)."
        )
    if inputs.halves:
        yield (
            f"Components were compared between the two halves of "
            f"{fmt.count(inputs.halves[0].n_splits, 'random split')} of the samples. A pattern counts as "
            "confirmed if the mean Dice index of its supports, corrected for chance, is at least 0.6 or the "
            "mean cosine of its loadings at least 0.75."
        )


def _kept_together(inputs: ReportInputs) -> str:
    """Describe the groups of samples that were not split; in Python, only those of folds are known."""
    selection, by_command = inputs.selection, inputs.config is not None
    if selection is not None:
        what = "Folds, resamples and halves" if by_command else "Folds"
        noun, n_groups = selection.grouped_by, selection.n_groups
    else:
        names = getattr(inputs.model, "input_names_", ())
        labels = natural_groups(names) if by_command and inputs.halves else None
        what = "The halves"
        noun, n_groups = (None, None) if labels is None else (group_noun(names, labels), len(set(labels)))
    return f"{what} kept all samples of one {noun} together ({n_groups} in all)." if noun else ""


def _software(inputs: ReportInputs) -> str:
    versions = inputs.saved.versions
    others = ", ".join(f"{title} {versions[name]}" for name, title in PACKAGES.items() if name in versions)
    version = f"Computed with spca-tv {versions.get('spca-tv', '')}".rstrip()
    return f"{version}{f' ({others})' if others else ''}, report of {today()}."


def today() -> str:
    """Return the date, such as "16 November 2026"; SOURCE_DATE_EPOCH overrides the clock."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    day = datetime.fromtimestamp(int(epoch), UTC) if epoch.isdigit() else datetime.now()
    return f"{day.day} {day:%B %Y}"
