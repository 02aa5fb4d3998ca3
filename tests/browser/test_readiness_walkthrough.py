"""The main task of the console: see why a namespace cannot be deleted, grant what is missing by a plan, and
undo the plan.

It has its own module, because a worker caches the ids of the permissions, and they change with each test.
"""

import io
import re

import pytest
from django.core.management import call_command
from playwright.sync_api import expect

from authzconsole.management.commands.bootstrap import DEMO_TENANT
from grants.models import Role, User
from tests.support.cast import PASSWORD

pytestmark = [
    pytest.mark.browser,
    pytest.mark.worker,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
]

REPORT_PATIENCE_MILLISECONDS = 240_000
NEXT_STEP = "Check whether sofia.lindqvist can delete namespace:logistics now"


def test_missing_grants_are_found_granted_by_a_plan_and_revoked_by_undoing_it(page_of, worker_console):
    """Start at the overview and use only links and buttons; only the reason is typed."""
    call_command("import_tenant", str(DEMO_TENANT), stdout=io.StringIO())
    User.objects.create_user("ada", password=PASSWORD, role=Role.ADMINISTRATOR, is_principal=False)
    page = page_of("ada")
    report = page.locator("#readiness")
    page.get_by_role("button", name="Analyze deletability").click()
    wait_for_report(page)
    open_overview(page)
    tile(page, "logistics").click(position={"x": 12, "y": 12})
    page.locator("#tab-ask").click()
    expect(report).to_contain_text("No user can delete it.")
    report.get_by_role("link", name="sofia.lindqvist is closest and is missing 3 of 54").click()
    expect(report.locator(".decision.denied")).to_contain_text(
        "requires ADMIN on 54 entities, and 51 are held"
    )
    for blocked in ("train_demand", "optimise_tours", "travel_times"):
        expect(report).to_contain_text(blocked)
    report.get_by_role("button", name="Plan all missing grants").click()
    expect(page.locator("#items tbody tr")).to_have_count(3)
    apply_plan(page, "she takes over logistics", "is applied: 3 grants.")
    page.get_by_role("link", name=NEXT_STEP).click()
    expect(report.locator(".decision.allowed")).to_contain_text("sofia.lindqvist can delete it")
    open_overview(page)
    page.get_by_role("button", name="Analyze deletability").click()
    wait_for_report(page)
    open_overview(page)
    expect(tile(page, "logistics").locator(".tile.good")).to_be_visible()
    tile(page, "logistics").click(position={"x": 12, "y": 12})
    page.locator("#tab-ask").click()
    expect(report.locator(".outcome.good")).to_have_text("1 user can delete it.")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Plans").click()
    page.get_by_role("link", name="Let user:sofia.lindqvist delete namespace:logistics").click()
    page.get_by_role("button", name="Undo with a plan").click()
    apply_plan(page, "the handover is off", "is applied: 3 revocations.")
    page.get_by_role("link", name=NEXT_STEP).click()
    expect(report.locator(".decision.denied")).to_contain_text("51 are held")


def open_overview(page):
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Overview").click()


def tile(page, namespace):
    return page.get_by_role("link", name=re.compile(rf"^namespace:{namespace}: \d+ live entit"))


def wait_for_report(page):
    expect(page.locator(".run-bar")).to_contain_text(
        re.compile("done|failed"), timeout=REPORT_PATIENCE_MILLISECONDS
    )
    expect(page.locator("#rows")).to_be_visible()


def apply_plan(page, reason, message):
    page.get_by_label("Reason", exact=True).fill(reason)
    expect(page.get_by_role("button", name="Apply plan")).to_be_enabled()
    expect(page.get_by_label("as side effects")).to_have_count(0)
    page.get_by_role("button", name="Apply plan").click()
    expect(page.locator("#notices")).to_contain_text(message)
