"""Do the main task of every area of the navigation on the demo tenant, with and without scripts."""

import io
import re

import pytest
from django.core.management import call_command
from django.utils import timezone
from playwright.sync_api import expect

from authzconsole.management.commands.bootstrap import DEMO_TENANT
from grants.models import Role, User
from tests.support.cast import PASSWORD
from tests.support.reports import create_report

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

REPORT = {
    "rows": [
        ("logistics", "sofia.lindqvist", 54, 51, 3, False),
        ("sandbox", "kenji.tanaka", 23, 23, 0, True),
    ],
    "namespaces": [
        ("logistics", 54, 11, 0, 3, "sofia.lindqvist", False),
        ("sandbox", 23, 6, 1, 0, "kenji.tanaka", False),
    ],
}
AREAS = {}


def area(title):
    """Register a walk through the area with this navigation title."""

    def register(walk):
        AREAS[title] = walk
        return walk

    return register


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_the_main_task_of_every_area_works(scripts, page_of, settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    call_command("import_tenant", str(DEMO_TENANT), stdout=io.StringIO())
    User.objects.create_user("ada", password=PASSWORD, role=Role.ADMINISTRATOR, is_principal=False)
    create_report(tmp_path, REPORT, revision=1, finished_at=timezone.now())
    page = page_of("ada", scripts=scripts, with_form=True)
    page.set_default_timeout(10_000)
    nav_items = page.get_by_role("navigation", name="Main").get_by_role("link")
    assert set(nav_items.all_inner_texts()) == AREAS.keys() | {"My access", "Requests", "Reviews"}
    for title, walk in AREAS.items():
        nav_items.filter(has_text=title).click()
        expect(page.locator(".nav-items [aria-current=page]:visible")).to_have_text(title)
        walk(page, Filters(page, scripts))


class Filters:
    """Fill filter fields: they update while typing, or by a button without scripts."""

    def __init__(self, page, scripts):
        self._page, self._scripts = page, scripts

    def fill(self, section, label, text):
        section.get_by_label(label, exact=True).fill(text)
        if not self._scripts:
            section.get_by_role("button", name="Apply", exact=True).click()

    def show_effect(self):
        """Open the second page of an effect, which scripts load into the first one."""
        if not self._scripts:
            self._page.get_by_text("Show effect", exact=True).first.click()


@area("Overview")
def overview(page, filters):
    expect(page.locator(".stats").first).to_contain_text("303")
    expect(page.locator(".treemap:visible .tile")).to_have_count(6)
    expect(page.locator("#namespaces")).to_contain_text("no user; sofia.lindqvist is missing 3 of 54")
    filters.fill(page.locator("#namespaces"), "Find by name or description", "warehouses")
    expect(page.locator("#namespaces tbody tr")).to_have_count(1)
    page.get_by_role("link", name=re.compile("^namespace:finance:")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("namespace:finance")


@area("Findings")
def findings(page, filters):
    inbox = page.locator("#findings")
    warnings = inbox.get_by_role("link", name="Warning", exact=True)
    warnings.click()
    expect(warnings).to_have_attribute("aria-current", "true")
    row = inbox.get_by_role("row").filter(has_text="No backup was written")
    row.get_by_role("checkbox").check()
    inbox.get_by_role("button", name=re.compile("^Accept")).click()
    page.get_by_label("Until the last day").fill("2127-03-01")
    page.get_by_label("Reason").fill("a demo needs none")
    page.get_by_role("button", name="Accept findings").click()
    expect(row).to_have_count(0)
    inbox.get_by_role("link", name="Accepted", exact=True).click()
    expect(row).to_contain_text("until 1 March 2127")


@area("Status")
def status(page, filters):
    expect(page.locator("main")).to_contain_text("The checks are those of /readyz")
    expect(page.get_by_role("row", name=re.compile("^Database"))).to_be_visible()
    page.get_by_role("link", name=re.compile("^run ")).first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Delete readiness")


@area("Explorer")
def explorer(page, filters):
    children = page.locator("#children")
    children.get_by_role("link", name="namespace:logistics").click()
    children.get_by_role("link", name="applications").click()
    expect(children.locator("tbody tr")).to_have_count(5)
    filters.fill(children, "Find by name", "route")
    expect(children.locator("tbody tr")).to_have_count(1)
    children.get_by_role("link", name="application:logistics.route_planner").click()
    expect(page.locator(".breadcrumbs").first).to_contain_text("logistics")
    page.get_by_role("link", name="program:logistics.route_planner.spark.optimise_tours").first.click()
    expect(page.locator("#holders")).to_contain_text("data-science")
    page.get_by_role("combobox", name="Search", exact=True).fill("payroll")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="dataset:finance.payroll.export").click()
    expect(page.locator(".notice.warning")).to_contain_text("leftover grant")


@area("Ask")
def ask(page, filters):
    page.get_by_label("User or group").fill("sofia.lindquist")
    page.get_by_label("Entity", exact=True).fill("logistics")
    page.get_by_role("button", name="Ask").click()
    page.get_by_role("link", name="user:sofia.lindqvist").click()
    page.get_by_label("Operation", exact=True).select_option("delete")
    page.get_by_role("button", name="Ask").click()
    expect(page).to_have_url(re.compile(r"/ask\?.*entity=namespace(:|%3A)logistics"))
    answer, by_generation = page.locator("#answer"), page.locator(".generation-answers > li")
    expect(answer.locator(".decision.denied")).to_contain_text("lacks ADMIN on 3 of the 53 live entities")
    expect(answer.locator(".tree .operator")).to_have_text(re.compile(r"ALL OF\s+not met"))
    expect(answer.locator(".tree ul ul .met")).to_contain_text("ADMIN held by user:sofia.lindqvist")
    expect(answer.locator(".tree ul ul .unmet")).to_contain_text(
        "missing on program:logistics.demand_forecast"
    )
    expect(answer.get_by_role("link", name="Grant ADMIN on program:logistics")).to_have_count(3)
    expect(by_generation.filter(has=page.locator(".allowed"))).to_have_count(2)
    expect(by_generation.filter(has_text="final")).to_contain_text("3 grants are missing")
    by_generation.get_by_role("link", name="existing", exact=True).click()
    expect(answer.locator(".decision.allowed")).to_contain_text("holds ADMIN on namespace:logistics")
    page.go_back()
    answer.get_by_role("link", name="002, Namespaces, Delete").click()
    expect(page.locator("tr:target")).to_contain_text("delete")
    page.go_back()
    page.get_by_role("button", name="Compare other grants").click()
    filters.show_effect()
    page.get_by_role("button", name="Create plan").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(
        "Let user:sofia.lindqvist delete namespace:logistics"
    )
    page.get_by_role("button", name="Discard plan").click()


@area("Users and groups")
def people(page, filters):
    filters.fill(page.locator("#people"), "Find by name", "ingrid")
    page.get_by_role("link", name="ingrid.solberg").click()
    page.get_by_role("link", name="Open namespace:finance").click()
    expect(page.locator("#visibility")).to_contain_text("application:finance.vat_return")
    page.get_by_text("More", exact=True).click()
    page.get_by_role("link", name="Off-board").click()
    expect(page.locator(".stat.bad")).to_have_text(re.compile(r"5\s*entities left without an ADMIN holder"))
    page.get_by_role("navigation", name="Breadcrumb").get_by_role("link", name="Users").click()
    page.get_by_role("link", name="Groups", exact=True).click()
    page.get_by_role("link", name="store-operations").click()
    reason = re.compile(r"namespace:logistics.*only\s+EXECUTE\s+on", re.DOTALL)
    expect(page.locator("#visibility tbody tr").first).to_have_text(reason)
    page.get_by_role("link", name="Open namespace:logistics").click()
    expect(page.locator("#visibility tbody tr")).to_have_count(1)
    page.get_by_text("More", exact=True).click()
    page.get_by_role("link", name="Impact of removal").click()
    expect(page.get_by_role("heading", name="Affected members")).to_be_visible()
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Users and groups").click()
    filters.fill(page.locator("#people"), "Find by name", "sofia")
    page.get_by_role("link", name="sofia.lindqvist").click()
    page.get_by_role("combobox", name="Console role").select_option("auditor")
    page.get_by_role("button", name="Set role").click()
    page.locator("#change-reason").fill("reviews the quarter")
    page.get_by_role("button", name="Set role to Auditor").click()
    expect(page.locator("#notices")).to_contain_text("Auditor")
    expect(page.get_by_role("link", name="New token")).to_have_count(0)
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Users and groups").click()
    filters.fill(page.locator("#people"), "Find by name", "ada")
    page.locator("#people").get_by_role("link", name="ada", exact=True).click()
    page.get_by_role("link", name="New token").click()
    page.get_by_label("Name", exact=True).fill("nightly")
    page.get_by_label("Read what its owner may see").check()
    page.get_by_role("button", name="Create token").click()
    expect(page.locator(".secret code")).to_contain_text("azc_")


@area("Plans")
def plans(page, filters):
    page.get_by_label("From", exact=True).first.fill("user:sofia.lindqvist")
    page.get_by_label("To", exact=True).fill("user:ana.pereira")
    page.get_by_role("button", name="Create plan").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Copy the grants of user:sofia.lindqvist")
    expect(page.locator("#effects tbody tr")).to_have_count(1)
    filters.show_effect()
    page.get_by_label("Reason", exact=True).fill("the same work")
    expect(page.get_by_role("button", name="Apply plan")).to_be_enabled()
    for confirmation in page.get_by_label("as side effects").all():
        confirmation.check()
    page.get_by_role("button", name="Apply plan").click()
    expect(page.locator("#notices")).to_contain_text("is applied")
    page.get_by_role("button", name="Undo with a plan").click()
    page.get_by_role("button", name="Discard plan").click()
    expect(page.locator("#notices")).to_contain_text("is discarded")


@area("Policies")
def policies(page, filters):
    page.get_by_role("navigation", name="Generation").get_by_role("link", name="existing").click()
    page.get_by_role("navigation", name="Compare with").get_by_role("link", name="final").click()
    page.get_by_role("link", name="Differences only").click()
    expect(page.locator("tr.differs").first).to_be_visible()
    expect(page.locator("tbody tr:not(.differs)")).to_have_count(2)
    page.get_by_text("Activate", exact=True).click()
    page.get_by_role("link", name="Activate existing").click()
    page.get_by_label("Reason", exact=True).fill("until the new rules are ready")
    filters.show_effect()
    page.get_by_role("button", name="Activate existing").click()
    expect(page.locator("#notices")).to_contain_text("existing")
    page.get_by_role("navigation", name="Generation").get_by_role("link", name="final").click()
    page.get_by_text("Activate", exact=True).click()
    page.get_by_role("link", name="Activate final").click()
    page.get_by_label("Reason", exact=True).fill("they are")
    filters.show_effect()
    page.get_by_role("button", name="Activate final").click()
    expect(page.locator(".head-note")).to_contain_text("The active generation is final")


@area("Analyses")
def analyses(page, filters):
    page.get_by_role("link", name=re.compile(r"^Delete readiness #\d+$")).click()
    page.locator("#rows").get_by_role("searchbox", name="Namespace").fill("logistics")
    page.keyboard.press("Enter")
    expect(page.locator("#rows tbody tr")).to_have_count(1)
    page.get_by_role("navigation", name="Breadcrumb").get_by_role("link", name="Analyses").click()
    page.get_by_label("Analysis", exact=True).select_option("visibility")
    page.get_by_role("button", name="Start analysis").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Visibility")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#run")).to_contain_text("cancelled")


@area("Connections")
def connections(page, filters):
    expect(page.locator("main")).to_contain_text("No connections yet")
    page.get_by_role("link", name="New connection").click()
    page.get_by_role("link", name="CDAP", exact=True).click()
    page.get_by_label("Name", exact=True).fill("prod")
    page.get_by_label("Address", exact=True).fill("https://cdap.example:11443")
    page.get_by_role("button", name="Add connection").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("prod")
    expect(page.get_by_role("button", name="Test connection")).to_be_visible()


@area("Journal")
def journal(page, filters):
    lines = page.locator("#lines")
    if lines.locator("#lines-more > summary").is_visible():
        lines.locator("#lines-more > summary").click()
    lines.get_by_label("Action").select_option("plan-apply")
    lines.get_by_role("button", name="Apply", exact=True).click()
    expect(lines.locator("tbody tr")).to_have_count(1)
    expect(lines).to_contain_text("the same work")
    page.get_by_role("link", name="Verify journal").click()
    expect(page.locator("#content")).to_contain_text("intact")
