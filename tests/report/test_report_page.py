"""The page as text: what it holds, what it leaves out, and that no user input becomes code."""

import json
import re
from copy import copy
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from report_files import blobs, write_mixing, write_selection, write_stability

from spcatv import SPCATV
from spcatv.report import Column, Report, ReportError, generate_report
from spcatv.report.formatting import file_names, fixed
from spcatv.results.write import write_records
from spcatv.selection import SPCATVCV
from spcatv.stability import bootstrap_components, split_halves

EVIL = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=2'>\"'&{{7*7}}${1}"


class Tags(HTMLParser):
    """Elements and attributes of a page, and the text of some elements."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.ids, self._inside = [], [], {}, None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        self._inside = dict(attrs).get("id")

    def handle_data(self, data):
        if self._inside:
            self.ids[self._inside] = self.ids.get(self._inside, "") + data


def headings(html):
    return re.findall(r"<h2 [^>]*>([^<]*)</h2>", html)


def test_a_model_alone_has_no_empty_boxes(image):
    html = generate_report(image.model).html
    assert headings(html) == [
        "The components at a glance",
        "Components",
        "Explained variance",
        "Stability",
        "The computation",
        "For the methods section of a paper",
        "What was run",
        "Words",
    ]
    assert "Scores of the samples" not in html
    assert html.startswith("<!DOCTYPE html>")


def test_every_parameter_of_an_image_model_in_memory_is_listed(tmp_path):
    pytest.importorskip("nilearn", reason="images are read with nilearn (extra `images`)")
    import nibabel as nib

    from spcatv import ImageSPCATV

    rng = np.random.default_rng(0)
    images = [nib.Nifti1Image(rng.standard_normal((5, 5, 5)), np.eye(4)) for _ in range(6)]
    given = {"smoothing_fwhm": 2.5, "standardize_runs": False, "target_affine": np.eye(3)}
    model = ImageSPCATV(1, mask=np.ones((5, 5, 5)), tol=1e-3, cache=str(tmp_path / "kept"), **given)
    (table,) = re.findall(
        r'<table id="parameters-table".*?</table>', generate_report(model.fit(images)).html, re.DOTALL
    )
    cells = [
        re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<t[dh].*?</t[dh]>", table, re.DOTALL)
    ][2:]
    listed = dict(zip(cells[::2], cells[1::2], strict=True))
    unused = {"alpha", "l1_ratio", "tv_ratio", "penalty_units"}
    assert set(listed) - {"structure"} == set(model.get_params(deep=False)) - unused
    assert (listed["smoothing_fwhm"], listed["standardize_runs"]) == ("2.5", "no")
    assert (listed["high_pass"], listed["mask"], listed["target_affine"]) == ("none", "given", "given")
    assert listed["cache"] == str(tmp_path / "kept")


def test_page_states_what_was_requested(image):
    html = generate_report(image.model).html.replace("\u00a0", " ")
    assert "Asked for: 70 % zeros and a smoothness of 1." in html
    for name in ("Zeros wanted", "Smoothness"):
        assert f'<th scope="col">{name}</th>' in html
    assert "<strong>Smoothness</strong>" in html
    assert "Penalised model" not in html
    for name in ("alpha", "l1_ratio", "tv_ratio", "penalty_units"):
        assert f'class="text">{name}</th>' not in html


def test_page_of_the_penalised_model(image):
    html = generate_report(SPCATV(2, structure=image.inside, alpha=0.1).fit(image.X)).html
    assert "The penalised model, with relative alpha 0.1, l1 ratio 0.25 and TV ratio 0.5." in html
    assert "Zeros wanted" not in html
    assert "<strong>Smoothness</strong>" not in html
    for name in ("sparsity", "smoothness"):
        assert f'class="text">{name}</th>' not in html


def test_a_model_without_neighbours_has_features_and_no_smoothness():
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).standard_normal((20, 12))
    X[:, 4] *= 9
    columns = [f"gene {k}" for k in range(12)]
    html = generate_report(SPCATV(1).fit(pandas.DataFrame(X, columns=columns))).html.replace("\u00a0", " ")
    assert "<span>gene 4, and " in html
    assert re.search(r'<th scope="row" class="text">gene 4</th><td>0\.\d+</td>', html)
    assert "Every loading map was required to be exactly zero in 70 % of the features." in html
    assert "mooth" not in html[html.index("<body>") : html.index('id="facts-table"')]


def test_the_table_of_the_computation_has_jumps_and_the_smoothness_used(image):
    model = copy(image.model)
    first, second = model.diagnostics_
    model.diagnostics_ = (replace(first, sparsity=0.5, jump=0.25), replace(second, smoothness=0.49))
    html = generate_report(model).html.replace("\u00a0", " ")
    cells = re.findall(r"<td>([^<]*)</td>", html[html.index('id="summary-table"') :])
    assert '<th scope="col">Jump</th>' in html
    assert cells[1:5] == ["70 %", "50.0 %", "25.0 %", "1"]
    assert cells[12:14] == ["none", "0.49"]


def test_everything_that_lies_in_the_folder_is_shown(pages):
    html = pages("volume").read_text(encoding="utf-8")
    assert headings(html) == [
        "The components at a glance",
        "Components",
        "Explained variance",
        "Stability",
        "Selection of the setting",
        "Scores",
        "What the scores go with",
        "Images and mask",
        "The computation",
        "For the methods section of a paper",
        "What was run",
        "Words",
    ]
    assert "8 (chosen)" in html
    assert "The rule “paper” takes the setting with the lowest held-out error" in html
    assert "Medians by group: control" in html
    assert "Correlation with age:" in html


def test_the_model_inside_of_the_results_is_as_good(image):
    assert generate_report(image.folder).html == generate_report(image.folder / "model").html


@pytest.mark.parametrize("kind", ["volume", "surface"])
def test_size_stays_small(pages, kind):
    assert len(pages(kind).read_bytes()) < 2_500_000


def test_ceiling_and_scores_from_data(line):
    html = generate_report(line.model, data=line.X, names=[f"row {k}" for k in range(len(line.X))]).html
    assert "PCA, cumulative" in html
    assert "row 7" in html


def test_ceiling_from_the_table_of_metrics(image, tmp_path):
    image.model.save(tmp_path / "model")
    table = "component\tpca_cumulative_explained_variance_ratio\n1\t0.77\n2\t0.888\n"
    (tmp_path / "desc-SPCATV_metrics.tsv").write_text(table, encoding="utf-8")
    assert "88.8\u00a0%" in generate_report(tmp_path).html


def test_images_as_data(volume):
    html = generate_report(volume.model, data=[str(file) for file in volume.files]).html
    assert "sub-05_gm.nii.gz" in html
    assert "PCA, cumulative" in html


def test_a_search_and_resamples_can_be_given(line):
    search = SPCATVCV(2, structure=(60,), alpha=[0.1, 0.3], l1_ratio=0.2, tv_ratio=0.5, cv=3).fit(line.X)
    resampled = bootstrap_components(search.best_estimator_, line.X, n_resamples=4, random_state=0)
    html = generate_report(search, data=line.X, stability=resampled).html
    assert "Selection of the setting" in html
    assert "repeated on 4 resamples" in html
    assert "halves-table" not in html


def test_random_halves_stand_in_the_section_of_stability(line, tmp_path):
    halves = split_halves(line.model, line.X, n_splits=2, random_state=0)
    html = generate_report(line.model, halves=halves).html
    assert "Stability" in headings(html)
    assert "how often each is selected" not in html, "there are no resamples"
    row = re.compile(2 * r'<td class="text">([^<]*)</td>' + 3 * "<td>([^<]*)</td>")
    cells = row.findall(html)
    assert cells == [
        (r.verdict, r.outline, fixed(r.cosine), fixed(r.dice), str(r.rank)) for r in halves.reproducibility
    ]
    line.model.save(tmp_path / "model")
    table = tmp_path / "desc-SPCATV_halves.tsv"
    write_records(table, halves.reproducibility, component=[1, 2])
    assert row.findall(generate_report(tmp_path).html) == cells
    table.write_text("component\trank\tdice\tverdict\n1\t2\t0.2\tmaybe\n")
    with pytest.raises(ReportError, match=r"halves\.tsv: has no column cosine"):
        generate_report(tmp_path)


def test_nothing_of_a_user_becomes_code(tmp_path, monkeypatch):
    """Hostile text everywhere a user can put text; the page has its own elements and no others."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 20))
    harmless = generate_report(_results(tmp_path / "harmless", X, "fine"), **_options("fine")).html
    named = pandas.DataFrame(X, columns=[f"{EVIL} {k}" for k in range(20)])
    hostile = generate_report(_results(tmp_path / "hostile", named, EVIL), **_options(EVIL)).html
    good, bad = Tags(harmless), Tags(hostile)
    assert sorted(good.tags) == sorted(bad.tags)
    assert [name for _, name, _ in good.attributes] == [name for _, name, _ in bad.attributes]
    assert bad.tags.count("script") == 2
    assert "onerror='" not in hostile
    # the text itself is there, for people
    assert bad.ids["repeat"].startswith("spca-tv select --config ")
    assert json.loads(re.search(r'id="report-data">(.*?)</script>', hostile).group(1))["views"][0]["names"][
        3
    ] == (f"{EVIL} 3")
    assert not re.search(r"""\s(?:src|href)="(?!data:|#)""", hostile), "nothing is loaded from elsewhere"


