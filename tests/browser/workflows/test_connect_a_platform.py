"""Connect a platform on the pages, see what a sync would change, and apply it."""

import pytest
from playwright.sync_api import expect

from entities.models import Entity
from grants.jobs import run_job
from grants.models import Job
from tests.support.cdap_server import TOKEN, Cdap, Namespace
from tests.support.stand_in import running

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def run_newest_job() -> None:
    """Execute the newest job, as the worker does."""
    run_job(Job.objects.latest("pk").pk)


def test_a_platform_is_connected_tested_synced_and_its_plan_applied(page):
    with running(Cdap()) as cdap:
        cdap.namespaces["pay"] = Namespace(datasets=["slips", "two words"])
        page.get_by_role("link", name="Connections").first.click()
        expect(page.get_by_text("No connections yet")).to_be_visible()
        page.get_by_role("link", name="New connection").click()
        page.get_by_role("link", name="CDAP").click()
        page.get_by_label("Name", exact=True).fill("prod")
        page.get_by_label("Address").fill(cdap.url)
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Add connection").click()
        # the page follows the job by itself
        page.get_by_role("button", name="Test connection").click()
        expect(page.locator("#jobs .state").first).to_have_text("waiting")
        run_newest_job()
        expect(page.get_by_text("version 6.11.1")).to_be_visible()
        page.get_by_role("button", name="Sync").click()
        expect(page.locator("#jobs .state").nth(1)).to_have_text("waiting")
        run_newest_job()
        expect(page.get_by_text("dataset:pay.two words")).to_be_visible()
        assert not Entity.objects.filter(key="pay.slips").exists()
        page.get_by_role("link", name="Show what would change").click()
        expect(page.get_by_role("heading", name="Sync of prod")).to_be_visible()
        expect(page.locator("#items").get_by_text("dataset:pay.slips")).to_be_visible()
        page.get_by_label("Reason").fill("take over the platform")
        page.locator(".stays").get_by_role("button", name="Apply").click()
        expect(page.get_by_text("is applied")).to_be_visible()
        # the page loads its effect after it appeared
        page.wait_for_load_state("networkidle")
    assert Entity.objects.get(key="pay.slips").is_live
