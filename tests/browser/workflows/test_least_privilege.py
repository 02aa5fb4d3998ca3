"""The story of least privilege: find who could damage the most and why, revoke what this user does not use, keep a colleague
from giving it back, accept a finding, and see the trend bend.
"""

import re

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from analytics.analyses import AnalysisName
from authzconsole.demo.history import load_history
from authzconsole.demo.nights import night_figures
from grants.journal import current_revision
from grants.models import Role, User
from tests.support.cast import PASSWORD
from tests.support.reports import create_report

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

MOST_CHANGEABLE = "Live entities that one user can change at most:"


def test_the_broadest_access_is_found_reduced_and_guarded(page_of, settings, tmp_path):
    """Start at the overview and use only links and buttons; only names and reasons are typed."""
    settings.SNAPSHOT_URI = str(tmp_path)
    load_history()
    for name in ("ada", "bob"):
        User.objects.create_user(name, password=PASSWORD, role=Role.ADMINISTRATOR, is_principal=False)
    report_blast_radius(tmp_path, reached=107)
    page = page_of("ada")
    revoke_what_is_unused_of_the_user_with_the_broadest_access(page)
    write_guardrail(page)
    give_access_back_in_vain(page_of("bob"))
    accept_finding(page)
    report_blast_radius(tmp_path, reached=65)
    see_the_trend_bend(page)


def report_blast_radius(folder, *, reached):
    """Write the report of the present state about the user who reaches the most."""
    most = night_figures()[AnalysisName.BLAST_RADIUS, "most_changeable", ""]
    now = timezone.now()
    create_report(
        folder,
        {
            "rows": [("grace.kim", "dataset", "WRITE", most)],
            "namespaces": [("grace.kim", "risk", reached, most)],
            "people": [("grace.kim", reached, most, 1, reached, most, 0, 0)],
        },
        analysis=AnalysisName.BLAST_RADIUS,
        options={"generation": "final"},
        revision=current_revision(),
        started_at=now,
        finished_at=now,
        summary={"most_changeable": most, "widest_reach": reached},
    )


def revoke_what_is_unused_of_the_user_with_the_broadest_access(page):
    open_page(page, "Overview")
    reach = page.get_by_role("region", name="Broadest access")
    reach.get_by_role("link", name=re.compile("^grace.kim can change 96 of 107 ")).click()
    expect(page.get_by_text("grace.kim can change 96 of 107 live entities")).to_be_visible()
    page.get_by_role("link", name="Open grace.kim").click()
    expect(page.locator("#groups")).to_contain_text("marketing-analytics")
    page.get_by_text("More", exact=True).click()
    page.get_by_role("button", name="Revoke what is unused for 90 days").click()
    expect(
        page.get_by_role("heading", name=re.compile("^Revoke what user:grace.kim has not used"))
    ).to_be_visible()
    expect(page.locator("#items")).to_contain_text("marketing-analytics")
    page.get_by_label("Reason", exact=True).fill("she left the team")
    expect(page.get_by_role("button", name="Apply plan")).to_be_enabled()
    page.get_by_role("button", name="Apply plan").click()
    expect(page.locator("#notices")).to_contain_text("is applied: 1 ended membership.")


def write_guardrail(page):
    open_page(page, "Policies")
    page.get_by_role("link", name="Guardrails").first.click()
    page.get_by_role("link", name="New guardrail").click()
    page.get_by_label("Name", exact=True).fill("risk-not-marketing")
    page.get_by_label("Members of group").fill("group:risk-analytics")
    page.get_by_label("WRITE").check()
    page.get_by_label("Within").fill("namespace:marketing")
    expect(page.get_by_text("6 violations now.")).to_be_visible()
    page.get_by_role("button", name="Add guardrail").click()
    expect(page.locator("#notices")).to_contain_text("risk-not-marketing")


def give_access_back_in_vain(page):
    open_page(page, "Users and groups")
    page.get_by_role("link", name="grace.kim").first.click()
    groups = page.locator("#groups")
    groups.get_by_label("Group", exact=True).fill("marketing-analytics")
    groups.get_by_role("button", name="Add to group").click()
    expect(page.get_by_role("main")).to_contain_text("risk-not-marketing")
    open_page(page, "Users and groups")
    page.get_by_role("link", name="grace.kim").first.click()
    expect(groups.get_by_role("link", name="risk-analytics", exact=True).first).to_be_visible()
    expect(groups.get_by_role("link", name="marketing-analytics", exact=True)).to_have_count(0)


def accept_finding(page):
    open_page(page, "Findings")
    page.locator("#findings").get_by_role("link", name=re.compile("planned addresses")).first.click()
    page.get_by_label("Last day").fill("2027-03-31")
    page.locator("#accept").get_by_label("Reason").fill("the project starts in spring")
    page.get_by_role("button", name="Accept finding").click()
    expect(page.locator("#notices")).to_contain_text("accepted.")
    page.locator("#state-accepted").click()
    expect(page.locator("#state-accepted[aria-current]")).to_be_visible()
    page.locator("#findings").get_by_role("link", name=re.compile("planned addresses")).first.click()
    expect(page.get_by_role("main")).to_contain_text("the project starts in spring")


def see_the_trend_bend(page):
    open_page(page, "Overview")
    page.get_by_role("link", name="Blast radius of everybody").click()
    trend = page.get_by_role("figure").filter(has_text=MOST_CHANGEABLE)
    expect(trend).to_contain_text(re.compile(r"at most: \d+\s+\u2212\d+ since"))
    heights = [point.split(",")[1] for point in trend.locator("polyline").get_attribute("points").split()]
    assert float(heights[-1]) > float(heights[-2]), "the line falls at its end"


def open_page(page, name):
    page.get_by_role("navigation", name="Main").get_by_role("link", name=re.compile(f"^{name}")).click()
