"""axe-core finds no accessibility error on the pages, in light and dark; `make axe` gets it and runs this."""

import json

import pytest
from report_files import ARTEFACTS

AXE = ARTEFACTS / "package" / "axe.min.js"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["volume", "surface", "cifti", "image", "line"])
def test_axe_finds_nothing(browser, pages, kind, scheme):
    if not AXE.is_file():
        pytest.skip("axe-core is not here: `make axe` gets it from the npm registry")
    with browser.scheme(scheme):
        browser.open(pages(kind))
        browser.evaluate(AXE.read_text(encoding="utf-8") + "; true")
        # what is folded is not looked at either
        browser.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        # every panel in turn: what is hidden is not looked at
        for tab in browser.evaluate("Array.from(document.querySelectorAll('[role=tab]'), t => t.id)"):
            browser.click(f"#{tab}")
            found = browser.evaluate(
                "axe.run().then(r => JSON.stringify(r.violations.map(v => [v.id, v.help, v.nodes.slice(0, 5)"
                ".map(n => n.target + ': ' + (n.any[0] || n.all[0] || n.none[0])?.message)])))"
            )
            assert json.loads(found) == []