def _results(folder, X, text):
    """A results folder in which every string is `text`."""
    folder.mkdir()
    model = SPCATV(1, structure=(20,), alpha=0.01).fit(X)
    model.save(folder / "model", inputs={text: {"name": text, "sha256": text}})
    write_mixing(folder, [text] * 12, np.arange(12.0)[:, None])
    write_selection(folder)
    write_stability(folder, model.components_)
    choice = {"rule": text, "best_index": 1, "n_folds": 5}
    (folder / "desc-SPCATV_selection.json").write_text(json.dumps(choice), encoding="utf-8")
    (folder / "desc-SPCATV_config.toml").write_text(f"# {text}\n", encoding="utf-8")
    return folder


def _options(text):
    return {
        "title": text,
        "groups": Column(text, [text, "b"] * 6),
        "variable": Column(text, list(range(12))),
    }


def test_hostile_page_in_the_browser(browser, tmp_path):
    """The browser agrees: the texts are shown, and nothing in them runs."""
    pandas = pytest.importorskip("pandas")
    named = pandas.DataFrame(
        np.random.default_rng(0).standard_normal((12, 20)), columns=[f"{EVIL} {k}" for k in range(20)]
    )
    page = generate_report(_results(tmp_path / "results", named, EVIL), **_options(EVIL))
    browser.open(page.save_as_html(tmp_path / "page.html"))
    assert browser.text("h1") == EVIL
    assert EVIL in browser.text("#component-1 output")
    assert browser.evaluate("typeof window.hacked") == "undefined"
    assert browser.evaluate("document.querySelectorAll('img[src=x], img[onerror]').length") == 0
    assert browser.complaints() == []
    # even a script that gets into the page is not run: the policy knows the page's own by its hash
    browser.evaluate(
        "(() => { const s = document.createElement('script'); s.textContent = 'window.hacked = 3';"
        "document.body.append(s); })()"
    )
    assert browser.evaluate("typeof window.hacked") == "undefined"


