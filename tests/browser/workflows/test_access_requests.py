"""Julia requests READ on a dataset until a day, its owner approves, and she opens it."""

from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from grants.models import UserGrant

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_request_is_sent_and_approved_by_the_owner_who_narrows_it(cast, page_of, settings):
    settings.DELEGATION, settings.DELEGATION_PRIVILEGES = True, ["READ", "WRITE"]
    day = datetime.now(UTC).date() + timedelta(days=4)
    julia = page_of("out")
    julia.goto("/entities/dataset:sales.orders")
    julia.get_by_role("link", name="Request access").click()
    julia.get_by_text("Single operations").click()
    julia.get_by_label("Single operation").select_option("get")
    julia.get_by_label("Reason").fill("quarterly close")
    julia.get_by_label("Last day").fill(day.isoformat())
    julia.get_by_role("button", name="Send request").click()
    julia.get_by_text("The request waits for its approvers.").wait_for()

    owner = page_of("ned")
    owner.locator(".sidebar .nav-count").get_by_text("1", exact=True).wait_for()
    owner.get_by_role("link", name="Requests", exact=False).first.click()
    owner.get_by_role("link", name="To decide").click()
    owner.get_by_role("rowheader").get_by_role("link").click()
    # another choice loads its effect
    with owner.expect_response(lambda response: "proposal-1=" in response.url):
        owner.get_by_label("WRITE on dataset:sales.orders").check()
    # what is typed until the answer comes is kept
    with owner.expect_response(lambda response: "proposal-1=" in response.url):
        owner.get_by_label("READ on dataset:sales.orders").check()
        owner.get_by_label("Comment").fill("until the close")
    owner.wait_for_load_state("networkidle")
    expect(owner.get_by_label("Comment")).to_have_value("until the close")
    owner.get_by_label("beyond what was requested").check()
    owner.get_by_role("button", name="Approve").click()
    owner.get_by_text("Approved.").wait_for()

    grant = UserGrant.objects.get(user__username="out")
    assert (str(grant.privilege), grant.valid_until.date()) == ("READ", day + timedelta(days=1))
    julia.goto("/requests/?show=mine")
    julia.locator(".state.approved").wait_for()
    julia.goto("/entities/dataset:sales.orders")
    julia.get_by_role("heading", name="orders").first.wait_for()
