"""Pages on special displays: in the narrowest supported window, and with forced colours.

320 px equal 1280 px at a zoom of 400 %. With forced colours, selected items and held privileges can still be
distinguished.
"""

import pytest
from playwright.sync_api import expect

from entities.address import parse_address
from grants.models import User
from tests.support.cast import SETUP
from tests.support.changes import change_grants

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("width", [320, 1280])
def test_a_button_with_two_names_is_not_wider_than_its_card(cast, width, page_of):
    one, other = "bartholomew.featherstonehaugh", "maximiliana.oberhauser-kleinschmidt"
    for name in (one, other):
        User.objects.create_user(name)
    change_grants(author=SETUP, grant=[(f"user:{one}", parse_address("dataset:sales.orders"), "READ")])
    page = page_of("ada", width=width)
    page.goto(f"/people/compare?one={one}&other={other}")
    block = page.locator("[aria-labelledby=alike-title]")
    button = block.get_by_role("link", name=f"Give {other} access like {one}")
    inside, whole = button.bounding_box(), block.bounding_box()
    assert inside["x"] + inside["width"] < whole["x"] + whole["width"] <= width


def test_counts_of_every_kind_fit_into_their_cell(cast, page_of):
    page = page_of("ada", width=320)
    page.goto("/")
    cell = page.locator("td:has(> .kinds)").first
    # a namespace with an entity of every kind
    cell.evaluate("""cell => {
        const kinds = cell.firstElementChild;
        for (const _ of Array(12)) kinds.append(kinds.firstElementChild.cloneNode(true));
    }""")
    assert cell.evaluate("cell => cell.scrollWidth <= cell.clientWidth")


def test_the_file_input_of_a_plan_fits_into_its_card(cast, page_of):
    page = page_of("ada", width=320)
    page.goto("/plans/import")
    field, block = (
        page.locator("#import-file").bounding_box(),
        page.locator("[aria-labelledby=changes-title]").bounding_box(),
    )
    assert field["x"] + field["width"] <= block["x"] + block["width"]


def test_the_focused_cell_of_a_table_is_not_covered_by_the_first_column(cast, page_of):
    User.objects.create_user("bartholomew.featherstonehaugh")
    change_grants(
        author=SETUP,
        grant=[("user:bartholomew.featherstonehaugh", parse_address("dataset:sales.orders"), "READ")],
    )
    page = page_of("ada", width=320)
    page.goto("/entities/dataset:sales.orders")
    cells = page.locator("#holders tbody tr", has_text="bartholomew").locator("a.privilege")
    cells.last.focus()
    for _ in range(cells.count() - 1):
        page.keyboard.press("Shift+Tab")
    expect(cells.first).to_be_focused()
    assert cells.first.evaluate("""cell => {
        const { left, right, top, bottom } = cell.getBoundingClientRect();
        return document.elementFromPoint((left + right) / 2, (top + bottom) / 2) === cell;
    }""")


def test_escape_closes_the_menu_and_focuses_its_button(cast, page_of):
    page = page_of("ada", width=360)
    page.goto("/")
    menu, summary = page.locator("details.menu"), page.locator("details.menu > summary")
    summary.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(menu.get_by_role("link").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(menu).not_to_have_attribute("open", "")
    expect(summary).to_be_focused()


@pytest.fixture
def forced_colours(cast, page_of):
    page = page_of("ada")
    page.emulate_media(forced_colors="active", reduced_motion="reduce")
    return page


@pytest.mark.parametrize(
    ("url", "selector"),
    [
        ("/policies/?generation=existing&with=final", ".chip"),
        ("/", "nav[aria-label=Main] a"),
        ("/entities/namespace:sales", "#explorer .branch"),
        ("/ask?subject=user:dee&entity=dataset:sales.orders&operation=read", ".generation-answers > li"),
    ],
)
def test_selected_items_look_different_from_others(url, selector, forced_colours):
    page = forced_colours
    page.goto(url)
    selected, other = (
        page.locator(f"{selector}[aria-current]").last,
        page.locator(f"{selector}:not([aria-current])").last,
    )
    assert edge_pixels(selected) != edge_pixels(other)


def test_a_held_privilege_looks_different_from_others(forced_colours):
    page = forced_colours
    page.goto("/entities/dataset:sales.orders")
    direct, none = (
        page.locator("#holders .privilege.direct").first,
        page.locator("#holders .privilege.none").first,
    )
    assert edge_pixels(direct) != edge_pixels(none)


def edge_pixels(element) -> bytes:
    """Return a screenshot of the right edge, because the computed style does not show the colours of the
    system.
    """
    element.scroll_into_view_if_needed()
    box = element.bounding_box()
    clip = {
        "x": round(box["x"] + box["width"]) - 5,
        "y": round(box["y"] + box["height"] / 2),
        "width": 5,
        "height": 2,
    }
    # hiding the caret would need a style that the content security policy refuses
    return element.page.screenshot(clip=clip, caret="initial")


def test_text_has_the_fonts_that_the_console_serves(page):
    page.goto("/entities/namespace:sales")
    families = page.evaluate(
        "document.fonts.ready.then(() => [...document.fonts].filter(font => font.status === 'loaded').map(font => font.family))"
    )
    assert {family.strip('"') for family in families} == {"Inter Variable", "JetBrains Mono Variable"}
    assert (
        page.evaluate("getComputedStyle(document.querySelector('table')).fontVariantNumeric")
        == "tabular-nums"
    )


def test_the_labels_of_the_treemap_fit_into_their_tiles_and_are_legible(demo, page_of):
    page = page_of("admin")
    for width in (1440, 1024, 768, 360):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate("document.fonts.ready")
        labels = page.eval_on_selector_all(
            ".treemap text",
            """texts => texts.filter(text => text.getBoundingClientRect().width).map(text => {
                const label = text.getBoundingClientRect();
                const tile = text.closest("g").querySelector("rect").getBoundingClientRect();
                return [text.textContent.trim(), tile.right - label.right, tile.bottom - label.bottom, label.height];
            })""",
        )
        assert {"sales", "sandbox"} <= {text.split()[-1] for text, *_ in labels}, width
        poor = [text for text, right, bottom, height in labels if right < 0 or bottom < 0 or height < 12]
        assert poor == [], width
