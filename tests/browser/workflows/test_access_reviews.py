"""An administrator starts a review, its owner answers it with the keyboard, and an auditor verifies the
downloaded evidence.
"""

import pytest
from django.core.management import call_command

from grants.models.reviews import Answer, Campaign
from tests.support.jobs import execute_finish, execute_preparation

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_review_is_answered_with_the_keyboard_and_its_evidence_verified(
    cast, page_of, settings, tmp_path, monkeypatch, capsys
):
    settings.SNAPSHOT_URI = str(tmp_path / "storage")
    monkeypatch.setattr("grants.jobs.lifecycle.send_job", lambda job: False)
    ada = page_of("ada")
    ada.goto("/reviews/new")
    ada.get_by_label("Title").fill("Quarterly review of sales")
    ada.get_by_role("combobox", name="Namespace").fill("sales")
    ada.get_by_role("button", name="Start review").click()
    ada.get_by_text("The items are not prepared yet").wait_for()
    review = Campaign.objects.get()
    execute_preparation(number=review.pk)
    # the page updates itself
    ada.get_by_role("link", name="Finish review").wait_for()

    ned = page_of("ned")
    row = ned.locator("tr.current")
    ned.goto(f"/reviews/{review.pk}/")
    ned.keyboard.press("Shift+A")
    ned.keyboard.press("Shift+K")
    ned.get_by_role("button", name="Keep 3 items").wait_for()
    ned.get_by_role("link", name="Cancel").click()
    # the script of the page has run
    row.wait_for()
    ned.keyboard.press("j")
    ned.keyboard.press("Shift+M")
    ned.get_by_role("heading", name="Reassign 1 item").wait_for()
    ned.get_by_role("link", name="Cancel").click()
    # it is still the current row
    row.wait_for()
    ned.keyboard.press("Shift+K")
    ned.get_by_text("1 of 3 items answered").wait_for()
    notice, bar = (ned.locator(selector).bounding_box() for selector in (".notices .notice", ".review-bar"))
    assert notice["y"] + notice["height"] <= bar["y"] or notice["y"] >= bar["y"] + bar["height"]
    row.wait_for()
    ned.keyboard.press("Shift+S")
    ned.get_by_label("New end").fill("2100-12-31T17:00")
    ned.keyboard.press("Enter")
    ned.get_by_text("2 of 3 items answered").wait_for()
    row.wait_for()
    ned.keyboard.press("Shift+R")
    ned.get_by_text("3 of 3 items answered").wait_for()
    ned.wait_for_load_state()
    ned.keyboard.press("Shift+E")
    ned.get_by_text("You have signed off your items.").wait_for()
    assert ned.get_by_role("button", name="Sign off").count() == 0

    ada.goto(f"/reviews/{review.pk}/finish")
    ada.get_by_role("button", name="Finish review").click()
    ada.get_by_text("The plan and the evidence are being written.").wait_for()
    execute_finish(number=review.pk)
    ada.locator("a", has_text="Download evidence").wait_for(state="attached")
    answers = sorted(review.items.exclude(answer=Answer.OPEN).values_list("answer", "answered_by"))
    assert answers == [("keep", "ned"), ("revoke", "ned"), ("shorten", "ned")]

    auditor = page_of("aud")
    auditor.goto(f"/reviews/{review.pk}/")
    auditor.get_by_text("More", exact=True).click()
    with auditor.expect_download() as download:
        auditor.get_by_role("link", name="Download evidence").click()
    assert download.value.suggested_filename == f"review-{review.pk}.zip"
    download.value.save_as(tmp_path / "review.zip")
    call_command("verify_evidence", str(tmp_path / "review.zip"))
    assert "The bundle is valid: review" in capsys.readouterr().out
