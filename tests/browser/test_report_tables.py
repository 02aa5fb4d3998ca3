"""Reports in a browser: filter, download, page and act on rows; start runs and switch on schedules."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.support.reports import create_report

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

ROWS = [("hr", "dee", 2, 0, 2, False), ("sales", "ned", 6, 6, 0, True)]
CHANGES = [
    ("hr", "dee", "changed", 2, 2, 1, 0, 1, 2, False, False),
    ("sales", "ned", "added", None, 6, None, 6, None, 0, None, True),
]
SUMMARY = {
    "namespaces": 2,
    "namespaces_somebody_can_delete": 1,
    "namespaces_nobody_can_delete": 1,
    "pairs": 2,
    "pairs_ready": 1,
    "detail_rows": 0,
    "detail_is_written": True,
    "changes": {"run": 1, "revision": 3, "added": 1, "removed": 0, "changed": 1},
}


def test_a_download_contains_the_filtered_rows(cast, page_of, settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    run = create_report(
        tmp_path, {"rows": ROWS, "namespaces": [], "changes": CHANGES}, summary=SUMMARY, revision=7
    )
    page = page_of("aud")
    page.goto(f"/analyses/{run.pk}/")
    page.get_by_role("link", name="Show changes").click()
    expect(page.locator("#rows")).to_contain_text("1 → 2")
    page.locator("#rows-more > summary").click()
    page.get_by_label("User").fill("ned")
    expect(page.locator("#rows tbody tr")).to_have_count(1)
    with page.expect_download() as download:
        page.get_by_label("Download CSV of the rows").click()
    assert download.value.suggested_filename == f"delete-readiness-{run.pk}-changes.csv"
    lines = Path(download.value.path()).read_text().splitlines()
    assert [line.split(",")[:3] for line in lines[1:]] == [["sales", "ned", "added"]]


def test_a_schedule_can_be_switched_on_without_scripts(cast, page_of):
    page = page_of("ada", scripts=False, width=390)
    page.goto("/analyses/")
    page.get_by_role("link", name="Switch on the nightly run of Visibility").click()
    page.get_by_label("Time, in UTC").fill("23:15")
    page.get_by_role("button", name="Switch on").click()
    expect(page.locator("#notices")).to_contain_text("The analysis visibility runs nightly at 23:15 UTC.")
    expect(page.get_by_role("link", name="Change the nightly run of Visibility")).to_be_visible()


def test_the_form_shows_only_the_options_of_the_analysis_also_without_scripts(cast, page_of):
    page = page_of("ada", scripts=False)
    page.goto("/analyses/")
    compare_field, namespace_field = (
        page.get_by_label("Compare with", exact=True),
        page.get_by_label("Namespace", exact=True),
    )
    for title, has_compare, has_namespace in (
        ("Delete readiness", False, True),
        ("Visibility", False, False),
        ("Policy impact", True, False),
    ):
        page.get_by_label("Analysis", exact=True).select_option(title)
        assert (compare_field.is_visible(), namespace_field.is_visible()) == (has_compare, has_namespace), (
            title
        )


def test_a_pager_shows_the_position_next_to_its_buttons_on_a_phone(cast, page_of, settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    rows = [(f"user{number:05}", "dataset", "sales", 1) for number in range(20_000)]
    run = create_report(
        tmp_path, {"rows": rows, "namespaces": []}, analysis="visibility", options={"generation": "final"}
    )
    page = page_of("aud", width=390)
    page.goto(f"/analyses/{run.pk}/?page=399")
    position, button = (
        page.locator(f"#rows .table-foot {part}").first.bounding_box() for part in ("span", "a")
    )
    expect(page.locator("#rows .table-foot span")).to_have_text("19,901 to 19,950 of 20,000")
    assert position["x"] + position["width"] <= button["x"]
    assert position["y"] < button["y"] + button["height"] < position["y"] + 40


def test_a_stranded_entity_gets_an_administrator_from_its_row(cast, page_of, settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    rows = [("dataset:sales.orders", 1, "ned"), ("namespace:hr", 0, "")]
    run = create_report(tmp_path, {"rows": rows}, analysis="stranded", options={"generation": "final"})
    page = page_of("ada")
    page.goto(f"/analyses/{run.pk}/")
    expect(page.locator("#rows tbody tr").first).to_contain_text("none")
    page.get_by_label("Grant ADMIN on namespace:hr").click()
    dialog = page.locator("#dialog")
    dialog.get_by_label("Principal").fill("user:dee")
    expect(dialog.get_by_label("ADMIN")).to_be_checked()
    dialog.get_by_label("Reason", exact=True).focus()
    dialog.get_by_role("button", name="Grant:").click()
    expect(page.locator("#notices")).to_contain_text("ADMIN")