def test_hostile_atlas_names(volume, tmp_path):
    nib = pytest.importorskip("nibabel")
    labels = np.ones(volume.inside.shape, dtype=np.int16)
    nib.save(nib.Nifti1Image(labels, volume.mask.affine), tmp_path / "atlas.nii.gz")
    (tmp_path / "names.tsv").write_text(f"index\tname\n1\t{EVIL.replace(chr(34), '')}\n", encoding="utf-8")
    html = generate_report(
        volume.folder, atlas=tmp_path / "atlas.nii.gz", atlas_names=tmp_path / "names.tsv"
    ).html
    assert "window.hacked=1" in html
    assert "<script>window" not in html
    assert Tags(html).tags.count("script") == 2


def test_wrong_input_is_named(line, image, tmp_path):
    with pytest.raises(ReportError, match="there are no scores to show it with"):
        generate_report(image.model, groups=["a"] * 24)
    with pytest.raises(ReportError, match="group has 3 values, but there are 24 samples"):
        generate_report(line.model, data=line.X, groups=["a", "b", "c"])
    with pytest.raises(ReportError, match="must hold numbers"):
        generate_report(line.model, data=line.X, variable=["a"] * 24)
    with pytest.raises(ReportError, match="a fitted SPCATV"):
        generate_report(3)
    with pytest.raises(ReportError, match="names are given"):
        generate_report(line.model, data=line.X, names=["a"])
    image.model.save(tmp_path / "model")
    np.savez(tmp_path / "stability.npz", selection_frequency=np.ones((2, 3)))
    with pytest.raises(ReportError, match=r"stability\.npz: .* is damaged, or belongs to another model"):
        generate_report(tmp_path)
    (tmp_path / "stability.npz").unlink()
    (tmp_path / "desc-SPCATV_mixing.tsv").write_text("input\tcomponent_1\na\t1\n", encoding="utf-8")
    with pytest.raises(ReportError, match="has no column component_2"):
        generate_report(tmp_path)
    (tmp_path / "desc-SPCATV_mixing.tsv").unlink()
    write_selection(tmp_path)
    choice = {"rule": "paper", "best_index": 12, "n_folds": 5}
    (tmp_path / "desc-SPCATV_selection.json").write_text(json.dumps(choice), encoding="utf-8")
    with pytest.raises(ReportError, match="best_index is 12"):
        generate_report(tmp_path)


