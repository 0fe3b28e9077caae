"""The settings explorer in a real browser: sliders, heat map, figures, commands, width and size."""

import html
import json
import os
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from report_files import blobs, load_axe, needs_axe, violations

from spcatv import SPCATV, SPCATVCV
from spcatv.metrics import cumulative_explained_variance
from spcatv.report import explore
from spcatv.report.explorer import explorer_page
from spcatv.selection.cross_validation import Exploration, explore_settings

pytestmark = pytest.mark.no_cover  # the lines of the page run in the test of its size as well
KINDS = ("volume", "surface", "image", "line")
GRID = {"sparsity": [0.6, 0.8, 0.9], "smoothness": [0.5, 2.0]}
SMALL = {**GRID, "cv": 2, "n_splits": 1}
# A promise that is kept when the map of a setting and a component is on show
SHOWN = """new Promise(done => {
  const page = document.documentElement;
  const look = () => page.dataset.shown === "%s" && done(true);
  new MutationObserver(look).observe(page, {attributeFilter: ["data-shown"]});
  look();
})"""


@pytest.fixture(scope="session")
def explorers(request, tmp_path_factory):
    """The page of a kind of data, written once."""
    folder = tmp_path_factory.mktemp("explorers")
    written = {}

    def page(kind):
        if kind not in written:
            made = request.getfixturevalue(kind)
            if kind == "volume":
                made.model.set_params(mask=made.mask)
                report = made.model.explore([str(file) for file in made.files], title="Maps <b>", **SMALL)
            elif kind == "surface":
                from nilearn.surface import SurfaceImage

                data = {
                    hemi: blobs(part.coordinates, sizes=(3.0, 2.0), seed=k).T
                    for k, (hemi, part) in enumerate(made.mesh.parts.items())
                }
                report = made.model.explore(SurfaceImage(made.mesh, data), **SMALL)
            else:
                report = made.model.explore(made.X, **SMALL)
            written[kind] = report.save_as_html(folder / f"{kind}.html")
        return written[kind]

    return page


def number_of(browser):
    """The number of the setting on show."""
    return int(browser.evaluate("document.documentElement.dataset.wanted").split()[0])


def wait(browser, setting, component=0):
    assert browser.evaluate(SHOWN % f"{setting} {component}")


def focus(browser, selector):
    browser.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")


def data_of(file):
    """The data that the page draws from."""
    found = re.search(
        r'<script type="application/json" id="report-data">(.*?)</script>', file.read_text("utf-8"), re.S
    )
    return json.loads(found.group(1))


@pytest.mark.parametrize("width", [420, 1200])
@pytest.mark.parametrize("kind", KINDS)
def test_opens_offline_without_complaint_and_fits_the_width(browser, explorers, artefacts, kind, width):
    browser.open(explorers(kind), width=width)
    assert browser.complaints() == []
    assert [url.partition(":")[0] for url in browser.requests()] == ["file"]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    if os.environ.get("SPCATV_TEST_PICTURES"):
        browser.screenshot(artefacts / f"explorer-{kind}-{width}.png")


@pytest.mark.parametrize("kind", KINDS)
def test_both_sliders_change_map_figures_and_commands(browser, explorers, kind):
    file = explorers(kind)
    data = data_of(file)
    browser.open(file)
    assert number_of(browser) == data["recommended"]
    canvas = ".viewer canvas"
    browser.evaluate("document.querySelector('[data-shared-scale]').click()")
    start = 5 - data["recommended"]  # the opposite corner, or as far as it goes
    browser.click(f'[data-setting="{start}"]')
    wait(browser, start)
    for name, key, step in (
        ("sparsity", "ArrowRight" if start % 3 == 0 else "ArrowLeft", 1 if start % 3 == 0 else -1),
        ("smoothness", "ArrowRight" if start < 3 else "ArrowLeft", 3 if start < 3 else -3),
    ):
        before = browser.picture_of(canvas)
        focus(browser, f"#{name}")
        browser.press(key)
        start += step
        wait(browser, start)
        assert browser.picture_of(canvas) != before
        setting = data["settings"][start]
        for measure in data["measures"]:
            assert browser.text(f'[data-figure="{measure["key"]}"]') == measure["texts"][start]
        assert browser.text("[data-sentence]") == setting["sentences"][0]
        assert browser.text("#command-0") == setting["commands"]["command-0"]
        sparsity, smoothness = re.findall(r"[\d.]+", setting["name"])
        assert browser.text('output[for="sparsity"]') == sparsity
        assert browser.text('output[for="smoothness"]') == smoothness
        value = browser.evaluate(f"document.querySelector('#{name}').getAttribute('aria-valuetext')")
        assert value == {"sparsity": sparsity, "smoothness": smoothness}[name]
        pressed = browser.evaluate("document.querySelector('[aria-pressed=\"true\"]').dataset.setting")
        assert int(pressed) == start
    assert browser.complaints() == []


