"""The page in a real browser: from file://, without network, moved by keyboard and pointer.

With the environment variable SPCATV_TEST_PICTURES, pictures of the pages are kept in tests/artefacts.
"""

import json
import os
import re
from itertools import pairwise

import numpy as np
import pytest
from report_files import AGREEMENTS
from scipy.ndimage import maximum_filter, minimum_filter

from spcatv.report import generate_report
from spcatv.report.maps import views_of
from spcatv.stability import Bootstrap

pytestmark = pytest.mark.no_cover  # the pages of other tests are made by the same lines
WIDTHS = (400, 1200)
# of the pictures for people, if they are asked for: a picture takes longer than everything else
SHOWN_WIDTHS = (1200,) if os.environ.get("SPCATV_TEST_PICTURES") else ()


@pytest.fixture
def volume_page(browser, pages):
    browser.open(pages("volume"))
    return browser


@pytest.fixture
def surface_page(browser, pages):
    browser.open(pages("surface"))
    return browser


def quiet(browser):
    """No warning, and nothing requested except the page itself."""
    assert browser.complaints() == []
    assert [url.partition(":")[0] for url in browser.requests()] == ["file"]


def cells(browser, table):
    """The cells of a table, one list per row."""
    return browser.evaluate(
        f"Array.from(document.querySelectorAll('#{table} tbody tr'), row => "
        "Array.from(row.cells, cell => cell.textContent))"
    )


def as_number(text):
    """A number as the page writes it."""
    text = text.replace("\u00a0", "").replace("−", "-").replace(",", "")
    raised = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    mantissa, times, power = text.partition("×10")
    value = float(mantissa.rstrip("%")) * (10.0 ** int(power.translate(raised)) if times else 1)
    return value / 100 if text.endswith("%") else value


def one_step(loadings):
    """The largest error of a value in the page, which holds it as int16."""
    return 1.01 * float(np.abs(loadings).max()) / 32767


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ["volume", "surface", "cifti", "image", "line"])
def test_opens_without_complaint_or_network_and_fits_the_width(browser, pages, artefacts, kind, width):
    browser.open(pages(kind), width=width)
    quiet(browser)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width, (
        "nothing is cut or scrolls sideways"
    )
    for scheme in ("light", "dark") if width in SHOWN_WIDTHS else ():
        with browser.scheme(scheme):
            browser.screenshot(artefacts / f"report-{kind}-{width}-{scheme}.png")


def test_numbers_agree_with_the_model_folder(volume_page, volume):
    arrays = np.load(volume.folder / "model" / "arrays.npz", allow_pickle=False)
    stated = json.loads((volume.folder / "model" / "model.json").read_text(encoding="utf-8"))
    heads = volume_page.evaluate(
        "[...document.querySelectorAll('#summary-table thead th')].map(head => head.textContent)"
    )
    summary = [dict(zip(heads, row, strict=True)) for row in cells(volume_page, "summary-table")]
    assert len(summary) == 2
    for k, row in enumerate(summary):
        record = stated["fitted"]["diagnostics"][k]
        share = arrays["explained_variance_ratio"][k]
        assert as_number(row["Explained variance"]) == pytest.approx(share, rel=5e-3)
        assert as_number(row["Zeros wanted"]) == record["target_sparsity"] == 0.7
        assert as_number(row["Zeros"]) == pytest.approx(record["sparsity"], rel=5e-3)
        assert as_number(row["Smoothness"]) == pytest.approx(record["smoothness"], rel=5e-3)
        assert as_number(row["Not zero"]) == np.count_nonzero(arrays["components"][k])
        assert as_number(row["Relative gap"]) == pytest.approx(record["relative_gap"], rel=0.05)
        sentence = volume_page.text(f"#component-{k + 1} li:nth-child(3)")
        found = as_number(re.search(r"at most (.*?%) of the map's own length", sentence).group(1))
        assert found == pytest.approx(record["error_bound"], rel=0.05)
    parameters = dict(cells(volume_page, "parameters-table"))
    assert (parameters["sparsity"], parameters["smoothness"]) == ("0.7", "1")
    assert not {"alpha", "l1_ratio", "tv_ratio", "penalty_units"} & set(parameters)
    assert parameters["random_state"] == "3"
    assert len(cells(volume_page, "files-table")) == 25, "24 images and the mask"
    scores = cells(volume_page, "scores-table")
    assert [as_number(row[3]) for row in scores] == pytest.approx(volume.scores[:, 0].tolist(), rel=1e-3)
    assert "numpy" in volume_page.text("#versions")


