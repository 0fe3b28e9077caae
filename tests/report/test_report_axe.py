"""axe-core finds no accessibility error on the pages, in light and dark; `make axe` gets it and runs this."""

import pytest
from report_files import load_axe, needs_axe, violations


@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["volume", "surface", "cifti", "image", "line"])
def test_axe_finds_nothing(browser, pages, kind, scheme):
    with browser.scheme(scheme):
        browser.open(pages(kind))
        load_axe(browser)
        # every panel in turn: what is hidden is not looked at
        for tab in browser.evaluate("Array.from(document.querySelectorAll('[role=tab]'), t => t.id)"):
            browser.click(f"#{tab}")
            assert violations(browser) == []