def test_the_command_on_show_makes_the_map_on_show(browser, explorers, line):
    browser.open(explorers("line"))
    browser.click('[data-setting="4"]')
    wait(browser, 4)
    names = {"X": line.X}
    exec(browser.text("#command-0"), names)
    model = names["model"]
    assert isinstance(model, SPCATV)
    assert (model.sparsity, model.smoothness) == (0.8, 2.0)
    largest = int(np.abs(model.components_).max(axis=0).argmax())
    component = int(np.abs(model.components_[:, largest]).argmax())
    browser.click(f".choice label:nth-of-type({component + 1}) span")
    wait(browser, 4, component)
    read = browser.text(".viewer output")
    place, value = re.fullmatch(r"point (\d+): loading (.*)", read).groups()
    assert_allclose(
        abs(float(value.replace("−", "-"))), abs(model.components_[component, int(place)]), rtol=1e-2
    )
    share = data_of(explorers("line"))["measures"][1]["texts"][4]
    assert_allclose(
        float(share.split("\u00a0")[0]),
        100 * cumulative_explained_variance(line.X, model.components_)[-1],
        rtol=5e-3,
    )


def test_heat_map_is_clicked_and_moved_with_keys(browser, explorers):
    file = explorers("image")
    data = data_of(file)
    browser.open(file, width=420)
    texts = "Array.from(document.querySelectorAll('[data-setting]'), cell => cell.textContent)"
    first = browser.evaluate(texts)
    assert [k for k, text in enumerate(first) if "★" in text] == [data["recommended"]]
    browser.evaluate(
        "(() => { const s = document.querySelector('[data-measure]'); s.value = 'n_regions'; "
        "s.dispatchEvent(new Event('change')); })()"
    )
    counts = browser.evaluate(texts)
    assert counts != first
    assert [text.removesuffix(" ★") for text in counts] == data["measures"][3]["short"]
    browser.click('[data-setting="0"]')
    wait(browser, 0)
    for key, setting in (("ArrowRight", 1), ("ArrowDown", 4), ("ArrowDown", 4), ("ArrowLeft", 3)):
        browser.press(key)
        wait(browser, setting)
        assert browser.evaluate("document.activeElement.dataset.setting") == str(setting)
    reachable = "Array.from(document.querySelectorAll('[data-setting]')).filter(c => c.tabIndex === 0).length"
    assert browser.evaluate(reachable) == 1
    label = browser.evaluate("document.activeElement.getAttribute('aria-label')")
    assert label.startswith("sparsity 0.6, smoothness 2: ")
    browser.click("[data-recommended]")
    wait(browser, data["recommended"])
    assert browser.evaluate("document.querySelector('[data-is-recommended]').hidden") is False


def test_components_are_chosen_with_the_keyboard(browser, explorers):
    browser.open(explorers("volume"))
    chosen = number_of(browser)
    before = browser.picture_of(".viewer canvas")
    focus(browser, 'input[name="component"]')
    browser.press("ArrowRight")
    wait(browser, chosen, 1)
    assert browser.picture_of(".viewer canvas") != before
    assert browser.text("[data-sentence]").startswith("Component 2: ")


def test_the_page_states_what_a_search_would_choose(explorers, image):
    search = SPCATVCV(2, structure=image.inside, cv=2, **GRID).fit(image.X)
    text = html.unescape(explorers("image").read_text("utf-8"))
    chosen = search.best_params_
    assert f"Recommended: sparsity {chosen['sparsity']:g}, smoothness {chosen['smoothness']:g}." in text
    assert search.choice_reason_[1:] in text