def test_slices_move_and_report_the_value(volume_page, volume):
    place = "#component-1"
    slider, canvas = f"{place} [data-axis='2']", f"{place} canvas[data-plane='2']"
    before, read = volume_page.picture_of(canvas), volume_page.text(f"{place} output")
    volume_page.evaluate(f'document.querySelector("{slider}").focus()')
    for _ in range(3):
        volume_page.press("ArrowRight")
    assert volume_page.picture_of(canvas) != before
    assert volume_page.text(f"{place} output") != read
    # back at the peak of the heaviest region, the loading is the largest one
    volume_page.click(f"{place} button[data-feature]")
    shown = volume_page.text(f"{place} output")
    assert shown == read
    largest = np.abs(volume.model.components_[0]).max()
    assert as_number(shown.rpartition("loading ")[2]) == pytest.approx(largest, rel=5e-3)
    # a click into a slice moves the other two
    other = volume_page.picture_of(f"{place} canvas[data-plane='0']")
    volume_page.click(canvas, across=0.3, down=0.4)
    assert volume_page.picture_of(f"{place} canvas[data-plane='0']") != other
    quiet(volume_page)


def test_every_voxel_is_where_the_image_has_it(volume_page, volume):
    """At random voxels the script shows the value of the map that nibabel reads."""
    maps = np.asanyarray(volume.model.components_img_.dataobj)[..., 0]
    affine = volume.mask.affine
    voxels = np.argwhere(maps != 0)[:: max(1, int((maps != 0).sum()) // 8)]
    for voxel in voxels:
        x, y, z = affine[:3, :3] @ voxel + affine[:3, 3]
        volume_page.evaluate(
            "(() => {"
            + "".join(
                f"const s{axis} = document.querySelector(\"#component-1 [data-axis='{axis}']\");"
                f"for (let k = 0; k <= Number(s{axis}.max); k += 1) {{ s{axis}.value = k;"
                f"s{axis}.dispatchEvent(new Event('input'));"
                f"if (Math.abs(parseFloat(document.querySelector(\"#component-1 [data-axis-label='{axis}']\")"
                f".textContent.replace('\\u2212', '-').slice(4)) - {value}) < 0.3) break; }}"
                for axis, value in enumerate((x, y, z))
            )
            + "})()"
        )
        shown = as_number(volume_page.text("#component-1 output").rpartition("loading ")[2])
        assert shown == pytest.approx(maps[tuple(voxel)], rel=5e-3, abs=one_step(maps))


def coloured(browser, canvas):
    """How red (or blue, negative) the pixels of a canvas are, shape (height, width)."""
    width, height, red, blue = browser.evaluate(
        f"(() => {{ const c = document.querySelector({json.dumps(canvas)}); const p = c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data; const r = [], b = []; for (let k = 0; k < p.length; "
        "k += 4) { r.push(p[k]); b.push(p[k + 2]); } return [c.width, c.height, r, b]; })()"
    )
    return (np.array(red) - np.array(blue)).reshape(height, width)


def test_slices_are_painted_where_the_loadings_are(volume_page, volume):
    """Every plane: the coloured pixels are those whose millimetres hold a loading."""
    (view,) = views_of(volume.model)
    maps = np.asanyarray(volume.model.components_img_.dataobj)[..., 0]
    peak = np.array(np.unravel_index(np.abs(maps).argmax(), maps.shape))
    affine, back, front = volume.mask.affine, view.background, view.index
    centre = affine[:3, :3] @ peak + affine[:3, 3]
    low = np.minimum(back.origin - back.spacing / 2, front.origin - front.spacing / 2)
    high = np.maximum(
        back.origin + (np.array(back.values.shape) - 0.5) * back.spacing,
        front.origin + (np.array(front.values.shape) - 0.5) * front.spacing,
    )
    shares_of_peak = np.abs(maps) / np.abs(maps).max()
    for plane, (fixed, across, up) in enumerate(((0, 1, 2), (1, 0, 2), (2, 0, 1))):
        found = coloured(volume_page, f"#component-1 canvas[data-plane='{plane}']") > 60
        height, width = found.shape
        points = np.empty((height, width, 3))
        points[..., fixed] = centre[fixed]
        points[..., across] = low[across] + (np.arange(width) + 0.5) / width * (high[across] - low[across])
        shares = (np.arange(height)[:, None] + 0.5) / height
        points[..., up] = high[up] - shares * (high[up] - low[up])
        voxels = np.round((points - affine[:3, 3]) @ np.linalg.inv(affine[:3, :3]).T).astype(int)
        inside = ((voxels >= 0) & (voxels < maps.shape)).all(axis=2)
        strength = np.zeros(found.shape)
        strength[inside] = shares_of_peak[tuple(voxels[inside].T)]
        assert found[strength > 0.5].mean() > 0.95
        assert found[strength < 0.05].mean() < 0.005


@pytest.mark.parametrize("k", [0, 1])
def test_surface_is_painted_where_the_loadings_are(surface_page, surface, k):
    """A click amid coloured pixels reads a loading, and one amid grey ones reads next to nothing."""
    page, panel = surface_page, f"#component-{k + 1}"
    canvas = f"{panel} canvas[data-large]"
    page.click(f"#tab-{k + 1}")
    top = np.abs(surface.model.components_[k]).max()
    page.click(f"{panel} button[data-feature]")  # to the region
    colour = np.abs(coloured(page, canvas))
    height, width = colour.shape
    middle = np.zeros(colour.shape, dtype=bool)
    middle[height // 3 : 2 * height // 3, width // 3 : 2 * width // 3] = True
    vivid, grey = minimum_filter(colour, 9) > 60, middle & (maximum_filter(colour, 9) < 5)
    right = []
    for pixels, is_loading in ((vivid, True), (grey, False)):
        places = np.argwhere(pixels)
        assert len(places) > 100
        for row, column in places[:: len(places) // 8]:
            page.click(canvas, across=(column + 0.5) / width, down=(row + 0.5) / height)
            read = page.text(f"{panel} output").rpartition("loading ")[2]
            right.append((abs(as_number(read)) > 0.2 * top) == is_loading)
    assert np.mean(right) > 0.8


def test_layers(volume_page):
    panel = "#component-1"
    canvas = f"{panel} canvas[data-plane='1']"
    loadings = volume_page.picture_of(canvas)
    volume_page.evaluate(
        f"(() => {{ const s = document.querySelector('{panel} [data-layer]'); s.value = 'frequency';"
        "s.dispatchEvent(new Event('change')); })()"
    )
    assert volume_page.picture_of(canvas) != loadings
    assert volume_page.text(f"{panel} [data-legend-high]") == "1"
    assert volume_page.text(f"{panel} output").endswith("selected in 80 % of the resampled fits")
    quiet(volume_page)


def test_colours_are_a_components_own_until_one_scale_is_requested(volume_page, volume):
    page = volume_page
    tops = [np.quantile(np.abs(row[row != 0]), 0.99) for row in volume.model.components_]
    k = int(np.argmin(tops))  # the one whose own range is the shorter
    pictures = (f"#component-{k + 1} canvas[data-plane='1']", f"[data-thumbnail='{k}']")
    legends = [f"#component-{number} [data-legend-high]" for number in (1, 2)]
    own = [page.picture_of(picture) for picture in pictures]
    assert [as_number(page.text(legend)) for legend in legends] == pytest.approx(tops, rel=0.05)
    page.click("section [data-shared-scale]")  # the switch of the overview
    shared = [page.picture_of(picture) for picture in pictures]
    assert all(before != after for before, after in zip(own, shared, strict=True))
    assert [as_number(page.text(legend)) for legend in legends] == pytest.approx(2 * [max(tops)], rel=0.05)
    # the switches of the components are the same one
    assert page.evaluate("[...document.querySelectorAll('[data-shared-scale]')].every(e => e.checked)")
    page.evaluate(f"document.querySelector('#component-{k + 1} [data-shared-scale]').click()")
    assert [page.picture_of(picture) for picture in pictures] == own
    quiet(page)


@pytest.mark.parametrize("kind", ["volume", "surface", "cifti", "image", "line"])
def test_every_component_has_a_thumbnail(browser, pages, kind):
    browser.open(pages(kind))
    inked = browser.evaluate(
        "Array.from(document.querySelectorAll('[data-thumbnail]'), c => { const p = c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data; let n = 0; for (let k = 0; k < p.length; k += 4) "
        "if (p[k + 3] && Math.abs(p[k] - p[k + 2]) > 20) n += 1; return n; })"
    )
    assert len(inked) == browser.evaluate("document.querySelectorAll('[role=tabpanel]').length")
    assert min(inked) > 20, "coloured pixels in each"


def open_panels(browser):
    return browser.evaluate(
        "Array.from(document.querySelectorAll('[role=tabpanel]')).filter(p => "
        "getComputedStyle(p).display !== 'none').map(p => p.id)"
    )


def test_links_open_a_tab(browser, pages):
    """From outside, from the overview, by a changed address; and a tab gives its address."""
    browser.open(pages("volume"), fragment="#component-2")
    assert open_panels(browser) == ["component-2"]
    assert browser.evaluate("scrollY") > 100
    browser.open(pages("volume"))
    assert open_panels(browser) == ["component-1"]
    browser.click(".card[href='#component-2']")
    assert open_panels(browser) == ["component-2"]
    assert browser.evaluate("document.getElementById('tab-2').getAttribute('aria-selected')") == "true"
    browser.click("#tab-1")
    assert open_panels(browser) == ["component-1"]
    assert browser.evaluate("location.hash") == "#component-1"
    browser.click(".card[href='#component-1']")  # the address stays, and the page goes there all the same
    assert open_panels(browser) == ["component-1"]
    changed = "new Promise(done => { addEventListener('hashchange', done); location.hash = '#component-2'; })"
    browser.evaluate(f"{changed}.then(() => true)")
    assert open_panels(browser) == ["component-2"]
    quiet(browser)


def test_tabs_by_keyboard(volume_page):
    def state():
        return volume_page.evaluate(
            "[document.activeElement.id, ...Array.from(document.querySelectorAll('[role=tab]'), t => "
            "t.getAttribute('aria-selected') + t.tabIndex), ...Array.from(document.querySelectorAll("
            "'[role=tabpanel]'), p => getComputedStyle(p).display)]"
        )

    volume_page.evaluate("document.getElementById('tab-1').focus()")
    assert state() == ["tab-1", "true0", "false-1", "block", "none"]
    volume_page.press("ArrowRight")
    assert state() == ["tab-2", "false-1", "true0", "none", "block"]
    volume_page.press("ArrowRight")
    assert state()[0] == "tab-1", "around the end"
    volume_page.press("End")
    assert state()[0] == "tab-2"
    volume_page.press("Home")
    assert state() == ["tab-1", "true0", "false-1", "block", "none"]


def test_print_shows_all_components(volume_page, artefacts):
    volume_page.send("Emulation.setEmulatedMedia", media="print")
    shown = volume_page.evaluate(
        "Array.from(document.querySelectorAll('[role=tabpanel]'), p => getComputedStyle(p).display)"
    )
    there = volume_page.evaluate(
        "Array.from(document.querySelectorAll('.panel table, .chart img, .planes canvas'))"
        ".every(e => e.getBoundingClientRect().width > 50)"
    )
    hidden = volume_page.evaluate("getComputedStyle(document.querySelector('[role=tablist]')).display")
    controls = volume_page.evaluate(
        "Array.from(document.querySelectorAll('input, select, button, summary, nav a')).filter(e => "
        "e.getClientRects().length).map(e => e.outerHTML.slice(0, 80))"
    )
    volume_page.resize(640)  # an A4 page within generous margins
    cut = volume_page.evaluate(
        "Array.from(document.querySelectorAll('table')).filter(t => t.getBoundingClientRect().right > 640)"
        ".map(t => t.id || t.caption.textContent)"
    )
    volume_page.resize(1200)
    volume_page.send("Emulation.setEmulatedMedia", media="")
    assert cut == [], "no table goes beyond the paper"
    assert controls == [], "paper has no use for them"
    assert (shown, hidden) == (["block", "block"], "none")
    assert there, "tables, charts and pictures"
    volume_page.print_to(artefacts / "report-volume.pdf")


def test_structure_of_the_page_is_accessible(volume_page):
    page = volume_page
    levels = page.evaluate(
        "Array.from(document.querySelectorAll('h1,h2,h3,h4,h5'), h => Number(h.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.evaluate("Array.from(document.images).every(i => i.alt.length > 10)")
    assert page.evaluate(
        "Array.from(document.querySelectorAll('canvas')).every(c => c.getAttribute('aria-label') || "
        "c.getAttribute('aria-hidden') === 'true')"
    )
    assert page.evaluate(
        "Array.from(document.querySelectorAll('input, select')).every(e => e.labels.length || e.ariaLabel)"
    )
    ids = page.evaluate("Array.from(document.querySelectorAll('[id]'), e => e.id)")
    assert len(ids) == len(set(ids))
    assert page.evaluate(
        "Array.from(document.querySelectorAll('[aria-controls], [aria-labelledby]')).every(e => "
        "document.getElementById(e.getAttribute('aria-controls') || e.getAttribute('aria-labelledby')))"
    )
    assert page.evaluate("document.documentElement.lang") == "en"


def test_surface_turns_by_pointer_keyboard_and_buttons(surface_page, surface):
    page, canvas = surface_page, "#component-1 canvas[data-large]"
    seen = [page.picture_of(canvas)]
    page.drag(canvas, 80, 10)
    seen.append(page.picture_of(canvas))
    page.evaluate(f"document.querySelector('{canvas}').focus()")
    page.press("ArrowLeft")
    seen.append(page.picture_of(canvas))
    page.click("#component-1 [data-turn='0,15']")
    seen.append(page.picture_of(canvas))
    page.click("#component-1 [data-preset='top']")
    seen.append(page.picture_of(canvas))
    assert len(set(seen)) == len(seen)
    page.click("#component-1 button[data-feature]")
    # the picture has colours, so something was drawn
    share = page.evaluate(
        f"(() => {{ const c = document.querySelector('{canvas}'); const p = c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data; let n = 0; for (let k = 0; k < p.length; k += 4) "
        "if (p[k + 3] && Math.abs(p[k] - p[k + 2]) > 20) n += 1; return 4 * n / p.length; })()"
    )
    assert 0.005 < share < 0.9
    shown = page.text("#component-1 output")
    largest = np.abs(surface.model.components_[0]).max()
    assert abs(as_number(shown.rpartition("loading ")[2])) == pytest.approx(largest, rel=5e-3)
    quiet(page)


def test_surfaces_are_inflated_until_the_keyboard_folds_them(surface_page):
    """The switch of one component is that of all; places stay in millimetres of the mesh of the fit."""
    page, canvas = surface_page, "#component-%d canvas[data-large]"
    inflated, place = page.picture_of(canvas % 1), page.text("#component-1 output")
    page.evaluate("document.querySelector('#component-1 [data-shape]').focus()")
    page.press("ArrowRight")
    checked = page.evaluate("Array.from(document.querySelectorAll('[data-shape]:checked'), r => r.value)")
    assert checked == ["folded", "folded"]
    assert page.picture_of(canvas % 1) != inflated
    assert page.text("#component-1 output") == place
    page.press("ArrowLeft")
    assert page.picture_of(canvas % 1) == inflated
    quiet(page)


def test_a_click_on_the_surface_reports_the_vertex(surface_page, surface):
    page = surface_page
    page.click("#component-1 [data-preset='left outside']")
    page.click("#component-1 canvas[data-large]")
    shown = page.text("#component-1 output")
    assert shown.startswith("left hemisphere, x")
    x, y, z = (as_number(text) for text in re.search(r"x (\S+), y (\S+), z (\S+) mm", shown).groups())
    coords = np.asarray(surface.mesh.parts["left"].coordinates)
    vertex = np.argmin(np.linalg.norm(coords - [x, y, z], axis=1))
    assert np.linalg.norm(coords[vertex] - [x, y, z]) < 0.2
    loading = surface.model.components_[0][vertex]
    exact = pytest.approx(loading, rel=5e-3, abs=one_step(surface.model.components_[0]))
    assert as_number(shown.rpartition("loading ")[2]) == exact


def test_cifti_has_both_views(browser, pages):
    browser.open(pages("cifti"))
    kinds = browser.evaluate(
        "Array.from(document.querySelectorAll('#component-1 [data-view]'), v => v.className)"
    )
    assert kinds == ["viewer surface", "viewer volume"]
    where = browser.evaluate(
        "Array.from(document.querySelectorAll('[data-regions] tbody td:nth-child(2)'), e => e.textContent)"
    )
    assert {"left hemisphere", "right hemisphere", "subcortical volume"} <= set(where)
    quiet(browser)


@pytest.mark.parametrize("kind", ["image", "line"])
def test_flat_fields_are_read_with_pointer_and_keys(browser, pages, request, kind):
    made = request.getfixturevalue(kind)
    browser.open(pages(kind))
    largest = np.abs(made.model.components_[0]).max()
    first = browser.text("#component-1 output")
    assert as_number(first.rpartition("loading ")[2]) == pytest.approx(largest, rel=5e-3)
    browser.evaluate("document.querySelector('#component-1 canvas').focus()")
    browser.press("ArrowRight")
    second = browser.text("#component-1 output")
    browser.move("#component-1 canvas", 0.7, 0.7)
    third = browser.text("#component-1 output")
    assert len({first, second, third}) == 3
    quiet(browser)


def test_another_layer_of_a_surface_reports_its_own_value(browser, surface, tmp_path):
    """Also where nothing was clicked since: the page starts at the heaviest region."""
    components = surface.model.components_
    stability = Bootstrap(
        components=components,
        selection_frequency=np.where(components != 0, 0.8, 0.1),
        sign_consistency=np.where(components != 0, 0.9, 0.0),
        **{name: np.full((4, len(components)), 0.8) for name in AGREEMENTS},
        regions=(),
        failures=(),
    )
    page = generate_report(surface.model, stability=stability).save_as_html(tmp_path / "page.html")
    browser.open(page)
    shown = browser.text("#component-1 output")
    browser.evaluate(
        "(() => { const s = document.querySelector('#component-1 [data-layer]'); s.value = 'frequency';"
        "s.dispatchEvent(new Event('change')); })()"
    )
    where = shown.partition(" mm: ")[0]
    assert browser.text("#component-1 output") == f"{where} mm: selected in 80 % of the resampled fits"
