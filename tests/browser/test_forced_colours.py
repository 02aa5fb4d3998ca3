"""Selected items and held privileges can be distinguished if the system forces its colours."""

import pytest

from tests.support.cast import create_sample_tenant

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def page(page_of):
    create_sample_tenant()
    page = page_of("ada")
    page.emulate_media(forced_colors="active", reduced_motion="reduce")
    return page


@pytest.mark.parametrize(("url", "selector"), [
    ("/policies/?generation=existing&with=final", ".chip"), ("/", "nav[aria-label=Main] a"),
    ("/entities/namespace:sales", "#explorer .branch"),
    ("/ask?subject=user:dee&entity=dataset:sales.orders&operation=read", ".generation-answers > li"),
])
def test_selected_items_look_different_from_others(url, selector, page):
    page.goto(url)
    selected, other = page.locator(f"{selector}[aria-current]").last, page.locator(f"{selector}:not([aria-current])").last
    assert edge_pixels(selected) != edge_pixels(other)


def test_a_held_privilege_looks_different_from_others(page):
    page.goto("/entities/dataset:sales.orders")
    direct, none = page.locator("#holders .privilege.direct").first, page.locator("#holders .privilege.none").first
    assert edge_pixels(direct) != edge_pixels(none)


def edge_pixels(element) -> bytes:
    """Return a screenshot of the right edge, because the computed style does not show the colours of the system."""
    element.scroll_into_view_if_needed()
    box = element.bounding_box()
    clip = {"x": round(box["x"] + box["width"]) - 5, "y": round(box["y"] + box["height"] / 2), "width": 5, "height": 2}
    # hiding the caret would need a style that the content security policy refuses
    return element.page.screenshot(clip=clip, caret="initial")
