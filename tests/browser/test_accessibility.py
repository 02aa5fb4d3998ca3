"""Every page has no serious accessibility violation, in light, in dark and at phone width, fits into its window, and has one
button in its head.
"""

from pathlib import Path

import axe_playwright_python
import pytest
from django.conf import settings

from authzconsole.demo.pages import PAGES, SIGNED_OUT, page_urls
from authzconsole.models import Connection
from grants.models import Job
from tests.browser.conftest import session_cookie

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text()
SERIOUS = ("serious", "critical")
FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
CONTRAST = {"runOnly": ["color-contrast"]}
VIOLATIONS = """options => axe.run(document, {resultTypes: ["violations"], ...options}).then(result => result.violations.map(
    fault => [fault.impact, fault.id, ...fault.nodes.map(node => node.target.join(" ") + ": " + node.failureSummary)]))"""


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_no_page_has_a_serious_accessibility_violation_or_is_wider_than_its_window(
    demo, chromium, live_server
):
    examples, client = demo
    faults = []
    for session, pages in (("", SIGNED_OUT), (client.cookies[settings.SESSION_COOKIE_NAME].value, PAGES)):
        # the content security policy blocks the test's script; reduced motion avoids colours in transition
        context = chromium.new_context(base_url=live_server.url, bypass_csp=True, reduced_motion="reduce")
        if session:
            context.add_cookies(
                [{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": live_server.url}]
            )
        context.add_init_script(AXE)
        page = context.new_page()
        for name, address in page_urls(examples, pages).items():
            faults += page_faults(page, name, address)
        context.close()
    assert faults == []


def page_faults(page, name, address):
    """Load the page once. Yield its serious violations, and the widths of windows that it does not fit into."""
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(color_scheme="light")
    assert page.goto(address).status == 200, address
    yield from serious_violations(page, f"{name}, light", {})
    page.emulate_media(color_scheme="dark")
    yield from serious_violations(page, f"{name}, dark", CONTRAST)
    page.set_viewport_size({"width": 390, "height": 844})
    yield from serious_violations(page, f"{name}, narrow", {"rules": {"color-contrast": {"enabled": False}}})
    if page.locator("main .head-actions").first.locator("> :is(a, button, form)").count() > 1:
        yield name, "several buttons in the head; all but one belong into its menu"
    for width in (320, 390, 768, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        if not page.evaluate(FITS):
            yield name, f"wider than {width} px"


def serious_violations(page, title, options):
    return [(title, *fault) for fault in page.evaluate(VIOLATIONS, options) if fault[0] in SERIOUS]


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_the_pages_of_a_connection_are_accessible_and_fit(cast, chromium, live_server):
    """The demo tenant has no connection."""
    connection = Connection.objects.create(name="lake", type="hive", url="thrift://metastore.example:9083")
    row, reason = (
        ["user:dee", "dataset:sales.orders", "READ", False, True],
        "the console has no such privilege",
    )
    change = {"verb": "revoke", "principal": "user:dee", "entity": row[1], "privileges": ["SELECT"]}
    unsupported = [["INDEX on dataset:sales.orders for user:dee", reason]]
    counts = {
        "entities": dict.fromkeys(("new", "live", "deleted"), 1),
        "grants": dict.fromkeys(("granted", "revoked"), 1),
        "principals": dict.fromkeys(("users", "groups", "roles", "joined", "left"), 1),
    }
    for name, summary in {
        "test": {"entity": "namespace:default", "privileges": ["READ"]},
        "sync": counts | {"unsupported": unsupported},
        "compare": {
            "count": 1,
            "rows": [row],
            "change_count": 1,
            "changes": [change],
            "unsupported": unsupported,
        },
        "push": {"changes": 1},
    }.items():
        options = {"connection": connection.name}
        Job.objects.create(type=f"connection-{name}", state="done", options=options, summary=summary)
    context = chromium.new_context(base_url=live_server.url, bypass_csp=True, reduced_motion="reduce")
    context.add_cookies([session_cookie("ada", live_server.url)])
    context.add_init_script(AXE)
    page, faults = context.new_page(), []
    for path in ("", "lake/", "lake/edit", "lake/delete", "lake/drift"):
        faults += page_faults(page, path, f"/connections/{path}")
    context.close()
    assert faults == []
