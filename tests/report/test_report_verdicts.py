"""The first screen: what each component is, how much it explains, and whether it may be interpreted."""

import re
from copy import copy
from dataclasses import replace
from html import unescape
from types import SimpleNamespace

import numpy as np
import pytest

from spcatv.estimator.verdicts import CERTAIN, CONFIRMED, NOT_CONFIRMED, UNCERTAIN
from spcatv.report import generate_report
from spcatv.report.component import BAD, GOOD, UNKNOWN, UNSURE, Verdict, verdict_summary
from spcatv.stability import Bootstrap


def cards(html):
    """The texts of the cards, in order: name, what, how much, verdict; and the level of the verdict."""
    found = []
    for card in re.findall(r'<a class="card".*?</a>', html, flags=re.DOTALL):
        level = re.search(r'class="verdict (\w+)"', card).group(1)
        lines = [unescape(re.sub(r"<[^>]*>", "", line)).strip() for line in card.splitlines()]
        found.append((*(line.replace("\u00a0", " ") for line in lines if line), level))
    return found


def judged(*verdicts):
    """Stand-ins for `SplitHalves` with these verdicts on pattern and outline."""
    records = [
        SimpleNamespace(
            verdict=verdict,
            outline=outline,
            sentence=f"Sentence {k}.",
            dice=0.5,
            cosine=0.7,
            rank=k,
            n_splits=10,
        )
        for k, (verdict, outline) in enumerate(verdicts, start=1)
    ]
    return SimpleNamespace(reproducibility=records)


def resampled(model, dice):
    """Resampled fits whose Dice index with every component is given, one per fit."""
    shape = model.components_.shape
    values = np.repeat(np.asarray(dice)[:, None], shape[0], axis=1)
    return Bootstrap(model.components_, np.zeros(shape), np.zeros(shape), values, values, values, (), ())


def test_verdicts_follow_from_random_halves(image):
    html = generate_report(image.model, halves=judged((CONFIRMED, CERTAIN), (NOT_CONFIRMED, UNCERTAIN))).html
    first, second = cards(html)
    assert first[-2:] == ("✓ Sentence 1.", GOOD)
    assert second[-2:] == ("✗ Sentence 2.", BAD)
    assert "Component 1 is confirmed. Component 2 is not confirmed." in html
    # and once more with each component
    assert html.count("Sentence 1.") == html.count("Sentence 2.") == 2
    vague = judged((CONFIRMED, UNCERTAIN), (CONFIRMED, CERTAIN))
    assert cards(generate_report(image.model, halves=vague).html)[0][-1] == UNSURE


def test_verdicts_do_not_follow_from_the_gap(image):
    model = copy(image.model)
    model.diagnostics_ = tuple(
        replace(record, converged=False, relative_gap=1.0) for record in model.diagnostics_
    )
    assert cards(generate_report(model).html) == cards(generate_report(image.model).html)


@pytest.mark.parametrize(
    ("dice", "count", "level"),
    [
        ([0.9] * 19 + [0.1], "19 of 20", GOOD),
        ([0.9] * 14 + [0.1] * 6, "14 of 20", UNSURE),
        ([0.9] * 9 + [0.1] * 11, "9 of 20", BAD),
    ],
)
def test_verdicts_follow_from_resamples_without_halves(image, dice, count, level):
    html = generate_report(image.model, stability=resampled(image.model, dice)).html
    for card in cards(html):
        assert f"{count} bootstrap resamples" in card[-2]
        assert card[-1] == level
    assert "was not checked" not in html
    assert "confirmed" not in "".join(map(str, cards(html)))


def test_agreement_of_resamples_by_chance_does_not_count(image):
    """Full maps overlap wholly, whatever they are."""
    model = copy(image.model)
    model.components_ = np.ones_like(model.components_)
    html = generate_report(model, stability=resampled(model, [1.0] * 5)).html
    assert {card[-1] for card in cards(html)} == {BAD}


def test_what_was_not_checked_is_reported_with_the_command(image, tmp_path):
    html = generate_report(image.model).html
    assert {card[-2:] for card in cards(html)} == {("– Stability not checked.", UNKNOWN)}
    assert "model.check_stability(X)" in html
    image.model.save(tmp_path / "model")
    (tmp_path / "desc-SPCATV_config.toml").write_text("# run\n", encoding="utf-8")
    command = re.search(r'<pre id="check">(.*?)</pre>', generate_report(tmp_path).html).group(1)
    assert re.fullmatch(r"spca-tv fit --config \S+ --n-splits 10 --output ANOTHER_FOLDER", command)


def test_cards_report_place_and_share(image, volume):
    for made in (image, volume):
        for k, card in enumerate(cards(generate_report(made.model).html)):
            assert card[0] == f"Component {k + 1}"
            share = 100 * made.model.explained_variance_ratio_[k]
            assert float(card[2].removesuffix(" % of the variance")) == pytest.approx(share, rel=0.02)
    # the side of the brain, from the millimetres of the heaviest region's peak
    affine = volume.mask.affine
    maps = np.asanyarray(volume.model.components_img_.dataobj)
    for k, card in enumerate(cards(generate_report(volume.model).html)):
        peak = np.unravel_index(np.abs(maps[..., k]).argmax(), maps.shape[:3])
        x, y, z = affine[:3, :3] @ peak + affine[:3, 3]
        side = "Midline" if abs(x) <= 5 else "Left" if x < 0 else "Right"
        place = f"({x:.0f}, {y:.0f}, {z:.0f}) mm".replace("-", "−")
        assert card[1].startswith((f"{side}, near {place}", f"Both sides, peak at {place}"))


def test_a_map_that_is_not_sparse_is_called_that(image, volume):
    for made, word in ((image, "Everywhere"), (volume, "Brain-wide")):
        model = copy(made.model)
        model.diagnostics_ = tuple(replace(record, sparsity=0.4) for record in model.diagnostics_)
        html = generate_report(model).html.replace("\u00a0", " ")
        assert {card[1] for card in cards(html)} == {f"{word}: not sparse"}
        assert "the map is not sparse: only 40.0 % of the" in html
        assert "not sparse" not in generate_report(made.model).html


def test_empty_components_are_not_interpreted(image):
    model = copy(image.model)
    first, second = model.diagnostics_
    model.components_ = np.stack([image.model.components_[0], np.zeros_like(image.model.components_[0])])
    model.diagnostics_ = (first, replace(second, n_nonzero=0))
    card = cards(generate_report(model, halves=judged(*2 * [(CONFIRMED, CERTAIN)])).html)[1]
    assert (card[1], *card[-2:]) == ("Nowhere", "✗ Empty: there is nothing to interpret.", BAD)


def test_sentence_over_all_components():
    levels = (GOOD, BAD, GOOD, GOOD, UNSURE, BAD)
    verdicts = tuple(Verdict("", level) for level in levels)
    text = verdict_summary(verdicts, by_halves=True)
    assert text.startswith("Components 1, 3 and 4 are confirmed. Component 5 is confirmed")
    assert "Components 2 and 6 are not confirmed." in text
    assert "confirmed" not in verdict_summary(verdicts, by_halves=False)
    assert verdict_summary((Verdict("", UNKNOWN),) * 2, by_halves=True).endswith("was not checked.")


def test_exactness_and_settings_stand_below(volume):
    html = generate_report(volume.folder).html
    assert "How sure is this map?" not in html
    order = ['id="overview"', 'id="components"', "How exact is the computation?", 'id="stability"',
             'id="summary-table"', 'id="parameters-table"']  # fmt: skip
    places = [html.index(piece) for piece in order]
    assert places == sorted(places)
