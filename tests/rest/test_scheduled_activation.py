"""Scheduled activations over REST."""

from datetime import timedelta

import pytest
from django.utils import timezone

from grants.active_generation import active_generation
from grants.models import Job, JournalLine, Plan
from tests.rest.conftest import problem
from tests.support.authors import database_state
from tests.support.changes import add_grant, create_plan_from_changes

pytestmark = pytest.mark.django_db

PATH = "/policies/scheduled"


def body(**members) -> dict:
    at = (timezone.now() + timedelta(days=1)).isoformat()
    return {"name": "core", "at": at, "reason": "new rules"} | members


def test_an_activation_is_scheduled_listed_and_cancelled(ada):
    assert ada.get(PATH).json() == {"items": []}
    answer = ada.post(PATH, body())
    assert answer.status_code == 201 and answer["Location"] == f"/api/v1{PATH}"
    assert answer.json()["name"] == "core" and answer.json()["scheduled_by"] == "ada"
    assert ada.get(PATH).json()["items"] == [answer.json()]
    assert "cancel this first" in problem(ada.post(PATH, body(name="existing")), 409)["detail"]
    assert ada.delete(PATH, query="?reason=too early").json()["changed"] is True
    assert ada.get(PATH).json() == {"items": []}
    assert ada.delete(PATH).json()["changed"] is False
    lines = JournalLine.objects.filter(action__startswith="generation-schedule").order_by("revision")
    assert [(line.action, line.actor, line.reason) for line in lines] == [
        ("generation-schedule", "ada", "new rules"),
        ("generation-schedule-cancel", "ada", "too early"),
    ]
    assert active_generation().name == "final"


def test_a_dry_run_shows_the_effect_that_the_schedule_expects(ada):
    before = database_state()
    forecast = ada.post(PATH, body(dry_run=True))
    assert forecast.status_code == 200 and forecast.json()["effect"]["for"]
    assert database_state() == before and not Job.objects.exists()
    digest = forecast.json()["effect"]["digest"]
    # one more user can read the dataset, and the other rules change the permissions of this user
    add_grant("user:out", "dataset:hr.salaries", "READ")
    refused = problem(ada.post(PATH, body(effect_digest=digest)), 409)
    assert refused["type"].endswith("effect-changed") and not Job.objects.exists()
    assert ada.post(PATH, body(effect_digest=refused["effect"]["digest"])).status_code == 201


def test_a_plan_is_applied_with_the_activation(ada):
    plan = create_plan_from_changes(grant=[("user:out", "dataset:hr.salaries", "READ")]).pk
    effects = [
        ada.post(PATH, body(dry_run=True, **members)).json()["effect"] for members in ({}, {"plan": plan})
    ]
    assert effects[0]["digest"] != effects[1]["digest"]
    answer = ada.post(PATH, body(plan=plan, effect_digest=effects[1]["digest"]))
    assert answer.status_code == 201 and answer.json()["plan"] == plan
    assert ada.get(PATH).json()["items"][0]["plan"] == plan
    ada.delete(PATH)
    active = "/policies/active"
    etag = ada.get(active)["ETag"]
    at_once = {"name": "core", "plan": plan}
    assert "reason is missing" in problem(ada.put(active, at_once, **{"If-Match": etag}), 400)["detail"]
    assert ada.put(active, at_once | {"reason": "new rules"}, **{"If-Match": etag}).json()["name"] == "core"
    assert Plan.objects.get().state == "applied"
    again = at_once | {"name": "existing", "reason": "x"}
    assert "already applied" in problem(ada.put(active, again, **{"If-Match": "*"}), 409)["detail"]
    unknown = problem(ada.post(PATH, body(name="existing", plan=999)), 409)
    assert "there is no plan 999" in unknown["detail"]


@pytest.mark.parametrize("members", [{"at": "2020-01-01T00:00:00Z"}, {"name": "final"}, {"name": "nothing"}])
def test_an_impossible_schedule_is_refused(ada, members):
    status = 409 if members.get("name") == "final" else 400
    assert problem(ada.post(PATH, body(**members)), status)["detail"]
    assert not Job.objects.exists()