def test_saving_is_whole_or_not_at_all(image, tmp_path):
    report = generate_report(image.model, title="One")
    file = report.save_as_html(tmp_path / "report.html")
    assert file.read_text(encoding="utf-8") == report.html
    with pytest.raises(OSError, match="No such file"):
        report.save_as_html(tmp_path / "nowhere" / "report.html")
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_opening_goes_through_the_web_browser(image, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("webbrowser.open", asked.append)
    file = generate_report(image.model).open_in_browser(tmp_path / "report.html")
    assert asked == [file.resolve().as_uri()]


def test_a_notebook_gets_a_frame():
    assert (
        Report('<p title="a">&</p>')
        ._repr_html_()
        .startswith('<iframe srcdoc="<p title=&quot;a&quot;>&amp;</p>"')
    )


def test_empty_and_unfinished_components_are_reported():
    X = np.random.default_rng(0).standard_normal((12, 20))
    with pytest.warns(UserWarning, match="components are empty"):
        model = SPCATV(2, structure=(20,), alpha=5.0).fit(X)
    html = generate_report(model, data=X).html
    assert html.count("Components 1 and 2 are empty: the penalty leaves no loading.") == 1
    with pytest.warns(UserWarning, match="was not reached"):
        model = SPCATV(1, structure=(20,), max_iter=1, tol=1e-12).fit(X)
    assert "was stopped before the tolerance" in generate_report(model).html


def test_tiny_regions_are_counted_apart():
    """Six regions of one weight, and four faint ones."""
    X = np.random.default_rng(0).standard_normal((12, 40))
    model = SPCATV(1, structure=(40,)).fit(X)
    loading = np.zeros(40)
    loading[:12:2], loading[20:28:2] = 0.4, 1e-4
    model.components_ = loading[None]
    html = generate_report(model).html
    assert "<td>6 (+4 tiny)</td>" in html
    assert "6 connected regions (and 4 of less than" in html


def test_few_alternations_are_a_sentence_and_no_picture(line):
    short = [k for k, record in enumerate(line.model.diagnostics_) if len(record.objectives) < 3]
    html = generate_report(line.model).html
    assert html.count('alt="Convergence of component') == 2 - len(short)
    assert html.count("The fit took") == len(short)
    assert "inexactness" not in html


def test_views_without_a_loading_report_it(cifti, image):
    html = generate_report(cifti.model).html
    rows = cifti.model.components_
    blank = sum(not row[-125:].any() for row in rows) + sum(not row[:-125].any() for row in rows)
    assert blank > 0
    assert html.count("No loading of this component here.") == blank
    assert "No loading of this component here." not in generate_report(image.model).html


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("maps/sub-01_gm.nii.gz", "sub-01_gm.nii.gz"),
        ("a/run.nii[3]", "run.nii[3]"),
        ("d/s_hemi-L_t.shape.gii + d/s_hemi-R_t.shape.gii", "s_hemi-{L,R}_t.shape.gii"),
        ("one/lh.thickness + one/rh.thickness", "{lh,rh}.thickness"),
        ("left/01.mgh + right/01.mgh", "01.mgh"),
        ("aa.gii + aaa.gii", "{aa,aaa}.gii"),
        ("image 1 (left) + image 1 (right)[13]", "image 1 ({left,right})[13]"),
    ],
)
def test_names_of_samples_are_short(name, shown):
    assert file_names(name) == shown


def test_a_sample_that_makes_a_component_alone_is_named():
    X = blobs(np.arange(40.0)[:, None])
    X[5] *= 20
    model = SPCATV(1, structure=(40,)).fit(X)
    assert "sample 6 alone has 9" in generate_report(model, data=X).html
    X[5] /= 20
    assert "alone has" not in generate_report(model, data=X).html
