"""From the first sign-in to a grant and a finished report, with a real browser, worker and Spark."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = [
    pytest.mark.browser,
    pytest.mark.worker,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
]

REPORT_PATIENCE_MILLISECONDS = 240_000


def test_a_report_can_be_created_after_the_first_sign_in(cast, page_of, worker_console):
    page = page_of("ada", with_form=True)

    page.get_by_role("link", name="namespace:hr: 2 live entities").click()
    expect(page.get_by_role("heading", name="namespace:hr")).to_be_visible()
    page.locator("#tab-ask").click()
    page.get_by_label("By this user, now").fill("dee")
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.locator("#readiness")).to_contain_text("dee cannot delete it yet")
    expect(page.locator("#readiness")).to_contain_text("Missing 2")

    page.get_by_role("link", name="dataset:hr.salaries").first.click()
    page.locator("#tab-ask").click()
    page.get_by_label("User or group").fill("user:dee")
    page.get_by_label("Operation", exact=True).select_option("read")
    verdict = page.locator("#ask .decision")
    expect(verdict).to_have_text("Denied: user:dee lacks READ on dataset:hr.salaries.")

    page.locator("#tab-access").click()
    grant = page.locator("#grant-form")
    grant.get_by_label("Principal").fill("user:dee")
    grant.get_by_label("READ").check()
    grant.get_by_label("ADMIN").check()
    grant.get_by_label("Reason", exact=True).fill("takes over the payroll")
    grant.get_by_role("button", name="Grant:").click()
    expect(page.locator("#notices")).to_contain_text(
        "Granted READ, ADMIN on dataset:hr.salaries to user:dee."
    )
    page.locator("#tab-ask").click()
    expect(verdict).to_have_text("Allowed: user:dee holds READ on dataset:hr.salaries.")
    page.locator("#tab-history").click()
    expect(page.locator("#history")).to_contain_text("takes over the payroll")

    page.locator("#tab-access").click()
    page.get_by_role("link", name="Revoke READ from user:dee").click()
    page.get_by_role("dialog").get_by_label("Reason", exact=True).fill("administers it only")
    page.get_by_role("dialog").get_by_role("button", name="Revoke READ").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.locator("#tab-ask").click()
    expect(verdict).to_have_text("Denied: user:dee lacks READ on dataset:hr.salaries.")

    page.locator(".breadcrumbs").get_by_role("link", name="hr").click()
    page.locator("#tab-ask").click()
    page.get_by_label("By this user, now").fill("dee")
    page.get_by_role("button", name="Check", exact=True).click()
    page.locator("#readiness").get_by_role("link", name="Grant ADMIN on namespace:hr").click()
    page.get_by_role("dialog").get_by_role("button", name="Grant:").click()
    expect(page.locator("#readiness")).to_contain_text("dee can delete it")

    page.get_by_role("button", name="Analyse all users with Spark").click()
    expect(page.get_by_role("heading", name="Delete readiness")).to_be_visible()
    expect(page.locator("#rows")).to_be_visible(timeout=REPORT_PATIENCE_MILLISECONDS)
    expect(page.locator(".run-bar")).to_contain_text("done")
    row = page.locator("#rows tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_have_text(re.compile(r"namespace:hr\s*user\s*dee\s*2\s*2\s*0\s*yes"))

    page.get_by_role("link", name="namespace:hr", exact=True).first.click()
    page.locator("#tab-ask").click()
    expect(page.locator("#readiness")).to_contain_text("1 user can delete it.")
