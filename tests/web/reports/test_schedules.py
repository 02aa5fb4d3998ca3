"""The form that switches nightly runs on and off."""

import pytest
from django.utils import timezone

from analytics.analyses import ANALYSES
from analytics.models import AnalysisRun, Schedule
from grants.models import JournalLine
from tests.support.pages import form_faults, page_html, text_of

pytestmark = pytest.mark.django_db

URL = "/analyses/nightly/delete-readiness"


def test_a_nightly_run_can_be_switched_on_and_off(browse):
    client = browse("ada")
    assert client.html("/analyses/").count('<span class="muted">off</span>') == len(ANALYSES)
    text = page_html(
        client.post(URL, {"at": "23:05", "generation": "core", "reason": "x", "on": ""}, follow=True)
    )
    assert (
        "The analysis delete-readiness runs nightly at 23:05 UTC, generation core." in text
        and "at 23:05 UTC" in text
    )
    page = client.html(URL)
    assert 'value="23:05"' in page and '<option value="core" selected>' in page and "Switch off" in page
    off = page_html(client.post(URL, {"at": "23:05", "generation": "core", "off": ""}, follow=True))
    assert "The analysis delete-readiness is not scheduled." in off
    assert list(JournalLine.objects.order_by("revision").values_list("action", flat=True))[-2:] == [
        "schedule-on",
        "schedule-off",
    ]


def test_each_analysis_has_its_question_and_its_newest_report(browse):
    done = {"type": "stranded", "state": "done", "options": {}, "finished_at": timezone.now()}
    _, newest = (AnalysisRun.objects.create(**done) for _ in range(2))
    page = browse("aud").get("/analyses/")
    text = text_of(page)
    assert all(f"{analysis.title} {analysis.question}" in text for analysis in ANALYSES.values())
    link = f'href="/analyses/{newest.pk}/" aria-label="Newest report: Stranded entities"'
    assert page_html(page).count("Newest report: ") == page_html(page).count(link) == 1


def test_one_switch_schedules_all_analyses_and_keeps_their_times_and_options(browse):
    client, total = browse("ada"), len(ANALYSES)
    client.post(URL, {"at": "23:05", "generation": "core", "on": ""})
    text = page_html(client.post("/analyses/nightly", {"switch": "on"}, follow=True))
    assert f"{total - 1} analyses run every night now." in text and f"{total} of {total} on" in text
    assert {
        schedule.analysis: (schedule.is_on, schedule.options.get("generation"))
        for schedule in Schedule.objects.all()
    } == {name: (True, "core" if name == "delete-readiness" else None) for name in ANALYSES}
    assert "Nothing changed." in page_html(client.post("/analyses/nightly", {"switch": "on"}, follow=True))
    assert f"{total} analyses are no longer scheduled." in page_html(
        client.post("/analyses/nightly", {"switch": "off"}, follow=True)
    )
    assert not Schedule.objects.filter(is_on=True).exists()
    assert JournalLine.objects.filter(action="schedule-off").count() == len(ANALYSES)


@pytest.mark.parametrize(
    ("form", "fault"),
    [
        ({"at": "25:00"}, "hours and minutes in UTC"),
        ({}, "hours and minutes in UTC"),
        ({"at": "02:30", "namespace": "nowhere"}, "namespace:nowhere is not registered"),
        ({"at": "02:30", "generation": "newest"}, "`newest` is not a generation"),
        ({"at": "02:30", "to_generation": "core"}, "takes no to_generation"),
    ],
)
def test_an_invalid_schedule_is_explained_and_keeps_the_input(form, fault, browse):
    response = browse("ada").post(URL, {"reason": "because", **form})
    assert response.status_code == 400 and fault in form_faults(response)
    assert fault in text_of(response) or "to_generation" in form
    assert 'value="because"' in page_html(response) and not Schedule.objects.exists()


def test_the_form_shows_only_the_options_of_the_analysis(browse):
    texts = {
        name: browse("ada").html(f"/analyses/nightly/{name}")
        for name in ("delete-readiness", "policy-impact", "stranded")
    }
    assert not any('value="None"' in text for text in [*texts.values(), browse("ada").html("/analyses/")])
    assert {name: ("to_generation" in text, 'name="namespace"' in text) for name, text in texts.items()} == {
        "delete-readiness": (False, True),
        "policy-impact": (True, False),
        "stranded": (False, False),
    }


def test_a_scheduled_run_names_the_schedule_as_its_requester(browse):
    run = AnalysisRun.objects.create(
        type="stranded", options={"generation": "final"}, is_scheduled=True, state="failed"
    )
    for url in ("/analyses/", f"/analyses/{run.pk}/"):
        assert "by the schedule" in browse("aud").html(url)
