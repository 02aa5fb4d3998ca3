"""The API documentation pages work under their content security policy and load nothing from other hosts."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("path", ["docs", "redoc"])
def test_the_documentation_pages_show_every_operation(chromium, live_server, path):
    faults, loaded = [], []
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, base_url=live_server.url)
    page = context.new_page()
    page.on("pageerror", lambda error: faults.append(str(error)))
    # Redoc requests a logo from its vendor; the content security policy blocks it
    page.on(
        "console",
        lambda message: (
            faults.append(message.text)
            if "Content Security" in message.text and "cdn.redoc.ly" not in message.text
            else None
        ),
    )
    page.on("response", lambda response: loaded.append(response.url))
    page.goto(f"/api/v1/{path}")
    operation = page.get_by_text("Grant and revoke").first
    page.get_by_text("Request access").first.wait_for(state="attached")
    # Swagger UI renders a group of operations when the reader scrolls to it
    for _ in range(60):
        if operation.count():
            break
        page.mouse.wheel(0, 800)
        page.wait_for_timeout(100)
    assert operation.count() == 1
    assert page.get_by_role("heading", name="Five worked examples").count() == 1
    page.mouse.wheel(0, -100_000)
    expect(page.get_by_role("link", name="Create a token")).to_have_attribute("href", "/accounts/tokens/new")
    page.get_by_role("link", name="Back to the console").click()
    page.wait_for_url(re.compile("/sign-in"))
    context.close()
    assert faults == [] and all(url.startswith((live_server.url, "data:")) for url in loaded)


def test_the_list_of_operations_can_be_filtered(chromium, live_server):
    context = chromium.new_context(base_url=live_server.url)
    page = context.new_page()
    page.goto("/api/v1/docs")
    page.get_by_placeholder("Filter by tag").fill("Reviews")
    page.locator("#operations-tag-Reviews").wait_for()
    page.locator("#operations-tag-Grants").wait_for(state="detached")
    context.close()