@needs_axe
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser, explorers, kind, scheme):
    with browser.scheme(scheme):
        browser.open(explorers(kind))
        load_axe(browser)
        for setting in (0, 5):
            browser.click(f'[data-setting="{setting}"]')
            assert violations(browser) == []


def test_names_are_escaped(explorers):
    text = explorers("volume").read_text("utf-8")
    assert "<h1>Maps &lt;b&gt;</h1>" in text


def test_size_of_a_large_page():
    """Three components, 24 settings and 64,000 voxels are within 15 MB, whatever the maps are."""
    rng = np.random.default_rng(0)
    settings = tuple(
        {"sparsity": s, "smoothness": m}
        for m in (0.25, 0.5, 1.0, 2.0)
        for s in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
    )
    X = rng.standard_normal((6, 64_000))
    search = SPCATVCV(3, structure=(40, 40, 40), sparsity=0.5, smoothness=0.0, cv=2, max_iter=1, tol=0.1)
    search.fit(X)
    components = rng.standard_normal((24, 3, 64_000)).astype(np.float32)
    figures = rng.random((24, 3))
    exploration = Exploration(
        settings,
        components,
        np.tile(np.arange(3), (24, 1)),
        *(figures, figures, figures[:, 0], figures[:, 0], figures),
        np.arange(72).reshape(24, 3),
        *(5, 7, "the reason"),
    )
    page = explorer_page(exploration, search.best_estimator_, {"Python": 24 * ["fit"]})
    assert len(page.html.encode()) <= 15e6


def test_what_is_unknown_is_a_dash(line):
    search = SPCATVCV(2, structure=(60,), cv=2, sparsity=[0.6], smoothness=[1.0]).fit(line.X)
    found = explore_settings(search, line.X, n_splits=1)
    found.agreement[:] = np.nan
    found.components[0, 1] = 0
    page = explorer_page(found, search.best_estimator_, {})
    assert "<td>–</td>" in page.html
    assert "Component 2 is empty at this setting" in page.html


def test_the_penalised_model_is_refused(line):
    with pytest.raises(ValueError, match="alpha"):
        explore(SPCATV(1, structure=(60,), alpha=0.1), line.X)


def test_a_search_brings_its_own_grid(line):
    page = SPCATVCV(1, structure=(60,), sparsity=[0.7, 0.8], smoothness=1.0, cv=2).explore(line.X, n_splits=1)
    assert len(json.loads(re.search(r'id="report-data">(.*?)</script>', page.html).group(1))["settings"]) == 2


def test_dataarrays_with_the_command_that_fits_them():
    xr = pytest.importorskip("xarray", reason="needs the extra xarray")
    from spcatv.xarray import XarraySPCATV

    values = blobs(np.argwhere(np.ones((6, 8)))).reshape(-1, 6, 8)
    coords = {"year": np.arange(len(values)), "lat": np.arange(-50.0, 70, 20), "lon": np.arange(0.0, 80, 10)}
    X = xr.DataArray(values, coords, ("year", "lat", "lon"))
    model = XarraySPCATV(SPCATV(2), weights="coslat")
    page = model.explore(X, dim="year", **SMALL)
    data = json.loads(re.search(r'id="report-data">(.*?)</script>', page.html).group(1))
    assert data["views"][0]["axes"][0][0] == "lat"
    names = {"X": X}
    exec(data["settings"][4]["commands"]["command-0"], names)
    fitted = names["model"]
    assert (fitted.estimator.sparsity, fitted.weights, fitted.sample_dims_) == (0.8, "coslat", ("year",))
    explained = sum(fitted.explained_variance_ratio_.values)
    variances = [re.search(r"explain ([\d.]+)", text).group(1) for text in data["settings"][4]["sentences"]]
    assert_allclose(sum(map(float, variances)), 100 * explained, rtol=1e-2)
    with pytest.raises(ValueError, match="DataArrays"):
        model.explore(X, dim="year", groups=np.arange(len(values)), **SMALL)
