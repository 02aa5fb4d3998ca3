"""A report's changes filtered and downloaded in a browser, and a nightly run switched on without scripts."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.cast import house
from tests.reports import done_run

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

ROWS = [("hr", "dee", 2, 0, 2, False), ("sales", "ned", 6, 6, 0, True)]
CHANGES = [("hr", "dee", "changed", 2, 2, 1, 0, 1, 2, False, False),
           ("sales", "ned", "added", None, 6, None, 6, None, 0, None, True)]
SUMMARY = {"namespaces": 2, "namespaces_somebody_can_delete": 1, "namespaces_nobody_can_delete": 1, "pairs": 2, "pairs_ready": 1,
           "detail_rows": 0, "detail_is_written": True,
           "changes": {"run": 1, "revision": 3, "added": 1, "removed": 0, "changed": 1}}


def test_what_is_filtered_is_what_is_downloaded(page_of, settings, tmp_path):
    house()
    settings.SNAPSHOT_URI = str(tmp_path)
    run = done_run(tmp_path, {"rows": ROWS, "namespaces": [], "changes": CHANGES}, summary=SUMMARY, revision=7)
    page = page_of("aud")
    page.goto(f"/analyses/{run.pk}/")
    page.get_by_role("link", name="See the changes").click()
    expect(page.locator("#rows")).to_contain_text("1 → 2")
    page.get_by_label("User").fill("ned")
    expect(page.locator("#rows tbody tr")).to_have_count(1)
    with page.expect_download() as download:
        page.get_by_label("Download CSV of the rows").click()
    assert download.value.suggested_filename == f"delete-readiness-{run.pk}-changes.csv"
    lines = Path(download.value.path()).read_text().splitlines()
    assert [line.split(",")[:3] for line in lines[1:]] == [["sales", "ned", "added"]]


def test_a_nightly_run_is_switched_on_without_scripts(page_of):
    house()
    page = page_of("ada", scripts=False, width=390)
    page.goto("/analyses/")
    page.get_by_role("link", name="Switch on the nightly run of Visibility").click()
    page.get_by_label("Time, in UTC").fill("23:15")
    page.get_by_role("button", name="Switch on").click()
    expect(page.locator("#notices")).to_contain_text("visibility runs nightly at 23:15 UTC.")
    expect(page.get_by_role("link", name="Change the nightly run of Visibility")).to_be_visible()
