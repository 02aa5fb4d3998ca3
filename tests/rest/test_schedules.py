"""Schedules over REST."""

from datetime import time

import pytest

from analytics.analyses import ANALYSES
from analytics.models import Schedule
from analytics.runs.schedules import change_schedule
from grants.journal import lock_journal
from tests.rest.conftest import problem
from tests.support.cast import SETUP

pytestmark = pytest.mark.django_db

PATH = "/schedules/delete-readiness"


def test_a_schedule_can_be_switched_on_changed_and_switched_off(ada):
    assert ada.get(PATH).json() == {"analysis": "delete-readiness", "on": False, "at": "02:30", "options": {}}
    on = ada.put(
        PATH,
        {"on": True, "at": "23:05", "generation": "core", "namespace": "sales", "reason": "every morning"},
    )
    assert on.status_code == 200
    assert (
        on.json()
        == ada.get(PATH).json()
        == {
            "analysis": "delete-readiness",
            "on": True,
            "at": "23:05",
            "options": {"generation": "core", "namespace": "sales"},
        }
    )
    assert ada.put(PATH, {"on": False}).json()["at"] == "23:05"
    actions = [line["action"] for line in ada.all_of("/journal") if line["action"].startswith("schedule")]
    assert actions == ["schedule-off", "schedule-on"]
    assert [schedule["on"] for schedule in ada.get("/schedules").json()["items"]] == [False] * len(ANALYSES)


@pytest.mark.parametrize(
    "body",
    [
        {"on": True, "at": "24:00"},
        {"on": True, "at": "2:30"},
        {"on": True, "at": "02:30\n"},
        {"on": True, "namespace": "nowhere"},
        {"on": True, "to_generation": "core"},
    ],
)
def test_an_invalid_schedule_is_refused(ada, body):
    assert problem(ada.put(PATH, body), 400)["detail"]
    assert not Schedule.objects.exists()


def test_an_unknown_analysis_is_refused_with_the_valid_names(ada, by_session):
    for answer in (ada.get("/schedules/nothing"), ada.put("/schedules/nothing", {"on": True})):
        assert f"the analyses are {', '.join(ANALYSES)}" in problem(answer, 404)["detail"]
    problem(by_session("ned").get("/schedules/nothing"), 403)


def test_a_change_with_an_outdated_etag_is_refused(ada):
    etag = ada.get(PATH)["ETag"]
    assert ada.put(PATH, {"on": True}, If_Match=etag).status_code == 200
    problem(ada.put(PATH, {"on": False}, If_Match=etag), 412)


def test_the_etag_is_compared_after_the_wait_for_the_lock(ada, monkeypatch):
    etag = ada.get(PATH)["ETag"]
    locks = []

    def lock_after_another_change():
        head = lock_journal()
        if not locks:
            locks.append(head)
            change_schedule(author=SETUP, analysis="delete-readiness", is_on=True, at=time(3, 0), options={})
        return head

    monkeypatch.setattr("grants.authority.transactions.lock_journal", lock_after_another_change)
    problem(ada.put(PATH, {"on": True, "at": "04:00"}, If_Match=etag), 412)
    assert locks and not Schedule.objects.exists()
